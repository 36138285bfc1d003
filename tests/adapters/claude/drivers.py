"""The store for the Claude Agent SDK, for `clew.testing.adapters`. The SDK has none of its own on a disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.adapters.claude import ClewSessionStore


class Ours:
    """`ClewSessionStore`."""

    deduplicates = True

    def __init__(self, path: str) -> None:
        self._store = ClewSessionStore(path)

    def _key(self, session: str) -> Any:
        return {"project_key": "p", "session_id": session}

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        entries: list[Any] = [
            {"type": "user", "uuid": id, "parentUuid": None, "message": {"role": "user", "content": text}}
            for text, id in zip(texts, ids, strict=True)
        ]
        await self._store.append(self._key(session), entries)

    async def read(self, session: str) -> list[str]:
        found: Any = await self._store.load(self._key(session))
        return [one["message"]["content"] for one in found or []]

    async def delete(self, session: str) -> None:
        await self._store.delete(self._key(session))

    def close(self) -> None:
        self._store.close()
