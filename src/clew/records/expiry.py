"""When a record expires: by the store's policy, or by its own retention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from clew.backends import RefRow
from clew.engine.node import microseconds
from clew.engine.refs import expiry
from clew.engine.session_data import DAY
from clew.records.schema import RetentionInfo, time_text
from clew.retention.policy import Policy
from clew.store.judging import last_activity
from clew.store.session_table import SCAN, SESSION, SessionTable

NEVER = microseconds(datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))
"""The expiry time of a record that never expires: the schema requires a time."""

IsRecord = Callable[[RefRow], bool]
"""True for a record, False for a session that only other programs wrote to."""


def expires(policy: Policy | None, row: RefRow, record: bool, now: int = 0) -> int:
    """When a session expires, if it has no further activity. With `now`, allows for a clock that was behind."""
    own = expiry(row)
    if own is not None:
        return own
    days = None if policy is None else policy.days_for(row.workspace, record=record)
    return NEVER if days is None else last_activity(row, now) + days * DAY


def is_expired(policy: Policy | None, row: RefRow, now: int, is_record: IsRecord) -> bool:
    """True if the session has expired and is not held."""
    either = {expires(policy, row, record, now) <= now for record in (False, True)}
    over = either.pop() if len(either) == 1 else expires(policy, row, is_record(row), now) <= now
    return over and not row.hold


def info(policy: Policy | None, row: RefRow, record: bool) -> RetentionInfo:
    """The session's retention in the form of the schema."""
    return RetentionInfo(
        retention_expires_at=time_text(expires(policy, row, record)),
        retention_policy="workspace-default" if row.expires_at is None else "custom",
        manual_hold=True if row.hold else None,
    )


def overdue(
    sessions: SessionTable, policy: Policy | None, now: int, workspace: str, is_record: IsRecord
) -> Iterator[RefRow]:
    """Sessions without their own retention that have expired under the policy."""
    windows = () if policy is None else (policy.days_for(workspace), policy.days_for(workspace, record=True))
    days = [one for one in windows if one is not None]
    edge: tuple[int, int] | None = (now - min(days) * DAY + 1, 0) if days else None
    while edge is not None:
        rows = sessions.recent(SESSION, edge, None, None, SCAN)
        yield from (row for row in rows if row.expires_at is None and is_expired(policy, row, now, is_record))
        edge = (rows[-1].rank, rows[-1].ref) if len(rows) == SCAN else None
