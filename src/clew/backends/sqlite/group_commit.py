"""Group commit: callers that wait at the same time share one transaction, and so one sync of the disk.

A caller that finds no leader becomes the leader: it runs all waiting jobs in one transaction, commits once, and passes
the lead to the next caller in the queue. A caller that is alone never waits for others.

Callers with finished jobs wake each other one by one. If the leader woke all of them, they would compete for the
interpreter lock; eight threads store more messages per second this way. If a caller is not woken, because the previous
one is busy with something else, it checks again after `LEADER_CHECK`.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from clew.backends import Call, EpochChanged, Job
from clew.backends.sqlite.connection import ANY, translate
from clew.backends.sqlite.tx import SQLiteTx
from clew.backends.sqlite.writer import Writer
from clew.backends.timing import Timing
from clew.errors import ClewError, Unavailable


class RetryIsolated(BaseException):
    """Control flow: a call has failed, and the batch must be repeated with a savepoint for each write."""


class Batches:
    """Runs several pieces of work in one transaction. The caller is the leader: no other thread writes meanwhile.

    Failed work must store nothing. But a savepoint costs as much as some work, so the first attempt uses none. If any
    work fails, the transaction is rolled back and repeated with a savepoint for each piece (`apart`).

    `local` belongs to the thread: `tx` is its transaction, `jobs` the writes of the current call, `apart` whether
    each write gets a savepoint.
    """

    def __init__(self, writer: Writer, local: Any, refresh_epoch: Callable[[], object]) -> None:
        self._writer = writer
        self._local = local
        self._refresh_epoch = refresh_epoch

    def transact(self, jobs: Sequence[Job], *, apart: bool = False) -> None:
        """Runs all `jobs` in one transaction. Each gets its own outcome; an error of a job affects only that job."""
        failed = False
        try:
            tx = self._writer.begin()
            try:
                for job in jobs:
                    if apart:
                        self._writer.savepoint(tx, job)
                        job.done = False  # its caller would otherwise take it for stored before the commit
                    else:
                        job.result = job.work(tx)
            except BaseException as error:
                failed = True
                self._writer.give_up(tx, error)
                raise
            self._writer.commit(tx)
            for job in jobs:
                job.done = job.error is None
        except EpochChanged:
            for job in jobs:
                job.reset()
            if self._refresh_for(jobs):
                self.transact(jobs, apart=apart)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            if self._writer.suspect and isinstance(error, sqlite3.Error):
                self._writer.settle(jobs, error)
                return
            if failed and not apart and len(jobs) > 1:
                for job in jobs:
                    job.reset()
                self.transact(jobs, apart=True)
                return
            translated = translate(error, self._writer.path) if isinstance(error, ANY) else error
            for job in jobs:
                job.error = job.error or translated
        except BaseException:
            # Interrupted, perhaps after the commit: find out the outcome for the other callers.
            if len(jobs) > 1:
                self._writer.settle(jobs, Unavailable("the write was interrupted", hint="Make the same call again."))
            raise

    def run(self, calls: Sequence[Call], *, apart: bool = False) -> None:
        """Runs all `calls` in one transaction. Each gets its own outcome."""
        try:
            tx = self._writer.begin()
            try:
                self._local.tx, self._local.apart = tx, apart
                for call in calls:
                    self._local.jobs = call.jobs
                    call.run()
                    if not tx.conn.in_transaction:  # SQLite has rolled back everything: disk full, I/O error
                        raise call.error or Unavailable("the transaction was rolled back")
            except BaseException:
                self._writer.undo(tx)
                raise
            finally:
                self._local.tx = None
            self._writer.commit(tx)
        except RetryIsolated:
            self.run(calls, apart=True)
        except EpochChanged:
            if self._refresh_for(calls):
                self.run(calls)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            translated = translate(error, self._writer.path) if isinstance(error, ANY) else error
            if self._writer.suspect and isinstance(error, sqlite3.Error):
                self._writer.settle([job for call in calls for job in call.jobs], error)
                for call in calls:  # a call without jobs may not even have run
                    failed = [job.error for job in call.jobs if job.error is not None] if call.jobs else [translated]
                    call.error = call.error or next(iter(failed), None)
                return
            for call in calls:
                call.error = call.error or translated

    def run_inside(self, tx: SQLiteTx, job: Job) -> None:
        """Runs a write of a call. RetryIsolated if it fails and the batch must be repeated."""
        if self._local.apart:
            self._writer.savepoint(tx, job)
            return
        try:
            job.finish(job.work(tx))
        except Exception:  # noqa: BLE001 - the repeated call raises the error
            raise RetryIsolated from None

    def _refresh_for(self, waiting: Sequence[Job | Call]) -> bool:
        """Reads the epoch again for several callers. If that fails, gives each of them the error and returns False."""
        try:
            self._refresh_epoch()
        except ClewError as error:
            for one in waiting:
                one.error = error
            return False
        return True


LARGEST = 256
"""Maximum number of jobs in one transaction. With more, the first would only wait longer for the last."""

LEADER_CHECK = 1.0
"""Seconds after which a waiting caller checks that there is a leader, and whether its own jobs are done."""

GATHER = 200e-6
"""Maximum seconds that a leader waits for the callers of the last commit; about the time of a disk sync."""


class _Caller:
    """A caller that waits, and its jobs."""

    __slots__ = ("finished", "frame", "gate", "interrupted", "jobs", "leads", "thread", "wakes", "woken")

    def __init__(self, jobs: Sequence[Job], frame: FrameType | None) -> None:
        self.jobs = jobs
        self.frame = frame
        """The frame in which it leads, if it does: see `Committer._frame`."""
        self.thread = threading.get_ident()
        self.leads = False
        self.woken = False
        """True when it was woken, or is about to be."""
        self.interrupted = False
        """True if it was interrupted and no longer waits."""
        self.finished = False
        """True when its jobs are done, even if it was not woken."""
        self.wakes: _Caller | None = None
        """The caller that it wakes."""
        self.gate = threading.Lock()
        self.gate.acquire()


class Committer:
    """Collects waiting jobs and passes them to `transact`, one call at a time."""

    def __init__(self, transact: Callable[[Sequence[Job]], None], timing: Timing) -> None:
        self._transact = transact
        self._timing = timing
        self._mutex = threading.RLock()  # a signal handler may need it while its thread holds it
        self._queue: deque[_Caller] = deque()
        self._last_followers = 0
        """How many callers shared the last commit with its leader."""
        self._leader = 0
        """The leading thread. If it asks for the lead again, it was interrupted before `leave`, and still leads."""
        self._frame: FrameType | None = None
        """The frame in which the leader runs. None: it keeps the lead until `leave`."""
        self._taken: list[_Caller] = []
        """The callers whose jobs the leader runs."""

    @property
    def at_work(self) -> bool:
        """True if there is a leader."""
        return bool(self._leader)

    def take_lead(self) -> bool:
        """True if no other thread leads: the caller then leads until it calls `leave`."""
        me = threading.get_ident()
        with self._mutex:
            if self._leader and self._leader != me:
                return False
            if self._taken:
                self._wake_taken()
            self._leader, self._frame = me, sys._getframe(1)
            return True

    def run(self, jobs: Sequence[Job]) -> None:
        """Returns when every job has its outcome."""
        caller = _Caller(jobs, sys._getframe())
        if self._wait(caller):
            self._lead(jobs, gather=caller.woken)

    def enter(self) -> None:
        """Waits for the lead and keeps it: until `leave`, no other thread writes."""
        self._wait(_Caller((), None))

    def leave(self) -> None:
        """Passes the lead to the next caller in the queue."""
        with self._mutex:
            self._taken = []
            while self._queue and self._queue[0].woken:  # its leader was interrupted while taking it
                self._queue.popleft()
            if not self._queue:
                self._leader, self._frame = 0, None
                return
            after = self._queue[0]
            self._leader, self._frame = after.thread, after.frame
            after.leads = after.woken = True
            self._queue.popleft()  # last, because callers that are not woken yet must stay in the queue
        after.gate.release()

    def _wait(self, caller: _Caller) -> bool:
        """Waits in the queue. True if the caller now leads; False if another leader has finished its jobs."""
        try:
            with self._mutex:
                caller.leads = self._leader in (0, caller.thread)
                if caller.leads:
                    self._wake_taken()
                    self._leader, self._frame = caller.thread, caller.frame
                    return True
                self._queue.append(caller)
            began = time.monotonic()
            # Not woken: the thread that should do it was interrupted, or is in a signal handler that waits for us.
            while not caller.gate.acquire(timeout=LEADER_CHECK) and not (caller.woken or caller.finished):
                self._replace_lost_leader()
            if caller.wakes is not None:
                self._wake(caller.wakes)
            self._note_wait(caller, time.monotonic() - began)
        except BaseException:  # interrupted: pass on the lead, and wake the next caller
            with self._mutex:
                if caller in self._queue:
                    self._queue.remove(caller)
                caller.interrupted = True
            if caller.leads:
                self.leave()
            elif caller.woken:
                self._wake(caller.wakes)
            raise
        return caller.leads

    def _note_wait(self, caller: _Caller, seconds: float) -> None:
        """Notes a wait for the lead. The others waited for a commit that had their jobs."""
        if caller.leads and seconds > self._timing.threshold:
            self._timing.note("lock", seconds)

    def _wake(self, caller: _Caller | None) -> None:
        """Wakes a caller; if it was interrupted, the next one."""
        with self._mutex:
            while caller is not None and caller.interrupted:
                caller = caller.wakes
            if caller is not None and not caller.woken:
                caller.woken = True
                caller.gate.release()

    def _replace_lost_leader(self) -> None:
        """Passes the lead on if the leader is gone: it was interrupted at a point where it could not call `leave`."""
        with self._mutex:
            above = sys._current_frames().get(self._leader)
            while above is not None and above is not self._frame:
                above = above.f_back
            if above is None and self._frame is not None:
                self._wake_taken()
                self.leave()

    def _wake_taken(self) -> None:
        """Wakes the callers that an interrupted leader has taken and not woken. Their jobs may have no outcome."""
        for caller in self._taken:
            self._wake(caller)

    def _gather(self) -> None:
        """Waits a moment for the callers of the last commit, which have just been woken.

        Otherwise the leader would start with only the fastest ones, and the others would need another commit.
        """
        until = time.perf_counter() + GATHER
        while len(self._queue) < self._last_followers and time.perf_counter() < until:
            time.sleep(0)

    def _lead(self, jobs: Sequence[Job], *, gather: bool) -> None:
        followers: list[_Caller] = []
        try:
            if gather:
                self._gather()
            if self._queue:
                jobs = list(jobs)
                with self._mutex:
                    self._taken = followers
                    # A caller of `enter` has no jobs; the batch ends before it.
                    while self._queue and self._queue[0].jobs and len(jobs) + len(self._queue[0].jobs) <= LARGEST:
                        followers.append(self._queue[0])  # before it leaves the queue: it must always be in one
                        self._queue.popleft()
                        jobs.extend(followers[-1].jobs)
            self._transact(jobs)
        finally:
            self._last_followers = len(followers)
            first = None
            for caller in reversed(followers):
                caller.wakes, caller.finished, first = first, True, caller
            self._wake(first)
            self.leave()
