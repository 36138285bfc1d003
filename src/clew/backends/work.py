"""Pieces of work that share a transaction, and what becomes of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from clew.errors import Unavailable


class EpochChanged(Unavailable):
    """The store is kept in another way since it was opened: what was prepared for the old one must be done again."""

    hint = "Make the same calls again."

    def __init__(self) -> None:
        super().__init__("another process has changed how the store is kept")


class Job:
    """One `write` that shares a transaction with others and, once it is done, its outcome: a result or an error."""

    __slots__ = ("done", "error", "result", "settle", "work")

    def __init__(self, work: Callable[[Any], Any], settle: Callable[[Any], Any] | None = None) -> None:
        self.work = work
        self.settle = settle
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def finish(self, result: Any) -> None:
        """The work is done, and this is its result."""
        self.result, self.error, self.done = result, None, True

    def reset(self) -> None:
        """The transaction it was done in was undone: it has no outcome yet."""
        self.result, self.error, self.done = None, None, False

    def outcome(self) -> Any:
        """The result; or raises the error. Unavailable if whoever was to do the work was interrupted before it."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise Unavailable("the write was interrupted", hint="Make the same call again.")
        return self.result


_here = threading.local()


def current_call() -> Call | None:
    """The call of a batch that this thread is making."""
    return getattr(_here, "call", None)


class Call:
    """A function to be run in a `batch` and, once it was, its outcome. What it writes inside is in `jobs`."""

    __slots__ = ("error", "function", "jobs", "result", "steps")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.jobs: list[Job] = []
        self.result: Any = None
        self.error: BaseException | None = None
        self.steps: list[Callable[[], object]] = []
        """What is to be done once it is known that all this is kept."""

    def run(self) -> None:
        """Runs the function and keeps what comes of it, and nothing of an earlier try."""
        self.result = self.error = None
        self.jobs.clear()
        self.steps.clear()
        _here.call = self
        try:
            self.result = self.function()
        except Exception as error:  # noqa: BLE001 - it is the caller's, who gets it
            self.error = error
        finally:
            _here.call = None
