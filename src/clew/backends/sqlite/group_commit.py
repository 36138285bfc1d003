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

PATROL = 1.0
"""Seconds after which one who waits sees whether there still is a leader, and whether its own jobs are done."""

PATIENCE = 200e-6
"""Seconds a leader waits at most for those it shared the last commit with; about as long as a disk takes to sync."""


class _Party:
    """Jobs that came together, and the caller who waits for them."""

    __slots__ = ("after", "frame", "gate", "gone", "jobs", "leads", "over", "thread", "told")

    def __init__(self, jobs: Sequence[Job], frame: FrameType | None) -> None:
        self.jobs = jobs
        self.frame = frame
        """What it leads in, once it does: see `Committer._frame`."""
        self.thread = threading.get_ident()
        self.leads = False
        self.told = False
        """True once it was woken, or was about to be."""
        self.gone = False
        """True if it was interrupted, and waits no more."""
        self.over = False
        """True once there is nothing left to wait for, told or not."""
        self.after: _Party | None = None
        """Whom it wakes."""
        self.gate = threading.Lock()
        self.gate.acquire()


class Committer:
    """Runs jobs through `transact`, which is given all that wait, one call at a time."""

    def __init__(self, transact: Callable[[Sequence[Job]], None]) -> None:
        self._transact = transact
        self._mutex = threading.RLock()  # a signal handler may ask while its thread holds it
        self._queue: deque[_Party] = deque()
        self._company = 0
        """How many shared the last commit with its leader."""
        self._leader = 0
        """The thread that leads. One that leads and asks again was interrupted before it left, and leads on."""
        self._frame: FrameType | None = None
        """What it leads in; None if it keeps the lead whatever it does meanwhile."""
        self._taken: list[_Party] = []
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
            self._release()
            self._leader, self._frame = me, sys._getframe(1)
            return True

    def run(self, jobs: Sequence[Job]) -> None:
        """Returns when every job has its outcome."""
        party = _Party(jobs, sys._getframe())
        if self._wait(party):
            self._lead(jobs, gather=party.told)

    def enter(self) -> None:
        """Waits for the lead and keeps it: until `leave`, nobody else writes."""
        self._wait(_Party((), None))

    def leave(self) -> None:
        """Hands the lead to the next in the queue."""
        with self._mutex:
            self._taken = []
            while self._queue and self._queue[0].told:  # it was taken by one who was interrupted in the middle of that
                self._queue.popleft()
            if not self._queue:
                self._leader, self._frame = 0, None
                return
            after = self._queue[0]
            self._leader, self._frame = after.thread, after.frame
            after.leads = after.told = True
            self._queue.popleft()  # last: one who is not told yet is in the queue
        after.gate.release()

    def _wait(self, party: _Party) -> bool:
        """Waits in the queue. True if the lead came to the caller; False if another leader has done its jobs."""
        try:
            with self._mutex:
                party.leads = self._leader in (0, party.thread)
                if party.leads:
                    self._release()
                    self._leader, self._frame = party.thread, party.frame
                    return True
                self._queue.append(party)
            # Not told: the one who is to do so was interrupted, or is in a signal handler that waits for this one.
            while not party.gate.acquire(timeout=PATROL) and not (party.told or party.over):
                self._patrol()
            if party.after is not None:
                self._wake(party.after)
        except BaseException:  # interrupted: neither the lead nor a word for others must come to one who has gone
            with self._mutex:
                if party in self._queue:
                    self._queue.remove(party)
                party.gone = True
            if party.leads:
                self.leave()
            elif party.told:
                self._wake(party.after)
            raise
        return party.leads

    def _wake(self, party: _Party | None) -> None:
        """Tells a caller, or if it has gone the one after it, that its jobs are done."""
        with self._mutex:
            while party is not None and party.gone:
                party = party.after
            if party is not None and not party.told:
                party.told = True
                party.gate.release()

    def _patrol(self) -> None:
        """Hands the lead on if whoever had it was interrupted where no code of ours could do so, and has gone."""
        with self._mutex:
            above = sys._current_frames().get(self._leader)
            while above is not None and above is not self._frame:
                above = above.f_back
            if above is None and self._frame is not None:
                self._release()
                self.leave()

    def _release(self) -> None:
        """Wakes those whom a leader has taken and, interrupted, has not told. Each job has its outcome, or none."""
        for party in self._taken:
            self._wake(party)

    def _gather(self) -> None:
        """Gives those who shared the last commit a moment to come back: they have just been told of it.

        Without it a leader sets off with those who are fastest, and the others have a commit of their own.
        """
        until = time.perf_counter() + PATIENCE
        while len(self._queue) < self._company and time.perf_counter() < until:
            time.sleep(0)

    def _lead(self, jobs: Sequence[Job], *, gather: bool) -> None:
        followers: list[_Party] = []
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
            self._company = len(followers)
            first = None
            for party in reversed(followers):
                party.after, party.over, first = first, True, party
            self._wake(first)
            self.leave()
