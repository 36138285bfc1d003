"""A thread that updates a mirror, so that an append does not wait for the files."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress

from clew.errors import ClewError, Unavailable

Task = tuple[Callable[[str], None], str]
"""A function, and the name of what it updates."""

LINGER = 0.02
"""Seconds that the idle thread waits for more work. A program that ends waits for it as well."""


class Updates:
    """Updates that are due. A thread runs each of them once, however often it was added, and ends when all are done.

    Not a daemon thread: the program's exit waits until the files are written.
    """

    def __init__(self) -> None:
        self.error: ClewError | None = None
        """Why the last run failed; None if everything is up to date."""
        self.running = threading.RLock()
        """Held while an update runs."""
        self._due: dict[Task, None] = {}
        self._changed = threading.Condition(threading.RLock())
        self._asked = self._tried = 0
        """The number of requests to run, and the number of the last one that was served."""
        self._thread: threading.Thread | None = None
        self._process = 0
        """The process of the thread: a forked child has no such thread."""

    def add(self, task: Task) -> None:
        """Adds an update, and wakes the thread. Outside of transactions: the thread reads what is committed."""
        with self._changed:
            self._due[task] = None
            self._asked += 1
            self._changed.notify_all()
            if self._thread is not None:
                return
            self._thread, self._process = threading.Thread(target=self._serve, name="clew-mirror"), os.getpid()
            with suppress(RuntimeError):  # no thread can be started: too many, or the program ends
                self._thread.start()
                return
        self._serve()

    def run(self) -> None:
        """Runs everything that is due, on this thread. Raises the first error; the rest stays due."""
        with self.running:
            while True:
                with self._changed:
                    task = next(iter(self._due), None)
                    if task is None:
                        self.error = None
                        return
                    del self._due[task]  # first, because it may be added again meanwhile
                step, name = task
                try:
                    step(name)
                except BaseException as error:
                    with self._changed:
                        self._due[task] = None
                        why = f"the mirror could not be updated: {type(error).__name__}"
                        self.error = error if isinstance(error, ClewError) else Unavailable(why)
                    raise

    def clear(self) -> None:
        """Forgets what is due: everything is up to date."""
        with self._changed:
            self._due.clear()
            self.error = None

    def wait(self) -> None:
        """Waits until the thread has tried everything that was added before."""
        if self._process == os.getpid():
            with self._changed:
                asked = self._asked
                self._changed.wait_for(lambda: self._tried >= asked)

    def _serve(self) -> None:
        while True:
            asked = self._asked
            try:
                with suppress(ClewError):  # `error` has it
                    self.run()
            except BaseException:
                self._end()
                raise
            with self._changed:
                self._tried = asked
                self._changed.notify_all()
                if not self._changed.wait_for(lambda asked=asked: asked != self._asked, LINGER):  # type: ignore[misc]
                    self._end()
                    return

    def _end(self) -> None:
        with self._changed:
            self._tried, self._thread = self._asked, None
            self._changed.notify_all()
