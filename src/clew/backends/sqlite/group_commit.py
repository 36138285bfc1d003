"""Group commit: callers that wait at the same time share one transaction, and so one sync of the disk.

A caller that finds no leader becomes the leader: it runs all waiting jobs in one transaction, commits once, and passes
the lead to the next caller in the queue. A caller that is alone never waits for others.

Callers with finished jobs wake each other one by one. If the leader woke all of them, they would compete for the
interpreter lock; eight threads store more messages per second this way. If a caller is not woken, because the previous
one is busy with something else, it checks again after `LEADER_CHECK`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import FrameType

from clew.backends import Job

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

    def __init__(self, transact: Callable[[Sequence[Job]], None]) -> None:
        self._transact = transact
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
            # Not woken: the thread that should do it was interrupted, or is in a signal handler that waits for us.
            while not caller.gate.acquire(timeout=LEADER_CHECK) and not (caller.woken or caller.finished):
                self._replace_lost_leader()
            if caller.wakes is not None:
                self._wake(caller.wakes)
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
