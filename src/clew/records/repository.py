"""Records in a store: each call is one transaction, durable when it returns. No policy, no events, no retries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from clew import audit, codec, ids, paths
from clew.backends import ID, POS, SEQ_BITS, RefRow, Tx
from clew.engine import Draft
from clew.errors import Conflict, Invalid, Tampered, clip
from clew.node import Node
from clew.records import changes
from clew.records.changes import Change
from clew.records.frames import draft, foreign, frames, session_key
from clew.records.kept import Found, Kept, kept, size_of
from clew.records.marks import Marked, Marks
from clew.records.shapes import (
    ConversationRecordInput,
    MessageFrame,
    RecoverySnapshot,
    time_text,
)
from clew.session_data import SessionData, is_record, unpack
from clew.sessions import SCAN, SESSION
from clew.store import Store


class Whole(NamedTuple):
    """A session with its messages, of one moment."""

    found: Found
    nodes: list[Node]


class Repository:
    """The records of a store."""

    def __init__(self, store: Store, max_payload: int, exportable: bool) -> None:
        self._store = store
        self._engine = store._engine
        self._refs = store._refs
        self._marks = Marks(store._engine, store._refs)
        self._max_payload = max_payload
        self._exportable = exportable

    def key(self, conversation_id: str) -> bytes:
        """The key of a conversation's session. Invalid if the id cannot be one."""
        if not isinstance(conversation_id, str) or not conversation_id or len(conversation_id) > 512:
            raise Invalid("a conversation's id is text, of up to 512 characters")
        return session_key(self._engine, conversation_id)

    # -- reading

    def found(self, row: RefRow) -> Found:
        """What a row says, checked. Tampered."""
        data = unpack(self._refs.data(self._refs.checked(row)))
        said = kept(data, f"session {ids.text(row.key)}")
        if said.conversation_id is not None and session_key(self._engine, said.conversation_id) != row.key:
            said = msgspec.structs.replace(said, conversation_id=None)  # a fork's, or the id was redacted
        return Found(row, data, said)

    def is_record(self, row: RefRow) -> bool:
        """True if a service has written to the session; also if that cannot be told."""
        try:
            return is_record(self.found(row).data)
        except Tampered:
            return True

    def find(self, key: bytes) -> Found | None:
        """A session; None if it is not there, or in the trash."""
        row = self._engine.read(lambda tx: self._row(tx, key), single=True)
        return None if row is None else self.found(row)

    def whole(self, key: bytes) -> Whole | None:
        """A session with its messages; None if it is not there, or in the trash."""
        return self._engine.read(lambda tx: self._whole(tx, key))

    def since(self, key: bytes, head: bytes | None, depth: int) -> Whole | None:
        """A session with its messages after one of them; None if it has to be read as a whole.

        So it is if the session has left that message, and if anything is in quarantine: it may be among those before.
        """

        def work(tx: Tx) -> Whole | None:
            row = self._row(tx, key)
            if row is None or row.head is None or tx.quarantined_after(-1, 1):
                return None
            if row.head_id == head:
                return Whole(self.found(row), [])
            (tip,) = paths.last(self._engine, tx, row.head, 1)
            nodes = paths.last(self._engine, tx, row.head, max(1, tip.depth - depth))
            return Whole(self.found(row), nodes) if nodes[0]._parent == head else None

        return self._engine.read(work)

    def _whole(self, tx: Tx, key: bytes) -> Whole | None:
        row = self._row(tx, key)
        if row is None:
            return None
        found = self.found(row)
        nodes = [] if row.head is None else paths.whole(self._engine, tx, row.head)
        return Whole(found, nodes)

    def _row(self, tx: Tx, key: bytes) -> RefRow | None:
        row = tx.ref(self._engine.workspace, SESSION, key)
        return None if row is None or row.trashed_at is not None else row

    def _size(self, tx: Tx, found: Found) -> int:
        """Bytes of a record's messages: as the last write noted them, or counted if the head has moved since."""
        head, head_id, said = found.row.head, found.row.head_id, found.kept
        if head is None or head_id is None:
            return 0
        if said.sized == ids.text(head_id):
            return said.size
        spans = ((run.run << SEQ_BITS, run.run << SEQ_BITS | upto) for run, upto in paths.lineage(tx, head))
        return sum(tx.body_bytes(low, high) for low, high in spans)

    # -- writing

    def drafts(self, conversation_id: str, messages: Sequence[MessageFrame]) -> list[Draft]:
        """The messages of frames, encoded. Invalid."""
        key = self.key(conversation_id)
        return [draft(self._engine, key, frame) for frame in messages]

    def create(self, record: ConversationRecordInput, drafts: Sequence[Draft]) -> Found:
        """A new record. Conflict if there is one; a conversation that only has snapshots becomes one."""
        key = self.key(record.conversation_id)

        def work(tx: Tx) -> Found:
            row = tx.ref(self._engine.workspace, SESSION, key)
            if row is not None and (row.trashed_at is not None or not self.found(row).kept.begun):
                raise Conflict("a record with this id is already stored", hint="Update it, or choose another id.")
            found = self._begin(tx, key, record.conversation_id) if row is None else self.found(row)
            said = msgspec.structs.replace(
                found.kept, created_at=record.created_at, participants=record.participants,
                summary=record.summary or found.kept.summary, begun=False,
            )  # fmt: skip
            data = msgspec.structs.replace(found.data, title=record.title)
            after = self._append(tx, Found(found.row, data, said), drafts, record.messages)
            self._refuse_words(tx, found, after)
            return self._save(tx, after._replace(kept=after.kept.measure(record.metrics)))

        return self._write(work)

    def change(self, key: bytes, change: Change, expected_version: int | None, *, committed: bool = False) -> Found:
        """Adds the messages after whatever is last now, and sets the fields that were given. NotFound.

        With `expected_version`, a field that someone else has set since is a Conflict, and nothing is changed. With
        `committed` nothing of the record is uncommitted any more.
        """

        def work(tx: Tx) -> Found:
            found = self.found(self._refs.get(tx, SESSION, key))
            changes.refuse_stale(found, change.fields, expected_version)
            mutation = change.mutation
            added = self._append(tx, found, change.drafts, change.frames)
            said = added.kept
            if committed:
                said = _committed(said, self._marks.take(tx, key))
            said = said.measure(mutation.metrics)
            if mutation.summary is not None:
                said = msgspec.structs.replace(said, summary=mutation.summary)
            data = added.data if mutation.title is None else msgspec.structs.replace(added.data, title=mutation.title)
            self._refuse_words(tx, found, Found(added.row, data, said))
            columns = {} if mutation.retention is None else changes.columns(added.row, mutation.retention)
            version = added.row.version + 1
            said = msgspec.structs.replace(
                said,
                changed=said.changed | dict.fromkeys(change.fields, version),
                changed_at=time_text(self._engine.clock()),
            )
            return self._save(tx, Found(added.row, data, said), **columns)

        return self._write(work)

    def set_privacy(self, key: bytes, exportable: bool | None, consent_capture: str | None) -> Found:
        """Says whether a record may leave the store, and how the person agreed. NotFound."""

        def work(tx: Tx) -> Found:
            found = self.found(self._refs.get(tx, SESSION, key))
            said = found.kept
            if exportable is not None:
                said = msgspec.structs.replace(said, exportable=exportable)
            if consent_capture is not None:
                said = msgspec.structs.replace(said, consent_capture=consent_capture)
            return self._save(tx, found._replace(kept=said))

        return self._write(work)

    def _write(self, work: Callable[[Tx], Found], left: Callable[[Found], RefRow] = lambda found: found.row) -> Found:
        """Runs `work`. If the commit fails, it was kept if a ref that it changes, the session's, is as it left it."""
        return self._engine.write_settled(work, lambda tx, found: self._refs.stands(tx, left(found)))

    def _begin(self, tx: Tx, key: bytes, conversation_id: str) -> Found:
        """A new session, without anything in it."""
        said = Kept(
            conversation_id=foreign(conversation_id, key),
            exportable=False if not self._exportable else None,
            begun=True,
        )
        self._store.sessions._vacant(tx, key)
        tree = tx.add_tree(self._engine.workspace, self._engine.clock())
        payload, look, _ = self._store.sessions._pack(said.into(SessionData()))
        row = self._refs.add(tx, SESSION, key, payload, tree=tree, at=None, look=look)
        audit.may_note(self._engine, self._refs, tx, "create", ids.text(key))
        return Found(row, unpack(payload), said)

    def _append(self, tx: Tx, found: Found, drafts: Sequence[Draft], said: Sequence[MessageFrame]) -> Found:
        """Adds the messages that are not there yet. Conflict, Invalid if it becomes too much."""
        row = found.row
        new = [n for n, one in enumerate(drafts) if not self._stored(tx, row, one, clip(said[n].frame_id))]
        if not new:
            return found
        size = self._size(tx, found)
        self._refuse_size(found, size + sum(len(drafts[n].encoded.payload) for n in new))
        for n in new:
            self._check_attachments(tx, row, said[n])
        tip = self._refs.tip(tx, row)
        self._refs.ensure_sound(tx, tip.pos)
        nodes = self._engine.grow(tx, tip.ground, [drafts[n] for n in new])
        last = nodes[-1]._row
        move = self._refs.move(tx, row.ref, tip, last[POS], last[ID])
        counted = found.kept.count([said[n] for n in new]).weigh(last[ID], size + size_of(nodes))
        return found._replace(row=row._replace(**move._asdict()), kept=counted)

    def _refuse_size(self, found: Found, messages: int) -> None:
        """Invalid if a record with so many bytes of messages is too large."""
        size = messages + found.words
        if size > self._max_payload:
            raise Invalid(
                f"the record would have {size:,} bytes, the limit is {self._max_payload:,}",
                hint="Keep large content as an attachment, or begin another conversation.",
            )

    def _refuse_words(self, tx: Tx, before: Found, after: Found) -> None:
        """Invalid if a record has become too large by what is said of it."""
        if after.words > before.words:
            self._refuse_size(after, self._size(tx, after))

    def _stored(self, tx: Tx, row: RefRow, one: Draft, name: str) -> bool:
        """True if the message is there already. Conflict if its id is taken by another, or it is elsewhere."""
        if tx.node(one.id) is None:
            return False
        try:
            stored = self._engine.known(tx, [one], row.tree) or ()
        except Conflict:
            raise Conflict(f"the frameId {name} is taken by another message") from None
        for node in stored:
            heads = paths.origins(self._engine, tx, row.head)  # what was compacted was said all the same
            if not any(paths.on_path(tx, head, node._row[POS]) for head in heads):
                raise Conflict(f"message {name} is on a branch that the conversation has left")
        return True

    def _check_attachments(self, tx: Tx, row: RefRow, frame: MessageFrame) -> None:
        for one in frame.attachments or ():
            blob = tx.blob(row.tree or 0, self._engine.blob_look(row.tree or 0, one.checksum))
            if blob is not None and blob.size != one.byte_length:
                raise Invalid("an attachment does not have the length it says", hint="Pass it on as attach made it.")

    def _save(self, tx: Tx, found: Found, **columns: int | None) -> Found:
        """Stores what the session says of itself."""
        data = found.kept.into(found.data)
        if "hold" in columns and not columns["hold"]:
            data = msgspec.structs.replace(data, hold_reason=None)
        payload, look, _ = self._store.sessions._pack(data)
        row = self._refs.change(tx, found.row, payload, look=look, **columns)
        for deed in changes.deeds(found.row, columns):
            audit.note(self._engine, self._refs, tx, deed, ids.text(row.key))
        return self.found(row)

    # -- snapshots

    def mark(self, snapshot: RecoverySnapshot, drafts: Sequence[Draft]) -> Found:
        """Stores what is pending, and where that begins; a conversation that is not there is begun."""
        key = self.key(snapshot.conversation_id)
        said = Marked(
            session_id=snapshot.session_id, last_interaction_at=snapshot.last_interaction_at,
            updated_at=snapshot.updated_at, summary=snapshot.summary, metrics=snapshot.metrics,
        )  # fmt: skip

        mark: list[RefRow] = []

        def work(tx: Tx) -> Found:
            row = self._row(tx, key)
            before = self._begin(tx, key, snapshot.conversation_id) if row is None else self.found(row)
            if said.summary is not None:
                self._refuse_size(before, self._size(tx, before) + len(codec.to_json(said)))
            mark[:] = [self._marks.set(tx, before.row, said)]
            after = self._append(tx, before, drafts, snapshot.pending_messages)
            return before if after is before else self._save(tx, after)

        return self._write(work, lambda found: mark[0])  # the session may be as it was before

    def marked(self, key: bytes) -> RecoverySnapshot | None:
        """What was pending; None if nothing was marked. Tampered if the mark is not what was written."""

        def work(tx: Tx) -> RecoverySnapshot | None:
            whole, mark = self._whole(tx, key), self._marks.row(tx, key)
            if whole is None or mark is None:
                return None
            said = self._marks.said(mark)
            return RecoverySnapshot(
                conversation_id=whole.found.conversation_id, session_id=said.session_id,
                last_interaction_at=said.last_interaction_at, pending_messages=_after(whole.nodes, mark.head_id),
                updated_at=said.updated_at, summary=said.summary, metrics=said.metrics,
            )  # fmt: skip

        return self._engine.read(work)

    def mark_anew(self, key: bytes) -> None:
        """Replaces a mark that cannot be read: nothing is known to be committed, so everything is pending."""

        def work(tx: Tx) -> None:
            row, mark = self._refs.get(tx, SESSION, key), self._marks.row(tx, key)
            if mark is None or self._marks.sound(mark):
                return  # someone else was first
            at, now = time_text(row.active_at), time_text(self._engine.clock())
            said = Marked(session_id=ids.text(key), last_interaction_at=at, updated_at=now)
            self._marks.set(tx, row._replace(head_id=None), said)

        self._engine.write(work)

    def pending(self) -> list[RefRow]:
        """The sessions that have something pending, last begun first."""
        found: list[RefRow] = []
        edge: tuple[int, int] | None = None
        while True:
            marks, rows = self._engine.read(partial(self._marks.sessions, before=edge, limit=SCAN))
            found += rows
            if len(marks) < SCAN:
                return found
            edge = marks[-1].rank, marks[-1].ref


def _committed(kept: Kept, marked: Marked | None) -> Kept:
    """Once nothing is pending: what was said with it holds, where nothing newer is said."""
    kept = msgspec.structs.replace(kept, begun=False)
    if marked is None:
        return kept
    return msgspec.structs.replace(kept.measure(marked.metrics), summary=marked.summary or kept.summary)


def _after(nodes: Sequence[Node], base: bytes | None) -> tuple[MessageFrame, ...]:
    """The frames after the message `base`, or all if it is not among them; their numbers depend on those before."""
    at = next((n for n, node in enumerate(nodes) if node._row[ID] == base), -1)
    before = sum(node.role in ("user", "assistant") for node in nodes[: at + 1])
    return tuple(frames(nodes, []))[before:]
