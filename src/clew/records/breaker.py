"""A circuit breaker: after repeated failures nothing is tried for a while, then one call is.

Written here because the libraries for it (pybreaker 1.4, purgatory 3.0, circuitbreaker 2.1) each read the clock
themselves, so that a cool-down could not be tested without waiting for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clew.errors import StorageFull, Unavailable
from clew.events import Circuit


class CircuitOpen(Unavailable):
    """Nothing was tried: the calls before this one failed, and it is not yet time to try again."""

    hint = "Wait, then make the same call again."


class Breaker:
    """Closed, calls go through. After so many `failures` in a row it opens, and refuses calls for `cool_down` seconds.

    Then it is half-open: one call may try, which closes it or opens it again.
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
        """As it is now."""
        return self._state

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Around a call. CircuitOpen. Unavailable is a failure; any other error shows that the store works.

        So does StorageFull: what is to be done then is not to wait, but to make space.
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
                raise CircuitOpen(
                    f"writing failed {self._failures} times in a row, the next try is in {max(wait, 0):.0f} s"
                )
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
        """Changes the state; None if it is the same."""
        was, self._state = self._state, state
        return None if was == state else state

    def _tell(self, changed: Circuit | None) -> None:
        if changed is not None:
            self._changed(changed)
