"""Stores records. Each call is one transaction, durable when it returns. No policy, no events, no retries.

A recovery mark is a document at the last committed message of a session. The messages after it are pending.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import msgspec

from clew.base import codec, ids
from clew.engine.node import Node, microseconds
from clew.engine.session_data import SessionData, is_record, record_end
from clew.errors import Conflict, Corrupted, Invalid, NotFound, clip
from clew.records.frames import draft, foreign, frame_keys, frames, session_keys
from clew.records.record_data import RecordFields, RecordMessages, StoredRecord, record_fields, size_of
from clew.records.redactor import Redactor
from clew.records.schema import (
    ConversationRecordInput,
    ConversationRecordMutation,
    ConversationSummary,
    MessageFrame,
    PartialMetrics,
    PartialRetention,
    RecoverySnapshot,
    time_micros,
    time_text,
)
from clew.store.listing import stated
from clew.store.session import Session
from clew.store.store import Store
from clew.store.unit import Document, Draft, Unit

if TYPE_CHECKING:
    from clew.redaction import Rules

RECOVERY = "recovery"
"""Kind of the document."""


class PendingMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of a mark. The messages belong to the session."""

    session_id: str
    last_interaction_at: str
    updated_at: str
    summary: ConversationSummary | None = None
    metrics: PartialMetrics | None = None


class Marks:
    """Creates and reads marks, in the caller's unit of work."""

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor

    def find(self, unit: Unit, session: str) -> Document | None:
        """The mark of the session with this id."""
        return unit.document(RECOVERY, self._key(session))

    def read_mark(self, mark: Document) -> PendingMark:
        """The data of a mark. Raises Corrupted."""
        try:
            return msgspec.json.decode(mark.data, type=PendingMark)
        except msgspec.DecodeError:
            raise Corrupted(f"{RECOVERY} {mark.id}", "it does not decode") from None

    def sound(self, mark: Document) -> bool:
        """True if the mark can be read."""
        try:
            self.read_mark(mark)
        except Corrupted:
            return False
        return True

    def set(self, unit: Unit, session: Session, at: str | None, pending: PendingMark) -> None:
        """Marks a session at a message. A readable mark that exists stays where it is."""
        data = self._store.redacted(self._redactor.own_json(codec.to_json(pending)), own=True)
        key, mark = self._key(session.id), self.find(unit, session.id)
        if mark is not None and self.sound(mark):
            unit.put(RECOVERY, key, data, exact=True, before=mark)
            return
        if mark is not None:
            unit.discard(mark)
        unit.put(RECOVERY, key, data, exact=True, new=True, owner=session, at=at)

    def take(self, unit: Unit, session: str) -> PendingMark | None:
        """Deletes a mark; returns its data if it can be read."""
        mark = self.find(unit, session)
        if mark is None:
            return None
        unit.discard(mark)
        return self.read_mark(mark) if self.sound(mark) else None

    def sessions(self, unit: Unit, after: Document | None, limit: int) -> tuple[list[Document], list[Session]]:
        """Marks that are not in the trash, newest first, and the sessions that own them."""
        marks = unit.documents(RECOVERY, after=after, limit=limit)
        return marks, [owner for mark in marks if (owner := mark.owner) is not None]

    def _key(self, session: str) -> bytes:
        # Differs from the session's key, because a signature does not include the kind of a ref.
        return self._store.lookup_hash(RECOVERY, ids.parse(session))


class RecordChange(NamedTuple):
    """A mutation, encoded and checked."""

    mutation: ConversationRecordMutation
    drafts: Sequence[Draft]
    frames: Sequence[MessageFrame]

    @property
    def fields(self) -> list[str]:
        """The names of the fields that are set. Messages are not fields: they are appended."""
        named = ("title", "summary", "retention", "metrics")
        return [name for name in named if getattr(self.mutation, name) is not None]


def refuse_stale(found: StoredRecord, fields: Sequence[str], expected: int | None) -> None:
    """Raises Conflict if one of the fields was set after version `expected`."""
    version = found.stated.version
    if expected is None or expected == version:
        return
    if expected > version:
        raise Conflict(f"the record has version {version}, not {expected}", hint="Read the record and try again.")
    late = [name for name in fields if found.fields.changed.get(name, 0) > expected]
    if late:
        raise Conflict(
            f"another writer set {' and '.join(late)} since version {expected}",
            hint="Read the record and try again.",
        )


class Columns(TypedDict, total=False):
    """What a retention changes of a session: see `Unit.save`."""

    hold: bool
    expires_at: int | None


def retention_columns(found: StoredRecord, retention: PartialRetention) -> Columns:
    """What a retention changes of a session. Raises Invalid."""
    columns = Columns()
    if retention.manual_hold is not None:
        columns["hold"] = retention.manual_hold
    expires, policy = retention.retention_expires_at, retention.retention_policy
    if policy == "workspace-default":
        if expires is not None:
            raise Invalid("the workspace's policy sets when a record expires", hint="Omit retentionExpiresAt.")
        columns["expires_at"] = None
    elif expires is not None:
        columns["expires_at"] = record_end(found.stated.active_at, time_micros(expires))
    elif policy == "custom" and found.session.expires_at is None:
        raise Invalid("a custom retention needs retentionExpiresAt", hint="Set retentionExpiresAt.")
    return columns


PAGE = 200
"""Recovery marks read at a time."""


class FullRecord(NamedTuple):
    """A session with its messages, read in one transaction."""

    found: StoredRecord
    nodes: list[Node]


class Repository:
    """The records of a store."""

    def __init__(self, store: Store, max_payload: int, exportable: bool, rules: Rules | None = None) -> None:
        self._store = store
        self._redactor = Redactor(store, rules)
        self._marks = Marks(store, self._redactor)
        self._max_payload = max_payload
        self._exportable = exportable

    @property
    def redacts(self) -> bool:
        """True if redaction rules apply."""
        return self._redactor.active

    def keys(self, conversation_id: str) -> tuple[str, ...]:
        """The ids that a conversation's session may have. Raises Invalid if the conversation id is not valid."""
        if not isinstance(conversation_id, str) or not conversation_id or len(conversation_id) > 512:
            raise Invalid("a conversation id must be text of up to 512 characters")
        return session_keys(self._store, conversation_id)

    def key(self, conversation_id: str) -> str:
        """The id of a conversation's session, or the id it would get. Raises Invalid if the given id is not valid."""
        keys = self.keys(conversation_id)
        if len(keys) == 1:
            return keys[0]
        stored = self._store.read(lambda unit: [key for key in keys if unit.session(key, trashed=True) is not None])
        return next(iter(stored), keys[0])

    # -- reading

    def load(self, session: Session) -> StoredRecord:
        """Decodes and checks the data of a session. Raises Corrupted."""
        said, data, key = stated(session), session.data, session.id
        fields = record_fields(data, f"session {key}")
        if fields.conversation_id is not None and key not in session_keys(self._store, fields.conversation_id):
            fields = msgspec.structs.replace(fields, conversation_id=None)  # a fork, or the id was redacted
        return StoredRecord(session, said, data, fields)

    def is_record(self, session: Session) -> bool:
        """True if a service has written to the session, or if its data cannot be read."""
        try:
            return is_record(self.load(session).data)
        except Corrupted:
            return True

    def find(self, key: str) -> StoredRecord | None:
        """A session; None if it does not exist or is in the trash."""
        session = self._store.read(lambda unit: unit.session(key), single=True)
        return None if session is None else self.load(session)

    def whole(self, key: str) -> FullRecord | None:
        """A session with its messages; None if it does not exist or is in the trash."""
        return self._store.read(lambda unit: self._whole(unit, key))

    def since(self, key: str, head: str | None, depth: int) -> FullRecord | None:
        """A session with the messages after a given one; None if all messages must be read.

        That is the case if the message is no longer on the session's path, or if one of the path is in quarantine: it
        may be an earlier message.
        """
        quarantine = self._store.quarantine

        def work(unit: Unit) -> FullRecord | None:
            session = unit.session(key)
            found = None if session is None else self.load(session)
            end = None if found is None else found.stated.head
            if found is None or end is None or quarantine.affects(end):
                return None
            if end == head:
                return FullRecord(found, [])
            newest = unit.node(end)
            if newest is None:
                return None
            nodes = unit.path(newest, last=max(1, newest.depth - depth))
            return FullRecord(found, nodes) if nodes[0].parent_id == head else None

        return self._store.read(work)

    def _whole(self, unit: Unit, key: str) -> FullRecord | None:
        session = unit.session(key)
        return None if session is None else FullRecord(self.load(session), unit.path(session))

    def _size(self, unit: Unit, found: StoredRecord) -> int:
        """Bytes of a record's messages: as noted by the last write, or counted if the head has changed since."""
        head, fields = found.stated.head, found.fields
        if head is None:
            return 0
        if fields.sized == head:
            return fields.size
        return unit.size(found.session)

    # -- writing

    def drafts(self, conversation_id: str, messages: Sequence[MessageFrame]) -> list[Draft]:
        """The encoded messages of frames. Raises Invalid."""
        session = self.key(conversation_id)
        keys = [frame_keys(self._store, session, frame.frame_id) for frame in messages]
        others = [key for known in keys for key in known[1:]]
        stored = self._store.read(lambda unit: unit.known(others)) if others else set()
        return [
            draft(self._store, self._redactor, known[-1] if known[-1] in stored else known[0], frame)
            for known, frame in zip(keys, messages, strict=True)
        ]

    def create(self, record: ConversationRecordInput, drafts: Sequence[Draft]) -> StoredRecord:
        """Creates a record, or completes one that only has snapshots. Raises Conflict if it exists."""
        key = self.key(record.conversation_id)

        def work(unit: Unit) -> StoredRecord:
            session = unit.session(key)
            taken = Conflict("a record with this id is already stored", hint="Update it, or use another id.")
            try:
                found = self._begin(unit, key, record.conversation_id) if session is None else self.load(session)
            except Conflict:  # it is in the trash, or the trace of a subagent
                raise taken from None
            if not found.fields.begun:
                raise taken
            fields = msgspec.structs.replace(
                found.fields, created_at=record.created_at, participants=record.participants,
                summary=record.summary or found.fields.summary, begun=False,
            )  # fmt: skip
            data = msgspec.structs.replace(found.data, title=record.title)
            after = self._append(unit, found._replace(data=data, fields=fields), drafts, record.messages)
            self._refuse_words(unit, found, after)
            return self._save(unit, after._replace(fields=after.fields.measure(record.metrics)))

        return self._store.write(work)

    def change(
        self, key: str, change: RecordChange, expected_version: int | None, *, committed: bool = False
    ) -> StoredRecord:
        """Appends messages at the current end and sets the given fields. Raises NotFound.

        With `expected_version`, raises Conflict and changes nothing if another writer has set one of the fields since.
        With `committed`, clears the recovery mark.
        """

        def work(unit: Unit) -> StoredRecord:
            found = self._get(unit, key)
            refuse_stale(found, change.fields, expected_version)
            mutation = change.mutation
            added = self._append(unit, found, change.drafts, change.frames)
            fields = added.fields
            marked = self._marks.take(unit, key) if committed else None
            if committed:
                fields = _apply_mark(fields, marked)
            fields = fields.measure(mutation.metrics)
            if mutation.summary is not None:
                fields = msgspec.structs.replace(fields, summary=mutation.summary)
            data = added.data if mutation.title is None else msgspec.structs.replace(added.data, title=mutation.title)
            self._refuse_words(unit, found, added._replace(data=data, fields=fields))
            columns = Columns() if mutation.retention is None else retention_columns(found, mutation.retention)
            version = found.stated.version + (added is not found) + 1  # an append is a version of its own
            fields = msgspec.structs.replace(
                fields,
                changed=fields.changed | dict.fromkeys([*change.fields, *_marked_fields(marked)], version),
                changed_at=time_text(self._store.clock()),
            )
            return self._save(unit, added._replace(data=data, fields=fields), columns)

        return self._store.write(work)

    def set_privacy(self, key: str, exportable: bool | None, consent_capture: str | None) -> StoredRecord:
        """Sets whether a record may be exported, and how the user consented. Raises NotFound."""

        def work(unit: Unit) -> StoredRecord:
            found = self._get(unit, key)
            fields = found.fields
            if exportable is not None:
                fields = msgspec.structs.replace(fields, exportable=exportable)
            if consent_capture is not None:
                fields = msgspec.structs.replace(fields, consent_capture=consent_capture)
            return self._save(unit, found._replace(fields=fields))

        return self._store.write(work)

    def _get(self, unit: Unit, key: str) -> StoredRecord:
        session = unit.session(key)
        if session is None:
            raise NotFound("session", key)
        return self.load(session)

    def _begin(self, unit: Unit, key: str, conversation_id: str) -> StoredRecord:
        """Creates an empty session. Raises Conflict if its id is in use, also in the trash."""
        fields = RecordFields(
            conversation_id=foreign(conversation_id, key),
            exportable=False if not self._exportable else None,
            begun=True,
        )
        session = unit.create(self._redactor.session(fields.into(SessionData())), key)
        return StoredRecord(session, stated(session), session.data, fields)

    def _append(
        self, unit: Unit, found: StoredRecord, drafts: Sequence[Draft], frames: Sequence[MessageFrame]
    ) -> StoredRecord:
        """Appends the messages that are not stored yet. Raises Conflict, or Invalid if the record becomes too large."""
        session = found.session
        head = found.stated.head
        new = [n for n, one in enumerate(drafts) if not _is_stored(unit, session, head, one, frames[n].frame_id)]
        if not new:
            return found
        size = self._size(unit, found)
        self._refuse_size(found, size + sum(len(drafts[n].encoded.payload) for n in new))
        for n in new:
            _check_attachments(session, frames[n])
        nodes = unit.append(session, [drafts[n] for n in new])
        counted = found.fields.count([frames[n] for n in new]).weigh(nodes[-1].id, size + size_of(nodes))
        return found._replace(fields=counted)

    def _refuse_size(self, found: StoredRecord, messages: int) -> None:
        """Raises Invalid if this is too many bytes of messages for a record."""
        size = messages + found.words
        if size > self._max_payload:
            raise Invalid(
                f"the record would have {size:,} bytes; the limit is {self._max_payload:,}",
                hint="Store large content as an attachment, or start another conversation.",
            )

    def _refuse_words(self, unit: Unit, before: StoredRecord, after: StoredRecord) -> None:
        """Raises Invalid if the title, summary and participants make a record too large."""
        if after.words > before.words:
            appended = after.fields.sized != before.fields.sized
            self._refuse_size(after, after.fields.size if appended else self._size(unit, before))

    def _save(self, unit: Unit, found: StoredRecord, columns: Columns | None = None) -> StoredRecord:
        """Stores the session's data."""
        data = self._redactor.session(found.fields.into(found.data))
        if columns is not None and columns.get("hold") is False:
            data = msgspec.structs.replace(data, hold_reason=None)
        return self.load(unit.save(found.session, data, **(columns or {})))

    # -- snapshots

    def mark(self, snapshot: RecoverySnapshot, drafts: Sequence[Draft]) -> StoredRecord:
        """Stores pending messages and marks where they begin; creates the conversation if it does not exist."""
        key = self.key(snapshot.conversation_id)
        pending = PendingMark(
            session_id=snapshot.session_id, last_interaction_at=snapshot.last_interaction_at,
            updated_at=snapshot.updated_at, summary=snapshot.summary, metrics=snapshot.metrics,
        )  # fmt: skip

        def work(unit: Unit) -> StoredRecord:
            session = unit.session(key)
            before = self._begin(unit, key, snapshot.conversation_id) if session is None else self.load(session)
            if pending.summary is not None:
                self._refuse_size(before, self._size(unit, before) + len(codec.to_json(pending)))
            self._marks.set(unit, before.session, before.stated.head, pending)
            after = self._append(unit, before, drafts, snapshot.pending_messages)
            return before if after is before else self._save(unit, after)

        return self._store.write(work)

    def read_pending(self, key: str) -> RecoverySnapshot | None:
        """The pending messages; None if there is no mark. Raises Corrupted if the mark is damaged."""

        def work(unit: Unit) -> RecoverySnapshot | None:
            whole, mark = self._whole(unit, key), self._marks.find(unit, key)
            if whole is None or mark is None:
                return None
            pending = self._marks.read_mark(mark)
            return RecoverySnapshot(
                conversation_id=whole.found.conversation_id, session_id=pending.session_id,
                last_interaction_at=pending.last_interaction_at, pending_messages=_after(whole.nodes, mark.at),
                updated_at=pending.updated_at, summary=pending.summary, metrics=pending.metrics,
            )  # fmt: skip

        return self._store.read(work)

    def replace_mark(self, key: str) -> None:
        """Replaces an unreadable mark. The last committed message is unknown, so all messages become pending."""

        def work(unit: Unit) -> None:
            session, mark = unit.session(key), self._marks.find(unit, key)
            if session is None:
                raise NotFound("session", key)
            if mark is None or self._marks.sound(mark):
                return  # another writer replaced it first
            at, now = time_text(microseconds(session.updated_at)), time_text(self._store.clock())
            self._marks.set(unit, session, None, PendingMark(session_id=key, last_interaction_at=at, updated_at=now))

        self._store.write(work)

    def pending(self) -> list[Session]:
        """The sessions that have pending messages, newest mark first."""
        found: list[Session] = []
        last: Document | None = None

        def page(unit: Unit) -> tuple[list[Document], list[Session]]:
            return self._marks.sessions(unit, last, PAGE)

        while True:
            marks, sessions = self._store.read(page)
            found += sessions
            if len(marks) < PAGE:
                return found
            last = marks[-1]


def _is_stored(unit: Unit, session: Session, head: str | None, one: Draft, frame_id: str) -> bool:
    """True if the message is already stored. Raises Conflict if its id is in use or it is on another branch."""
    name = clip(frame_id)
    try:
        stored = unit.stored(one, session)
    except Conflict:
        raise Conflict(f"another message already has the frameId {name}") from None
    if stored is None:
        return False
    # A compacted message still belongs to the conversation.
    if head is None or not unit.is_above(stored.id, head, compacted=True):
        raise Conflict(f"message {name} is on a branch that the conversation has left")
    return True


def _check_attachments(session: Session, frame: MessageFrame) -> None:
    for one in frame.attachments or ():
        with suppress(NotFound):
            if session.blobs.stat(one.checksum).size != one.byte_length:
                raise Invalid(
                    "the byteLength of an attachment is wrong", hint="Use the AttachmentRef that attach() returned."
                )


def _marked_fields(marked: PendingMark | None) -> list[str]:
    """The fields that a snapshot sets when it is committed."""
    return [name for name in ("summary", "metrics") if getattr(marked, name, None) is not None]


def _apply_mark(fields: RecordFields, marked: PendingMark | None) -> RecordFields:
    """Applies the summary and metrics of a snapshot, unless the commit sets newer ones."""
    fields = msgspec.structs.replace(fields, begun=False)
    if marked is None:
        return fields
    return msgspec.structs.replace(fields.measure(marked.metrics), summary=marked.summary or fields.summary)


def _after(nodes: Sequence[Node], base: str | None) -> tuple[MessageFrame, ...]:
    """The frames after the message `base`, or all if it is not among them. Numbers depend on earlier frames."""
    at = next((n for n, node in enumerate(nodes) if node.id == base), -1)
    before = sum(node.role in ("user", "assistant") for node in nodes[: at + 1])
    return tuple(frames(nodes, []))[before:]


MOST = 4
"""Number of records in the cache."""


class RecordRead(NamedTuple):
    """A session and its messages, read in one transaction."""

    found: StoredRecord
    messages: RecordMessages


class Recent:
    """Reads records and caches the messages of a few."""

    def __init__(self, records: Repository) -> None:
        self._records = records
        self._seen: OrderedDict[str, RecordMessages] = OrderedDict()
        self._lock = threading.Lock()

    def whole(self, key: str) -> RecordRead | None:
        """Reads a record from the store; None if there is none. Raises Corrupted."""
        whole = self._records.whole(key)
        return (
            None
            if whole is None
            else self._remember(key, RecordRead(whole.found, RecordMessages.none().plus(whole.nodes)))
        )

    def after_write(self, key: str) -> RecordRead | None:
        """Reads a record after a write; reads only new messages if the others are cached. Raises Corrupted."""
        with self._lock:
            seen = self._seen.get(key)
        since = None if seen is None else self._records.since(key, seen.head, seen.depth)
        if seen is None or since is None:
            return self.whole(key)
        return self._remember(key, RecordRead(since.found, seen.plus(since.nodes)))

    def forget(self) -> None:
        """Clears the cache, after a deletion."""
        with self._lock:
            self._seen.clear()

    def _remember(self, key: str, read: RecordRead) -> RecordRead:
        with self._lock:
            self._seen.pop(key, None)
            if read.messages.head is not None and not read.messages.damage:
                self._seen[key] = read.messages
            while len(self._seen) > MOST:
                self._seen.popitem(last=False)
        return read
