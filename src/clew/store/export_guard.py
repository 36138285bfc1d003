"""Checks whether a session may be exported, and records that it was. Every export calls `refuse` first."""

from __future__ import annotations

from clew.base.messages import RECORD
from clew.engine.audit import record_event
from clew.engine.session_data import SessionData
from clew.errors import Conflict
from clew.store.parts import Parts
from clew.store.store import Store


def refuse(session_id: str, data: SessionData) -> None:
    """Conflict if the session's privacy settings forbid export. Without settings, export is allowed."""
    record = (data.extra or {}).get(RECORD)
    if isinstance(record, dict) and record.get("exportable") is False:
        raise Conflict(
            f"session {session_id} is not to be exported", hint="To allow it, call set_privacy(exportable=True)."
        )


def record_export(store: Store, session_id: str) -> None:
    """Records an export of a session in the audit log, if the store was opened with ``audit=True``."""
    parts = Parts.of(store)
    if parts.engine.audits:
        record_event(parts.engine, parts.refs, "export", session_id)
