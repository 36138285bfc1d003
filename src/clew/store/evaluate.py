"""Evaluates which sessions may be deleted without being named, and deletes them; stores the retention policy.

Sweeps, those of records, and the cleanup of agents' sessions use it. It decides once to choose, and again in the
transaction that deletes. `clew.engine.deletion` refuses holds a third time. The caller says when a session expires:
`clew.retention` has the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from clew.backends import RefRow, Tx
from clew.base import ids
from clew.engine import audit, deletion
from clew.engine.audit import record_event
from clew.engine.deletion import family, owners, refuse_changed
from clew.engine.node import microseconds, moment
from clew.engine.receipts import Receipt
from clew.engine.refs import OWN, Refs
from clew.engine.session_data import SessionData, is_record, unpack
from clew.errors import Conflict, Corrupted
from clew.store.parts import Parts
from clew.store.session import Session
from clew.store.store import Store
from clew.store.unit import Unit

ExpiresAt = Callable[..., datetime]
"""When a session expires: see `clew.retention.Policy.expires_at`."""
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


class Judgement:
    """Every session of a store, evaluated in one read; with `only`, those whose data it accepts.

    A session that is among `opened`, or was active within `quiet`, is spared. With `older_than`, sessions are due after
    that time without activity, unless they have a retention of their own or are records.
    """

    def __init__(
        self,
        store: Store,
        expires_at: ExpiresAt,
        now: datetime,
        quiet: timedelta,
        opened: frozenset[str],
        *,
        only: Callable[[SessionData], bool] | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        self._parts = Parts.of(store)
        evaluator = self._evaluator = _Evaluator(
            self._parts.refs, expires_at, store.workspace, now, quiet, opened, older_than
        )
        rows, verdicts = self._parts.engine.read(lambda tx: self._verdicts(tx, only))
        self._rows = [row for row, verdict in zip(rows, verdicts, strict=True) if isinstance(verdict, Due)]
        self.going = tuple(verdict for verdict in verdicts if isinstance(verdict, Due))
        """The sessions that are due."""
        self.spared = tuple(verdict for verdict in verdicts if isinstance(verdict, Spared))
        self.total = len(rows)
        """Number of sessions, including those in the trash."""
        self.records = evaluator.records
        """How many of them are records."""
        self.newest = evaluator.newest
        """The latest activity, and its session."""

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are due, in the order of `going`."""
        return [Session(self._parts, row) for row in self._rows]

    def purge(self, *, dry_run: bool = False) -> Receipt:
        """Purges the sessions that are due, each unless it is no longer due or was changed since."""
        purger, check = self._parts.purger, self._evaluator.confirm
        return purger.purge(self._rows, reason="retention-expired", dry_run=dry_run, check=check)

    def record_sweep(self, receipt: Receipt) -> None:
        """Records a purge in the audit log as a sweep."""
        record_event(
            self._parts.engine, self._parts.refs, "sweep", receipt.id,
            reason=receipt.reason, amount=len(receipt.sessions),
        )  # fmt: skip

    def _verdicts(
        self, tx: Tx, only: Callable[[SessionData], bool] | None
    ) -> tuple[list[RefRow], list[Due | Spared | None]]:
        rows = self._parts.table.purgeable(tx)
        if only is not None:
            rows = [row for row in rows if self._accepts(only, row)]
        return rows, [self._evaluator(tx, row) for row in rows]

    def _accepts(self, only: Callable[[SessionData], bool], row: RefRow) -> bool:
        try:
            return only(self._evaluator.data(row))
        except Corrupted:  # its kind is unknown; a sweep skips damaged sessions anyway
            return False


class _Evaluator:
    """Evaluates one session at a time."""

    def __init__(
        self,
        refs: Refs,
        expires_at: ExpiresAt,
        workspace: str,
        now: datetime,
        quiet: timedelta,
        opened: frozenset[str],
        older_than: timedelta | None,
    ) -> None:
        self.newest: tuple[datetime, str] | None = None
        """The latest activity seen so far, and its session."""
        self.records = 0
        """How many records were evaluated so far."""
        self._refs = refs
        self._expires_at = expires_at
        self._workspace = workspace
        self._now = microseconds(now)
        self._at = now
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
            if self._due(row, moment(last_activity(row, self._now)), record) > self._at:
                return None, []
            kin = family(tx, row)
            last = max(self._active(one) for one in kin)
        except Corrupted:
            return Spared(name, "damage", name), []  # a damaged session may state a wrong expiry
        due = self._due(row, last, record)
        if due > self._at:
            return None, []
        held = next((one for one in (*kin, *owners(tx, row)) if one.hold), None)
        if held is not None:
            return Spared(name, "hold", _text(held)), []
        for one in kin:
            if _text(one) in self._open or self._at - self._active(one) < self._quiet:
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
        return self._expires_at(
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


def _text(row: RefRow) -> str:
    try:
        return ids.text(row.key)
    except Corrupted:
        return f"ref {row.ref}"


RETENTION = "retention"
"""Kind of the ref that holds a store's policy."""


def replace_policy(store: Store, policy: bytes, days: int, *, reason: str | None = None) -> bytes:
    """Stores a policy, and records its `days` in the audit log; with `reason`, only if there is none.

    Returns the policy that is stored afterwards.
    """
    parts = Parts.of(store)
    engine, refs = parts.engine, parts.refs
    payload = b"\x01" + policy

    def work(tx: Tx) -> bytes:
        found = None if reason is None else _policy_row(refs, tx)
        if found is not None:
            return _policy_data(refs, found)  # another writer stored one first
        own = refs.own(tx, RETENTION)
        if own is None or refs.data(refs.verify(own)) != payload:
            refs.change(tx, refs.add_own(tx, RETENTION), payload, look=None)
            audit.note(engine, refs, tx, "retention", "policy", reason=reason, amount=days)
        return policy

    return engine.write(work)


def read_policy(store: Store) -> bytes | None:
    """The policy stored for this workspace, or else for the workspace without a name; None if there is neither."""
    parts = Parts.of(store)
    row = parts.engine.read(lambda tx: _policy_row(parts.refs, tx))
    return None if row is None else _policy_data(parts.refs, row)


def _policy_row(refs: Refs, tx: Tx) -> RefRow | None:
    return refs.own(tx, RETENTION) or tx.ref("", RETENTION, OWN)


def _policy_data(refs: Refs, row: RefRow) -> bytes:
    return refs.data(refs.verify(row))[1:]


def delete_if(
    store: Store, choose: Callable[[Unit], Collection[str]], *, remember: bool = True, dry_run: bool = False
) -> int:
    """Deletes messages as `Nodes.delete`; returns how many. Conflict.

    `choose` gives their ids in the transaction that deletes them, and may raise. `remember` as in
    `purge_if`.
    """
    parts = Parts.of(store)

    def going(tx: Tx) -> list[bytes]:
        return [ids.parse(one) for one in parts.engine.run_in(tx, lambda: store.read(choose))]

    def plan(tx: Tx) -> int:
        chosen = going(tx)
        deletion.plan_nodes(parts.engine, tx, chosen, recursive=False)
        return len(chosen)

    if dry_run:
        return parts.engine.read(plan)
    return parts.purger.delete_nodes(going, recursive=False, remember=remember).messages
