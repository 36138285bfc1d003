"""What a sweep makes of each session: it is due, or spared, or not due; and whether all of it is likely to be meant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from clew import ids
from clew.backends import RefRow, Tx, born
from clew.deletion import TALKS, owners
from clew.errors import Conflict, Tampered
from clew.node import moment
from clew.policy import Policy
from clew.refs import Refs
from clew.session_data import is_record, unpack

FEW = 10
"""Of so few sessions a sweep may remove any share."""
OVERDUE = timedelta(days=365)
"""What was due so long ago should have gone long before: the clock is in doubt, or the store was out of use."""
AHEAD = timedelta(days=1)
"""A session that was active so far in the future was so by another clock."""

_DAY = timedelta(days=1)
Why = Literal["policy", "own", "trash"]


class Due(NamedTuple):
    """A session that a sweep would purge."""

    session: str
    last_activity: datetime
    expires_at: datetime
    why: Why
    """By the policy, by a retention of its own, or because it was in the trash for so long."""


class Spared(NamedTuple):
    """A session that is due, and stays."""

    session: str
    why: Literal["hold", "open", "damage"]
    by: str
    """Which session it is that is held, open or damaged: itself, one that it owns, or its owner."""


class Judge:
    """Says of one session after the other what a sweep makes of it."""

    def __init__(
        self, refs: Refs, policy: Policy, workspace: str, now: datetime, quiet: timedelta, opened: frozenset[str]
    ) -> None:
        self.now = now
        self.newest: tuple[datetime, str] | None = None
        """The last activity that was seen, and whose it was."""
        self._refs = refs
        self._policy = policy
        self._workspace = workspace
        self._quiet = quiet
        self._open = opened

    def __call__(self, tx: Tx, row: RefRow) -> Due | Spared | None:
        """What becomes of a session that stands alone; None if it is not due."""
        name = _text(row)
        try:
            record, last = self.is_record(row), moment(row.active_at)
            self.newest = max(self.newest or (last, name), (last, name))
            if self._due(row, last, record) > self.now:
                return None
            family = self._family(tx, row)
            last = max(self._active(one) for one in family)
        except Tampered:
            return Spared(name, "damage", name)  # what it says of itself may be wrong, and then so would be its end
        due = self._due(row, last, record)
        if due > self.now:
            return None
        held = next((one for one in (*family, *owners(tx, row)) if one.hold), None)
        if held is not None:
            return Spared(name, "hold", _text(held))
        for one in family:
            if _text(one) in self._open or self.now - self._active(one) < self._quiet:
                return Spared(name, "open", _text(one))
        why: Why = "trash" if row.trashed_at is not None else "policy" if row.expires_at is None else "own"
        return Due(name, last, due, why)

    def confirm(self, tx: Tx, row: RefRow) -> None:
        """Conflict if a session that was due is not so any more. To be asked in the transaction that purges it."""
        if not isinstance(self(tx, row), Due):
            raise Conflict(f"session {_text(row)} is not due any more")

    def is_record(self, row: RefRow) -> bool:
        """True if it is a conversation record, if all that a sweep goes by is as it was written. Tampered."""
        return is_record(unpack(self._refs.data(self._refs.checked(row))))

    def _active(self, row: RefRow) -> datetime:
        """When it was last active, if all that a sweep goes by is as it was written. Tampered."""
        self._refs.data(self._refs.checked(row))
        return moment(row.active_at)

    def _family(self, tx: Tx, row: RefRow) -> list[RefRow]:
        """A session, and the traces that go with it."""
        family = [row]
        for one in family:
            # What is owned is younger; a damaged row must not lead in circles.
            owned = [other for other in tx.refs_owned(one.ref) if born(other.ref) > born(one.ref)]
            family += [other for other in owned if other.kind in TALKS]
        return family

    def _due(self, row: RefRow, last: datetime, record: bool) -> datetime:
        own = row.expires_at
        return self._policy.expires_at(
            last,
            workspace=self._workspace,
            record=record,
            days=None if own is None or own >= 0 else timedelta(microseconds=-own) // _DAY,
            until=None if own is None or own < 0 else moment(own),
            trashed_at=None if row.trashed_at is None else moment(row.trashed_at),
        )


def doubts(
    going: Sequence[Due], total: int, newest: tuple[datetime, str] | None, now: datetime, share: float
) -> tuple[str, ...]:
    """Why a sweep should ask first: it would remove too large a share, or the clock is in doubt."""
    found: list[str] = []
    if not going or newest is None:
        return ()
    if total > FEW and len(going) > total * share:
        found.append(f"that is more than {share:.0%}")
    first = min(going, key=lambda due: due.expires_at)
    if now - first.expires_at > OVERDUE:
        found.append(f"session {first.session} was due {(now - first.expires_at) // _DAY:,} days ago")
    if newest[0] - now > AHEAD:
        found.append(f"session {newest[1]} was last active {(newest[0] - now) // _DAY:,} days from now")
    return tuple(found)


def _text(row: RefRow) -> str:
    try:
        return ids.text(row.key)
    except Tampered:
        return f"ref {row.ref}"
