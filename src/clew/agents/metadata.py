"""The metadata of a session, with the field names that agent runtimes use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from clew.engine.node import Counters
from clew.engine.session_data import SessionData, directory
from clew.store.session import Session

HASH, EXIT, IMPORTED = "project_hash", "exit_reason", "imported"
"""Keys in a session's `extra` data: its project, why it ended, and the metadata it was imported with."""
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


class SessionMetadata(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session's metadata. A program may set `cwd`, `model` and `exit_reason`; `save` stores them."""

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
        """The metadata as a JSON object, without unknown fields."""
        return msgspec.json.encode(self)


def project_hash(cwd: str | None) -> str:
    """The name of a project's folder: a hash of its directory, safe as a file name."""
    return hashlib.sha256((directory(cwd) or "").encode(errors="surrogateescape")).hexdigest()[:16]


def is_agents(data: SessionData) -> bool:
    """True for the data of a session that an agent's runtime has created or imported."""
    return HASH in (data.extra or {})


def safe_hash(given: object, cwd: str | None) -> str:
    """`given`, if it is safe as the name of a folder; otherwise the hash of the directory."""
    return given if isinstance(given, str) and _SAFE.fullmatch(given) else project_hash(cwd)


def of(session: Session, counters: Counters | None = None) -> SessionMetadata:
    """The metadata of a session. Reads the counters unless they are given."""
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


def family(session: Session) -> Iterator[str]:
    """The ids of a session and of all subagents below it."""
    yield session.id
    for below in session.subagents():
        yield from family(below)


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
