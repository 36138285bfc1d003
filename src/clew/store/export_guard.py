"""Whether a session may leave the store. Every way out asks here."""

from __future__ import annotations

from clew.base.messages import RECORD
from clew.engine.session_data import SessionData
from clew.errors import Conflict


def refuse(session_id: str, data: SessionData) -> None:
    """Conflict if the session was marked as not to be exported. One that nobody marked may go."""
    said = (data.extra or {}).get(RECORD)
    if isinstance(said, dict) and said.get("exportable") is False:
        raise Conflict(
            f"session {session_id} is not to be exported",
            hint="Whoever keeps it may allow it: set_privacy(exportable=True).",
        )
