"""Group commit: callers that wait at the same time share one transaction, and so one wait for the disk.

The first caller to find nobody at work leads: it takes whatever waits, runs it in one transaction, commits once, and
hands the lead to the next caller in the queue. A lone caller never waits for company.

Those whose jobs are done are woken one by the other. Woken all at once, they would wake only to wait again, for the
interpreter: one by one, eight threads store more in a second. One who is not woken, because the one before it is busy
with something else, sees for itself after a while.
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
"""Pieces of work in one transaction at most. More would only make the first wait for the last."""

LEADER_CHECK = 1.0
"""Seconds after which one who waits sees whether there still is a leader, and whether its own jobs are done."""

GATHER = 200e-6
"""Seconds a leader waits at most for those it shared the last commit with; about as long as a disk takes to sync."""


class _Caller:
    """Jobs that came together, and the caller who waits for them."""

    __slots__ = ("finished", "frame", "gate", "interrupted", "jobs", "leads", "thread", "wakes", "woken")

    def __init__(self, jobs: Sequence[Job], frame: FrameType | None) -> None:
        self.jobs = jobs
        self.frame = frame
        """What it leads in, once it does: see `Committer._frame`."""
        self.thread = threading.get_ident()
        self.leads = False
        self.woken = False
        """True once it was woken, or was about to be."""
        self.interrupted = False
        """True if it was interrupted, and waits no more."""
        self.finished = False
        """True once there is nothing left to wait for, told or not."""
        self.wakes: _Caller | None = None
        """Whom it wakes."""
        self.gate = threading.Lock()
        self.gate.acquire()


class Committer:
    """Runs jobs through `transact`, which is given all that wait, one call at a time."""

    def __init__(self, transact: Callable[[Sequence[Job]], None]) -> None:
        self._transact = transact
        self._mutex = threading.RLock()  # a signal handler may ask while its thread holds it
        self._queue: deque[_Caller] = deque()
        self._last_followers = 0
        """How many shared the last commit with its leader."""
        self._leader = 0
        """The thread that leads. One that leads and asks again was interrupted before it left, and leads on."""
        self._frame: FrameType | None = None
        """What it leads in; None if it keeps the lead whatever it does meanwhile."""
        self._taken: list[_Caller] = []
        """Whose jobs it does."""

    @property
    def at_work(self) -> bool:
        """True if somebody leads."""
        return bool(self._leader)

    def take_lead(self) -> bool:
        """True if nobody else is at work: the caller then leads until it calls `leave`."""
        me = threading.get_ident()
        with self._mutex:
            if self._leader and self._leader != me:
                return False
            self._wake_taken()
            self._leader, self._frame = me, sys._getframe(1)
            return True

    def run(self, jobs: Sequence[Job]) -> None:
        """Returns when every job has its outcome."""
        caller = _Caller(jobs, sys._getframe())
        if self._wait(caller):
            self._lead(jobs, gather=caller.woken)

    def enter(self) -> None:
        """Waits for the lead and keeps it: until `leave`, nobody else writes."""
        self._wait(_Caller((), None))

    def leave(self) -> None:
        """Hands the lead to the next in the queue."""
        with self._mutex:
            self._taken = []
            while self._queue and self._queue[0].woken:  # it was taken by one who was interrupted in the middle of that
                self._queue.popleft()
            if not self._queue:
                self._leader, self._frame = 0, None
                return
            after = self._queue[0]
            self._leader, self._frame = after.thread, after.frame
            after.leads = after.woken = True
            self._queue.popleft()  # last: one who is not told yet is in the queue
        after.gate.release()

    def _wait(self, caller: _Caller) -> bool:
        """Waits in the queue. True if the lead came to the caller; False if another leader has done its jobs."""
        try:
            with self._mutex:
                caller.leads = self._leader in (0, caller.thread)
                if caller.leads:
                    self._wake_taken()
                    self._leader, self._frame = caller.thread, caller.frame
                    return True
                self._queue.append(caller)
            # Not told: the one who is to do so was interrupted, or is in a signal handler that waits for this one.
            while not caller.gate.acquire(timeout=LEADER_CHECK) and not (caller.woken or caller.finished):
                self._replace_lost_leader()
            if caller.wakes is not None:
                self._wake(caller.wakes)
        except BaseException:  # interrupted: neither the lead nor a word for others must come to one who has gone
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
        """Tells a caller, or if it has gone the one after it, that its jobs are done."""
        with self._mutex:
            while caller is not None and caller.interrupted:
                caller = caller.wakes
            if caller is not None and not caller.woken:
                caller.woken = True
                caller.gate.release()

    def _replace_lost_leader(self) -> None:
        """Hands the lead on if whoever had it was interrupted where no code of ours could do so, and has gone."""
        with self._mutex:
            above = sys._current_frames().get(self._leader)
            while above is not None and above is not self._frame:
                above = above.f_back
            if above is None and self._frame is not None:
                self._wake_taken()
                self.leave()

    def _wake_taken(self) -> None:
        """Wakes those whom a leader has taken and, interrupted, has not told. Each job has its outcome, or none."""
        for caller in self._taken:
            self._wake(caller)

    def _gather(self) -> None:
        """Gives those who shared the last commit a moment to come back: they have just been told of it.

        Without it a leader sets off with those who are fastest, and the others have a commit of their own.
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
                    # One who waits to keep the lead has no jobs; the batch ends before it.
                    while self._queue and self._queue[0].jobs and len(jobs) + len(self._queue[0].jobs) <= LARGEST:
                        followers.append(self._queue[0])  # before it leaves the queue: it must be in one of them
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
