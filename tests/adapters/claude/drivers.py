"""Stores of the Claude Agent SDK for `clew.testing.adapters`: ours, the SDK's in memory, and its example."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from claude_agent_sdk import InMemorySessionStore

from clew.adapters.claude import ClewSessionStore

SESSION = "7d9f2c58-1d0f-4a57-9a57-0f5a3c1f2b1"
_MEMORY: dict[str, InMemorySessionStore] = {}


class Transcripts:
    """Transcripts in one store; entries are messages with their ids."""

    deduplicates = True
    store: Any

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        await self.store.append(_key(session), [_entry(*pair) for pair in zip(texts, ids, strict=True)])

    async def read(self, session: str) -> list[str]:
        return [entry["message"]["content"] for entry in await self.store.load(_key(session)) or []]

    async def delete(self, session: str) -> None:
        await self.store.delete(_key(session))

    def close(self) -> None:
        pass


class Ours(Transcripts):
    """`ClewSessionStore`."""

    def __init__(self, path: str) -> None:
        self.store = ClewSessionStore(path)

    def close(self) -> None:
        self.store.close()


class InMemory(Transcripts):
    """`InMemorySessionStore`."""

    def __init__(self, path: str) -> None:
        self.store = _MEMORY.setdefault(path, InMemorySessionStore())


class ExamplePostgres(Transcripts):
    """`PostgresSessionStore`, the example in the SDK's sdist, with a pool for each call: a pool has one event loop."""

    def __init__(self, path: str) -> None:
        self._url = path
        asyncio.run(self._call("create_schema"))

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        await self._call("append", _key(session), [_entry(*pair) for pair in zip(texts, ids, strict=True)])

    async def read(self, session: str) -> list[str]:
        return [entry["message"]["content"] for entry in await self._call("load", _key(session)) or []]

    async def delete(self, session: str) -> None:
        await self._call("delete", _key(session))

    async def _call(self, name: str, *args: Any) -> Any:
        import asyncpg

        (folder,) = Path(sys.prefix, "sdist").glob("claude_agent_sdk-*/examples")
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        from session_stores.postgres_session_store import PostgresSessionStore

        async with asyncpg.create_pool(self._url, min_size=1, max_size=2) as pool:
            return await getattr(PostgresSessionStore(pool=pool), name)(*args)


def _key(session: str) -> Any:
    return {"project_key": "-work-app", "session_id": f"{SESSION}{len(session) % 10}"}


def _entry(text: str, id: str) -> dict[str, Any]:
    return {"type": "user", "uuid": id, "parentUuid": None, "message": {"role": "user", "content": text}}
