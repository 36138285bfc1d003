"""A circuit breaker: after repeated failures it refuses calls for a while, then lets one call try.

clew has its own because the libraries for it (pybreaker 1.4, purgatory 3.0, circuitbreaker 2.1) read the clock
themselves, so a test of the cool-down would have to wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clew.errors import StorageFull, Unavailable
from clew.records.events import Circuit


class CircuitOpen(Unavailable):
    """The call was refused without a try, because earlier calls failed and the cool-down is not over."""

    hint = "Wait, then make the same call again."


class Breaker:
    """Closed: calls go through. Open: after `failures` failures in a row it refuses calls for `cool_down` seconds.

    Half-open: after the cool-down one call may try; its result closes or opens the circuit.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        cool_down: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        changed: Callable[[Circuit], object] = lambda state: None,
    ) -> None:
        self._failures = failures
        self._cool_down = cool_down
        self._clock = clock
        self._changed = changed
        self._lock = threading.Lock()
        self._state: Circuit = "closed"
        self._failed = 0
        self._opened_at = 0.0
        self._trying = False

    @property
    def state(self) -> Circuit:
        """The current state."""
        return self._state

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Wraps a call. Raises CircuitOpen. Only Unavailable counts as a failure; other errors do not.

        StorageFull is not a failure either: waiting does not help, freeing space does.
        """
        self._enter()
        try:
            yield
        except Unavailable as error:
            if isinstance(error, StorageFull):
                self._works()
            else:
                self._fail()
            raise
        except BaseException:
            self._works()
            raise
        self._works()

    def _works(self) -> None:
        with self._lock:
            self._failed, self._trying = 0, False
            changed = self._to("closed")
        self._tell(changed)

    def _enter(self) -> None:
        with self._lock:
            if self._state == "closed":
                return
            wait = self._opened_at + self._cool_down - self._clock()
            if wait > 0 or self._trying:
                raise CircuitOpen(f"writing failed {self._failures} times in a row, next try in {max(wait, 0):.0f} s")
            self._trying = True
            changed = self._to("half-open")
        self._tell(changed)

    def _fail(self) -> None:
        with self._lock:
            self._failed += 1
            changed = None
            if self._state == "half-open" or self._failed >= self._failures:
                self._opened_at, self._trying = self._clock(), False
                changed = self._to("open")
        self._tell(changed)

    def _to(self, state: Circuit) -> Circuit | None:
        """Changes the state; returns None if it is unchanged."""
        was, self._state = self._state, state
        return None if was == state else state

    def _tell(self, changed: Circuit | None) -> None:
        if changed is not None:
            self._changed(changed)
