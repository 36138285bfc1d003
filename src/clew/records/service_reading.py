"""The reads of a record service: they report damage, and with `strict` purge damaged records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from clew.backends import RefRow
from clew.base import ids
from clew.base.values import Clock
from clew.errors import Corrupted
from clew.records import expiry
from clew.records.deletion import Purging
from clew.records.events import CorruptionDetected, Events
from clew.records.frames import ForeignFormat
from clew.records.recent import Recent, RecordRead
from clew.records.record_data import StoredRecord
from clew.records.repository import Repository
from clew.records.schema import ConversationRecord, ListResult
from clew.records.service_retention import count, readable_policy
from clew.store.parts import Parts
from clew.store.session_table import SCAN, SESSION
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
        self, conversation_id: str, key: bytes, read: Callable[[bytes], RecordRead | None]
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
        return found.found.record(readable_policy(self._store), found.messages)

    def list(self, limit: int, cursor: str | None, *, include_expired: bool) -> ListResult:
        """See `RecordService.list`."""
        table, now, policy = Parts.of(self._store).table, self._clock(), readable_policy(self._store)
        is_record = self._records.is_record
        edge = None if cursor is None else table.read_cursor(cursor)
        rows: list[RefRow] = []
        while len(rows) <= limit and (page := table.recent(SESSION, edge, None, None, min(SCAN, limit + 1))):
            rows += [row for row in page if include_expired or not expiry.is_expired(policy, row, now, is_record)]
            edge = page[-1].rank, page[-1].ref
        last = rows[limit - 1] if len(rows) > limit else None
        return ListResult(
            items=tuple(found.summary(policy) for found in self.sound(rows[:limit])),
            next_cursor=None if last is None else table.cursor(last.rank, last.ref),
            total_count=count(self._store, policy, now, is_record, include_expired=include_expired),
        )

    def sound(self, rows: Iterable[RefRow]) -> Iterator[StoredRecord]:
        """The records that can be read; reports the others as damaged."""
        for row in rows:
            try:
                yield self._records.load_row(row)
            except Corrupted as error:
                self.report_damage(ids.text(row.key), error, purged=False)

    def report_damage(self, conversation_id: str, error: Corrupted, *, purged: bool) -> None:
        """Emits `CorruptionDetected`."""
        self._events.emit(CorruptionDetected(conversation_id=conversation_id, where=error.where, purged=purged))
