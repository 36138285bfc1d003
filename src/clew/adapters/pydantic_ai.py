"""Pydantic AI keeps its conversations in clew: ``ClewConversationStore("chats.db")``.

A record is a session, an entry is a message with the same id, and a fork shares the messages of its origin. The record
itself is in the session's free data, and is replaced in the transaction that stores its new entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.adapters.framework import framework
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, native_message, unchanged
from clew.adapters.threads import in_thread
from clew.base import ids
from clew.base.messages import Native
from clew.engine.node import Node
from clew.engine.session_data import SessionData, label_set
from clew.errors import Conflict, NotFound
from clew.sources.importer import SOURCE
from clew.store.session import Session
from clew.store.unit import Draft, Unit

with framework("pydantic-ai"):
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessagesTypeAdapter

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
        check_version("pydantic-ai-slim", "2.66", "3")
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
        def work(unit: Unit) -> list[Node]:
            node = self._node(unit, self._node_id(unit, head))
            if node is None:
                raise LookupError(head)
            return unit.path(node, last=limit)

        return [_entry(node) for node in self._keyed.read(work)]

    def _write(self, record: ConversationRecord, entries: Sequence[ConversationEntry], expected: str | None) -> None:
        def work(unit: Unit) -> None:
            session = self._keyed.session(unit, record.conversation_id, trashed=True)
            self._check(session, record.conversation_id, expected)
            try:
                self._store(unit, session, record, entries)
            except NotFound:  # an entry that the record needs
                raise ConversationConflict(record.conversation_id) from None

        self._keyed.write(work)

    def _store(
        self, unit: Unit, session: Session | None, record: ConversationRecord, entries: Sequence[ConversationEntry]
    ) -> None:
        """Stores a record with its new entries; the last messages that the head leaves become branches. NotFound."""
        stored = dict[str, str]()
        if session is not None:
            session = unit.save(session, self._data(record, session.data))
        last = None
        for entry in entries:
            above = None if entry.parent_id is None else self._stored_id(unit, entry.parent_id, stored)
            draft = self._draft(entry, self._node_id(unit, entry.id), above)
            if session is None:
                session = self._create(unit, record, above)
            try:
                (node,) = unit.append(session, [draft], after=above)
            except NotFound:  # after an entry of another conversation
                session = unit.rebase(session, above)
                (node,) = unit.append(session, [draft], after=above)
            stored[entry.id] = last = node.id
        head = None if record.head_id is None else self._stored_id(unit, record.head_id, stored)
        if session is None:
            self._create(unit, record, head)
        elif last is None or head != last:
            unit.rebase(session, head)

    def _create(self, unit: Unit, record: ConversationRecord, at: str | None) -> Session:
        empty = SessionData(labels=self._keyed.labels)
        return unit.create(self._data(record, empty), self._keyed.key(record.conversation_id), at=at)

    def _delete(self, conversation: str, expected: str) -> None:
        session = self._keyed.read(lambda unit: self._keyed.session(unit, conversation, trashed=True))
        if session is None:
            raise ConversationConflict(conversation)
        self._check(session, conversation, expected)
        try:
            receipt = session.purge(check=lambda now: self._check(now, conversation, expected))
        except NotFound:  # deleted meanwhile
            raise ConversationConflict(conversation) from None
        for failure in receipt.failures:
            raise Conflict(failure.error)

    # -- inside

    def _node_id(self, unit: Unit, entry: str) -> str:
        """The id of the message of an entry: its own if it is a UUID in its usual form that no other message has."""
        own, other = ids.maybe(entry), self._keyed.message_id(unit, "entry", entry)
        if own is None or ids.text(own) != entry or self._node(unit, other) is not None:
            return other
        return ids.text(own) if not unit.known([own]) or self._node(unit, own) is not None else other

    def _node(self, unit: Unit, id: str | bytes) -> Node | None:
        """The message of an entry; None for a message of another workspace, and for one that is no entry."""
        node = unit.node(id)
        if node is None:
            return None
        said = node.said
        return node if isinstance(said, Native) and said.provider == TOOL else None

    def _stored_id(self, unit: Unit, entry: str, new: Mapping[str, str]) -> str:
        """The id of the message of a stored entry; `new` are those of this unit of work. NotFound."""
        id = new.get(entry)
        if id is None:
            id = self._node_id(unit, entry)
            if self._node(unit, id) is None:
                raise NotFound("message", id)
        return id

    def _draft(self, entry: ConversationEntry, id: str, above: str | None) -> Draft:
        """An entry as a message, with the ids that the message does not have itself."""
        raw = ModelMessagesTypeAdapter.serializer.to_json([entry.message])[1:-1]
        told = (("id", entry.id, id), ("parent", entry.parent_id, above))
        links = {name: value for name, value, stored in told if stored is not None and stored != value}
        return self._keyed.draft(Native(TOOL, raw, extra={_LINKS: links} if links else None), id=id)

    def _check(self, session: Session | None, conversation: str, expected: str | None) -> None:
        """ConversationConflict if the stored record is not the one that the caller has read."""
        record = None if session is None else (session.data.extra or {}).get(RECORD)
        stored = record.get("revision") if isinstance(record, dict) else None
        if stored != expected or (session is not None and session.trashed_at is not None):
            raise ConversationConflict(conversation)

    def _data(self, record: ConversationRecord, before: SessionData) -> SessionData:
        """The data of a session with its record. What others have put there stays."""
        own = [RECORD, *([] if record.scope is None else [f"{RECORD}:{record.scope}"])]
        labels = label_set([*(one for one in before.labels if one.partition(":")[0] != RECORD), *own])
        kept = {name: value for name, value in (before.extra or {}).items() if name not in (SOURCE, RECORD)}
        origin = {"tool": TOOL, "id": record.conversation_id}
        extra = {**kept, SOURCE: origin, RECORD: _record.dump_python(record, mode="json")}
        return msgspec.structs.replace(before, labels=labels, extra=extra)


def _entry(node: Node) -> ConversationEntry:
    said = native_message(node)
    (message,) = ModelMessagesTypeAdapter.validate_json(b"[" + said.raw + b"]")
    links = (said.extra or {}).get(_LINKS, {})
    return ConversationEntry(
        id=links.get("id", node.id), parent_id=links.get("parent", node.parent_id), message=message
    )


def _revive(data: object) -> ConversationRecord | None:
    return None if data is None else _record.validate_python(data)
