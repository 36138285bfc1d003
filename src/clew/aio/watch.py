"""`clew.engine.watch` for async programs. It uses no thread while it waits."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self

import anyio
from anyio.lowlevel import current_token

from clew.aio.dispatch import WorkerThreads
from clew.aio.threads import post
from clew.engine import watch as sync
from clew.engine.node import Node


class _Bell:
    """An event of a task that any thread can set."""

    def __init__(self) -> None:
        self._loop = current_token().native_token
        self._rung = anyio.Event()

    def ring(self) -> None:
        post(self._loop, self._ring)

    def _ring(self) -> None:
        self._rung.set()

    def clear(self) -> None:
        if self._rung.is_set():
            self._rung = anyio.Event()

    async def wait(self) -> None:
        await self._rung.wait()


class Watch:
    """An async iterator that waits for new messages of a session. See `Session.watch`.

    Starts on ``async with``, or else with the first message. After a cancelled wait or an error, the next call
    continues at the same place. Only one task may iterate, but any task may close it.
    """

    def __init__(self, threads: WorkerThreads, watch: sync.Watch) -> None:
        self._threads = threads
        self._sync = watch
        self._state = sync.state_of(watch)
        self._bell: _Bell | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Node:
        state, bell = self._state, self._bell or _Bell()
        self._bell = bell
        until = math.inf if state.timeout is None else anyio.current_time() + state.timeout
        try:
            while not state.closed:
                if state.ready:
                    return state.ready.popleft()
                state.subscribe(bell.ring)
                bell.clear()
                await self._threads.run(state.fetch)
                if not state.ready:
                    with anyio.CancelScope(deadline=until) as patience:
                        await bell.wait()
                    if patience.cancelled_caught:
                        self._sync.close()
        except BaseException:
            state.unsubscribe()
            raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends it, even while a task waits for the next message. Idempotent."""
        self._sync.close()
        if self._bell is not None:
            self._bell.ring()

    async def __aenter__(self) -> Self:
        if not self._state.closed:
            await self._threads.run(self._state.fetch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<async {self._sync!r}>"
