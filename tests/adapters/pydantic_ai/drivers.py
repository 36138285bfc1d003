"""Stores of Pydantic AI for `clew.testing.adapters`: ours, and its own in memory. It has none on a disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, InMemoryConversationStore
from pydantic_ai.messages import ModelRequest, UserPromptPart

from clew.adapters.pydantic_ai import ClewConversationStore

_MEMORY: dict[str, InMemoryConversationStore] = {}


class Conversations:
    """Conversations in one store, with the retries that its protocol asks for."""

    deduplicates = False
    _store: Any

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        while True:
            found = await self._store.load(session) or Conversation(conversation_id=session)
            found.messages.extend(ModelRequest(parts=[UserPromptPart(text)]) for text in texts)
            try:
                await self._store.save(found)
            except ConversationConflict:
                continue
            return

    async def read(self, session: str) -> list[str]:
        found = await self._store.load(session)
        return [] if found is None else [str(message.parts[0].content) for message in found.messages]

    async def delete(self, session: str) -> None:
        await self._store.delete(session)

    def close(self) -> None:
        pass


class Ours(Conversations):
    """`ClewConversationStore`."""

    def __init__(self, path: str) -> None:
        self._store = ClewConversationStore(path)

    def close(self) -> None:
        self._store.close()


class InMemory(Conversations):
    """`InMemoryConversationStore`."""

    def __init__(self, path: str) -> None:
        self._store = _MEMORY.setdefault(path, InMemoryConversationStore())
