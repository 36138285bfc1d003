"""Group commit: callers that wait at the same time share one transaction, and so one wait for the disk.

The first caller to find nobody at work leads: it takes whatever waits, runs each piece of work in a savepoint of its
own, commits once, and hands the lead to the next caller in the queue. A lone caller never waits for company.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from clew.backends import Job

LARGEST = 256
"""Pieces of work in one transaction at most. More would only make the first wait for the last."""


class _Party:
    """Jobs that came together, and the caller who waits for them."""

    __slots__ = ("gate", "jobs", "leads")

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.leads = False
        self.gate = threading.Lock()
        self.gate.acquire()


class Committer:
    """Runs jobs through `transact`, which is given all that wait, one call at a time."""

    def __init__(self, transact: Callable[[Sequence[Job]], None]) -> None:
        self._transact = transact
        self._mutex = threading.Lock()
        self._queue: deque[_Party] = deque()
        self._busy = False

    def take_lead(self) -> bool:
        """True if nobody is at work: the caller then leads until it calls `leave`."""
        with self._mutex:
            if self._busy:
                return False
            self._busy = True
            return True

    def run(self, jobs: Sequence[Job]) -> None:
        """Returns when every job has its outcome."""
        with self._mutex:
            party = None
            if self._busy:
                party = _Party(jobs)
                self._queue.append(party)
            self._busy = True
        if party is not None:
            party.gate.acquire()  # until another leader has done our jobs, or made us the leader
            if not party.leads:
                return
        self._lead(jobs)

    def enter(self) -> None:
        """Waits for the lead and keeps it: until `leave`, nobody else writes."""
        with self._mutex:
            if not self._busy:
                self._busy = True
                return
            party = _Party(())
            self._queue.append(party)
        party.gate.acquire()

    def leave(self) -> None:
        """Hands the lead to the next in the queue."""
        with self._mutex:
            after = self._queue.popleft() if self._queue else None
            if after is None:
                self._busy = False
                return
            after.leads = True
        after.gate.release()

    def _lead(self, jobs: Sequence[Job]) -> None:
        followers: list[_Party] = []
        if self._queue:
            jobs = list(jobs)
            with self._mutex:
                # One who waits to keep the lead has no jobs; the batch ends before it.
                while self._queue and self._queue[0].jobs and len(jobs) + len(self._queue[0].jobs) <= LARGEST:
                    followers.append(self._queue.popleft())
                    jobs.extend(followers[-1].jobs)
        try:
            self._transact(jobs)
        finally:
            self.leave()
            for party in followers:
                party.gate.release()
