"""The async API of clew: the same names, awaited, on asyncio and trio.

    async with await clew.aio.open("chats.db") as store: ...
    async with clew.aio.open("chats.db") as store: ...

Concurrent appends of several tasks share a commit. A cancelled task never leaves a partial transaction: its write is
stored completely or not at all. To find out which, repeat the call with the same id.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from types import TracebackType
from typing import Any

from clew.errors import install_hint

try:
    from anyio import to_thread
except ImportError as error:  # the core does not need it
    raise ImportError(f"clew.aio needs anyio. {install_hint('anyio')}") from error

from clew.aio.proxy import Watch
from clew.aio.retention import Sweeper
from clew.aio.store import (
    Audit,
    Blobs,
    Hit,
    Log,
    Nodes,
    Page,
    Quarantine,
    Session,
    Sessions,
    Store,
    StoreBlobs,
    StoreLog,
)  # fmt: skip
from clew.aio.threads import Threads
from clew.store import store as sync

__all__ = [
    "Audit",
    "Blobs",
    "Hit",
    "Log",
    "Nodes",
    "Opening",
    "Page",
    "Quarantine",
    "Session",
    "Sessions",
    "Store",
    "StoreBlobs",
    "StoreLog",
    "Sweeper",
    "Watch",
    "open",
]


def open(path: str | os.PathLike[str], **options: Any) -> Opening:
    """Opens a store: await it, or use it with ``async with``. Takes the arguments of `clew.open`."""
    return Opening(path, options)


class Opening:
    """A store about to be opened."""

    def __init__(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
        self._path = path
        self._options = options
        self._store: Store | None = None

    def __await__(self) -> Generator[Any, Any, Store]:
        return self._open().__await__()

    async def __aenter__(self) -> Store:
        self._store = await self._open()
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()

    async def _open(self) -> Store:
        opened = await to_thread.run_sync(lambda: sync.open(self._path, **self._options))
        return Store(Threads(opened), opened)
