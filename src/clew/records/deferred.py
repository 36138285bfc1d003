"""Writes that wait in memory, in order, until the store has space."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar, cast

from clew.errors import Invalid, NotFound, StorageFull, Unavailable, clip

T = TypeVar("T")

MOST = 1000
"""Maximum number of waiting calls."""
MOST_BYTES = 16 * 1024 * 1024
"""Maximum size of the waiting calls in bytes, as JSON."""


def seconds(name: str, value: float) -> float:
    """`value`, if it is a valid number of seconds. Raises Invalid."""
    if not isinstance(value, int | float) or not 0 <= value <= threading.TIMEOUT_MAX:
        raise Invalid(f"{name} must be a number of at least 0, not {clip(str(value))}")
    return value


class Pending(Generic[T]):
    """A call that is **not** stored yet because there is no space. It waits in memory and is lost if the process ends.

    The service retries it after a purge, before each later write, and at intervals.
    """

    def __init__(self, operation: str, conversation_id: str, size: int, call: Callable[[], T]) -> None:
        self.operation = operation
        """The name of the call: create, update, …"""
        self.conversation_id = conversation_id
        self.size = size
        """Bytes that it uses in memory."""
        self._call = call
        self._done = threading.Event()
        self._result: T | None = None
        self._error: Exception | None = None

    @property
    def done(self) -> bool:
        """True once it is stored or has failed permanently."""
        return self._done.is_set()

    @property
    def stored(self) -> bool:
        """True once it is durable."""
        return self.done and self._error is None

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result of the call, or raises its error. Raises Unavailable after `timeout` seconds."""
        if not self._done.wait(None if timeout is None else seconds("timeout", timeout)):
            raise Unavailable("there is still no space for the call", hint="Free some space; clew retries the call.")
        if self._error is not None:
            raise self._error
        return cast("T", self._result)

    def _give_up(self, error: Exception) -> None:
        self._error = error
        self._done.set()

    def _try(self) -> bool:
        """Makes the call; False if there is still no space."""
        try:
            self._result = self._call()
        except Unavailable:
            return False
        except Exception as error:  # noqa: BLE001 - the caller gets it from result()
            self._error = error
        self._done.set()
        return True


class Deferred:
    """The waiting calls."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[Pending[object]] = deque()
        self._lock = threading.Lock()
        self._turn = threading.RLock()
        """Held by the thread that makes the calls, so that they stay in order."""
        self._making = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def bytes(self) -> int:
        """Total size of the waiting calls."""
        with self._lock:
            return sum(one.size for one in self._waiting)

    @property
    def conversations(self) -> list[str]:
        """The conversation ids of the waiting calls."""
        with self._lock:
            return [one.conversation_id for one in self._waiting]

    def add(self, pending: Pending[T]) -> Pending[T]:
        """Appends a call. Raises StorageFull and drops it if too many calls wait."""
        with self._lock:
            size = sum(one.size for one in self._waiting) + pending.size
            if len(self._waiting) >= self._most or size > self._most_bytes:
                raise StorageFull(
                    f"no space is left, and {len(self._waiting)} calls already wait for it",
                    hint="Free some space or purge conversations, then make the same call again.",
                )
            self._waiting.append(cast("Pending[object]", pending))
        return pending

    def flush(self, until: float | None = None) -> bool:
        """Makes the waiting calls in order until `until` (`time.monotonic`); True if none is left.

        Returns False at once if called from within such a call: a subscriber that writes waits behind the others.
        """
        with self._turn:
            if self._making:
                return False
            self._making = True
            try:
                return self._make(until)
            finally:
                self._making = False

    def _make(self, until: float | None) -> bool:
        while True:
            with self._lock:
                if not self._waiting:
                    return True
                first = self._waiting[0]
            if (until is not None and time.monotonic() > until) or not (first.done or first._try()):
                return False
            with self._lock:
                if self._waiting and self._waiting[0] is first:
                    self._waiting.popleft()

    def pause(self) -> AbstractContextManager[object]:
        """While this is held, no waiting call runs, so a purged conversation cannot come back."""
        return self._turn

    def drop(self, gone: Callable[[str], bool]) -> int:
        """Drops the calls of purged conversations, so that these do not come back; returns how many."""
        with self._lock:
            left = [one for one in self._waiting if gone(one.conversation_id)]
            self._waiting = deque(one for one in self._waiting if one not in left)
        for one in left:
            one._give_up(NotFound("record", one.conversation_id, hint="It was purged while the call waited for space."))
        return len(left)

    def abandon(self) -> list[Pending[object]]:
        """Removes all waiting calls and returns them."""
        with self._lock:
            left, self._waiting = list(self._waiting), deque()
        for one in left:
            one._give_up(StorageFull(f"{one.operation} of a record was given up: no space was freed in time"))
        return left
