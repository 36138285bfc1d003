"""The record service: a thin layer over a store for conversations that are kept according to a policy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Self

from clew import keys
from clew.base.values import Clock, whole_number
from clew.engine.blobs import Blobs
from clew.errors import ClewError, Conflict, Corrupted, Invalid, NotFound, ShutdownIncomplete, Unavailable, clip
from clew.records import encrypted_blob, events, schema, validation
from clew.records.deferred import MOST, MOST_BYTES, Pending, seconds
from clew.records.deletion import Purging
from clew.records.events import Calls, ConversationExported, ConversationStored, CorruptionDetected, Events
from clew.records.expiry import DEFAULT, Expiry, check_policy, check_store, count, readable_expiry
from clew.records.frames import ForeignFormat, Type, attachment
from clew.records.record_data import StoredRecord
from clew.records.redactor import rules_for
from clew.records.repository import Recent, RecordChange, RecordRead, Repository
from clew.records.schema import (
    AttachmentRef,
    ConversationRecord,
    ConversationRecordInput,
    ConversationRecordMutation,
    ConversationSummary,
    EncryptedBlob,
    JsonInput,
    ListResult,
    PurgeReason,
    PurgeReport,
    RecoverySnapshot,
)
from clew.records.writes import LIMIT_MS, Limits, Writes
from clew.retention import EVERY, Sweeper, SweepReport, default_policy, get_policy, set_policy
from clew.retention.policy import Policy
from clew.store import jsonl, listing
from clew.store.session import Session
from clew.store.store import Store, stop_on_close

if TYPE_CHECKING:
    from clew.redaction import Rules


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
        self,
        conversation_id: str,
        key: str,
        read: Callable[[str], RecordRead | None],
        expiry: Expiry | None = None,
    ) -> ConversationRecord | None:
        """A record; damaged messages are empty and marked. With `strict`, purges it and raises Corrupted.

        A caller that has read the policy just before passes it as `expiry`.
        """
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
        return found.found.record(expiry or readable_expiry(self._store), found.messages)

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
        expiry = readable_expiry(self._store)
        self._events.emit(ConversationStored(summary=found.summary(expiry)))
        if summarise and self._summarise is not None and found.fields.summary is None:
            self._writes.after(lambda: self._summarise_now(found.session.id))
        record = self._reader.read(found.conversation_id, found.session.id, self._recent.after_write, expiry)
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


MAX_PAYLOAD = 10 * 1024 * 1024
"""Default limit for the bytes of one record's messages. Attachments do not count."""
GRACE = 2.0
"""Seconds that `dispose` waits for running calls."""
RETRY = 1.0
"""Seconds between two tries of the writes that wait for space."""


class RecordService:
    """Keeps conversations according to a policy. Threads may share it; several services may share a store."""

    def __init__(
        self,
        store: Store,
        *,
        policy: Policy | None = None,
        sweep: bool = True,
        strict: bool = False,
        exportable: bool = False,
        require_sealed: bool = False,
        redact: Rules | bool = True,
        summarise: Summarise | None = None,
        max_payload: int = MAX_PAYLOAD,
        max_pending: int = MOST,
        max_pending_bytes: int = MOST_BYTES,
        slow_ms: float = LIMIT_MS,
        retry_every: float = RETRY,
        failures: int = 5,
        cool_down: float = 30.0,
        clock: Clock | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """A service on an open store. Call `initialize` first. The service does not close the store.

        `initialize` stores `policy` as the store's policy, which must keep records for 7 to 180 days. Without it, the
        stored policy applies, or `DEFAULT` if there is none. `initialize` sweeps, and a thread sweeps again every six
        hours until `dispose`; with ``sweep=False`` neither does, and the program calls `sweep` or `sweeper`. `strict`
        purges records that turn out to be damaged; otherwise they are kept. `exportable` is the default for new
        records. With `require_sealed`, a store without a key is Invalid; otherwise `initialize` warns of it. `redact`
        has rules that apply before those of the store; True means the built-in rules if the store has none.
        `initialize` warns if no rules apply. `summarise` is called on another thread after a record is first stored.
        `max_payload` limits the messages of one record; `max_pending` and `max_pending_bytes`
        limit the writes that wait in memory for space, which are retried every `retry_every` seconds. An event reports
        that more than one write in twenty takes longer than `slow_ms`. After `failures` failures in a row nothing is
        written for `cool_down` seconds. `clock` (microseconds since 1970) and `timer` (seconds) are for tests.
        """
        if not all(one is None or callable(one) for one in (summarise, clock, timer)):
            raise Invalid("summarise, clock and timer must be functions")
        check_store(store, policy, require_sealed=require_sealed)
        whole_number("max_payload", max_payload, 1)
        limits = Limits(max_pending, max_pending_bytes, slow_ms, retry_every, failures, cool_down).check()
        self._events = Events()
        self._store = store
        self._given = policy
        self._sweeper = Sweeper(self._sweep_again, at_start=False) if sweep else None
        clock = store.clock if clock is None else clock
        self._records = Repository(store, max_payload, exportable, rules_for(store, redact))
        self._recent = Recent(self._records)
        self._calls = Calls(self._events)
        self._writes = Writes(self._events, limits, timer)
        self._purging = Purging(store, self._records, self._writes, self._events, clock)
        self._reader = RecordReader(
            store, self._records, self._recent, self._purging, self._events, clock, strict=strict
        )
        self._writer = RecordWriter(
            store, self._records, self._recent, self._reader, self._writes, self._events, summarise
        )
        self._recovery = Recovery(self._records, self._reader, self._writes)
        self._attachments = Attachments(store, self._records, self._reader)
        self._exports = Exports(store, self._records, self._recent, self._reader, self._events, clock)

    # -- start and end

    @property
    def events(self) -> Events:
        """The event bus of this service."""
        return self._events

    @property
    def is_initialized(self) -> bool:
        """True between `initialize` and `dispose`."""
        return self._calls.ready

    @property
    def pending(self) -> int:
        """Number of writes that wait in memory for space."""
        return self._writes.pending

    @property
    def policy(self) -> Policy | None:
        """The store's current policy. None before the first `initialize`."""
        return get_policy(self._store)

    def initialize(self) -> PurgeReport | None:
        """Makes the service ready, stores its policy, sweeps, and starts to sweep every six hours. Idempotent.

        Returns None if it was ready, or does not sweep: see `RecordService`. A store without a policy gets `DEFAULT`,
        recorded in the audit log as `retention`. Warns, by event and log, if the store is not sealed or no redaction
        rules apply. Raises Closed after `dispose`. Also raises the errors of storing the policy and of the sweep,
        but the service is ready then.
        """
        if not self._calls.begin():
            return None
        events.warn_unprotected(self._events, sealed=self._store.sealed, redacted=self._records.redacts)
        if self._given is not None:
            set_policy(self._store, self._given)
        default_policy(self._store, DEFAULT, "records-default")
        if self._sweeper is None:
            return None
        stop_on_close(self._store, self._sweeper.start())
        return self.sweep()

    def dispose(self, grace: float = GRACE) -> None:
        """Refuses further calls and waits up to `grace` seconds for the running ones. Idempotent.

        Raises ShutdownIncomplete, which lists unfinished calls, writes without space and failures in the background.
        The store stays open.
        """
        deadline = time.monotonic() + seconds("grace", grace)
        running = self._calls.end(grace)
        if running is None:
            return
        if self._sweeper is not None:
            self._sweeper.stop(max(0.0, deadline - time.monotonic()))
        failures = self._writes.close(deadline)
        if running:
            failures.append(Unavailable(f"{running} calls were still running after {grace:g} s"))
        if failures:
            raise ShutdownIncomplete("the record service was disposed of with work unfinished", failures)

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    # -- records

    def create(self, record: ConversationRecordInput | JsonInput) -> ConversationRecord | Pending[ConversationRecord]:
        """Stores a new record. Raises Conflict if its id is in use, and Invalid.

        Returns a Pending if there is no space: the record is not stored yet.
        """
        given = validation.validate_input(record)
        with self._operation("create", given.conversation_id):
            return self._writer.create(given)

    def update(
        self,
        conversation_id: str,
        mutation: ConversationRecordMutation | JsonInput,
        *,
        expected_version: int | None = None,
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Changes a record: appends messages at the current end, and replaces the fields that are given.

        A message whose frameId is already stored is not added again. `expected_version` is the `storage.blobVersion`
        of the record that the change is based on. If the record has changed since, messages are still appended, but a
        field that another writer has set raises Conflict and nothing is changed. Raises NotFound, and Invalid if the
        record becomes too large. Returns a Pending if there is no space: the change is not stored yet. Raises
        Corrupted if the change is stored but the record cannot be read back: see `get`.
        """
        with self._operation("update", conversation_id):
            return self._writer.change("update", conversation_id, mutation, expected_version, committed=False)

    def get(self, conversation_id: str) -> ConversationRecord | None:
        """The record; None if there is none. Raises Corrupted if the record itself is damaged.

        A message that is damaged or in quarantine has no content, and has `DAMAGED` in its
        `privacy.redactionRulesApplied`; `CorruptionDetected` is emitted. A `strict` service purges the record instead.
        """
        with self._operation("get", conversation_id) as found:
            key = self._records.key(conversation_id) if found is None else found  # raises Invalid
            return self._reader.read(conversation_id, key, self._recent.whole)

    def list(self, *, limit: int = 50, cursor: str | None = None, include_expired: bool = False) -> ListResult:
        """Records without their messages, last interaction first. Raises Invalid if the cursor is not valid.

        `cursor` is the `nextCursor` of the previous page; it stays valid when records change. A damaged record is
        counted but not listed; `CorruptionDetected` reports it.
        """
        with self._operation("list", None):
            whole_number("limit", limit, 1)
            return self._reader.list(limit, cursor, include_expired=include_expired)

    def delete(self, conversation_id: str, reason: PurgeReason) -> PurgeReport:
        """Purges a record and all its data, also from the trash, and drops its waiting writes.

        The report lists what remains as failures: messages that a fork shares, and traces that could not be cleared
        because another program uses the store. Raises NotFound, Conflict if the record is held, and Unavailable if it
        could not be purged for another reason; then it is unchanged.
        """
        with self._operation("delete", conversation_id):
            self._recent.forget()
            return self._purging.delete(conversation_id, reason)

    def purge_all(self, reason: PurgeReason) -> PurgeReport:
        """Purges all records and all sessions that other programs wrote, also from the trash.

        The report lists held records, and what remains of others, as failures: see `delete`.
        """
        with self._operation("purge_all", None):
            self._recent.forget()
            return self._purging.purge_all(reason)

    # -- recovery

    def commit_snapshot(self, snapshot: RecoverySnapshot | JsonInput) -> Pending[None] | None:
        """Stores the uncommitted messages of an active conversation; durable when this returns. Safe to repeat.

        The messages become part of the record; the snapshot only marks them as not committed. Creates the conversation
        if it does not exist. Returns a Pending if there is no space.
        """
        given = validation.validate_snapshot(snapshot)
        with self._operation("commit_snapshot", given.conversation_id):
            return self._recovery.commit_snapshot(given)

    def get_snapshot(self, conversation_id: str) -> RecoverySnapshot | None:
        """The uncommitted part of a conversation; None if there is none.

        If the snapshot is damaged even at the second read, a new one replaces it in which all messages are pending.
        """
        with self._operation("get_snapshot", conversation_id):
            return self._recovery.get_snapshot(conversation_id)

    def commit_conversation(
        self,
        conversation_id: str,
        mutation: ConversationRecordMutation | JsonInput | None = None,
        *,
        expected_version: int | None = None,
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Ends a conversation: an `update` after which no message is pending. Raises NotFound.

        The summary and metrics of the last snapshot apply unless the mutation sets them.
        """
        with self._operation("commit_conversation", conversation_id):
            given = ConversationRecordMutation() if mutation is None else mutation
            return self._writer.change("commit_conversation", conversation_id, given, expected_version, committed=True)

    def recoverable(self) -> tuple[str, ...]:
        """The ids of conversations with uncommitted messages, newest first: those to resume after a crash.

        Damaged ones are reported as `CorruptionDetected` and left out.
        """
        with self._operation("recoverable", None):
            return self._recovery.recoverable()

    # -- attachments

    def attach(
        self, conversation_id: str, source: bytes | IO[bytes], *, type: Type, attachment_id: str | None = None
    ) -> AttachmentRef:
        """Stores a file of any size for a record, and returns a reference for its messages. Raises NotFound."""
        with self._operation("attach", conversation_id):
            return self._attachments.put(conversation_id, source, type, attachment_id)

    def open_attachment(self, conversation_id: str, uri: str) -> Iterator[bytes]:
        """The content of an attachment or a recording, in pieces. Raises NotFound, Corrupted."""
        with self._operation("open_attachment", conversation_id):
            return self._attachments.open(conversation_id, uri)

    # -- privacy and retention

    def set_privacy(
        self, conversation_id: str, *, exportable: bool | None = None, consent_capture: str | None = None
    ) -> ConversationRecord:
        """Sets whether a record may be exported and how the user consented, where given. Raises NotFound."""
        with self._operation("set_privacy", conversation_id):
            given = {"exportable": exportable, "consentCapture": consent_capture}
            changed = {name: value for name, value in given.items() if value is not None}
            validation.validate_privacy({"classification": "Confidential", "exportable": False, **changed})
            found = self._records.set_privacy(self._records.key(conversation_id), exportable, consent_capture)
            return self._writer.announce(found)

    def export(self, conversation_id: str) -> bytes:
        """The record as JSON. Raises NotFound, and Conflict if it may not be exported."""
        with self._operation("export", conversation_id):
            return schema.to_json(self._exports.record(conversation_id))

    def export_blob(self, conversation_id: str, key: bytes) -> EncryptedBlob:
        """The record encrypted with a key of 32 bytes. Raises as `export` does, and Invalid."""
        with self._operation("export_blob", conversation_id):
            return self._exports.blob(conversation_id, key)

    def import_blob(
        self, blob: EncryptedBlob | JsonInput, key: bytes
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Creates the record of an exported blob, with the retention and privacy of a new one: see `create`.

        Raises Corrupted if the blob was changed or has another key, and Invalid if the record has attachments.
        """
        given = validation.validate_input(encrypted_blob.record_in(validation.validate_blob(blob), key))
        with self._operation("import_blob", given.conversation_id):
            return self._writer.create(given)

    def set_policy(self, policy: Policy) -> PurgeReport:
        """Replaces the policy of the store's workspace, and sweeps.

        Raises Invalid unless it keeps records for 7 to 180 days.
        """
        check_policy(policy, self._store)
        with self._operation("set_policy", None):
            set_policy(self._store, policy)
        return self.sweep()

    def sweep(self, *, force: bool = False) -> PurgeReport:
        """Purges the records that have expired under the store's policy, but no sessions of other programs.

        Any number of records may go. But if the clock looks wrong, nothing is removed: the report lists each record
        that was held back as a failure with the reason, and `RetentionInDoubt` is emitted. `force` skips this check.
        """
        with self._operation("sweep", None):
            self._recent.forget()
            return self._purging.sweep(force=force)

    def sweeper(self, *, every: timedelta = EVERY, on_error: Callable[[Exception], object] | None = None) -> Sweeper:
        """A sweeper that sweeps repeatedly on its own thread once it is started: ``with service.sweeper(): …``.

        It calls `on_error` with each error, including SweepRefused; by default it logs them.
        """
        sweeper = Sweeper(self._sweep_again, every=every, on_error=on_error)
        stop_on_close(self._store, sweeper)
        return sweeper

    def _sweep_again(self) -> SweepReport:
        with self._operation("sweep", None):
            self._recent.forget()
            return self._purging.sweep_again()

    @contextmanager
    def _operation(self, name: str, conversation_id: str | None) -> Iterator[str | None]:
        """Wraps a call. Telemetry gets the session id; errors name the conversation id that the caller knows.

        Yields the session id; None if the conversation id is not valid.
        """
        key = None
        with suppress(ClewError):
            key = None if conversation_id is None else self._records.key(conversation_id)
        with self._calls.call(name, key):
            try:
                yield key
            except ClewError as error:
                if key is None or conversation_id is None:
                    raise
                known = with_caller_id(error, key, conversation_id)
                raise known from (error.__cause__ if known is error else None)


def with_caller_id(error: ClewError, session: str, conversation_id: str) -> ClewError:
    """The error with the caller's conversation id in place of the session id, which may be a hash."""
    shown = clip(conversation_id)
    if isinstance(error, NotFound) and error.key == session:
        return NotFound("record", conversation_id, hint=error.hint)
    if session not in error.message or session == conversation_id:
        return error
    if isinstance(error, Corrupted):
        error.where = error.where.replace(session, shown)
    error.message = error.message.replace(session, shown)
    error.args = (f"{error.message}. {error.hint}" if error.hint else error.message,)
    return error
