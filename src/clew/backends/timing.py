"""How long an open store waits: slow waits and commits are logged, and observers are called for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from clew.base.loading import loading

SLOW = 1.0
"""Seconds after which a wait or a commit is logged."""

Timed = Literal["lock", "connection", "commit", "unit", "retry"]
"""A wait for the write lock or for a connection, a commit, a unit of work with its waits, a repeated write or read."""
Observer = Callable[[Timed, float], object]
"""Called with what took time, and its seconds. It must return quickly and must not raise."""
_LINES = {
    "lock": "%s: a write waited %.1f s for the lock",
    "connection": "%s: a call waited %.1f s for a connection",
    "commit": "%s: a commit took %.1f s",
}


class Resources(NamedTuple):
    """What an open store uses now; None if it cannot be told."""

    size: int | None
    """Bytes on the disk of this machine or of the server."""
    connections: int | None
    """Connections to the server that threads use."""
    pool_size: int | None
    """Maximum number of connections."""


class Timing:
    """The times of one open store. A caller measures, and calls `note` if the time is above `threshold`."""

    __slots__ = ("_observers", "_path", "threshold")

    def __init__(self, path: str) -> None:
        self._path = path
        self._observers: tuple[Observer, ...] = ()
        self.threshold = SLOW
        """Below 0 while there is an observer."""

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Calls `observer` for every wait and commit, until the returned function is called."""
        self._observers += (observer,)
        self.threshold = -1.0

        def stop() -> None:
            self._observers = tuple(one for one in self._observers if one is not observer)
            if not self._observers:
                self.threshold = SLOW

        return stop

    def note(self, what: Timed, seconds: float = 0.0) -> None:
        """Logs it if it was slow, and calls the observers."""
        if seconds > SLOW and what in _LINES:
            with loading:
                from logging import getLogger  # 5 ms at import, and most stores are never slow

            logger = getLogger("clew.store")
            if logger.hasHandlers():  # otherwise Python would write it to the stderr of a program that logs nothing
                logger.warning(_LINES[what], self._path, seconds)
        for observer in self._observers:
            observer(what, seconds)
