"""Attachments of a record service: files stored for a record, in pieces, apart from its messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from clew.engine.blobs import Blobs
from clew.errors import Corrupted, NotFound
from clew.records import schema
from clew.records.frames import Type, attachment
from clew.records.repository import Repository
from clew.records.schema import AttachmentRef
from clew.records.service_reading import RecordReader
from clew.store.store import Store


class Attachments:
    """Stores and reads attachments for a service."""

    def __init__(self, store: Store, records: Repository, reader: RecordReader) -> None:
        self._store = store
        self._records = records
        self._reader = reader

    def put(
        self, conversation_id: str, source: bytes | IO[bytes], type: Type, attachment_id: str | None
    ) -> AttachmentRef:
        """See `RecordService.attach`."""
        id = attachment_id or self._store.new_id()
        schema.to_json(attachment(id, type, "0" * 64, 0))  # raises before anything is stored
        blob = self._blobs(conversation_id).put(source)
        return attachment(id, type, blob.digest, blob.size)

    def open(self, conversation_id: str, uri: str) -> Iterator[bytes]:
        """See `RecordService.open_attachment`."""
        digest = uri.removeprefix(schema.BLOBS) if isinstance(uri, str) else uri
        return self._report_damage(conversation_id, self._blobs(conversation_id).open(digest))

    def _report_damage(self, conversation_id: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from pieces
        except Corrupted as error:
            self._reader.report_damage(conversation_id, error, purged=False)
            raise

    def _blobs(self, conversation_id: str) -> Blobs:
        found = self._records.find(self._records.key(conversation_id))
        if found is None:
            raise NotFound("record", conversation_id)
        return found.session.blobs
