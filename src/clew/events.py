"""What a service tells those who want to know: typed events, and a bus on which one subscriber never hurts another.

No event but `ConversationStored` carries content; its summary has the title that a list of conversations needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from clew.records.shapes import ConversationRecordSummary, PurgeReason

Circuit = Literal["closed", "open", "half-open"]


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event"):
    """Something that happened. Written as JSON it says in ``event`` what it is."""


class ConversationStored(Event, frozen=True, kw_only=True, tag="conversationStored"):
    """A record was created or changed, and is durable."""

    summary: ConversationRecordSummary


class ConversationDeleted(Event, frozen=True, kw_only=True, tag="conversationDeleted"):
    """A record is gone for good."""

    conversation_id: str
    reason: PurgeReason


class ConversationExported(Event, frozen=True, kw_only=True, tag="conversationExported"):
    """A record has left the store."""

    conversation_id: str


class PurgeCompleted(Event, frozen=True, kw_only=True, tag="privacy.purge.completed"):
    """A purge is over: what it did, in numbers."""

    reason: PurgeReason
    purged_count: int
    failed_count: int
    started_at: str
    completed_at: str
    duration_ms: float


class RetentionInDoubt(Event, frozen=True, kw_only=True, tag="retention.doubt"):
    """A sweep would have removed more than is likely to be meant, and removed nothing."""

    due_count: int
    total_count: int
    doubts: tuple[str, ...]


class CapacityWarning(Event, frozen=True, kw_only=True, tag="storage.capacity.warning"):
    """There is no space left: a write waits in memory or, if too much waits there already, was refused."""

    deferred: bool
    pending_count: int
    pending_bytes: int
    advice: str


class CorruptionDetected(Event, frozen=True, kw_only=True, tag="storage.corruption.detected"):
    """Something stored is not what was written."""

    conversation_id: str
    where: str
    purged: bool


class SlowWrites(Event, frozen=True, kw_only=True, tag="storage.write.slow"):
    """One write in twenty takes longer than it should."""

    p95_ms: float
    limit_ms: float
    samples: int


class CircuitChanged(Event, frozen=True, kw_only=True, tag="storage.circuit.changed"):
    """Writing was given up for a while, is tried again, or works again."""

    state: Circuit


class OperationFinished(Event, frozen=True, kw_only=True, tag="storage.operation.finished"):
    """A call of the service is over."""

    operation: str
    session_id: str | None
    """The session's own id: a conversation's may be anything that its application has made up."""
    started_at_ns: int
    duration_ns: int
    error: str | None
    """The name of the error's class."""


Subscriber = Callable[[Any], object]


class Events:
    """A bus. Subscribers are called one after the other, on the thread on which something happened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: tuple[tuple[Subscriber, tuple[type[Event], ...]], ...] = ()

    def subscribe(self, subscriber: Subscriber, *kinds: type[Event]) -> Callable[[], None]:
        """Calls `subscriber` with every event, or with those of some kinds. Returns what ends that.

        What a subscriber raises is logged by name, and concerns neither the others nor whoever caused the event.
        """
        entry = (subscriber, kinds or (Event,))
        with self._lock:
            self._subscribers = (*self._subscribers, entry)

        def stop() -> None:
            with self._lock:
                self._subscribers = tuple(one for one in self._subscribers if one is not entry)

        return stop

    def emit(self, event: Event) -> None:
        """Tells everyone who wants to know."""
        for subscriber, kinds in self._subscribers:
            if isinstance(event, kinds):
                try:
                    subscriber(event)
                except Exception as error:  # noqa: BLE001 - theirs, and nobody else's
                    _log(event, error)


def _log(event: Event, error: Exception) -> None:
    import logging  # 10 ms at import, and few subscribers raise

    logger = logging.getLogger("clew.events")
    logger.warning("a subscriber of %s raised %s", type(event).__name__, type(error).__name__)
