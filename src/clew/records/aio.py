"""The async twin of the record service: the same names, awaited, on asyncio and on trio.

    async with clew.aio.open("chats.db") as store, RecordService(store) as service: ...

Calls run on worker threads; writes made at the same time share a commit. A cancelled task waits for the call that it
has begun, so a write is never partial. Types are in `aio.pyi`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from clew.errors import install_hint

try:
    import anyio
except ImportError as error:  # the core does without it
    raise ImportError(f"clew.records.aio needs anyio. {install_hint('anyio')}") from error

from clew import aio
from clew.aio import Sweeper
from clew.aio.proxy import Proxy, unwrap
from clew.aio.threads import WorkerThreads
from clew.records import deferred, service
from clew.retention import EVERY
from clew.store.store import Store

POLL = 0.02
"""Seconds between two checks of whether a pending write is stored."""
AHEAD = 4
"""Pieces of an attachment that are fetched at a time."""

T = TypeVar("T")


class Pending(Proxy, Generic[T], of=deferred.Pending):
    """A write that is **not** stored yet, because there is no space: see `clew.records.Pending`."""

    operation: str
    conversation_id: str
    size: int

    async def result(self, timeout: float | None = None) -> T:  # noqa: ASYNC109 - as its sync twin has it
        """See `clew.records.Pending.result`. The task may be cancelled while it waits."""
        # No thread waits: waiting threads could block the one that makes space.
        with anyio.move_on_after(None if timeout is None else deferred.seconds("timeout", timeout)):
            while not self._sync.done:  # noqa: ASYNC110 - a thread sets it, without an event of this loop
                await anyio.sleep(POLL)
        return self._sync.result(0)


class RecordService(Proxy, of=service.RecordService):
    """See `clew.records.RecordService`; takes an async store or a sync one."""

    def __init__(self, store: aio.Store | Store, **options: Any) -> None:
        super().__init__(WorkerThreads(AHEAD), service.RecordService(unwrap(store), **options))

    async def __aenter__(self) -> Self:
        await self._threads.run(self._sync.initialize)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._threads.run(self._sync.dispose)

    def sweeper(self, *, every: timedelta = EVERY, on_error: Callable[[Exception], object] | None = None) -> Sweeper:
        """Sweeps repeatedly: ``async with service.sweeper(): …``."""
        return Sweeper(self._sync._sweep_again, every=every, on_error=on_error)
