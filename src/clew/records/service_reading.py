"""The reads of a record service: they report damage, and with `strict` purge damaged records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from clew.base.values import Clock
from clew.errors import Corrupted
from clew.records.deletion import Purging
from clew.records.events import CorruptionDetected, Events
from clew.records.frames import ForeignFormat
from clew.records.recent import Recent, RecordRead
from clew.records.record_data import StoredRecord
from clew.records.repository import Repository
from clew.records.schema import ConversationRecord, ListResult
from clew.records.service_retention import count, readable_expiry
from clew.store import listing
from clew.store.session import Session
from clew.store.store import Store


class RecordReader:
    """Reads records for a service."""

    def __init__(
        self,
        store: Store,
        records: Repository,
        recent: Recent,
        purging: Purging,
        bus: Events,
        clock: Clock,
        *,
        strict: bool,
    ) -> None:
        self._store = store
        self._records = records
        self._recent = recent
        self._purging = purging
        self._events = bus
        self._clock = clock
        self._strict = strict

    def read(
        self, conversation_id: str, key: str, read: Callable[[str], RecordRead | None]
    ) -> ConversationRecord | None:
        """A record; damaged messages are empty and marked. With `strict`, purges it and raises Corrupted."""
        try:
            found = read(key)
        except Corrupted:
            found = None
        if found is None or found.messages.damage:
            try:  # again, because a read during another writer's failed write may look like damage
                found = self._recent.whole(key)
            except Corrupted as error:
                damaged = not isinstance(error, ForeignFormat)
                purged = self._strict and damaged and self._purging.purge_damaged(conversation_id, key)
                self.report_damage(conversation_id, error, purged=purged)
                raise
        if found is None:
            return None
        if found.messages.damage:
            purged = self._strict and self._purging.purge_damaged(conversation_id, key)
            self.report_damage(conversation_id, found.messages.damage[0], purged=purged)
            if self._strict:
                raise found.messages.damage[0]
        return found.found.record(readable_expiry(self._store), found.messages)

    def list(self, limit: int, cursor: str | None, *, include_expired: bool) -> ListResult:
        """See `RecordService.list`."""
        now, expiry = self._clock(), readable_expiry(self._store)
        is_record = self._records.is_record
        found: list[Session] = []
        for session in listing.recent(self._store, cursor=cursor, page=min(listing.PAGE, limit + 1)):
            if include_expired or not expiry.is_expired(session, now, is_record):
                found.append(session)
            if len(found) > limit:
                break
        more = len(found) > limit
        return ListResult(
            items=tuple(one.summary(expiry) for one in self.sound(found[:limit])),
            next_cursor=listing.cursor_after(self._store, found[limit - 1]) if more else None,
            total_count=count(self._store, expiry, now, is_record, include_expired=include_expired),
        )

    def sound(self, sessions: Iterable[Session]) -> Iterator[StoredRecord]:
        """The records that can be read; reports the others as damaged."""
        for session in sessions:
            try:
                yield self._records.load(session)
            except Corrupted as error:
                self.report_damage(session.id, error, purged=False)

    def report_damage(self, conversation_id: str, error: Corrupted, *, purged: bool) -> None:
        """Emits `CorruptionDetected`."""
        self._events.emit(CorruptionDetected(conversation_id=conversation_id, where=error.where, purged=purged))
