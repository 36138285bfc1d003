"""How long a record is kept: so many days after its last interaction, or until a moment of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clew.backends import RefRow
from clew.engine import whole_number
from clew.errors import Invalid
from clew.purge import Receipt
from clew.records.shapes import RetentionInfo, time_text
from clew.sessions import SCAN, SESSION, Sessions
from clew.store import Store

DAY = 86_400_000_000
SHORTEST, LONGEST = 7, 180
DAYS = 30


class Policy(NamedTuple):
    """The workspace's retention window."""

    days: int = DAYS

    @property
    def window(self) -> int:
        """In microseconds. Invalid unless it is from 7 to 180 days."""
        if not SHORTEST <= whole_number("days", self.days, 0) <= LONGEST:
            raise Invalid(f"records are kept from {SHORTEST} to {LONGEST} days, not {self.days}")
        return self.days * DAY


def expires(policy: Policy, row: RefRow) -> int:
    """When a session expires, if nothing more happens in it."""
    return row.active_at + policy.window if row.expires_at is None else row.expires_at


def expired(policy: Policy, row: RefRow, now: int) -> bool:
    """True if its time is over and nobody holds it."""
    return not row.hold and expires(policy, row) <= now


def info(policy: Policy, row: RefRow) -> RetentionInfo:
    """A session's retention as a record says it."""
    return RetentionInfo(
        retention_expires_at=time_text(expires(policy, row)),
        retention_policy="workspace-default" if row.expires_at is None else "custom",
        manual_hold=True if row.hold else None,
    )


def until(row: RefRow, moment: int) -> int:
    """`moment`, if a record may be kept until then. Invalid: the window's limits hold for each record too."""
    if not row.active_at + SHORTEST * DAY <= moment <= row.active_at + LONGEST * DAY:
        raise Invalid(f"a record is kept from {SHORTEST} to {LONGEST} days after its last interaction")
    return moment


def overdue(sessions: Sessions, policy: Policy, now: int) -> Iterator[RefRow]:
    """Sessions that the policy has expired, of those without a moment of their own."""
    edge: tuple[int, int] | None = now - policy.window + 1, 0
    while edge is not None:
        rows = sessions._recent(SESSION, edge, None, None, SCAN)
        yield from (row for row in rows if row.expires_at is None and expired(policy, row, now))
        edge = (rows[-1].rank, rows[-1].ref) if len(rows) == SCAN else None


def sweep(store: Store, policy: Policy, now: int) -> tuple[Receipt | None, list[RefRow]]:
    """Purges what has expired; returns the receipt, if there was anything, and the rows that were due."""
    sessions = store.sessions
    found: list[RefRow] = []
    edge: tuple[int, int] | None = None
    while rows := sessions._recent(SESSION, edge, None, None, SCAN):
        found += [row for row in rows if expired(policy, row, now)]
        edge = rows[-1].rank, rows[-1].ref
    return (store._purger.purge(found, reason="retention-expired") if found else None), found
