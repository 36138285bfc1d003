"""`Worker`, a thread that runs jobs behind the program: in order, at once or after a delay."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from time import monotonic

Job = Callable[[], object]

IDLE = 5.0
"""Seconds that the thread waits for another job before it ends."""


class Worker:
    """Runs jobs on a daemon thread. The thread begins with the first job, and ends when it is idle or closed.

    A forked child begins with no jobs: those of its parent stay with the parent. If no thread can be started, as at the
    end of a program, jobs run on the thread that adds them.
    """

    def __init__(self, name: str, *, at_exit: float | None = None) -> None:
        """`at_exit` is how many seconds the end of the program may wait for the jobs; without it, they are lost."""
        self._name = name
        self._begin()
        if at_exit is not None:
            atexit.register(_finish, weakref.ref(self), at_exit)

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._jobs: dict[Job, float] = {}
        """When each job is due, in the order in which they were added."""
        self._is_running = False
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self.failures: list[Exception] = []
        """Errors that jobs raised."""

    def __len__(self) -> int:
        """The number of jobs that wait."""
        return len(self._jobs) if self._process == os.getpid() else 0

    def add(self, job: Job, *, after: float = 0.0) -> None:
        """Runs a job once, `after` this many seconds. A job that waits already is not added again, but may run sooner.

        Ignored once the worker is closed.
        """
        if self._process != os.getpid():
            self._begin()
        due = monotonic() + after
        with self._changed:
            if self._is_closed:
                return
            self._jobs[job] = min(due, self._jobs.get(job, due))
            self._changed.notify_all()
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            try:
                self._thread.start()
                return
            except RuntimeError:  # too many threads, or the program ends
                self._thread = None
                del self._jobs[job]
        self._run(job)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all jobs that are due have run. False if that takes longer than `timeout` seconds."""
        if self._process != os.getpid():
            return True
        with self._changed:
            return self._changed.wait_for(lambda: not self._unfinished(), timeout)

    def close(self, timeout: float | None = None) -> int:
        """Ends the thread: waits at most `timeout` seconds for jobs that are due, and drops the others.

        Returns the number of unfinished jobs. Idempotent; a job may call it, and does not wait for itself.
        """
        if self._process != os.getpid():
            return 0
        thread, end = self._thread, None if timeout is None else monotonic() + timeout
        with self._changed:
            self._is_closed = True
            now = monotonic()
            self._jobs = {job: due for job, due in self._jobs.items() if due <= now}
            self._changed.notify_all()
            if thread is None or thread is threading.current_thread():
                return 0
            self._changed.wait_for(lambda: not self._unfinished(), timeout)
            left = self._unfinished()
            self._jobs.clear()
        if not left:
            thread.join(None if end is None else max(0.0, end - monotonic()))
        return left

    def _hurry(self) -> None:
        """Makes all jobs due."""
        if self._process == os.getpid():
            with self._changed:
                self._jobs = dict.fromkeys(self._jobs, 0.0)
                self._changed.notify_all()

    def _unfinished(self) -> int:
        """The number of jobs that are due or running."""
        now = monotonic()
        return self._is_running + sum(due <= now for due in self._jobs.values())

    def _serve(self) -> None:
        while (job := self._take()) is not None:
            try:
                self._run(job)
            finally:
                with self._changed:
                    self._is_running = False
                    self._changed.notify_all()

    def _take(self) -> Job | None:
        """Waits for a job that is due. None if the thread is to end."""
        with self._changed:
            while True:
                now = monotonic()
                job = next((job for job, due in self._jobs.items() if due <= now), None)
                if job is not None:
                    del self._jobs[job]  # first, because it may be added again while it runs
                    self._is_running = True
                    return job
                wait = min(min(self._jobs.values()) - now, threading.TIMEOUT_MAX) if self._jobs else IDLE
                if self._is_closed or not (self._changed.wait(wait) or self._jobs):
                    self._thread = None
                    return None

    def _run(self, job: Job) -> None:
        try:
            job()
        except Exception as error:  # noqa: BLE001 - the thread continues; callers read the errors from `failures`
            self.failures.append(error)


def _finish(worker: weakref.ref[Worker], seconds: float) -> None:
    """Runs the jobs of a worker at the end of the program, also those with a delay."""
    found = worker()
    if found is not None:
        found._hurry()
        found.flush(seconds)
