"""Typed events of the record service, and the bus that delivers them; the calls of a service, which emit them.

Only `ConversationStored` carries content: its summary has the title that a list of conversations shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from clew.errors import Closed

if TYPE_CHECKING:
    from clew.records.schema import ConversationRecordSummary, PurgeReason

Circuit = Literal["closed", "open", "half-open"]


class RecordEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event"):
    """Base class of the events. As JSON, the ``event`` field has the name of the class."""


class ConversationStored(RecordEvent, frozen=True, kw_only=True, tag="conversationStored"):
    """A record was created or changed, and is durable."""

    summary: ConversationRecordSummary


class ConversationDeleted(RecordEvent, frozen=True, kw_only=True, tag="conversationDeleted"):
    """A record was purged."""

    conversation_id: str
    reason: PurgeReason


class ConversationExported(RecordEvent, frozen=True, kw_only=True, tag="conversationExported"):
    """A record was exported."""

    conversation_id: str


class PurgeCompleted(RecordEvent, frozen=True, kw_only=True, tag="privacy.purge.completed"):
    """A purge has finished; the counts of what it did."""

    reason: PurgeReason
    purged_count: int
    failed_count: int
    started_at: str
    completed_at: str
    duration_ms: float


class RetentionInDoubt(RecordEvent, frozen=True, kw_only=True, tag="retention.doubt"):
    """A sweep was refused because it would have removed an unusual share of the records. It removed nothing."""

    due_count: int
    total_count: int
    doubts: tuple[str, ...]


class CapacityWarning(RecordEvent, frozen=True, kw_only=True, tag="storage.capacity.warning"):
    """There is no space left. The write waits in memory, or was refused if too many writes already wait."""

    deferred: bool
    pending_count: int
    pending_bytes: int
    advice: str


class CorruptionDetected(RecordEvent, frozen=True, kw_only=True, tag="storage.corruption.detected"):
    """Stored data is damaged."""

    conversation_id: str
    where: str
    purged: bool


class PrivacyWarning(RecordEvent, frozen=True, kw_only=True, tag="privacy.warning"):
    """The store of the service is not sealed, or no redaction rules apply. Emitted by `initialize`."""

    problem: Literal["not-sealed", "not-redacted"]


class SlowWrites(RecordEvent, frozen=True, kw_only=True, tag="storage.write.slow"):
    """More than one write in twenty takes longer than the limit."""

    p95_ms: float
    limit_ms: float
    samples: int


class CircuitChanged(RecordEvent, frozen=True, kw_only=True, tag="storage.circuit.changed"):
    """The circuit breaker opened, is trying a call, or closed."""

    state: Circuit


class OperationFinished(RecordEvent, frozen=True, kw_only=True, tag="storage.operation.finished"):
    """A call of the service has finished."""

    operation: str
    session_id: str | None
    """The session id. The conversation id may contain private data, because the application chooses it."""
    started_at_ns: int
    duration_ns: int
    error: str | None
    """The name of the error's class."""


Subscriber = Callable[[Any], object]


class Events:
    """The event bus. Calls subscribers one after the other, on the thread that caused the event."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: tuple[tuple[Subscriber, tuple[type[RecordEvent], ...]], ...] = ()

    def subscribe(self, subscriber: Subscriber, *kinds: type[RecordEvent]) -> Callable[[], None]:
        """Calls `subscriber` with every event, or only with the given kinds. Returns a function that unsubscribes.

        If a subscriber raises, the class of the error is logged; other subscribers and the caller are not affected.
        """
        entry = (subscriber, kinds or (RecordEvent,))
        with self._lock:
            self._subscribers = (*self._subscribers, entry)

        def stop() -> None:
            with self._lock:
                self._subscribers = tuple(one for one in self._subscribers if one is not entry)

        return stop

    def emit(self, event: RecordEvent) -> None:
        """Calls the subscribers of this event."""
        for subscriber, kinds in self._subscribers:
            if isinstance(event, kinds):
                try:
                    subscriber(event)
                except Exception as error:  # noqa: BLE001 - a subscriber's error must not affect others
                    _log(event, error)


def warn_unprotected(bus: Events, *, sealed: bool, redacted: bool) -> None:
    """Reports by event and log that records are stored without encryption or without redaction."""
    import logging

    logger = logging.getLogger("clew.records")
    if not sealed:
        bus.emit(PrivacyWarning(problem="not-sealed"))
        logger.warning("the store is not sealed: records are stored without encryption")
    if not redacted:
        bus.emit(PrivacyWarning(problem="not-redacted"))
        logger.warning("no redaction rules apply: records are stored with the secrets in them")


def _log(event: RecordEvent, error: Exception) -> None:
    import logging  # 10 ms at import, and few subscribers raise

    logger = logging.getLogger("clew.events")
    logger.warning("a subscriber of %s raised %s", type(event).__name__, type(error).__name__)


class Calls:
    """The running calls of a service: refused before `initialize` and after `dispose`, and each emits an event."""

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
