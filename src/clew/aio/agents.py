"""The async twins of `clew.agents`: the same names, awaited. Types are in `agents.pyi`."""

from __future__ import annotations

import os
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

from anyio import to_thread

from clew import agents
from clew.agents import ImportReport, Mirror, memory, store, transcript
from clew.agents.store import closes_store, store_of
from clew.aio.proxy import Proxy
from clew.aio.store import Store
from clew.aio.threads import Threads


def open(path: str | os.PathLike[str], **options: Any) -> Opening:
    """Opens a store for agents: await it, or use it with ``async with``. Arguments as for `clew.agents.open`."""
    return Opening(path, options)


async def over(opened: Store, *, mirror: Mirror | str | os.PathLike[str] | None = None) -> SessionStore:
    """The sessions of an open store, for agents. Closing them does not close the store."""
    made = await opened._threads.run(lambda: agents.SessionStore(opened._sync, mirror=mirror))
    return SessionStore(opened._threads, made)


async def import_tree(into: SessionStore, root: str | os.PathLike[str], *, dry_run: bool = False) -> ImportReport:
    """Imports every session below `root`: see `clew.agents.import_tree`."""
    return await into._threads.run(agents.import_tree, into._sync, root, dry_run=dry_run)


class Opening:
    """Sessions about to be opened."""

    def __init__(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
        self._path = path
        self._options = options
        self._opened: SessionStore | None = None

    def __await__(self) -> Generator[Any, Any, SessionStore]:
        return self._open().__await__()

    async def __aenter__(self) -> SessionStore:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _open(self) -> SessionStore:
        opened = await to_thread.run_sync(lambda: agents.open(self._path, **self._options))
        return SessionStore(Threads(store_of(opened)), opened)


class Transcript(Proxy, of=transcript.Transcript):
    """The events of one session."""


class Memory(Proxy, of=memory.Memory):
    """The memory of one project."""


class Session(Proxy, of=store.Session, awaited=("messages",)):
    """A session of an agent."""


class SessionStore(Proxy, of=store.SessionStore):
    """The sessions of agents, with their transcripts and memories."""

    async def close(self) -> None:
        """Updates the mirror, then closes the store if `open` opened it. Idempotent."""
        if closes_store(self._sync):
            await self._threads.close()
        await self._threads.run(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
