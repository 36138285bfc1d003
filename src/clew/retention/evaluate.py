"""Decides for each session whether it may be deleted without being named, and whether the whole deletion is plausible.

Sweeps, those of records, and the cleanup of agents' sessions ask it, once to choose and again in the transaction that
deletes. Holds are refused a third time by `clew.engine.deletion`, whoever deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from clew.backends import RefRow, Tx
from clew.base import ids
from clew.engine.deletion import family, owners, refuse_changed
from clew.engine.node import microseconds, moment
from clew.engine.refs import Refs
from clew.engine.session_data import SessionData, is_record, unpack
from clew.errors import Conflict, Corrupted
from clew.retention.policy import Policy

FEW = 10
"""With this many sessions or fewer, a sweep may remove any share of them."""
OVERDUE = timedelta(days=365)
"""A session overdue by more than this suggests a wrong clock or a store that was not used for long. Clocks are often
wrong by whole years."""
RECORD_OVERDUE = timedelta(days=180)
"""The same for a record: no change of policy makes one overdue by more than 173 days."""
AHEAD = timedelta(days=1)
"""Activity further in the future than this suggests a wrong clock."""

_DAY = timedelta(days=1)
Why = Literal["policy", "own", "trash"]


class Due(NamedTuple):
    """A session that a sweep would purge."""

    session: str
    last_activity: datetime
    expires_at: datetime
    why: Why
    """The store's policy, the session's own retention, or the time limit of the trash."""
    record: bool = False
    """True if it is a conversation record."""


class Spared(NamedTuple):
    """A session that is due but is not purged."""

    session: str
    why: Literal["hold", "open", "damage"]
    by: str
    """The session that is held, open or damaged: this one, one that it owns, or its owner."""


class Evaluator:
    """Evaluates one session at a time."""

    def __init__(
        self,
        refs: Refs,
        policy: Policy,
        workspace: str,
        now: datetime,
        quiet: timedelta,
        opened: frozenset[str],
        older_than: timedelta | None = None,
    ) -> None:
        """With `older_than`, sessions are due after that time without activity, unless they have a retention of their
        own or are records.
        """
        self.now = now
        self._now = microseconds(now)
        self.newest: tuple[datetime, str] | None = None
        """The latest activity seen so far, and its session."""
        self.records = 0
        """How many records were evaluated so far."""
        self._refs = refs
        self._policy = policy
        self._workspace = workspace
        self._quiet = quiet
        self._open = opened
        self._older_than = older_than
        self._seen: dict[int, int] = {}
        """The versions of the sessions that are due, and of their subagents."""

    def __call__(self, tx: Tx, row: RefRow) -> Due | Spared | None:
        """Evaluates a session that has no owner; None if it is not due."""
        verdict, kin = self._evaluate(tx, row)
        if isinstance(verdict, Due):
            self._seen |= {one.ref: one.version for one in kin}
        return verdict

    def confirm(self, tx: Tx, row: RefRow) -> None:
        """Raises Conflict if a session is no longer due, or was changed since it was evaluated.

        Runs inside the transaction that purges it.
        """
        if not isinstance(self._evaluate(tx, row)[0], Due):
            raise Conflict(f"session {_text(row)} is no longer due")
        refuse_changed(tx, row, self._seen)

    def _evaluate(self, tx: Tx, row: RefRow) -> tuple[Due | Spared | None, list[RefRow]]:
        """The verdict on a session, and the sessions that would go with it."""
        name = _text(row)
        try:
            record = is_record(self.data(row))
            self.records += record
            self.newest = max(self.newest or (moment(row.active_at), name), (moment(row.active_at), name))
            if self._due(row, moment(last_activity(row, self._now)), record) > self.now:
                return None, []
            kin = family(tx, row)
            last = max(self._active(one) for one in kin)
        except Corrupted:
            return Spared(name, "damage", name), []  # a damaged session may state a wrong expiry
        due = self._due(row, last, record)
        if due > self.now:
            return None, []
        held = next((one for one in (*kin, *owners(tx, row)) if one.hold), None)
        if held is not None:
            return Spared(name, "hold", _text(held)), []
        for one in kin:
            if _text(one) in self._open or self.now - self._active(one) < self._quiet:
                return Spared(name, "open", _text(one)), []
        why: Why = "trash" if row.trashed_at is not None else "policy" if row.expires_at is None else "own"
        return Due(name, last, due, why, record), kin

    def data(self, row: RefRow) -> SessionData:
        """The data of a session. Raises Corrupted if anything that a sweep uses is damaged."""
        return unpack(self._refs.data(self._refs.verify(row)))

    def _active(self, row: RefRow) -> datetime:
        """The session's last activity. Raises Corrupted like `data`."""
        self.data(row)
        return moment(last_activity(row, self._now))

    def _due(self, row: RefRow, last: datetime, record: bool) -> datetime:
        own = row.expires_at
        if self._older_than is not None and not record and (own is None or row.trashed_at is not None):
            start = last if row.trashed_at is None else moment(row.trashed_at)
            return start + self._older_than
        return self._policy.expires_at(
            last,
            workspace=self._workspace,
            record=record,
            days=None if own is None or own >= 0 else timedelta(microseconds=-own) // _DAY,
            until=None if own is None or own < 0 else moment(own),
            trashed_at=None if row.trashed_at is None else moment(row.trashed_at),
        )


def last_activity(row: RefRow, now: int) -> int:
    """When a session was last active, in microseconds.

    If the clock was behind at that time, its rank is later: the store had seen that time before.
    """
    return row.rank if row.active_at < row.rank <= now else row.active_at


def doubts(
    going: Sequence[Due], total: int, newest: tuple[datetime, str] | None, now: datetime, share: float
) -> tuple[str, ...]:
    """Reasons to refuse a sweep: it would remove too large a share, or the clock looks wrong.

    `total` is the number of sessions that are not records. Records count for the clock only: that all of them expire
    is what their policy says.
    """
    found: list[str] = []
    if not going or newest is None:
        return ()
    if total > FEW and sum(not due.record for due in going) > total * share:
        found.append(f"that is more than {share:.0%}")
    late, first = max((now - due.expires_at - (RECORD_OVERDUE if due.record else OVERDUE), due) for due in going)
    if late > timedelta(0):
        found.append(f"session {first.session} was due {(now - first.expires_at) / _DAY:,.0f} days ago")
    if newest[0] - now > AHEAD:
        found.append(f"session {newest[1]} was last active {(newest[0] - now) // _DAY:,} days from now")
    return tuple(found)


def _text(row: RefRow) -> str:
    try:
        return ids.text(row.key)
    except Corrupted:
        return f"ref {row.ref}"
