"""Pieces of work that share a transaction, and their outcomes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from clew.errors import Unavailable


class EpochChanged(Unavailable):
    """The epoch has changed since the store was opened: work that was prepared for the old one must be repeated."""

    hint = "Make the same calls again."

    def __init__(self) -> None:
        super().__init__("another process has changed the keys, format or holds of the store")


class Job:
    """A `write` that shares a transaction with others, and its outcome: a result or an error."""

    __slots__ = ("done", "error", "result", "settle", "work")

    def __init__(self, work: Callable[[Any], Any], settle: Callable[[Any], Any] | None = None) -> None:
        self.work = work
        self.settle = settle
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def finish(self, result: Any) -> None:
        """Stores the result of the finished work."""
        self.result, self.error, self.done = result, None, True

    def reset(self) -> None:
        """Removes the outcome, after its transaction was rolled back."""
        self.result, self.error, self.done = None, None, False

    def outcome(self) -> Any:
        """Returns the result or raises the error. Unavailable if the thread that should run it was interrupted."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise Unavailable("the write was interrupted", hint="Make the same call again.")
        return self.result


class _Local(threading.local):
    """Per thread. The class has the default: `getattr` with one raises and catches an error inside, at each call."""

    call: Call | None = None


_local = _Local()


def current_call() -> Call | None:
    """The call of a batch that this thread is running, if any."""
    return _local.call


class Call:
    """A function to run in a `batch`, its outcome, and its writes (`jobs`)."""

    __slots__ = ("error", "function", "jobs", "result", "steps")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.jobs: list[Job] = []
        self.result: Any = None
        self.error: BaseException | None = None
        self.steps: list[Callable[[], object]] = []
        """Functions to call after the commit."""

    def run(self) -> None:
        """Runs the function and stores its outcome. Discards the outcome of an earlier attempt."""
        self.result = self.error = None
        self.jobs.clear()
        self.steps.clear()
        _local.call = self
        try:
            self.result = self.function()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self.error = error
        finally:
            _local.call = None
