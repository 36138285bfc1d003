"""LlamaIndex keeps chats in clew, in its chat stores, sync and async, over the same chats.

A chat is a conversation: a list of messages, each active or archived, is a slice of a session's path, whose free data
has the slice and the statuses as runs, ``[["archived", 120], ["active", 20]]``. Every change is one transaction.
Messages that a change removes stay as a branch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from clew.adapters.framework import framework
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.adapters.lists import Slice, load_list, raw_message, store_list
from clew.adapters.threads import in_thread
from clew.base.messages import Native
from clew.store.session import Session
from clew.store.unit import Unit

with framework("llama-index"):
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.storage.chat_store.base import BaseChatStore
    from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

__all__ = ["ClewChatStore", "ClewDBChatStore"]

TOOL = "llama-index"
"""Also the key of the chat in a session's free data, and the label of all chats."""


class Entry(NamedTuple):
    """A message of a chat, as JSON, and its status."""

    raw: bytes
    status: str


class _Chat(msgspec.Struct, frozen=True):
    """Where the messages of a chat are, and how many of each status, in their order."""

    at: Slice = Slice()
    runs: tuple[tuple[str, int], ...] = ()


class Chats:
    """The chats of a store, by key."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed

    def read(self, key: str) -> list[Entry]:
        """The messages of a chat; none if there is no such chat."""

        def work(unit: Unit) -> list[Entry]:
            session = self._keyed.session(unit, key)
            return [] if session is None else self._entries(unit, self._chat(session))

        return self._keyed.read(work)

    def count(self, key: str) -> Counter[str]:
        """How many messages of each status a chat has, without reading them."""
        session = self._keyed.find(key)
        found: Counter[str] = Counter()
        for status, count in () if session is None else self._chat(session).runs:
            found[status] += count
        return found

    def add(self, key: str, messages: Sequence[bytes], status: str) -> None:
        """Adds messages, all or none."""
        drafts = [self._keyed.draft(Native(TOOL, raw)) for raw in messages]

        def work(unit: Unit) -> None:
            session = self._keyed.ensure(unit, key, labels=[TOOL])
            chat = self._chat(session)
            nodes = unit.append(session, drafts, after=chat.at.last)
            at = Slice(nodes[-1].id, chat.at.count + len(nodes))
            self._set(unit, session, _Chat(at, _extend(chat.runs, status, len(nodes))))

        if drafts:
            self._keyed.write(work)

    def change(self, key: str, change: Callable[[list[Entry]], list[Entry]], *, create: bool = False) -> None:
        """Replaces the messages of a chat by what `change` makes of them; messages that stay are not stored again."""

        def work(unit: Unit) -> None:
            session = self._keyed.ensure(unit, key, labels=[TOOL]) if create else self._keyed.session(unit, key)
            if session is None:
                change([])  # or it keeps what it saw in a run that was undone
                return
            chat = self._chat(session)
            new = change(self._entries(unit, chat))
            natives = [Native(TOOL, one.raw) for one in new]
            # An empty list has no last message: the next message becomes a new root.
            at = store_list(unit, session, chat.at, natives)
            runs: tuple[tuple[str, int], ...] = ()
            for status, group in groupby(new, key=lambda one: one.status):
                runs = _extend(runs, status, len(list(group)))
            self._set(unit, session, _Chat(at, runs))

        self._keyed.write(work)

    def keys(self) -> list[str]:
        """The keys of chats that have messages, the oldest chat first."""
        chats = (one for one in self._keyed.labelled(TOOL) if self._keyed.owns(one))
        found = [one for one in chats if (one.extra.get(TOOL) or {}).get("runs")]
        return [one.extra["source"]["id"] for one in sorted(found, key=lambda one: one.created_at)]

    def purge(self, key: str) -> None:
        """Deletes a chat with its branches, and clears every trace of it. Conflict if it is on hold."""
        self._keyed.purge(key)

    # -- inside

    def _chat(self, session: Session) -> _Chat:
        data: Any = (session.data.extra or {}).get(TOOL)
        return _Chat() if data is None else msgspec.convert(data, _Chat)

    def _entries(self, unit: Unit, chat: _Chat) -> list[Entry]:
        statuses = [status for status, count in chat.runs for _ in range(count)]
        nodes = load_list(unit, chat.at)
        return [Entry(raw_message(node), status) for node, status in zip(nodes, statuses, strict=True)]

    def _set(self, unit: Unit, session: Session, chat: _Chat) -> None:
        extra = {**session.extra, TOOL: json.loads(msgspec.json.encode(chat))}
        unit.save(session, msgspec.structs.replace(session.data, extra=extra))


def _extend(runs: tuple[tuple[str, int], ...], status: str, count: int) -> tuple[tuple[str, int], ...]:
    if runs and runs[-1][0] == status:
        return (*runs[:-1], (status, runs[-1][1] + count))
    return (*runs, (status, count))


ACTIVE, ARCHIVED = MessageStatus.ACTIVE.value, MessageStatus.ARCHIVED.value


def _open(target: Target, options: dict[str, Any]) -> Keyed:
    check_version("llama-index-core", "0.14.24", "0.15")
    keyed = Keyed(target, TOOL, options)
    unchanged(keyed)
    return keyed


def _encode(message: ChatMessage) -> bytes:
    return msgspec.json.encode(message.model_dump(mode="json"))


def _decode(entry: Entry) -> ChatMessage:
    return ChatMessage.model_validate(msgspec.json.decode(entry.raw))


class ClewChatStore(Adapter, BaseChatStore):
    """Chats in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    For `ChatMemoryBuffer`. Messages that are replaced or deleted stay as a branch; `purge` deletes a chat for good.
    """

    _keyed: Keyed = PrivateAttr()
    _chats: Chats = PrivateAttr()

    def __init__(self, target: Target, **options: Any) -> None:
        super().__init__()
        self._keyed = _open(target, options)
        self._chats = Chats(self._keyed)

    @classmethod
    def class_name(cls) -> str:
        return "ClewChatStore"

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        new = [Entry(_encode(message), ACTIVE) for message in messages]
        self._chats.change(key, lambda _: new, create=True)

    def get_messages(self, key: str) -> list[ChatMessage]:
        return [_decode(entry) for entry in self._chats.read(key)]

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Adds a message, at the end or before the one with this index."""
        if idx is None:
            self._chats.add(key, [_encode(message)], ACTIVE)
            return
        new = Entry(_encode(message), ACTIVE)

        def insert(entries: list[Entry]) -> list[Entry]:
            entries.insert(idx, new)
            return entries

        self._chats.change(key, insert, create=True)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        gone: list[Entry] = []

        def clear(entries: list[Entry]) -> list[Entry]:
            gone[:] = entries
            return []

        self._chats.change(key, clear)
        return [_decode(entry) for entry in gone] or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        gone: list[Entry] = []

        def remove(entries: list[Entry]) -> list[Entry]:
            gone[:] = entries[idx : idx + 1 or None]
            return [*entries[:idx], *entries[len(entries[:idx]) + len(gone) :]]

        self._chats.change(key, remove)
        return _decode(gone[0]) if gone else None

    def delete_last_message(self, key: str) -> ChatMessage | None:
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        return self._chats.keys()

    def purge(self, key: str) -> None:
        """Deletes a chat with its branches, and clears every trace of it. Conflict if it is on hold."""
        self._chats.purge(key)


class ClewDBChatStore(Adapter, AsyncDBChatStore):
    """`ClewChatStore` for `Memory`: ``Memory.from_defaults("trip", chat_store=ClewDBChatStore("chats.db"))``.

    The index of a message counts all messages of the chat, from 0.
    """

    _keyed: Keyed = PrivateAttr()
    _chats: Chats = PrivateAttr()

    def __init__(self, target: Target, **options: Any) -> None:
        super().__init__()
        self._keyed = _open(target, options)
        self._chats = Chats(self._keyed)

    @classmethod
    def class_name(cls) -> str:
        return "ClewDBChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        found = [entry for entry in await in_thread(self._chats.read, key) if _has(entry, status)]
        return [_decode(entry) for entry in found[offset or 0 :][:limit]]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        counts = await in_thread(self._chats.count, key)
        return sum(counts.values()) if status is None else counts[status.value]

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        await in_thread(self._chats.add, key, [_encode(message) for message in messages], status.value)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        new = [Entry(_encode(message), status.value) for message in messages]
        await in_thread(self._chats.change, key, lambda _: new, create=True)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        gone = await self._take(key, lambda entries: entries[idx : idx + 1] if idx >= 0 else [])
        return gone[0] if gone else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        await self._take(key, lambda entries: [entry for entry in entries if _has(entry, status)])

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        return await self._take(key, lambda entries: _active(entries)[:n])

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        gone: list[Entry] = []

        def archive(entries: list[Entry]) -> list[Entry]:
            gone[:] = _active(entries)[:n]
            return [entry._replace(status=ARCHIVED) if _is_in(entry, gone) else entry for entry in entries]

        await in_thread(self._chats.change, key, archive)
        return [_decode(entry) for entry in gone]

    async def get_keys(self) -> list[str]:
        return await in_thread(self._chats.keys)

    async def purge(self, key: str) -> None:
        """Deletes a chat with its branches, and clears every trace of it. Conflict if it is on hold."""
        await in_thread(self._chats.purge, key)

    async def _take(self, key: str, choose: Any) -> list[ChatMessage]:
        """Removes the messages that `choose` returns, and returns them."""
        gone: list[Entry] = []

        def remove(entries: list[Entry]) -> list[Entry]:
            gone[:] = choose(entries)
            return [entry for entry in entries if not _is_in(entry, gone)]

        await in_thread(self._chats.change, key, remove)
        return [_decode(entry) for entry in gone]


def _has(entry: Entry, status: MessageStatus | None) -> bool:
    return status is None or entry.status == status.value


def _active(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.status == ACTIVE]


def _is_in(entry: Entry, entries: list[Entry]) -> bool:
    """True if it is one of these very entries: two messages may say the same."""
    return any(one is entry for one in entries)
