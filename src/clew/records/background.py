"""Runs jobs on a thread after the call that added them has returned. The thread ends when it is idle."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

Job = Callable[[], object]

IDLE = 5.0
"""Seconds that the thread waits for another job before it ends."""


class Background:
    """Runs jobs in order, and calls `tick` repeatedly while it returns False."""

    def __init__(self, tick: Callable[[], bool], every: float) -> None:
        self._tick = tick
        self._every = every
        self._jobs: deque[Job] = deque()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ticking = False
        self._busy = False
        self._stopping = False
        self.failures: list[Exception] = []
        """Errors that jobs raised."""

    def add(self, job: Job) -> None:
        """Runs `job` soon."""
        with self._change:
            self._jobs.append(job)
            self._wake()

    def keep_ticking(self) -> None:
        """Calls `tick` until it returns True."""
        with self._change:
            self._ticking = True
            self._wake()

    def stop(self, seconds: float) -> int:
        """Waits up to this many seconds for the jobs; returns how many are unfinished. Idempotent."""
        deadline = time.monotonic() + seconds
        with self._change:
            self._stopping = True
            self._change.notify_all()
            self._change.wait_for(lambda: not self._jobs and not self._busy, max(0.0, deadline - time.monotonic()))
            left = len(self._jobs) + self._busy
            self._jobs.clear()
        return left

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._serve, name="clew-records", daemon=True)
            self._thread.start()
        self._change.notify_all()

    def _serve(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._jobs or self._stopping, self._every if self._ticking else IDLE)
                job = self._jobs.popleft() if self._jobs else None
                if job is None and (self._stopping or not self._ticking):
                    self._thread = None
                    return
                self._busy = job is not None
            self._run(job)

    def _tick_once(self) -> None:
        with self._change:
            self._ticking = False  # set before the call, so that a request made during it is not lost
        done = False
        try:
            done = self._tick()
        finally:
            if not done:
                self.keep_ticking()

    def _run(self, job: Job | None) -> None:
        try:
            (job or self._tick_once)()
        except Exception as error:  # noqa: BLE001 - dispose reports it
            self.failures.append(error)
        finally:
            with self._change:
                self._busy = False
                self._change.notify_all()
