"""Retention: the policy that says how long sessions are kept after their last activity, and the sweep that purges them.

>>> import clew
>>> from clew import retention
>>> store = clew.open(":memory:")
>>> retention.set_policy(store, retention.Policy(days=14))
>>> retention.preview(store).going
()
>>> retention.sweep(store).sessions
()

A store has one policy; without a policy nothing is swept. A sweep runs when a program calls `sweep` or starts a
`Sweeper`. A sweep skips sessions that are held, open or damaged. If it would remove an unusually large share of the
sessions, or if the clock looks wrong, it raises SweepRefused and removes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

import msgspec

from clew.base import ids
from clew.base.worker import Worker
from clew.engine.node import microseconds, moment
from clew.engine.receipts import Failure, Kept, Receipt
from clew.engine.session_data import SessionData
from clew.errors import Closed, Invalid, SweepRefused
from clew.retention.policy import Policy, doubts
from clew.store import evaluate
from clew.store.evaluate import Due, Judgement, Spared
from clew.store.session import Session
from clew.store.store import Store, stop_on_close

__all__ = [
    "Due",
    "Plan",
    "Policy",
    "Spared",
    "SweepReport",
    "Sweeper",
    "get_policy",
    "preview",
    "set_policy",
    "sweep",
]

QUIET = timedelta(minutes=30)
"""A session that was active within this time counts as open and is not swept."""
EVERY = timedelta(hours=6)
"""Time between two sweeps of a sweeper."""


# -- the stored policy


def set_policy(store: Store, policy: Policy) -> None:
    """Stores the policy for sweeps of this workspace and records the change in the audit log."""
    _store_policy(store, policy)


def default_policy(store: Store, policy: Policy, reason: str) -> Policy:
    """The store's policy. If there is none, stores `policy` first and records that in the audit log with `reason`."""
    return get_policy(store) or _store_policy(store, policy, reason)


def _store_policy(store: Store, policy: Policy, reason: str | None = None) -> Policy:
    """Stores a policy; with `reason`, only if there is none. Returns the policy that is stored afterwards."""
    if not isinstance(policy, Policy):
        raise Invalid(f"policy must be a clew.retention.Policy, not {type(policy).__name__}")
    days = policy.days_for(store.workspace, record=reason is not None) or 0
    return _decode(evaluate.replace_policy(store, msgspec.json.encode(policy), days, reason=reason))


def get_policy(store: Store) -> Policy | None:
    """The policy stored for this workspace, or else for the workspace without a name; None if there is neither."""
    found = evaluate.read_policy(store)
    return None if found is None else _decode(found)


def _decode(policy: bytes) -> Policy:
    try:
        return msgspec.json.decode(policy, type=Policy)
    except msgspec.DecodeError:
        raise Invalid("a newer version of clew wrote the store's policy", hint="Upgrade clew.") from None


def needed_policy(store: Store) -> Policy:
    """The store's policy. Raises Invalid if there is none."""
    policy = get_policy(store)
    if policy is None:
        raise Invalid("no retention is set", hint="Set a policy with set_policy; without one nothing is swept.")
    return policy


# -- what is due


class Plan(NamedTuple):
    """The sessions that a sweep would purge, and the ones it would skip."""

    now: datetime
    total: int
    """Number of sessions, including those in the trash."""
    going: tuple[Due, ...]
    spared: tuple[Spared, ...]
    kept: tuple[Kept, ...]
    """Messages of these sessions that stay because a fork shares them."""
    messages: int
    """Number of messages that would be purged."""
    blobs: int
    bytes: int
    failures: tuple[Failure, ...]
    """Sessions that could not be purged, and why."""
    doubts: tuple[str, ...]
    """Reasons to refuse the sweep; empty if there are none."""


class SweepReport(NamedTuple):
    """The result of a sweep."""

    now: datetime
    total: int
    """Number of sessions before the sweep."""
    receipt: Receipt | None
    """Receipt of the purge; None if no session was due."""
    spared: tuple[Spared, ...]

    @property
    def sessions(self) -> tuple[str, ...]:
        """Ids of the purged sessions."""
        return () if self.receipt is None else self.receipt.sessions

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Sessions that were due but could not be purged, and why."""
        return () if self.receipt is None else self.receipt.failures


Open = Iterable[Session | str]
"""Sessions, ids or handles."""
Only = Callable[[SessionData], bool]


def preview(
    store: Store,
    policy: Policy | None = None,
    *,
    now: datetime | None = None,
    open_sessions: Open = (),
    quiet: timedelta = QUIET,
) -> Plan:
    """Lists the sessions that a sweep would purge now and those it would skip, with reasons. Changes nothing.

    `policy` replaces the store's policy for this preview. Raises Invalid if there is no policy.
    """
    found = RetentionScan(store, needed_policy(store) if policy is None else policy, now, open_sessions, quiet)
    plan = Plan(found.now, found.total, found.going, found.spared, (), 0, 0, 0, (), found.doubts)
    if not found.going:
        return plan
    would = found.purge_rows(dry_run=True)
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
) -> SweepReport:
    """Purges the sessions that are due under the store's policy, one at a time.

    The sweep skips sessions that are held, that were active within `quiet`, that are in `open_sessions`, or that become
    active while it runs. If a session cannot be purged, the receipt lists it as a failure and the sweep continues.
    Raises Invalid if the store has no policy. Raises SweepRefused and removes nothing, unless `force` is set, if more
    than `policy.share` of the sessions would go, not counting conversation records, or if the clock looks wrong.
    """
    return RetentionScan(store, needed_policy(store), now, open_sessions, quiet).purge(force=force)


class RetentionScan:
    """Evaluates every session of a store against a policy; with `only`, those whose data it accepts.

    With `older_than`, the policy applies to records and to sessions with a retention of their own, others are due after
    that time, and any share of them may go.
    """

    def __init__(
        self,
        store: Store,
        policy: Policy,
        now: datetime | None,
        open_sessions: Open,
        quiet: timedelta,
        *,
        only: Only | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            raise Invalid(f"policy must be a clew.retention.Policy, not {type(policy).__name__}")
        if not isinstance(quiet, timedelta):
            raise Invalid(f"quiet must be a timedelta, not {type(quiet).__name__}")
        if isinstance(open_sessions, str) or not isinstance(open_sessions, Iterable):
            raise Invalid("open_sessions must be a list of sessions")
        self.now = moment(store.clock() if now is None else microseconds(now))
        names = frozenset(_name(store, one) for one in open_sessions)
        found = self._found = Judgement(
            store, policy.expires_at, self.now, quiet, names, only=only, older_than=older_than
        )
        self.total, self.going, self.spared = found.total, found.going, found.spared
        share = policy.share if older_than is None else 1.0
        self.doubts = doubts(found.going, found.total - found.records, found.newest, self.now, share)

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are due, in the order of `going`."""
        return self._found.sessions

    def purge(self, *, force: bool = False) -> SweepReport:
        """Purges the sessions that are still due. Raises SweepRefused like `sweep`."""
        if not force:
            self.refuse_doubts()
        receipt = None
        if self.going:
            receipt = self.purge_rows()
            self._found.record_sweep(receipt)
        return SweepReport(self.now, self.total, receipt, self.spared)

    def refuse_doubts(self) -> None:
        """Raises SweepRefused if there is a reason."""
        if self.doubts:
            raise SweepRefused(len(self.going), self.total, self.doubts)

    def purge_rows(self, *, dry_run: bool = False) -> Receipt:
        """Purges the sessions that are due, whatever the doubts are."""
        return self._found.purge(dry_run=dry_run)


def _name(store: Store, session: Session | str) -> str:
    """The id of an open session. An id is accepted even if its session no longer exists."""
    if isinstance(session, Session):
        return session.id
    exact = ids.maybe(session)
    return store.sessions.find_anywhere(session).id if exact is None else ids.text(exact)


# -- again and again


class Sweeper:
    """Runs a sweep on its own thread, at the start unless `at_start` is False, and every six hours until it is stopped.

    It reads the store's policy and calls `open_sessions` before each sweep. It calls `on_swept` with the result and
    `on_error` with an error, including SweepRefused; by default it logs both. Closing the store ends the thread.
    `store` can also be a function that does the sweep and returns its report.
    """

    def __init__(
        self,
        store: Store | Callable[[], SweepReport],
        *,
        every: timedelta = EVERY,
        open_sessions: Callable[[], Open] | None = None,
        on_swept: Callable[[SweepReport], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        at_start: bool = True,
    ) -> None:
        if not isinstance(every, timedelta) or not 0 < every.total_seconds() <= threading.TIMEOUT_MAX:
            raise Invalid("every must be a timedelta greater than 0")
        self._seconds = every.total_seconds()
        self._open = open_sessions or (lambda: ())
        self._on_swept = on_swept or log_swept
        self._on_error = on_error or _log_error
        self._store = store
        self._at_start = at_start
        self._worker = Worker("clew-sweeper")
        self._started = False

    def start(self) -> Self:
        """Starts the thread. Idempotent; a stopped sweeper does not start again."""
        if not self._started:
            self._started = True
            if isinstance(self._store, Store):
                stop_on_close(self._store, self)
            self._worker.add(self._run, after=0.0 if self._at_start else self._seconds)
        return self

    def sweep_now(self) -> None:
        """Sweeps now instead of at the next interval, for example after a policy change."""
        if self._started:
            self._worker.add(self._run)

    def stop(self, seconds: float | None = None) -> None:
        """Stops the thread after the current sweep, and waits for it, for at most `seconds` if given. Idempotent."""
        self._worker.close(seconds)

    def _run(self) -> None:
        """Sweeps, and again after the interval unless the store is closed."""
        outcome = self._sweep()
        if isinstance(outcome, SweepReport):
            try:
                self._on_swept(outcome)
            except Exception as error:  # noqa: BLE001 - the next sweep may succeed
                outcome = error
        if isinstance(outcome, Exception):
            with suppress(Exception):
                self._on_error(outcome)
        if not isinstance(outcome, Closed):
            self._worker.add(self._run, after=self._seconds)

    def _sweep(self) -> SweepReport | Exception:
        try:
            if isinstance(self._store, Store):
                return sweep(self._store, open_sessions=self._open())
            return self._store()
        except Exception as error:  # noqa: BLE001 - it is reported, and the next sweep may succeed
            return error

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def log_swept(swept: SweepReport) -> None:
    """Logs the counts of a sweep that had something to purge."""
    if swept.receipt is not None:
        failed = len(swept.failures)
        _logger().info("sweep: %d of %d sessions purged, %d failed", len(swept.sessions), swept.total, failed)


def _log_error(error: Exception) -> None:
    _logger().warning("sweep: %s", error)


def _logger() -> Any:
    import logging  # 10 ms at import, and most programs never sweep

    return logging.getLogger("clew.retention")
