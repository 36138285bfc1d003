"""The writes of a service: guarded by a circuit breaker, timed, and deferred if there is no space."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, TypeVar

from clew.base.values import whole_number
from clew.base.worker import Job, Worker
from clew.errors import Invalid, StorageFull, Unavailable, clip
from clew.records.deferred import Deferred, Pending, seconds
from clew.records.events import CapacityWarning, Circuit, CircuitChanged, Events, SlowWrites

LIMIT_MS = 150.0
WINDOW = 100
"""Number of writes in the window."""
FEWEST = 20
"""With fewer, one slow write would be the 95th percentile."""


class Latency:
    """A rolling window of write times."""

    def __init__(self, limit_ms: float = LIMIT_MS) -> None:
        self._limit = limit_ms
        self._lock = threading.Lock()
        self._last: deque[float] = deque(maxlen=WINDOW)
        self._over = False

    def note(self, milliseconds: float) -> tuple[float, int] | None:
        """Adds a write. Returns the percentile and the sample count if the percentile has just exceeded the limit."""
        with self._lock:
            self._last.append(milliseconds)
            if len(self._last) < FEWEST:
                return None
            ordered = sorted(self._last)
            p95 = ordered[-(-len(ordered) * 95 // 100) - 1]
            was, self._over = self._over, p95 > self._limit
            return (p95, len(ordered)) if self._over and not was else None


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


_WAITS = "Free some space or purge conversations. The call waits in memory and clew retries it: do not repeat it."
S = TypeVar("S")
T = TypeVar("T")


class Limits(NamedTuple):
    """The settings of a service for its writes; see `RecordService`."""

    pending: int
    pending_bytes: int
    slow_ms: float
    retry_every: float
    failures: int
    cool_down: float

    def check(self) -> Limits:
        """Returns these settings. Raises Invalid if one is out of range."""
        whole_number("max_pending", self.pending, 0)
        whole_number("max_pending_bytes", self.pending_bytes, 0)
        whole_number("failures", self.failures, 1)
        for name in ("slow_ms", "retry_every", "cool_down"):
            seconds(name, getattr(self, name))
        if not self.retry_every:
            raise Invalid("retry_every must be greater than 0")
        return self


class Writes:
    """Makes the writes of a service."""

    def __init__(self, bus: Events, limits: Limits, timer: Callable[[], float]) -> None:
        self._bus = bus
        self._limits = limits
        self._timer = timer
        self._latency = Latency(limits.slow_ms)
        self._breaker = Breaker(
            failures=limits.failures, cool_down=limits.cool_down, clock=timer, changed=self._circuit_changed
        )
        self._deferred = Deferred(limits.pending, limits.pending_bytes)
        self._worker = Worker("clew-records")

    @property
    def pending(self) -> int:
        """Number of writes that wait for space."""
        return len(self._deferred)

    @property
    def conversations(self) -> list[str]:
        """The conversation ids of the waiting writes."""
        return self._deferred.conversations

    def now_or_later(
        self, operation: str, conversation_id: str, size: int, write: Callable[[], S], then: Callable[[S], T]
    ) -> T | Pending[T]:
        """Writes and returns the result, or defers the write if there is no space. Writes stay in order."""
        done: list[S] = []

        def call() -> T:
            began = self._timer()
            if not done:  # do not store twice if only the result failed
                done.append(self._guard(write))
            result = then(done[0])
            self._took(began)
            return result

        if len(self._deferred) and not self._deferred.flush():
            return self._defer(Pending(operation, conversation_id, size, call))
        try:
            return call()
        except StorageFull:
            return self._defer(Pending(operation, conversation_id, size, call))

    def now(self, write: Callable[[], S]) -> S:
        """Writes now. Raises CircuitOpen without a try if the circuit is open."""
        began = self._timer()
        done = self._guard(write)
        self._took(began)
        return done

    def _guard(self, write: Callable[[], S]) -> S:
        with self._breaker.guard():
            return write()

    def _took(self, began: float) -> None:
        """Records how long a write took, including the read of its result."""
        slow = self._latency.note((self._timer() - began) * 1000)
        if slow is not None:
            p95, samples = slow
            self._bus.emit(SlowWrites(p95_ms=p95, limit_ms=self._limits.slow_ms, samples=samples))

    def after(self, job: Job) -> None:
        """Runs a job on another thread, after the current call."""
        self._worker.add(job)

    def pause(self) -> AbstractContextManager[object]:
        """While this is held, no waiting write runs, so a purged conversation cannot come back."""
        return self._deferred.pause()

    def drop(self, gone: Callable[[str], bool]) -> int:
        """Drops the waiting writes of purged conversations; returns how many."""
        return self._deferred.drop(gone)

    def space(self) -> None:
        """Retries the waiting writes, because space may be free again."""
        self._deferred.flush()

    def close(self, deadline: float) -> list[Exception]:
        """Finishes what it can until `deadline`; returns an error for each unfinished write and job."""
        if len(self._deferred):  # on another thread, because a write may block and this call must not
            self._worker.add(lambda: self._deferred.flush(deadline))
        unfinished = self._worker.close(max(0.0, deadline - time.monotonic()))
        failures = list(self._worker.failures)
        failures += [
            StorageFull(f"{one.operation} of record {clip(one.conversation_id)} was not stored: no space")
            for one in self._deferred.abandon()
        ]
        if unfinished:
            failures.append(Unavailable(f"{unfinished} background jobs were not finished"))
        return failures

    def _defer(self, pending: Pending[T]) -> Pending[T]:
        try:
            self._deferred.add(pending)
        except StorageFull as error:
            self._warn(deferred=False, advice=error.hint)
            raise
        self._warn(deferred=True, advice=_WAITS)
        self._worker.add(self._retry, after=self._limits.retry_every)
        return pending

    def _retry(self) -> None:
        """Tries the waiting writes, and again later until all are stored."""
        done = False
        try:
            done = self._deferred.flush()
        finally:
            if not done:
                self._worker.add(self._retry, after=self._limits.retry_every)

    def _warn(self, *, deferred: bool, advice: str) -> None:
        count, size = len(self._deferred), self._deferred.bytes
        self._bus.emit(CapacityWarning(deferred=deferred, pending_count=count, pending_bytes=size, advice=advice))

    def _circuit_changed(self, state: Circuit) -> None:
        self._bus.emit(CircuitChanged(state=state))
