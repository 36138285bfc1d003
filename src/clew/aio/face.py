"""What the async classes have in common: a sync object behind each, and the thread its calls run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from clew.aio.threads import Worker, each
from clew.engine import Engine
from clew.errors import Closed

T = TypeVar("T")

AHEAD = 64
"""Items that an async iterator fetches with one visit to a thread."""


class Threads:
    """Where the calls of one store run."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._committer = Worker(engine.backend.batch, "clew-commit")
        self._pinned: ContextVar[Worker | None] = ContextVar("clew-transaction", default=None)

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs a call on a worker thread; inside a transaction, on the thread of the transaction."""
        pinned = self._transaction()
        call = partial(function, *args, **kwargs)
        if pinned is not None:
            return await pinned.call(call)  # type: ignore[no-any-return]
        return await to_thread.run_sync(call)

    async def commit(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs a call that writes, in one transaction with whatever else is waiting to be written."""
        worker = self._transaction() or self._committer
        return await worker.call(partial(function, *args, **kwargs))  # type: ignore[no-any-return]

    async def stream(self, function: Callable[..., Iterator[T]], *args: Any, **kwargs: Any) -> AsyncIterator[T]:
        """Runs a call that returns an iterator, and gives its items a few at a time."""
        items = await self.run(function, *args, **kwargs)
        while batch := await self.run(lambda: list(islice(items, AHEAD))):
            for item in batch:
                yield item

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """What the task does inside is one transaction, on a thread of its own."""
        open_one = self._transaction()
        worker = open_one or Worker(each, "clew-transaction")
        scope = _Scope(self._engine.transaction())
        token = None
        try:
            with anyio.CancelScope(shield=True):  # a lock that was waited for must not be left behind
                await worker.call(scope.enter)
            token = self._pinned.set(worker)
            try:
                yield
            except BaseException as error:
                with anyio.CancelScope(shield=True):
                    await worker.call(partial(scope.leave, error))
                raise
            with anyio.CancelScope(shield=True):
                await worker.call(scope.leave)
        finally:
            if token is not None:
                self._pinned.reset(token)
            # A task that asyncio itself cancels does not wait for any of the calls above, whatever shields them.
            worker.post(scope.abandon)
            if open_one is None:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(worker.stop)

    def _transaction(self) -> Worker | None:
        """The thread of the transaction that the task is in. A task that outlives the one it was made in is in none."""
        pinned = self._pinned.get()
        return None if pinned is None or pinned.stopped else pinned

    async def close(self) -> None:
        """Finishes what is waiting, then closes the store."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._committer.stop)


class _Scope:
    """A transaction, entered and left on the thread of its worker."""

    def __init__(self, transaction: AbstractContextManager[None]) -> None:
        self._transaction = transaction
        self._open = False

    def enter(self) -> None:
        """Begins it."""
        self._transaction.__enter__()
        self._open = True

    def leave(self, error: BaseException | None = None) -> None:
        """Ends it: keeps what was done, or with an error, which is raised again where it came from, undoes it."""
        self._open = False
        raised_in = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        try:
            self._transaction.__exit__(*raised_in)
        except BaseException as raised:
            if raised is not error:
                raise

    def abandon(self) -> None:
        """Undoes it, if nobody has ended it."""
        if self._open:
            self.leave(Closed("the task was cancelled"))
