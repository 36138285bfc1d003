"""Lists of sessions that another room filters by a policy of its own. For modules of clew.

A damaged session is listed as well: what `lifetime` says of it is not verified, and reading it raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clew.base import ids
from clew.engine.refs import expiry
from clew.store.evaluate import last_activity
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.session_table import SESSION
from clew.store.store import Store

PAGE = 200
"""Sessions read at a time."""


class Lifetime(NamedTuple):
    """What a session says of when it ends, not verified."""

    active_at: int
    """Its last activity, in microseconds."""
    ends_at: int | None
    """When its own retention ends; None if it has none."""
    held: bool


class Stated(NamedTuple):
    """What a session says of itself, as of its last read, with its signature checked."""

    version: int
    head: str | None
    """The id of its last message."""
    active_at: int
    """When its head last moved, in microseconds."""
    created_at: int


def stated(session: Session) -> Stated:
    """What a session says of itself: one check for what its properties check each time. Corrupted."""
    _ = session.version  # checks the signature
    row = row_of(session)
    return Stated(row.version, None if row.head_id is None else ids.text(row.head_id), row.active_at, row.created_at)


def lifetime(session: Session, now: int = 0) -> Lifetime:
    """What a session says of when it ends. With `now`, allows for a clock that was behind at its last activity."""
    row = row_of(session)
    return Lifetime(last_activity(row, now), expiry(row), bool(row.hold))


def recent(
    store: Store, *, cursor: str | None = None, before: int | None = None, page: int = PAGE
) -> Iterator[Session]:
    """Sessions, last active first, those of subagents and in the trash left out; read a page at a time.

    Begins after a `cursor`, or with the last one active `before` a time. Invalid if the cursor is not valid.
    """
    parts = Parts.of(store)
    table = parts.table
    edge = table.read_cursor(cursor) if cursor is not None else None if before is None else (before, 0)
    while rows := table.recent(SESSION, edge, None, None, page):
        yield from (Session(parts, row) for row in rows)
        if len(rows) < page:
            return
        edge = rows[-1].rank, rows[-1].ref


def cursor_after(store: Store, session: Session) -> str:
    """The cursor with which `recent`, or `Sessions.list`, continues after a session."""
    row = row_of(session)
    return Parts.of(store).table.cursor(row.rank, row.ref)


def count(store: Store, *, now: int, include_expired: bool) -> int:
    """Number of the sessions of `recent`; without `include_expired`, of those whose own retention has not ended."""
    table = Parts.of(store).table
    return table.count(SESSION, None, None, None, include_expired=include_expired, now=now)


def independent(store: Store) -> list[Session]:
    """Every session without an owner, and every trace of a subagent without one, in the trash or not."""
    parts = Parts.of(store)
    rows = parts.engine.read(lambda tx: parts.table.all(tx, live=True, before=None))
    return [Session(parts, row) for row in rows]


def stored_size(session: Session) -> int:
    """Stored bytes of a session's own data."""
    return len(row_of(session).data)
