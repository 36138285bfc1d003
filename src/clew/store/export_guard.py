"""Checks whether a session may be exported. Every export calls `refuse` first."""

from __future__ import annotations

from clew.base.messages import RECORD
from clew.engine.session_data import SessionData
from clew.errors import Conflict


def refuse(session_id: str, data: SessionData) -> None:
    """Conflict if the session's privacy settings forbid export. Without settings, export is allowed."""
    record = (data.extra or {}).get(RECORD)
    if isinstance(record, dict) and record.get("exportable") is False:
        raise Conflict(
            f"session {session_id} is not to be exported", hint="To allow it, call set_privacy(exportable=True)."
        )
