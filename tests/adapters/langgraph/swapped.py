"""A plugin of pytest: in LangGraph's own tests, its stores in memory and on SQLite are `ClewStore`."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager

import langgraph.store.memory
import langgraph.store.sqlite
import langgraph.store.sqlite.aio

from clew.adapters.langgraph import ClewStore


class InMemory(ClewStore):
    def __init__(self, *, index=None):
        super().__init__(":memory:", index=index)


class Sqlite(ClewStore):
    @classmethod
    @contextmanager
    def from_conn_string(cls, path, **options):
        with cls(path, **options) as store:
            yield store

    def setup(self):
        pass


class AsyncSqlite(ClewStore):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, path, **options):
        with cls(path, **options) as store:
            yield store

    async def setup(self):
        pass

    async def sweep_ttl(self):  # type: ignore[override]
        return ClewStore.sweep_ttl(self)


langgraph.store.memory.InMemoryStore = InMemory
langgraph.store.sqlite.SqliteStore = Sqlite
langgraph.store.sqlite.aio.AsyncSqliteStore = langgraph.store.sqlite.AsyncSqliteStore = AsyncSqlite
