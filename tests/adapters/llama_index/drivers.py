"""Chat stores of LlamaIndex for `clew.testing.adapters`: ours, and LlamaIndex's own on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from clew.adapters.llama_index import ClewDBChatStore


class ChatStores:
    """A chat store."""

    deduplicates = False
    _store: Any

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        await self._store.add_messages(session, [ChatMessage(content=text) for text in texts])

    async def read(self, session: str) -> list[str]:
        return [message.content or "" for message in await self._store.get_messages(session)]

    async def delete(self, session: str) -> None:
        await self._store.delete_messages(session)

    def close(self) -> None:
        pass


class Ours(ChatStores):
    """`ClewDBChatStore`."""

    def __init__(self, path: str) -> None:
        self._store = ClewDBChatStore(path)

    async def delete(self, session: str) -> None:
        await self._store.purge(session)

    def close(self) -> None:
        self._store.close()


class Theirs(ChatStores):
    """`SQLAlchemyChatStore`."""

    def __init__(self, path: str) -> None:
        self._store = SQLAlchemyChatStore("chats", f"sqlite+aiosqlite:///{path}")
