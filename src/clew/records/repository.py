"""Stores records. Each call is one transaction, durable when it returns. No policy, no events, no retries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clew.backends import ID, POS, SEQ_BITS, RefRow, Tx
from clew.base import codec, ids
from clew.engine import audit, paths
from clew.engine.append import append_chain, find_existing
from clew.engine.engine import Draft
from clew.engine.node import Node, node_row, parent_key
from clew.engine.session_data import SessionData, is_record, unpack
from clew.errors import Conflict, Corrupted, Invalid, clip
from clew.records import changes
from clew.records.changes import RecordChange
from clew.records.frames import draft, foreign, frame_keys, frames, session_keys
from clew.records.record_data import RecordFields, StoredRecord, record_fields, size_of
from clew.records.recovery import Marks, PendingMark
from clew.records.redactor import Redactor
from clew.records.schema import ConversationRecordInput, MessageFrame, RecoverySnapshot, time_text
from clew.store.parts import Parts
from clew.store.session_table import SCAN, SESSION
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.redaction import Rules


class FullRecord(NamedTuple):
    """A session with its messages, read in one transaction."""

    found: StoredRecord
    nodes: list[Node]


class Repository:
    """The records of a store."""

    def __init__(self, store: Store, max_payload: int, exportable: bool, rules: Rules | None = None) -> None:
        parts = Parts.of(store)
        self._store = store
        self._engine = parts.engine
        self._refs = parts.refs
        self._table = parts.table
        self._redactor = Redactor(parts.engine, rules)
        self._marks = Marks(parts.engine, parts.refs, self._redactor)
        self._max_payload = max_payload
        self._exportable = exportable

    @property
    def redacts(self) -> bool:
        """True if redaction rules apply."""
        return self._redactor.active

    def keys(self, conversation_id: str) -> tuple[bytes, ...]:
        """The keys that a conversation's session may have. Raises Invalid if the id is not valid."""
        if not isinstance(conversation_id, str) or not conversation_id or len(conversation_id) > 512:
            raise Invalid("a conversation id must be text of up to 512 characters")
        return session_keys(self._engine, conversation_id)

    def key(self, conversation_id: str) -> bytes:
        """The key of a conversation's session, or the key it would get. Raises Invalid if the id is not valid."""
        keys = self.keys(conversation_id)
        if len(keys) == 1:
            return keys[0]
        where = self._engine.workspace, SESSION
        return self._engine.read(lambda tx: next((key for key in keys if tx.ref(*where, key)), keys[0]))

    # -- reading

    def load_row(self, row: RefRow) -> StoredRecord:
        """Decodes and checks a row. Raises Corrupted."""
        data = unpack(self._refs.data(self._refs.verify(row)))
        fields = record_fields(data, f"session {ids.text(row.key)}")
        if fields.conversation_id is not None and row.key not in session_keys(self._engine, fields.conversation_id):
            fields = msgspec.structs.replace(fields, conversation_id=None)  # a fork, or the id was redacted
        return StoredRecord(row, data, fields)

    def is_record(self, row: RefRow) -> bool:
        """True if a service has written to the session, or if its data cannot be read."""
        try:
            return is_record(self.load_row(row).data)
        except Corrupted:
            return True

    def find(self, key: bytes) -> StoredRecord | None:
        """A session; None if it does not exist or is in the trash."""
        row = self._engine.read(lambda tx: self._row(tx, key), single=True)
        return None if row is None else self.load_row(row)

    def whole(self, key: bytes) -> FullRecord | None:
        """A session with its messages; None if it does not exist or is in the trash."""
        return self._engine.read(lambda tx: self._whole(tx, key))

    def since(self, key: bytes, head: bytes | None, depth: int) -> FullRecord | None:
        """A session with the messages after a given one; None if all messages must be read.

        That is the case if the message is no longer on the session's path, or if the quarantine is not empty, because
        it may hold an earlier message.
        """

        def work(tx: Tx) -> FullRecord | None:
            row = self._row(tx, key)
            if row is None or row.head is None or tx.maintenance.quarantined_after(-1, 1):
                return None
            if row.head_id == head:
                return FullRecord(self.load_row(row), [])
            (newest,) = paths.last(self._engine, tx, row.head, 1)
            nodes = paths.last(self._engine, tx, row.head, max(1, newest.depth - depth))
            return FullRecord(self.load_row(row), nodes) if parent_key(nodes[0]) == head else None

        return self._engine.read(work)

    def _whole(self, tx: Tx, key: bytes) -> FullRecord | None:
        row = self._row(tx, key)
        if row is None:
            return None
        found = self.load_row(row)
        nodes = [] if row.head is None else paths.whole(self._engine, tx, row.head)
        return FullRecord(found, nodes)

    def _row(self, tx: Tx, key: bytes) -> RefRow | None:
        row = tx.ref(self._engine.workspace, SESSION, key)
        return None if row is None or row.trashed_at is not None else row

    def _size(self, tx: Tx, found: StoredRecord) -> int:
        """Bytes of a record's messages: as noted by the last write, or counted if the head has changed since."""
        head, head_id, fields = found.row.head, found.row.head_id, found.fields
        if head is None or head_id is None:
            return 0
        if fields.sized == ids.text(head_id):
            return fields.size
        spans = ((run.run << SEQ_BITS, run.run << SEQ_BITS | upto) for run, upto in paths.lineage(tx, head))
        return sum(tx.body_bytes(low, high) for low, high in spans)

    # -- writing

    def drafts(self, conversation_id: str, messages: Sequence[MessageFrame]) -> list[Draft]:
        """The encoded messages of frames. Raises Invalid."""
        session = self.key(conversation_id)
        keys = [frame_keys(self._engine, session, frame.frame_id) for frame in messages]
        others = [key for known in keys for key in known[1:]]
        stored = self._engine.read(lambda tx: tx.existing_ids(others)) if others else set()
        return [
            draft(self._engine, self._redactor, known[-1] if known[-1] in stored else known[0], frame)
            for known, frame in zip(keys, messages, strict=True)
        ]

    def create(self, record: ConversationRecordInput, drafts: Sequence[Draft]) -> StoredRecord:
        """Creates a record, or completes one that only has snapshots. Raises Conflict if it exists."""
        key = self.key(record.conversation_id)

        def work(tx: Tx) -> StoredRecord:
            row = tx.ref(self._engine.workspace, SESSION, key)
            if row is not None and (row.trashed_at is not None or not self.load_row(row).fields.begun):
                raise Conflict("a record with this id is already stored", hint="Update it, or use another id.")
            found = self._begin(tx, key, record.conversation_id) if row is None else self.load_row(row)
            fields = msgspec.structs.replace(
                found.fields, created_at=record.created_at, participants=record.participants,
                summary=record.summary or found.fields.summary, begun=False,
            )  # fmt: skip
            data = msgspec.structs.replace(found.data, title=record.title)
            after = self._append(tx, StoredRecord(found.row, data, fields), drafts, record.messages)
            self._refuse_words(tx, found, after)
            return self._save(tx, after._replace(fields=after.fields.measure(record.metrics)))

        return self._write(work)

    def change(
        self, key: bytes, change: RecordChange, expected_version: int | None, *, committed: bool = False
    ) -> StoredRecord:
        """Appends messages at the current end and sets the given fields. Raises NotFound.

        With `expected_version`, raises Conflict and changes nothing if another writer has set one of the fields since.
        With `committed`, clears the recovery mark.
        """

        def work(tx: Tx) -> StoredRecord:
            found = self.load_row(self._refs.get(tx, SESSION, key))
            changes.refuse_stale(found, change.fields, expected_version)
            mutation = change.mutation
            added = self._append(tx, found, change.drafts, change.frames)
            fields = added.fields
            marked = self._marks.take(tx, key) if committed else None
            if committed:
                fields = _apply_mark(fields, marked)
            fields = fields.measure(mutation.metrics)
            if mutation.summary is not None:
                fields = msgspec.structs.replace(fields, summary=mutation.summary)
            data = added.data if mutation.title is None else msgspec.structs.replace(added.data, title=mutation.title)
            self._refuse_words(tx, found, StoredRecord(added.row, data, fields))
            columns = {} if mutation.retention is None else changes.columns(added.row, mutation.retention)
            version = added.row.version + 1
            fields = msgspec.structs.replace(
                fields,
                changed=fields.changed | dict.fromkeys([*change.fields, *_marked_fields(marked)], version),
                changed_at=time_text(self._engine.clock()),
            )
            return self._save(tx, StoredRecord(added.row, data, fields), **columns)

        return self._write(work)

    def set_privacy(self, key: bytes, exportable: bool | None, consent_capture: str | None) -> StoredRecord:
        """Sets whether a record may be exported, and how the user consented. Raises NotFound."""

        def work(tx: Tx) -> StoredRecord:
            found = self.load_row(self._refs.get(tx, SESSION, key))
            fields = found.fields
            if exportable is not None:
                fields = msgspec.structs.replace(fields, exportable=exportable)
            if consent_capture is not None:
                fields = msgspec.structs.replace(fields, consent_capture=consent_capture)
            return self._save(tx, found._replace(fields=fields))

        return self._write(work)

    def _write(
        self, work: Callable[[Tx], StoredRecord], left: Callable[[StoredRecord], RefRow] = lambda found: found.row
    ) -> StoredRecord:
        """Runs `work`. If the commit fails, checks the session's ref to find out whether the change was stored."""
        return self._engine.write_settled(work, lambda tx, found: self._refs.is_stored(tx, left(found)))

    def _begin(self, tx: Tx, key: bytes, conversation_id: str) -> StoredRecord:
        """Creates an empty session."""
        fields = RecordFields(
            conversation_id=foreign(conversation_id, key),
            exportable=False if not self._exportable else None,
            begun=True,
        )
        self._table.ensure_vacant(tx, key)
        tree = tx.add_tree(self._engine.workspace, self._engine.clock())
        payload, cwd_hash, _ = self._table.pack(self._redactor.session(fields.into(SessionData())))
        row = self._refs.add(tx, SESSION, key, payload, tree=tree, at=None, look=cwd_hash)
        audit.note_if_enabled(self._engine, self._refs, tx, "create", ids.text(key))
        return StoredRecord(row, unpack(payload), fields)

    def _append(
        self, tx: Tx, found: StoredRecord, drafts: Sequence[Draft], frames: Sequence[MessageFrame]
    ) -> StoredRecord:
        """Appends the messages that are not stored yet. Raises Conflict, or Invalid if the record becomes too large."""
        row = found.row
        new = [n for n, one in enumerate(drafts) if not self._is_stored(tx, row, one, clip(frames[n].frame_id))]
        if not new:
            return found
        size = self._size(tx, found)
        self._refuse_size(found, size + sum(len(drafts[n].encoded.payload) for n in new))
        for n in new:
            self._check_attachments(tx, row, frames[n])
        state = self._refs.head_state(tx, row)
        self._refs.ensure_sound(tx, state.pos)
        nodes = append_chain(self._engine, tx, state.insert_point, [drafts[n] for n in new])
        last = node_row(nodes[-1])
        move = self._refs.move(tx, row.ref, state, last[POS], last[ID])
        counted = found.fields.count([frames[n] for n in new]).weigh(last[ID], size + size_of(nodes))
        return found._replace(row=row._replace(**move._asdict()), fields=counted)

    def _refuse_size(self, found: StoredRecord, messages: int) -> None:
        """Raises Invalid if this is too many bytes of messages for a record."""
        size = messages + found.words
        if size > self._max_payload:
            raise Invalid(
                f"the record would have {size:,} bytes; the limit is {self._max_payload:,}",
                hint="Store large content as an attachment, or start another conversation.",
            )

    def _refuse_words(self, tx: Tx, before: StoredRecord, after: StoredRecord) -> None:
        """Raises Invalid if the title, summary and participants make a record too large."""
        if after.words > before.words:
            self._refuse_size(after, self._size(tx, after))

    def _is_stored(self, tx: Tx, row: RefRow, one: Draft, name: str) -> bool:
        """True if the message is already stored. Raises Conflict if its id is in use or it is on another branch."""
        if tx.node(one.id) is None:
            return False
        try:
            stored = find_existing(self._engine, tx, [one], row.tree) or ()
        except Conflict:
            raise Conflict(f"another message already has the frameId {name}") from None
        for node in stored:
            heads = paths.origins(self._engine, tx, row.head)  # a compacted message still belongs to the conversation
            if not any(paths.on_path(tx, head, node_row(node)[POS]) for head in heads):
                raise Conflict(f"message {name} is on a branch that the conversation has left")
        return True

    def _check_attachments(self, tx: Tx, row: RefRow, frame: MessageFrame) -> None:
        for one in frame.attachments or ():
            blob = tx.blobs.blob(row.tree or 0, self._engine.blob_hash(row.tree or 0, one.checksum))
            if blob is not None and blob.size != one.byte_length:
                raise Invalid(
                    "the byteLength of an attachment is wrong", hint="Use the AttachmentRef that attach() returned."
                )

    def _save(self, tx: Tx, found: StoredRecord, **columns: int | None) -> StoredRecord:
        """Stores the session's data."""
        data = self._redactor.session(found.fields.into(found.data))
        if "hold" in columns and not columns["hold"]:
            data = msgspec.structs.replace(data, hold_reason=None)
        payload, cwd_hash, _ = self._table.pack(data)
        row = self._refs.change(tx, found.row, payload, look=cwd_hash, **columns)
        for event in changes.audit_events(found.row, columns):
            audit.note(self._engine, self._refs, tx, event, ids.text(row.key))
        return self.load_row(row)

    # -- snapshots

    def mark(self, snapshot: RecoverySnapshot, drafts: Sequence[Draft]) -> StoredRecord:
        """Stores pending messages and marks where they begin; creates the conversation if it does not exist."""
        key = self.key(snapshot.conversation_id)
        pending = PendingMark(
            session_id=snapshot.session_id, last_interaction_at=snapshot.last_interaction_at,
            updated_at=snapshot.updated_at, summary=snapshot.summary, metrics=snapshot.metrics,
        )  # fmt: skip

        mark: list[RefRow] = []

        def work(tx: Tx) -> StoredRecord:
            row = self._row(tx, key)
            before = self._begin(tx, key, snapshot.conversation_id) if row is None else self.load_row(row)
            if pending.summary is not None:
                self._refuse_size(before, self._size(tx, before) + len(codec.to_json(pending)))
            mark[:] = [self._marks.set(tx, before.row, pending)]
            after = self._append(tx, before, drafts, snapshot.pending_messages)
            return before if after is before else self._save(tx, after)

        return self._write(work, lambda found: mark[0])  # the session's ref may be unchanged

    def read_pending(self, key: bytes) -> RecoverySnapshot | None:
        """The pending messages; None if there is no mark. Raises Corrupted if the mark is damaged."""

        def work(tx: Tx) -> RecoverySnapshot | None:
            whole, mark = self._whole(tx, key), self._marks.row(tx, key)
            if whole is None or mark is None:
                return None
            pending = self._marks.read_mark(mark)
            return RecoverySnapshot(
                conversation_id=whole.found.conversation_id, session_id=pending.session_id,
                last_interaction_at=pending.last_interaction_at, pending_messages=_after(whole.nodes, mark.head_id),
                updated_at=pending.updated_at, summary=pending.summary, metrics=pending.metrics,
            )  # fmt: skip

        return self._engine.read(work)

    def replace_mark(self, key: bytes) -> None:
        """Replaces an unreadable mark. The last committed message is unknown, so all messages become pending."""

        def work(tx: Tx) -> None:
            row, mark = self._refs.get(tx, SESSION, key), self._marks.row(tx, key)
            if mark is None or self._marks.sound(mark):
                return  # another writer replaced it first
            at, now = time_text(row.active_at), time_text(self._engine.clock())
            pending = PendingMark(session_id=ids.text(key), last_interaction_at=at, updated_at=now)
            self._marks.set(tx, row._replace(head_id=None), pending)

        self._engine.write(work)

    def pending(self) -> list[RefRow]:
        """The sessions that have pending messages, newest mark first."""
        found: list[RefRow] = []
        edge: tuple[int, int] | None = None
        while True:
            marks, rows = self._engine.read(partial(self._marks.sessions, before=edge, limit=SCAN))
            found += rows
            if len(marks) < SCAN:
                return found
            edge = marks[-1].rank, marks[-1].ref


def _marked_fields(marked: PendingMark | None) -> list[str]:
    """The fields that a snapshot sets when it is committed."""
    return [name for name in ("summary", "metrics") if getattr(marked, name, None) is not None]


def _apply_mark(fields: RecordFields, marked: PendingMark | None) -> RecordFields:
    """Applies the summary and metrics of a snapshot, unless the commit sets newer ones."""
    fields = msgspec.structs.replace(fields, begun=False)
    if marked is None:
        return fields
    return msgspec.structs.replace(fields.measure(marked.metrics), summary=marked.summary or fields.summary)


def _after(nodes: Sequence[Node], base: bytes | None) -> tuple[MessageFrame, ...]:
    """The frames after the message `base`, or all if it is not among them. Numbers depend on earlier frames."""
    at = next((n for n, node in enumerate(nodes) if node_row(node)[ID] == base), -1)
    before = sum(node.role in ("user", "assistant") for node in nodes[: at + 1])
    return tuple(frames(nodes, []))[before:]
