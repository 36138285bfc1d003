"""The record service: conversations kept by policy. A thin layer over a store; what it keeps, the store keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import IO, Self

from clew import events, exporting, ids
from clew.backends import RefRow
from clew.blobs import Blobs
from clew.engine import Clock, whole_number
from clew.errors import ClewError, Conflict, Invalid, NotFound, Tampered, Unavailable, Unfinished
from clew.events import Events
from clew.policy import Policy
from clew.records import keeping, reports, shapes
from clew.records.calls import Calls
from clew.records.changes import Change
from clew.records.deferred import MOST, MOST_BYTES, Pending, seconds
from clew.records.frames import NotOurs, Type, attachment
from clew.records.kept import Found
from clew.records.latency import LIMIT_MS
from clew.records.purging import Purging
from clew.records.recent import Read, Recent
from clew.records.repository import Repository
from clew.records.shapes import (
    AttachmentRef,
    ConversationRecord,
    ConversationRecordInput,
    ConversationRecordMutation,
    ConversationSummary,
    Given,
    ListResult,
    PurgeReason,
    PurgeReport,
    RecoverySnapshot,
)
from clew.records.writes import Limits, Writes
from clew.retention import EVERY, Sweeper, Swept
from clew.sessions import SCAN, SESSION
from clew.store import Store
from clew.stored_policy import default_policy, get_policy, set_policy

MAX_PAYLOAD = 10 * 1024 * 1024
"""Bytes of one record's messages at most, unless the service is given another limit. Attachments do not count."""
DEFAULT = Policy(days=None, trash_days=None, records=30)
"""The policy of a store that had none: it concerns records alone."""
GRACE = 2.0
"""Seconds in which `dispose` finishes what is going on."""
RETRY = 1.0
"""Seconds between two tries to store what waits for space."""

Summarise = Callable[[ConversationRecord], ConversationSummary | None]
Reader = Callable[[bytes], Read | None]


class RecordService:
    """Keeps conversations by policy. Threads may share it; several services may share a store."""

    def __init__(
        self,
        store: Store,
        *,
        policy: Policy | None = None,
        strict: bool = False,
        exportable: bool = False,
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
        """A service on an open store, which stays its opener's to close. Call `initialize` before anything else.

        `policy` is stored by `initialize` as the store's; without it the stored one holds, and a store that has none
        is given `DEFAULT`. It must keep records for 7 to 180 days. `strict` purges a record that turns out to be
        damaged; without it the bytes are kept. `exportable` is what new records say of themselves. `summarise` is
        called for a record after it was first stored, on another thread. `max_payload` limits the messages of one
        record; `max_pending` and `max_pending_bytes` what waits in memory for space, tried again every `retry_every`
        seconds. Writing that takes longer than `slow_ms` one time in twenty is told as an event. After so many
        `failures` in a row nothing is written for `cool_down` seconds. `clock` (microseconds since 1970) and `timer`
        (seconds) are for tests.
        """
        if not isinstance(store, Store):
            raise Invalid(f"records are kept in a clew.Store, not in {type(store).__name__}")
        if policy is not None:
            _check(policy, store)
        if not all(one is None or callable(one) for one in (summarise, clock, timer)):
            raise Invalid("summarise, clock and timer are functions")
        whole_number("max_payload", max_payload, 1)
        limits = Limits(max_pending, max_pending_bytes, slow_ms, retry_every, failures, cool_down).checked()
        self._events = Events()
        self._store = store
        self._given = policy
        self._strict = strict
        self._summarise = summarise
        self._clock = store._engine.clock if clock is None else clock
        self._records = Repository(store, max_payload, exportable)
        self._recent = Recent(self._records)
        self._calls = Calls(self._events)
        self._writes = Writes(self._events, limits, timer)
        self._purging = Purging(store, self._records, self._writes, self._events, self._clock)

    # -- beginning and end

    @property
    def events(self) -> Events:
        """Where to subscribe to what happens."""
        return self._events

    @property
    def is_initialized(self) -> bool:
        """True between `initialize` and `dispose`."""
        return self._calls.ready

    @property
    def pending(self) -> int:
        """How many writes wait in memory for space."""
        return self._writes.pending

    @property
    def policy(self) -> Policy | None:
        """The store's policy, as it is now: how long records are kept. None before the first `initialize`."""
        return get_policy(self._store)

    def initialize(self) -> PurgeReport | None:
        """Makes the service ready, stores its policy, and sweeps. Idempotent: None if it was ready.

        A store that has no policy gets `DEFAULT`; the audit has this as the deed `retention`. Closed if it was disposed
        of. What storing the policy or the sweep raises is raised here; the service is ready all the same.
        """
        if not self._calls.begin():
            return None
        if self._given is not None:
            set_policy(self._store, self._given)
        default_policy(self._store, DEFAULT, "records-default")
        return self.sweep()

    def dispose(self, grace: float = GRACE) -> None:
        """Finishes what is going on, within `grace` seconds, and refuses everything else. Idempotent.

        Unfinished names each call that was not finished, each write for which there was no space, and whatever failed
        in the background. The store stays open.
        """
        deadline = time.monotonic() + seconds("grace", grace)
        running = self._calls.end(grace)
        if running is None:
            return
        failures = self._writes.close(deadline)
        if running:
            failures.append(Unavailable(f"{running} calls were still running after {grace:g} s"))
        if failures:
            raise Unfinished("the record service was disposed of before everything was done", failures)

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    # -- records

    def create(self, record: ConversationRecordInput | Given) -> ConversationRecord | Pending[ConversationRecord]:
        """Stores a new record. Conflict if there is one with its id; Invalid.

        Pending if there is no space: it is not stored yet.
        """
        given = shapes.validate_input(record)
        with self._operation("create", given.conversation_id):
            drafts = self._records.drafts(given.conversation_id, given.messages)
            return self._writes.now_or_later(
                "create", given.conversation_id, len(shapes.to_json(given)),
                lambda: self._records.create(given, drafts), lambda found: self._stored(found, summarise=True),
            )  # fmt: skip

    def update(
        self, conversation_id: str, mutation: ConversationRecordMutation | Given, *, expected_version: int | None = None
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Changes a record: messages are added after whatever is last now, fields that are given are replaced.

        A message that is there already, by its frameId, is not added again. `expected_version` is the
        `storage.blobVersion` of the record that the change was made for: if the record has changed since, the messages
        are added all the same, but a field that someone else has set meanwhile is a Conflict, and nothing is changed.
        NotFound; Invalid if it becomes too large. Pending if there is no space: it is not stored yet. Tampered if it is
        stored, and the record cannot be read back: see `get`.
        """
        with self._operation("update", conversation_id):
            return self._change("update", conversation_id, mutation, expected_version, committed=False)

    def get(self, conversation_id: str) -> ConversationRecord | None:
        """The record; None if there is none. Tampered if something of it is not what was written.

        A message that is damaged, or in quarantine, is there without its content, and marked: `DAMAGED` is among its
        `privacy.redactionRulesApplied`. `CorruptionDetected` is emitted. A `strict` service purges the record instead.
        """
        with self._operation("get", conversation_id):
            return self._read(conversation_id, self._records.key(conversation_id), self._recent.whole)

    def list(self, *, limit: int = 50, cursor: str | None = None, include_expired: bool = False) -> ListResult:
        """Records without their messages, last interaction first. Invalid if the cursor is not one.

        `cursor` is the `nextCursor` of the page before; it stays good when records change. A record that is damaged is
        counted and told as `CorruptionDetected`, and not shown.
        """
        with self._operation("list", None):
            whole_number("limit", limit, 1)
            sessions, now, policy = self._store.sessions, self._clock(), self._shown_policy()
            is_record = self._records.is_record
            edge = None if cursor is None else sessions._read_cursor(cursor)
            rows: list[RefRow] = []
            while len(rows) <= limit and (page := sessions._recent(SESSION, edge, None, None, min(SCAN, limit + 1))):
                rows += [row for row in page if include_expired or not keeping.expired(policy, row, now, is_record)]
                edge = page[-1].rank, page[-1].ref
            last = rows[limit - 1] if len(rows) > limit else None
            return ListResult(
                items=tuple(found.summary(policy) for found in self._sound(rows[:limit])),
                next_cursor=None if last is None else sessions._cursor(last.rank, last.ref),
                total_count=self._count(include_expired, now, policy),
            )

    def delete(self, conversation_id: str, reason: PurgeReason) -> PurgeReport:
        """Purges a record with all that belongs to it, also from the trash, and gives up what waits to be stored in it.

        What of it could not be purged or cleared is a failure in the report: messages that a fork shares, traces that
        another program keeps from being cleared. NotFound; Conflict if it is held. Unavailable if it cannot go for
        another reason; it is all there then.
        """
        with self._operation("delete", conversation_id):
            self._recent.forget()
            return self._purging.delete(conversation_id, reason)

    def purge_all(self, reason: PurgeReason) -> PurgeReport:
        """Purges everything that `list` may show, also from the trash, and sessions that other programs wrote.

        What is held stays, and is a failure in the report; so is what of others could not be cleared: see `delete`.
        """
        with self._operation("purge_all", None):
            self._recent.forget()
            return self._purging.everything(reason)

    # -- recovery

    def commit_snapshot(self, snapshot: RecoverySnapshot | Given) -> Pending[None] | None:
        """Stores what is pending of a conversation that goes on; durable when this returns. It may be called again.

        The messages are the record's own from then on; only that they were not committed is remembered. A conversation
        that is not there is begun. Pending if there is no space.
        """
        given = shapes.validate_snapshot(snapshot)
        with self._operation("commit_snapshot", given.conversation_id):
            drafts = self._records.drafts(given.conversation_id, given.pending_messages)
            return self._writes.now_or_later(
                "commit_snapshot", given.conversation_id, len(shapes.to_json(given)),
                lambda: self._records.mark(given, drafts), lambda found: None,
            )  # fmt: skip

    def get_snapshot(self, conversation_id: str) -> RecoverySnapshot | None:
        """What was pending of a conversation when it was last heard of; None if nothing was.

        A snapshot that cannot be read is read once more, then made anew: everything is pending then, and nothing lost.
        """
        with self._operation("get_snapshot", conversation_id):
            key = self._records.key(conversation_id)
            for _ in range(2):
                try:
                    return self._records.marked(key)
                except Tampered as error:
                    damage = error
            self._corrupt(conversation_id, damage, purged=False)
            self._records.mark_anew(key)
            return self._records.marked(key)

    def commit_conversation(
        self,
        conversation_id: str,
        mutation: ConversationRecordMutation | Given | None = None,
        *,
        expected_version: int | None = None,
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Ends a conversation: `update`, and nothing of it is pending any more. NotFound.

        Where the mutation says nothing, the summary and metrics of the last snapshot hold.
        """
        with self._operation("commit_conversation", conversation_id):
            given = ConversationRecordMutation() if mutation is None else mutation
            return self._change("commit_conversation", conversation_id, given, expected_version, committed=True)

    def recoverable(self) -> tuple[str, ...]:
        """The ids of conversations with something pending, last begun first: after a crash, those to go on with.

        One that is damaged is told as `CorruptionDetected`, and not among them.
        """
        with self._operation("recoverable", None):
            return tuple(found.conversation_id for found in self._sound(self._records.pending()))

    # -- attachments

    def attach(
        self, conversation_id: str, source: bytes | IO[bytes], *, type: Type, attachment_id: str | None = None
    ) -> AttachmentRef:
        """Stores a file for a record, of any size and in pieces, and returns what a message shows it by. NotFound."""
        with self._operation("attach", conversation_id):
            id = attachment_id or ids.text(self._store._engine.new_id())
            shapes.to_json(attachment(id, type, "0" * 64, 0))  # what cannot be shown is not stored
            blob = self._blobs(conversation_id).put(source)
            return attachment(id, type, blob.digest, blob.size)

    def open_attachment(self, conversation_id: str, uri: str) -> Iterator[bytes]:
        """The content of an attachment or a recording, in pieces. NotFound; Tampered where it is damaged."""
        with self._operation("open_attachment", conversation_id):
            digest = uri.removeprefix(shapes.BLOBS) if isinstance(uri, str) else uri
            return self._blobs(conversation_id).open(digest)

    # -- privacy and retention

    def set_privacy(
        self, conversation_id: str, *, exportable: bool | None = None, consent_capture: str | None = None
    ) -> ConversationRecord:
        """Says whether a record may be exported, and how the person agreed; what is left out stays. NotFound."""
        with self._operation("set_privacy", conversation_id):
            given = {"exportable": exportable, "consentCapture": consent_capture}
            said = {name: value for name, value in given.items() if value is not None}
            shapes.validate_privacy({"classification": "Confidential", "exportable": False, **said})
            found = self._records.set_privacy(self._records.key(conversation_id), exportable, consent_capture)
            return self._stored(found)

    def export(self, conversation_id: str) -> bytes:
        """The record as JSON, to leave the store. NotFound; Conflict if it is not to be exported."""
        with self._operation("export", conversation_id):
            key = self._records.key(conversation_id)
            record = self._read(conversation_id, key, self._recent.whole)
            found = self._records.find(key)  # after it was read: whoever forbids it meanwhile is heard
            if record is None or found is None:
                raise NotFound("record", conversation_id)
            exporting.refuse(ids.text(key), found.data)
            if self._store._engine.audits:
                self._store.audit._record("export", ids.text(key))
            self._events.emit(events.ConversationExported(conversation_id=conversation_id))
            return shapes.to_json(record)

    def set_policy(self, policy: Policy) -> PurgeReport:
        """Stores another policy for the store's workspace, from now on, and sweeps at once.

        Invalid unless it keeps records for 7 to 180 days.
        """
        _check(policy, self._store)
        with self._operation("set_policy", None):
            set_policy(self._store, policy)
        return self.sweep()

    def sweep(self, *, force: bool = False) -> PurgeReport:
        """Purges the records that have expired by the store's policy, and nothing else: no session of other programs.

        If more would go than `policy.share`, or the clock is in doubt, nothing is removed: every record that was held
        back is a failure in the report that says why, and `RetentionInDoubt` is emitted. `force` says that this is
        meant.
        """
        with self._operation("sweep", None):
            self._recent.forget()
            return self._purging.sweep(force=force)

    def sweeper(self, *, every: timedelta = EVERY, on_error: Callable[[Exception], object] | None = None) -> Sweeper:
        """What sweeps again and again, on a thread of its own, once it is started: ``with service.sweeper(): …``.

        `on_error` is told what goes wrong, Implausible too; without it that is logged.
        """
        return Sweeper(self._sweep_again, every=every, on_error=on_error)

    def _sweep_again(self) -> Swept:
        with self._operation("sweep", None):
            self._recent.forget()
            return self._purging.sweep_again()

    # -- inside: reading

    def _read(
        self, conversation_id: str, key: bytes, read: Callable[[bytes], Read | None]
    ) -> ConversationRecord | None:
        """A record; messages of it that are damaged are empty, and marked. With `strict` it is purged: Tampered."""
        try:
            found = read(key)
        except Tampered:
            found = None
        if found is None or found.messages.damage:
            try:  # once more: what was read beside a writer that failed is not damage
                found = self._recent.whole(key)
            except Tampered as error:
                damaged = not isinstance(error, NotOurs)
                purged = self._strict and damaged and self._purging.damaged(conversation_id, key)
                self._corrupt(conversation_id, error, purged=purged)
                raise
        if found is None:
            return None
        if found.messages.damage:
            purged = self._strict and self._purging.damaged(conversation_id, key)
            self._corrupt(conversation_id, found.messages.damage[0], purged=purged)
            if self._strict:
                raise found.messages.damage[0]
        return found.found.record(self._shown_policy(), found.messages)

    def _sound(self, rows: Iterable[RefRow]) -> Iterator[Found]:
        """Those that can be read; the others are told."""
        for row in rows:
            try:
                yield self._records.found(row)
            except Tampered as error:
                self._corrupt(ids.text(row.key), error, purged=False)

    def _count(self, include_expired: bool, now: int, policy: Policy | None) -> int:
        """How many there are; the policy's own verdict is not among what the store counts."""
        sessions, workspace = self._store.sessions, self._store._engine.workspace
        total = sessions._count(SESSION, None, None, None, include_expired, now)
        if include_expired:
            return total
        return total - sum(1 for _ in keeping.overdue(sessions, policy, now, workspace, self._records.is_record))

    def _shown_policy(self) -> Policy | None:
        """The store's policy for what is said of records; one that cannot be read keeps none from being shown."""
        try:
            return get_policy(self._store)
        except (Tampered, Invalid):
            return None

    def _blobs(self, conversation_id: str) -> Blobs:
        key = self._records.key(conversation_id)
        found = self._records.find(key)
        if found is None:
            raise NotFound("record", conversation_id)
        tree = found.row.tree or 0
        return Blobs(self._store._engine, lambda: tree)

    # -- inside: writing

    def _change(
        self,
        operation: str,
        conversation_id: str,
        mutation: ConversationRecordMutation | Given,
        expected_version: int | None,
        *,
        committed: bool,
    ) -> ConversationRecord | Pending[ConversationRecord]:
        given = shapes.validate_mutation(mutation)
        if expected_version is not None:
            whole_number("expected_version", expected_version, 1)
        key, said = self._records.key(conversation_id), given.append_messages or ()
        change = Change(given, self._records.drafts(conversation_id, said), said)
        return self._writes.now_or_later(
            operation, conversation_id, len(shapes.to_json(given)),
            lambda: self._records.change(key, change, expected_version, committed=committed),
            lambda found: self._stored(found, summarise=committed),
        )  # fmt: skip

    def _stored(self, found: Found, *, summarise: bool = False) -> ConversationRecord:
        """Tells that a record is stored, and returns it as it is now."""
        self._events.emit(events.ConversationStored(summary=found.summary(self._shown_policy())))
        if summarise and self._summarise is not None and found.kept.summary is None:
            self._writes.after(lambda: self._summarise_now(found.row.key))
        record = self._read(found.conversation_id, found.row.key, self._recent.after_write)
        if record is None:
            raise NotFound("record", found.conversation_id, hint="It was purged just after it was stored.")
        return record

    def _summarise_now(self, key: bytes) -> None:
        assert self._summarise is not None
        read = self._recent.whole(key)
        if read is None:
            return
        record = read.found.record(self._shown_policy(), read.messages)
        summary = self._summarise(record)
        if summary is None:
            return
        given = shapes.validate_mutation(ConversationRecordMutation(summary=shapes.validate_summary(summary)))
        try:
            found = self._writes.now(
                lambda: self._records.change(key, Change(given, (), ()), record.storage.blob_version)
            )
        except (Conflict, NotFound):
            return  # meanwhile someone has written a summary, or deleted the record
        self._events.emit(events.ConversationStored(summary=found.summary(self._shown_policy())))

    def _corrupt(self, conversation_id: str, error: Tampered, *, purged: bool) -> None:
        self._events.emit(events.CorruptionDetected(conversation_id=conversation_id, where=error.where, purged=purged))

    @contextmanager
    def _operation(self, name: str, conversation_id: str | None) -> Iterator[None]:
        """Around a call; the session's id is what telemetry may know of a conversation, and its caller need not."""
        key = None
        with suppress(ClewError):
            key = None if conversation_id is None else self._records.key(conversation_id)
        with self._calls.call(name, None if key is None else ids.text(key)):
            try:
                yield
            except ClewError as error:
                if key is None or conversation_id is None:
                    raise
                known = reports.renamed(error, key, conversation_id)
                raise known from (error.__cause__ if known is error else None)


def _check(policy: Policy, store: Store) -> None:
    if not isinstance(policy, Policy):
        raise Invalid(f"a policy is a clew.retention.Policy, not {type(policy).__name__}")
    policy.check_records(store._engine.workspace)
