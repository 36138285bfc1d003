"""Decides for each session whether a sweep purges or skips it, and whether the whole sweep is plausible."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from clew.backends import RefRow, Tx, creation_counter
from clew.base import ids
from clew.engine.deletion import SESSION_KINDS, owners
from clew.engine.node import moment
from clew.engine.refs import Refs
from clew.engine.session_data import is_record, unpack
from clew.errors import Conflict, Corrupted
from clew.retention.policy import Policy

FEW = 10
"""With this many sessions or fewer, a sweep may remove any share of them."""
OVERDUE = timedelta(days=365)
"""A session overdue by more than this suggests a wrong clock or a store that was not used for long."""
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


class Spared(NamedTuple):
    """A session that is due but is not purged."""

    session: str
    why: Literal["hold", "open", "damage"]
    by: str
    """The session that is held, open or damaged: this one, one that it owns, or its owner."""


class Evaluator:
    """Evaluates one session at a time."""

    def __init__(
        self, refs: Refs, policy: Policy, workspace: str, now: datetime, quiet: timedelta, opened: frozenset[str]
    ) -> None:
        self.now = now
        self.newest: tuple[datetime, str] | None = None
        """The latest activity seen so far, and its session."""
        self._refs = refs
        self._policy = policy
        self._workspace = workspace
        self._quiet = quiet
        self._open = opened

    def __call__(self, tx: Tx, row: RefRow) -> Due | Spared | None:
        """Evaluates a session that has no owner; None if it is not due."""
        name = _text(row)
        try:
            record, last = self.is_record(row), moment(row.active_at)
            self.newest = max(self.newest or (last, name), (last, name))
            if self._due(row, last, record) > self.now:
                return None
            family = self._family(tx, row)
            last = max(self._active(one) for one in family)
        except Corrupted:
            return Spared(name, "damage", name)  # a damaged session may state a wrong expiry
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
        """Raises Conflict if a session is no longer due. Runs inside the transaction that purges it."""
        if not isinstance(self(tx, row), Due):
            raise Conflict(f"session {_text(row)} is no longer due")

    def is_record(self, row: RefRow) -> bool:
        """True if the session is a conversation record. Raises Corrupted if the data that a sweep uses is damaged."""
        return is_record(unpack(self._refs.data(self._refs.verify(row))))

    def _active(self, row: RefRow) -> datetime:
        """The session's last activity. Raises Corrupted if the data that a sweep uses is damaged."""
        self._refs.data(self._refs.verify(row))
        return moment(row.active_at)

    def _family(self, tx: Tx, row: RefRow) -> list[RefRow]:
        """The session and the traces that are purged with it."""
        family = [row]
        for one in family:
            # An owned ref is younger than its owner; this check stops loops caused by a damaged row.
            owned = [
                other for other in tx.refs_owned(one.ref) if creation_counter(other.ref) > creation_counter(one.ref)
            ]
            family += [other for other in owned if other.kind in SESSION_KINDS]
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
    """Reasons to refuse a sweep: it would remove too large a share, or the clock looks wrong."""
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
    except Corrupted:
        return f"ref {row.ref}"
