"""Tracks the calls of a service: refuses them before `initialize` and after `dispose`, and emits an event for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from clew.errors import Closed
from clew.records.events import Events, OperationFinished


class Calls:
    """Counts the running calls."""

    def __init__(self, bus: Events) -> None:
        self._bus = bus
        self._change = threading.Condition()
        self._running = 0
        self._over = False
        self.ready = False

    def begin(self) -> bool:
        """Admits calls; False if it already did. Raises Closed after the end."""
        with self._change:
            if self._over:
                raise Closed("the record service was disposed of", hint="Create a new RecordService.")
            was, self.ready = self.ready, True
            return not was

    def end(self, seconds: float) -> int | None:
        """Refuses further calls and waits for the running ones; returns how many still run, None if not begun."""
        with self._change:
            was, self.ready, self._over = self.ready, False, True
            if not was:
                return None
            self._change.wait_for(lambda: not self._running, seconds)
            return self._running

    @contextmanager
    def call(self, operation: str, session_id: str | None) -> Iterator[None]:
        """Wraps a call. Raises Closed."""
        with self._change:
            if not self.ready:
                why, hint = (
                    ("was disposed of", "Create a new RecordService.")
                    if self._over
                    else ("is not initialized", "Call initialize() first.")
                )
                raise Closed(f"the record service {why}", hint=hint)
            self._running += 1
        started, began = time.time_ns(), time.monotonic_ns()
        failed: str | None = None
        try:
            yield
        except BaseException as error:
            failed = type(error).__name__
            raise
        finally:
            with self._change:
                self._running -= 1
                self._change.notify_all()
            took = time.monotonic_ns() - began
            self._bus.emit(
                OperationFinished(
                    operation=operation, session_id=session_id, started_at_ns=started, duration_ns=took, error=failed
                )
            )
