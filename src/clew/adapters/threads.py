"""Calls of async frameworks, run on threads.

The executor of an event loop takes 80 µs for a call that does nothing, half of it for its futures. A queue and a
callback take 55.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")

LARGEST = 32
"""Maximum number of threads: so many writes can share one commit."""
IDLE = 10.0
"""Seconds after which a thread without work ends."""


async def in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Runs a call on a worker thread, on asyncio or trio.

    The call is handed over before the first suspension and always completes. A task that is cancelled meanwhile waits
    for it, and then raises: what it wrote is stored when the caller learns of the cancellation.
    """
    call = partial(function, *args, **kwargs)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from anyio import to_thread

        return await to_thread.run_sync(call)
    running = _Running(call, loop)
    _Workers.here.submit(running)
    cancelled: asyncio.CancelledError | None = None
    while not running.done:
        try:
            await running.waiter
        except asyncio.CancelledError as error:
            cancelled = error
            running.waiter = loop.create_future()
    if cancelled is not None:
        raise cancelled
    if running.error is not None:
        try:
            raise running.error
        finally:
            running.error = None  # its traceback has this frame
    return running.result  # type: ignore[no-any-return]


class _Running:
    """A call, its outcome, and the task that waits for it."""

    __slots__ = ("_call", "_context", "_loop", "done", "error", "result", "waiter")

    def __init__(self, call: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._context = contextvars.copy_context()
        self._loop = loop
        self.waiter: asyncio.Future[None] = loop.create_future()
        """Set when the call is done. Belongs to the event loop, like `done`."""
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Runs the call; on a worker thread."""
        try:
            self.result = self._context.run(self._call)
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self.error = error

    def deliver(self) -> None:
        """Wakes the task that waits; from a worker thread."""
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self.done = True
        if not self.waiter.done():
            self.waiter.set_result(None)


class _Workers:
    """The threads of this process. A thread is started when all others are busy."""

    here: ClassVar[_Workers]

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Running] = SimpleQueue()
        self._mutex = threading.Lock()
        self._pending = 0
        """Calls that are waiting or running."""
        self._threads = 0

    def submit(self, call: _Running) -> None:
        """Queues a call."""
        with self._mutex:
            self._pending += 1
            more = self._threads < min(self._pending, LARGEST)
            self._threads += more
        self._calls.put(call)
        if more:
            threading.Thread(target=self._serve, name="clew-adapter", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=IDLE)
            except Empty:
                with self._mutex:
                    if self._pending < self._threads:
                        self._threads -= 1
                        return
                continue
            call.run()
            with self._mutex:  # first, or the task's next call would start another thread
                self._pending -= 1
            call.deliver()
            del call  # an idle thread must not keep the call alive

    @classmethod
    def renew(cls) -> None:
        """Forgets the threads: a forked child has none."""
        cls.here = cls()


_Workers.renew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Workers.renew)
