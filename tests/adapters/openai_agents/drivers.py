"""Stores of the OpenAI Agents SDK for `clew.testing.adapters`: ours, and the SDK's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession
from sqlalchemy.pool import NullPool

from agents import SQLiteSession
from clew.adapters.openai_agents import ClewSession


class Sessions:
    """Sessions of one class in one file."""

    deduplicates = False
    kind: Any

    def __init__(self, path: str) -> None:
        self._path = path
        self._open: dict[str, Any] = {}

    def session(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = self.kind(name, self._path)
        return self._open[name]

    async def append(self, session: str, texts: Sequence[str], ids: Sequence[str]) -> None:
        await self.session(session).add_items([{"role": "user", "content": text} for text in texts])

    async def read(self, session: str) -> list[str]:
        return [item["content"] for item in await self.session(session).get_items()]

    async def delete(self, session: str) -> None:
        await self.session(session).clear_session()

    def close(self) -> None:
        for one in self._open.values():
            one.close()


class Ours(Sessions):
    """`ClewSession`."""

    kind = ClewSession

    async def delete(self, session: str) -> None:
        await self.session(session).purge()


class Theirs(Sessions):
    """`SQLiteSession`."""

    kind = SQLiteSession


class TheirsWithSQLAlchemy(Sessions):
    """`SQLAlchemySession`, with a connection for each call: one of a pool belongs to one event loop."""

    def session(self, name: str) -> Any:
        url = self._path
        if url.startswith("postgresql://"):
            url = url.replace("postgresql://", "postgresql+psycopg://")
        else:
            url = f"sqlite+aiosqlite:///{url}"
        if name not in self._open:
            options = {"poolclass": NullPool}
            self._open[name] = SQLAlchemySession.from_url(name, url=url, engine_kwargs=options, create_tables=True)
        return self._open[name]

    def close(self) -> None:
        pass
