"""Recovery snapshots of a record service: the uncommitted part of active conversations."""

from __future__ import annotations

from clew.errors import Corrupted
from clew.records import schema
from clew.records.deferred import Pending
from clew.records.repository import Repository
from clew.records.schema import RecoverySnapshot
from clew.records.service_reading import RecordReader
from clew.records.writes import Writes


class Recovery:
    """Stores and reads recovery snapshots for a service."""

    def __init__(self, records: Repository, reader: RecordReader, writes: Writes) -> None:
        self._records = records
        self._reader = reader
        self._writes = writes

    def commit_snapshot(self, given: RecoverySnapshot) -> Pending[None] | None:
        """See `RecordService.commit_snapshot`."""
        drafts = self._records.drafts(given.conversation_id, given.pending_messages)
        return self._writes.now_or_later(
            "commit_snapshot", given.conversation_id, len(schema.to_json(given)),
            lambda: self._records.mark(given, drafts), lambda found: None,
        )  # fmt: skip

    def get_snapshot(self, conversation_id: str) -> RecoverySnapshot | None:
        """See `RecordService.get_snapshot`."""
        key = self._records.key(conversation_id)
        for _ in range(2):
            try:
                return self._records.read_pending(key)
            except Corrupted as error:
                damage = error
        self._reader.report_damage(conversation_id, damage, purged=False)
        self._records.replace_mark(key)
        return self._records.read_pending(key)

    def recoverable(self) -> tuple[str, ...]:
        """See `RecordService.recoverable`."""
        return tuple(found.conversation_id for found in self._reader.sound(self._records.pending()))
