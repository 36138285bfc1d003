"""Writes for which there is no space: kept in memory, in order, until there is."""

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
"""Calls that wait at most."""
MOST_BYTES = 16 * 1024 * 1024
"""Bytes that wait at most, as JSON."""


def seconds(name: str, value: float) -> float:
    """`value`, if so long can be waited. Invalid."""
    if not isinstance(value, int | float) or not 0 <= value <= threading.TIMEOUT_MAX:
        raise Invalid(f"{name} is a number from 0 on, not {clip(str(value))}")
    return value


class Pending(Generic[T]):
    """A call that is **not** stored yet: there is no space. It waits in memory, and is lost if the process ends.

    It is made again when something was purged, before every later write, and from time to time.
    """

    def __init__(self, operation: str, conversation_id: str, size: int, call: Callable[[], T]) -> None:
        self.operation = operation
        """What was called: create, update, …"""
        self.conversation_id = conversation_id
        self.size = size
        """Bytes that it keeps in memory."""
        self._call = call
        self._done = threading.Event()
        self._result: T | None = None
        self._error: Exception | None = None

    @property
    def done(self) -> bool:
        """True once it is stored, or has failed for good."""
        return self._done.is_set()

    @property
    def stored(self) -> bool:
        """True once it is durable."""
        return self.done and self._error is None

    def result(self, timeout: float | None = None) -> T:
        """Waits for what the call would have returned, or raised. Unavailable if that takes longer than `timeout`."""
        if not self._done.wait(None if timeout is None else seconds("timeout", timeout)):
            raise Unavailable("there is still no space for it", hint="Free some space; it is tried again by itself.")
        if self._error is not None:
            raise self._error
        return cast("T", self._result)

    def _give_up(self, error: Exception) -> None:
        self._error = error
        self._done.set()

    def _try(self) -> bool:
        """Makes the call; False if there is still no way to."""
        try:
            self._result = self._call()
        except Unavailable:
            return False
        except Exception as error:  # noqa: BLE001 - it is the caller's, who gets it
            self._error = error
        self._done.set()
        return True


class Deferred:
    """The calls that wait."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[Pending[object]] = deque()
        self._lock = threading.Lock()
        self._turn = threading.RLock()
        """Whoever makes the calls: one thread at a time, so that they stay in order."""
        self._making = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def bytes(self) -> int:
        """Bytes that wait."""
        with self._lock:
            return sum(one.size for one in self._waiting)

    @property
    def conversations(self) -> list[str]:
        """The ids of those for which something waits."""
        with self._lock:
            return [one.conversation_id for one in self._waiting]

    def add(self, pending: Pending[T]) -> Pending[T]:
        """Puts a call at the end. StorageFull, and it is not kept, if too much waits already."""
        with self._lock:
            size = sum(one.size for one in self._waiting) + pending.size
            if len(self._waiting) >= self._most or size > self._most_bytes:
                raise StorageFull(
                    f"no space is left, and {len(self._waiting)} calls wait for it already",
                    hint="Free some space, or purge what is not needed, and make the same call again.",
                )
            self._waiting.append(cast("Pending[object]", pending))
        return pending

    def flush(self, until: float | None = None) -> bool:
        """Makes the calls that wait, in order, until a moment of `time.monotonic`; True if none is left.

        False at once from inside of such a call: whoever is told of it and writes waits behind the others.
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

    def paused(self) -> AbstractContextManager[object]:
        """While this is held nothing that waits is made: what is purged meanwhile cannot come back by it."""
        return self._turn

    def drop(self, gone: Callable[[str], bool]) -> int:
        """Gives up the calls of conversations that are gone, and returns how many: they must not come back."""
        with self._lock:
            left = [one for one in self._waiting if gone(one.conversation_id)]
            self._waiting = deque(one for one in self._waiting if one not in left)
        for one in left:
            one._give_up(NotFound("record", one.conversation_id, hint="It was purged while the call waited for space."))
        return len(left)

    def abandon(self) -> list[Pending[object]]:
        """Gives up everything that waits, and returns it."""
        with self._lock:
            left, self._waiting = list(self._waiting), deque()
        for one in left:
            one._give_up(StorageFull(f"{one.operation} of a record was given up: no space was freed in time"))
        return left
