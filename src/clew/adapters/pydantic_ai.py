"""Pydantic AI keeps its conversations in clew: ``ClewConversationStore("chats.db")``.

A record is a session, an entry is a message with the same id, and a fork shares the messages of its origin. The record
itself is in the session's free data, and is replaced in the transaction that stores its new entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from clew.adapters.chains import place
from clew.adapters.natives import native_message
from clew.adapters.rows import Adapter, Keyed, Target, unchanged
from clew.adapters.threads import in_thread
from clew.adapters.versions import check_version
from clew.backends import ID, POS, InsertPoint, NodeLocation, RefRow, Tx
from clew.base import ids
from clew.base.messages import Native
from clew.engine import paths
from clew.engine.append import append_chain
from clew.engine.engine import Draft
from clew.engine.node import Node, node_row
from clew.engine.session_data import SessionData, label_set
from clew.errors import Conflict
from clew.sources.importer import SOURCE
from clew.store.session_table import SESSION

TOOL = "pydantic-ai"
RECORD = "pydantic-ai"
"""Where a session's free data has the record. Also the label of all these sessions."""
_LINKS = "links"
"""Where a message's free data has its own id and its parent's, if they are not UUIDs."""
_record: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class ClewConversationStore(Adapter, ConversationStore):
    """Conversations in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    Deleting a conversation purges it, with the entries that no other conversation needs.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        check_version("pydantic-ai-slim", "2.60", "3")
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return await in_thread(self._load_record, conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        found = await in_thread(self._load_records, scope)
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        await in_thread(self._write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await in_thread(self._delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        (entry,) = await in_thread(self._load_history, entry_id, 1)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        return [] if head_id is None else await in_thread(self._load_history, head_id, limit)

    # -- on a thread

    def _load_record(self, conversation: str) -> ConversationRecord | None:
        found = self._keyed.find(conversation)
        return None if found is None else _revive(found.extra.get(RECORD))

    def _load_records(self, scope: str | None) -> list[ConversationRecord]:
        found = self._keyed.labelled(RECORD if scope is None else f"{RECORD}:{scope}")
        records = [record for one in found if (record := _revive(one.extra.get(RECORD))) is not None]
        return [one for one in records if scope in (None, one.scope)]  # anybody can set a label

    def _load_history(self, head: str, limit: int | None) -> list[ConversationEntry]:
        engine = self._keyed.engine

        def work(tx: Tx) -> list[Node]:
            location = self._location(tx, self._node_id(tx, head))
            if location is None:
                raise LookupError(head)
            pos = location.row[POS]
            return paths.whole(engine, tx, pos) if limit is None else paths.last(engine, tx, pos, limit)

        return [_entry(node) for node in engine.read(work)]

    def _write(self, record: ConversationRecord, entries: Sequence[ConversationEntry], expected: str | None) -> None:
        data = self._data(record)

        def work(tx: Tx) -> RefRow:
            row = self._keyed.find_row(tx, record.conversation_id)
            self._check(row, record.conversation_id, expected)
            ends = dict[bytes, InsertPoint]()
            tree = None if row is None else row.tree
            for entry in entries:
                above = None if entry.parent_id is None else self._node_id(tx, entry.parent_id)
                point = self._point(tx, above, tree)
                if point is None or tree not in (None, point.tree):
                    raise ConversationConflict(record.conversation_id)
                draft = self._draft(entry, self._node_id(tx, entry.id), above)
                (node,) = append_chain(self._keyed.engine, tx, point, [draft])
                tree = point.tree
                ends.pop(above or b"", None)
                ends[draft.id] = InsertPoint(tree, node_row(node)[POS], node_row(node)[ID])
            head = None if record.head_id is None else self._point(tx, self._node_id(tx, record.head_id), tree)
            if record.head_id is not None and (head is None or tree not in (None, head.tree)):
                raise ConversationConflict(record.conversation_id)
            row = self._point_at(tx, row, data, record, head or (None if tree is None else InsertPoint(tree)))
            for end in ends.values():
                if head is None or not paths.on_path(tx, head.pos or 0, end.pos or 0):
                    self._keyed.refs.branch(tx, row.ref, end)
            return row

        self._keyed.refs.write_one(work)

    def _delete(self, conversation: str, expected: str) -> None:
        row = self._keyed.engine.read(lambda tx: self._keyed.find_row(tx, conversation))
        if row is None:
            raise ConversationConflict(conversation)

        def check(tx: Tx, row: RefRow) -> None:
            self._check(row, conversation, expected)

        self._check(row, conversation, expected)
        receipt = self._keyed.parts.purger.purge([row], reason="user-requested", check=check)
        for failure in receipt.failures:
            raise Conflict(failure.error)

    # -- inside

    def _node_id(self, tx: Tx, entry: str) -> bytes:
        """The id of the message of an entry: its own, if that is a UUID and no other message has it."""
        own, other = ids.maybe(entry), self._keyed.message_id(tx, "entry", entry)
        if own is None or self._location(tx, other) is not None:
            return other
        return own if tx.node(own) is None or self._location(tx, own) is not None else other

    def _location(self, tx: Tx, id: bytes) -> NodeLocation | None:
        """Where an entry is; None for a message of another workspace, and for one that is no entry."""
        found = self._keyed.location(tx, id)
        if found is None:
            return None
        said = self._keyed.engine.node(found).said
        return found if isinstance(said, Native) and said.provider == TOOL else None

    def _draft(self, entry: ConversationEntry, id: bytes, above: bytes | None) -> Draft:
        """An entry as a message, with the ids that the message does not have itself."""
        raw = ModelMessagesTypeAdapter.serializer.to_json([entry.message])[1:-1]
        told = (("id", entry.id, id), ("parent", entry.parent_id, above))
        links = {name: value for name, value, stored in told if stored is not None and ids.text(stored) != value}
        native = Native(TOOL, raw, extra={_LINKS: links} if links else None)
        return self._keyed.engine.draft(native, ids.text(id))

    def _point(self, tx: Tx, above: bytes | None, tree: int | None) -> InsertPoint | None:
        """Where an entry goes: after another one, or as a root of the tree, or of a new one."""
        engine = self._keyed.engine
        if above is None:
            return InsertPoint(tx.add_tree(engine.workspace, engine.clock()) if tree is None else tree)
        if self._location(tx, above) is None:
            return None
        point = tx.insert_point(above)
        if point is not None:
            self._keyed.refs.ensure_sound(tx, point.pos)
        return point

    def _check(self, row: RefRow | None, conversation: str, expected: str | None) -> None:
        """ConversationConflict if the stored record is not the one that the caller has read."""
        stored = None
        if row is not None:
            record = (self._keyed.parts.table.data(row).extra or {}).get(RECORD)
            stored = record.get("revision") if isinstance(record, dict) else None
        if stored != expected or (row is not None and row.trashed_at is not None):
            raise ConversationConflict(conversation)

    def _data(self, record: ConversationRecord) -> SessionData:
        labels = [RECORD, *([] if record.scope is None else [f"{RECORD}:{record.scope}"])]
        origin = {"tool": TOOL, "id": record.conversation_id}
        extra = {SOURCE: origin, RECORD: _record.dump_python(record, mode="json")}
        return SessionData(labels=label_set(labels), extra=extra)

    def _point_at(
        self, tx: Tx, row: RefRow | None, data: SessionData, record: ConversationRecord, head: InsertPoint | None
    ) -> RefRow:
        """Stores the record, and moves its session to the head."""
        keyed, table = self._keyed, self._keyed.parts.table
        if row is None:
            return table.add_at(tx, data, keyed.key(record.conversation_id), SESSION, at=head, owner=None)
        before = table.data(row)
        kept = {name: value for name, value in (before.extra or {}).items() if name not in (SOURCE, RECORD)}
        labels = label_set([*(one for one in before.labels if one.partition(":")[0] != RECORD), *data.labels])
        data = msgspec.structs.replace(before, labels=labels, extra={**kept, **(data.extra or {})})
        payload, look, hashes = table.pack(data)
        row = keyed.refs.change(tx, row, payload, look=look)
        place(keyed, tx, row, None if head is None else head.id, [])
        if labels != before.labels:
            tx.set_labels(row.ref, hashes)
        return keyed.refs.get(tx, SESSION, row.key)


def _entry(node: Node) -> ConversationEntry:
    said = native_message(node)
    (message,) = ModelMessagesTypeAdapter.validate_json(b"[" + said.raw + b"]")
    links = (said.extra or {}).get(_LINKS, {})
    return ConversationEntry(
        id=links.get("id", node.id), parent_id=links.get("parent", node.parent_id), message=message
    )


def _revive(data: object) -> ConversationRecord | None:
    return None if data is None else _record.validate_python(data)
