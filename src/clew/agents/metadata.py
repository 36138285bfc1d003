"""What is said about a session, under the names that agent runtimes use on the wire."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Any

import msgspec

from clew.node import Counters
from clew.session import Session
from clew.session_data import directory

HASH, EXIT, IMPORTED = "project_hash", "exit_reason", "imported"
"""Names in a session's free data: its project, why it ended, and what it was before it was imported."""
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


class SessionMetadata(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session as agent runtimes know it. `cwd`, `model` and `exit_reason` may be set, and are stored by a save."""

    id: str
    project_hash: str
    cwd: str
    model: str
    created_at: datetime
    updated_at: datetime
    message_count: int
    turn_count: int
    total_tokens: int
    exit_reason: str | None = None
    parent_id: str | None = None
    agent_name: str | None = None

    def json(self) -> bytes:
        """As one JSON object; what is not known is left out."""
        return msgspec.json.encode(self)


def project_hash(cwd: str | None) -> str:
    """The name of a project's folder: the same for the same directory alone, and safe as a file name."""
    return hashlib.sha256((directory(cwd) or "").encode(errors="surrogateescape")).hexdigest()[:16]


def safe_hash(given: object, cwd: str | None) -> str:
    """`given`, if it can name a folder and nothing but a folder; else the hash of the directory."""
    return given if isinstance(given, str) and _SAFE.fullmatch(given) else project_hash(cwd)


def of(session: Session, counters: Counters | None = None) -> SessionMetadata:
    """The metadata of a session as the object shows it; its counters are read unless they are given."""
    extra, now = session.extra, counters or session.counters
    before = _dict(extra.get(IMPORTED))
    return SessionMetadata(
        id=session.id,
        project_hash=safe_hash(extra.get(HASH), session.cwd),
        cwd=session.cwd or "",
        model=session.model or "",
        created_at=_moment(before.get("created_at")) or session.created_at,
        updated_at=session.updated_at,
        message_count=now.messages,
        turn_count=now.turns,
        total_tokens=now.tokens,
        exit_reason=_text(extra.get(EXIT)),
        parent_id=session.owner_id if session.is_subagent else session.forked_from or _text(before.get("parent_id")),
        agent_name=session.agent,
    )


def _moment(value: object) -> datetime | None:
    try:
        found = msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return None
    return found if found.tzinfo is not None else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
