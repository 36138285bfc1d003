"""Retention: how long sessions are kept after their last activity, what would go, and the sweep that purges it.

>>> import clew
>>> from clew import retention
>>> store = clew.open(":memory:")
>>> retention.set_policy(store, retention.Policy(days=14))
>>> retention.preview(store).going
()
>>> retention.sweep(store).sessions
()

A store has one policy, and without one nothing is swept. A sweep runs when someone calls it, or starts a `Sweeper`.
What is held, open or damaged stays. A sweep that would remove more than is likely to be meant raises Implausible
instead, and removes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from clew import ids
from clew.backends import RefRow, Tx
from clew.due import Due, Judge, Spared, doubts
from clew.errors import Closed, Implausible, Invalid, Tampered
from clew.node import microseconds, moment
from clew.policy import Policy
from clew.receipts import Failure, Kept, Receipt
from clew.session import Session
from clew.store import Store
from clew.stored_policy import get_policy, needed_policy, set_policy

__all__ = [
    "Due",
    "Plan",
    "Policy",
    "Spared",
    "Sweeper",
    "Swept",
    "get_policy",
    "hold",
    "preview",
    "release",
    "set_policy",
    "sweep",
]

QUIET = timedelta(minutes=30)
"""A session that was active so recently is open, whatever its retention says."""
EVERY = timedelta(hours=6)
"""Time between two sweeps of a sweeper."""


# -- holds


def hold(store: Store, key: str, reason: str | None = None) -> Session:
    """Keeps a session from being swept, deleted or put in the trash, by whatever way, until `release`."""
    return store.sessions.hold(key, reason)


def release(store: Store, key: str) -> Session:
    """Ends a session's hold."""
    return store.sessions.release(key)


# -- what is due


class Plan(NamedTuple):
    """What a sweep would do."""

    now: datetime
    total: int
    """Sessions that there are, in the trash or not."""
    going: tuple[Due, ...]
    spared: tuple[Spared, ...]
    kept: tuple[Kept, ...]
    """Messages of theirs that stay, because a fork has them too."""
    messages: int
    """How many would go."""
    blobs: int
    bytes: int
    failures: tuple[Failure, ...]
    """What could not go."""
    doubts: tuple[str, ...]
    """Why it would stop and ask; empty if it would not."""


class Swept(NamedTuple):
    """What a sweep did."""

    now: datetime
    total: int
    """Sessions that there were."""
    receipt: Receipt | None
    """Of the purge; None if nothing was due."""
    spared: tuple[Spared, ...]

    @property
    def sessions(self) -> tuple[str, ...]:
        """Ids of the sessions that are gone."""
        return () if self.receipt is None else self.receipt.sessions

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Those that were due and could not go, and why."""
        return () if self.receipt is None else self.receipt.failures


Open = Iterable[Session | str]
"""Sessions, ids or handles."""


def preview(
    store: Store,
    policy: Policy | None = None,
    *,
    now: datetime | None = None,
    open_sessions: Open = (),
    quiet: timedelta = QUIET,
) -> Plan:
    """What a sweep would do now: what goes and why, what stays and by what. Nothing is changed, also in doubt.

    With `policy`, what it would do if that were the store's. Invalid without one.
    """
    found = Look(store, needed_policy(store) if policy is None else policy, now, open_sessions, quiet)
    plan = Plan(found.judge.now, found.total, found.going, found.spared, (), 0, 0, 0, (), found.doubts)
    if not found.rows:
        return plan
    would = store._purger.purge(found.rows, reason="retention-expired", dry_run=True)
    return plan._replace(
        kept=would.kept, messages=would.messages, blobs=would.blobs, bytes=would.bytes, failures=would.failures
    )


def sweep(
    store: Store,
    *,
    now: datetime | None = None,
    open_sessions: Open = (),
    quiet: timedelta = QUIET,
    force: bool = False,
) -> Swept:
    """Purges what is due by the store's policy; each session by itself. Invalid if the store has no policy.

    What is held stays; so does a session that was active within `quiet`, is one of `open_sessions`, or becomes active
    meanwhile. One that cannot go is a failure of the receipt, and the others go. Implausible, and nothing is removed,
    if more would go than `policy.share`, or the clock is in doubt, unless `force` says that this is meant.
    """
    return Look(store, needed_policy(store), now, open_sessions, quiet).purge(force=force)


class Look:
    """What a look at the store has found; with `records`, among conversation records alone."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        now: datetime | None,
        open_sessions: Open,
        quiet: timedelta,
        *,
        records: bool = False,
    ) -> None:
        self._store = store
        if not isinstance(policy, Policy):
            raise Invalid(f"a policy is a clew.retention.Policy, not {type(policy).__name__}")
        if not isinstance(quiet, timedelta):
            raise Invalid(f"quiet is a timedelta, not {type(quiet).__name__}")
        if isinstance(open_sessions, str) or not isinstance(open_sessions, Iterable):
            raise Invalid("open sessions come as a list")
        at = moment(store._engine.clock() if now is None else microseconds(now))
        names = frozenset(_name(store, one) for one in open_sessions)
        self.judge = Judge(store._refs, policy, store._engine.workspace, at, quiet, names)
        self.rows: list[RefRow] = []
        """Those that are due."""
        going: list[Due] = []
        spared: list[Spared] = []
        rows, verdicts = store._engine.read(lambda tx: self._verdicts(tx, records))
        for row, verdict in zip(rows, verdicts, strict=True):
            if isinstance(verdict, Due):
                going.append(verdict)
                self.rows.append(row)
            elif verdict is not None:
                spared.append(verdict)
        self.total = len(rows)
        self.going, self.spared = tuple(going), tuple(spared)
        self.doubts = doubts(self.going, self.total, self.judge.newest, at, policy.share)

    def purge(self, *, force: bool = False) -> Swept:
        """Purges what was found to be due, and is so still. Implausible as for `sweep`."""
        if self.doubts and not force:
            raise Implausible(len(self.going), self.total, self.doubts)
        receipt = None
        if self.rows:
            receipt = self._store._purger.purge(self.rows, reason="retention-expired", check=self.judge.confirm)
            self._store.audit._record("sweep", receipt.id, reason=receipt.reason, amount=len(receipt.sessions))
        return Swept(self.judge.now, self.total, receipt, self.spared)

    def _verdicts(self, tx: Tx, records: bool) -> tuple[list[RefRow], list[Due | Spared | None]]:
        rows = self._store.sessions._standing(tx)
        if records:
            rows = [row for row in rows if self._is_record(row)]
        return rows, [self.judge(tx, row) for row in rows]

    def _is_record(self, row: RefRow) -> bool:
        try:
            return self.judge.is_record(row)
        except Tampered:  # whose it is cannot be told, and it would stay anyway
            return False


def _name(store: Store, session: Session | str) -> str:
    """The id of a session that is open; one that is gone by now may be named by its id."""
    if isinstance(session, Session):
        return session.id
    exact = ids.maybe(session)
    return store.sessions._anywhere(session).id if exact is None else ids.text(exact)


# -- again and again


class Sweeper:
    """Sweeps when it is started and every six hours, on a thread of its own, until it is stopped.

    It obeys the store's policy, read before each sweep. `open_sessions` is asked before each sweep. `on_swept` is told
    what a sweep did, `on_error` what went wrong, Implausible too; without them both are logged. No error ends it, but a
    store that was closed. Instead of a store it takes a function, for which the same holds: whoever has more to do than
    to sweep does it there. `wait` is for tests: it waits for an event, so many seconds at most.
    """

    def __init__(
        self,
        store: Store | Callable[[], Swept],
        *,
        every: timedelta = EVERY,
        open_sessions: Callable[[], Open] | None = None,
        on_swept: Callable[[Swept], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        self._round = Round(every, on_swept, on_error)
        self._open = open_sessions or (lambda: ())
        self._store = store
        self._wait = wait
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._mutex = threading.Lock()

    def start(self) -> Self:
        """Begins. Idempotent; one that was stopped stays so."""
        with self._mutex:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="clew-sweeper", daemon=True)
                self._thread.start()
        return self

    def sweep_now(self) -> None:
        """Sweeps at once, not only when the time has come: after a change of the policy, say."""
        self._wake.set()

    def stop(self) -> None:
        """Ends it, after the sweep that it is in. Idempotent."""
        with self._mutex:
            self._stopping = True
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._stopping or not self._round.tell(self._sweep()):
                return
            self._wait(self._wake, self._round.seconds)

    def _sweep(self) -> Swept | Exception:
        try:
            if isinstance(self._store, Store):
                return sweep(self._store, open_sessions=self._open())
            return self._store()
        except Exception as error:  # noqa: BLE001 - it is told, and the next sweep may do better
            return error

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Round:
    """One sweep of many: what both sweepers do, however they wait in between."""

    def __init__(
        self,
        every: timedelta,
        on_swept: Callable[[Swept], object] | None,
        on_error: Callable[[Exception], object] | None,
    ) -> None:
        if not isinstance(every, timedelta) or not 0 < every.total_seconds() <= threading.TIMEOUT_MAX:
            raise Invalid("the time between two sweeps is a timedelta, longer than none")
        self.seconds = every.total_seconds()
        self._on_swept = on_swept or _log_swept
        self._on_error = on_error or _log_error

    def tell(self, outcome: Swept | Exception) -> bool:
        """Tells what came of a sweep. False if the store is closed: there is no use in going on."""
        if isinstance(outcome, Swept):
            try:
                self._on_swept(outcome)
                return True
            except Exception as error:  # noqa: BLE001 - whatever it is, the next sweep may do better
                outcome = error
        with suppress(Exception):
            self._on_error(outcome)
        return not isinstance(outcome, Closed)


def _log_swept(swept: Swept) -> None:
    if swept.receipt is not None:
        _logger().info("sweep: %d of %d sessions purged", len(swept.sessions), swept.total)


def _log_error(error: Exception) -> None:
    _logger().warning("sweep: %s", error)


def _logger() -> Any:
    import logging  # 10 ms at import, and most programs never sweep

    return logging.getLogger("clew.retention")
