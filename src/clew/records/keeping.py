"""How long a record is kept: as the store's policy says, or until a moment of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from clew.backends import RefRow
from clew.node import microseconds
from clew.policy import Policy
from clew.records.shapes import RetentionInfo, time_text
from clew.refs import expiry
from clew.session_data import DAY
from clew.sessions import SCAN, SESSION, Sessions

NEVER = microseconds(datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))
"""What a record that has no end says of it: the schema wants a moment."""

IsRecord = Callable[[RefRow], bool]
"""Tells a record from a session that only other programs have written to."""


def expires(policy: Policy | None, row: RefRow, record: bool) -> int:
    """When a session expires, if nothing more happens in it."""
    own = expiry(row)
    if own is not None:
        return own
    days = None if policy is None else policy.days_for(row.workspace, record=record)
    return NEVER if days is None else row.active_at + days * DAY


def expired(policy: Policy | None, row: RefRow, now: int, is_record: IsRecord) -> bool:
    """True if its time is over and it is not held."""
    either = {expires(policy, row, record) <= now for record in (False, True)}
    over = either.pop() if len(either) == 1 else expires(policy, row, is_record(row)) <= now
    return over and not row.hold


def info(policy: Policy | None, row: RefRow, record: bool) -> RetentionInfo:
    """A session's retention as a record says it."""
    return RetentionInfo(
        retention_expires_at=time_text(expires(policy, row, record)),
        retention_policy="workspace-default" if row.expires_at is None else "custom",
        manual_hold=True if row.hold else None,
    )


def overdue(
    sessions: Sessions, policy: Policy | None, now: int, workspace: str, is_record: IsRecord
) -> Iterator[RefRow]:
    """Sessions that the policy has expired, of those without a retention of their own."""
    windows = () if policy is None else (policy.days_for(workspace), policy.days_for(workspace, record=True))
    days = [one for one in windows if one is not None]
    edge: tuple[int, int] | None = (now - min(days) * DAY + 1, 0) if days else None
    while edge is not None:
        rows = sessions._recent(SESSION, edge, None, None, SCAN)
        yield from (row for row in rows if row.expires_at is None and expired(policy, row, now, is_record))
        edge = (rows[-1].rank, rows[-1].ref) if len(rows) == SCAN else None
