"""Exports of a record service: a record as JSON or as an encrypted blob, and the import of a blob."""

from __future__ import annotations

import os

import msgspec

from clew import keys
from clew.base.values import Clock
from clew.errors import Invalid, NotFound
from clew.records import encrypted_blob, schema
from clew.records.events import ConversationExported, Events
from clew.records.recent import Recent
from clew.records.repository import Repository
from clew.records.schema import ConversationRecord, ConversationRecordInput, EncryptedBlob, PartialMetrics
from clew.records.service_reading import RecordReader
from clew.store import jsonl
from clew.store.store import Store


class Exports:
    """Exports records for a service."""

    def __init__(
        self, store: Store, records: Repository, recent: Recent, reader: RecordReader, bus: Events, clock: Clock
    ) -> None:
        self._store = store
        self._records = records
        self._recent = recent
        self._reader = reader
        self._events = bus
        self._clock = clock

    def record(self, conversation_id: str) -> ConversationRecord:
        """A record that leaves the store. Raises NotFound, and Conflict if it may not."""
        key = self._records.key(conversation_id)
        record = self._reader.read(conversation_id, key, self._recent.whole)
        found = self._records.find(key)  # after the read, to see a change made during it
        if record is None or found is None:
            raise NotFound("record", conversation_id)
        jsonl.refuse_export(key, found.data)
        jsonl.record_export(self._store, key)
        self._events.emit(ConversationExported(conversation_id=conversation_id))
        return record

    def blob(self, conversation_id: str, key: bytes) -> EncryptedBlob:
        """See `RecordService.export_blob`."""
        keys.check(key)
        record = self.record(conversation_id)
        at, iv = schema.time_text(self._clock()), os.urandom(encrypted_blob.IV)
        return encrypted_blob.encrypt(record.conversation_id, schema.to_json(record), key, at, iv)


def record_in(blob: EncryptedBlob, key: bytes) -> ConversationRecordInput:
    """The record to create from a blob: see `RecordService.import_blob`."""
    record = encrypted_blob.decrypt(blob, key)
    if record.attachments or any(frame.audio for frame in record.messages):
        raise Invalid(
            "the record has attachments, and a blob does not contain them",
            hint="Move the conversation with clew.exports.",
        )
    return ConversationRecordInput(
        conversation_id=record.conversation_id, title=record.title, created_at=record.created_at,
        participants=record.participants, messages=record.messages, summary=record.summary,
        metrics=PartialMetrics(**msgspec.structs.asdict(record.metrics)),
    )  # fmt: skip
