"""The changes that a record service makes: they emit events, and summaries are made in the background."""

from __future__ import annotations

from collections.abc import Callable

from clew.base.values import whole_number
from clew.errors import Conflict, NotFound
from clew.records import schema, validation
from clew.records.changes import RecordChange
from clew.records.deferred import Pending
from clew.records.events import ConversationStored, Events
from clew.records.recent import Recent
from clew.records.record_data import StoredRecord
from clew.records.repository import Repository
from clew.records.schema import (
    ConversationRecord,
    ConversationRecordInput,
    ConversationRecordMutation,
    ConversationSummary,
    JsonInput,
)
from clew.records.service_reading import RecordReader
from clew.records.service_retention import readable_expiry
from clew.records.writes import Writes
from clew.store.store import Store

Summarise = Callable[[ConversationRecord], ConversationSummary | None]


class RecordWriter:
    """Creates and changes records for a service."""

    def __init__(
        self,
        store: Store,
        records: Repository,
        recent: Recent,
        reader: RecordReader,
        writes: Writes,
        bus: Events,
        summarise: Summarise | None,
    ) -> None:
        self._store = store
        self._records = records
        self._recent = recent
        self._reader = reader
        self._writes = writes
        self._events = bus
        self._summarise = summarise

    def create(self, given: ConversationRecordInput) -> ConversationRecord | Pending[ConversationRecord]:
        """See `RecordService.create`."""
        drafts = self._records.drafts(given.conversation_id, given.messages)
        return self._writes.now_or_later(
            "create", given.conversation_id, len(schema.to_json(given)),
            lambda: self._records.create(given, drafts), lambda found: self.announce(found, summarise=True),
        )  # fmt: skip

    def change(
        self,
        operation: str,
        conversation_id: str,
        mutation: ConversationRecordMutation | JsonInput,
        expected_version: int | None,
        *,
        committed: bool,
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """See `RecordService.update`; with `committed`, `RecordService.commit_conversation`."""
        given = validation.validate_mutation(mutation)
        if expected_version is not None:
            whole_number("expected_version", expected_version, 1)
        key, messages = self._records.key(conversation_id), given.append_messages or ()
        change = RecordChange(given, self._records.drafts(conversation_id, messages), messages)
        return self._writes.now_or_later(
            operation, conversation_id, len(schema.to_json(given)),
            lambda: self._records.change(key, change, expected_version, committed=committed),
            lambda found: self.announce(found, summarise=committed),
        )  # fmt: skip

    def announce(self, found: StoredRecord, *, summarise: bool = False) -> ConversationRecord:
        """Emits `ConversationStored`, and returns the record as it is now."""
        self._events.emit(ConversationStored(summary=found.summary(readable_expiry(self._store))))
        if summarise and self._summarise is not None and found.fields.summary is None:
            self._writes.after(lambda: self._summarise_now(found.session.id))
        record = self._reader.read(found.conversation_id, found.session.id, self._recent.after_write)
        if record is None:
            raise NotFound("record", found.conversation_id, hint="It was purged just after it was stored.")
        return record

    def _summarise_now(self, key: str) -> None:
        assert self._summarise is not None
        read = self._recent.whole(key)
        if read is None or read.found.fields.summary is not None:  # deleted or summarised before this job began
            return
        record = read.found.record(readable_expiry(self._store), read.messages)
        summary = self._summarise(record)
        if summary is None:
            return
        given = validation.validate_mutation(ConversationRecordMutation(summary=validation.validate_summary(summary)))
        try:
            found = self._writes.now(
                lambda: self._records.change(key, RecordChange(given, (), ()), record.storage.blob_version)
            )
        except (Conflict, NotFound):
            return  # another writer has set a summary or deleted the record
        self._events.emit(ConversationStored(summary=found.summary(readable_expiry(self._store))))
