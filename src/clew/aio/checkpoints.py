"""The async twins of `clew.checkpoints`: the same names, awaited. Types are in `checkpoints.pyi`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import anyio

from clew import checkpoints as sync
from clew.aio.proxy import Proxy
from clew.aio.store import Session
from clew.aio.threads import WorkerThreads
from clew.checkpoints import MAX_FILE
from clew.checkpoints.checkpoints import MessageRef, OpenGuard, Paths
from clew.errors import Invalid

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["Checkpoints", "Guard"]


class _OneAtATime(WorkerThreads):
    """Runs one call at a time, because the sync object is not thread-safe."""

    def __init__(self, threads: WorkerThreads) -> None:
        super().__init__()
        self._threads = threads
        self._lock = anyio.Lock()

    async def run(self, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        async with self._lock:
            return await self._threads.run(function, *args, **kwargs)


class Checkpoints(Proxy, of=sync.Checkpoints):
    """The checkpoints of a session's files below `root`: see `clew.checkpoints.Checkpoints`. Tasks may share it.

    A call finishes even if its task is cancelled.
    """

    def __init__(
        self,
        session: Session,
        root: str | os.PathLike[str],
        *,
        enabled: bool = True,
        max_file: int = MAX_FILE,
        patience: float = 60.0,
        home: str | None = None,
    ) -> None:
        if not isinstance(session, Session):
            raise Invalid(f"session must be an async Session, not {type(session).__name__}")
        checkpoints = sync.Checkpoints(
            session._sync, root, enabled=enabled, max_file=max_file, patience=patience, home=home
        )
        super().__init__(_OneAtATime(session._threads), checkpoints)

    def guard(
        self, user_message: MessageRef | Callable[[], MessageRef], paths: Paths | Callable[..., Paths] | None = None
    ) -> Guard:
        """Calls `capture` before a block or an async function and `settle` after it; without paths, for the whole tree.

        ``async with checkpoints.guard(message, ["a.py"]): …``, or as a decorator.
        """
        return Guard(self, user_message, paths)


class Guard:
    """The result of `guard`: an async context manager and a decorator. If the capture fails, nothing runs."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        message: MessageRef | Callable[[], MessageRef],
        paths: Paths | Callable[..., Paths] | None,
    ) -> None:
        self._checkpoints = checkpoints
        self._guard = sync.Guard(checkpoints._sync, message, paths)
        self._open: list[OpenGuard] = []

    async def __aenter__(self) -> None:
        self._open.append(await self._checkpoints._threads.run(self._guard.begin))

    async def __aexit__(self, *_: object) -> None:
        await self._end(self._open.pop())

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """Wraps an async function."""
        if not inspect.iscoroutinefunction(function):
            raise Invalid("guard wraps only async functions", hint="Use clew.checkpoints for sync functions.")

        @wraps(function)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            opened = await self._checkpoints._threads.run(self._guard.begin_call, args, kwargs)
            try:
                return await function(*args, **kwargs)
            finally:
                await self._end(opened)

        return guarded

    async def _end(self, opened: OpenGuard) -> None:
        with anyio.CancelScope(shield=True):  # the changes of a cancelled task are recorded too
            await self._checkpoints._threads.run(self._guard.end, opened)
