"""The chat stores of LlamaIndex, sync and async, over the same chats."""

from __future__ import annotations

from typing import Any

import msgspec
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from clew.adapters.keyed import Adapter, Keyed, Target, unchanged
from clew.adapters.llama_index.chats import TOOL, Chats, Entry
from clew.adapters.threads import in_thread
from clew.adapters.versions import check_version

ACTIVE, ARCHIVED = MessageStatus.ACTIVE.value, MessageStatus.ARCHIVED.value


def _open(target: Target, options: dict[str, Any]) -> Keyed:
    check_version("llama-index-core", "0.14", "0.15")
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
