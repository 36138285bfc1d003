"""The threads that run async calls: one that commits for many tasks, and one for each open transaction.

SQLite has no async I/O, so work goes to threads. An append never runs on the event loop: waiting for the disk there
would stall every other task.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

import anyio
from anyio.lowlevel import current_token

from clew.errors import Closed
from clew.store.store import CallResult

LARGEST = 256
"""Maximum number of calls in one transaction."""


class ThreadCall:
    """A call of a task, and how to deliver its result."""

    __slots__ = ("_done", "done", "dropped", "function", "loop", "taken")

    def __init__(self, function: Callable[[], Any], *, awaited: bool = True) -> None:
        self.function = function
        self.done = CallResult(None, None)
        self.loop: Any = None
        self._done: Any = None
        if awaited:
            self.loop, self._done = _here()
        self.taken = False
        self.dropped = False

    async def outcome(self) -> Any:
        """Waits for the result. If the task is cancelled before the call starts, the call is dropped."""
        try:
            await (self._done.wait() if isinstance(self._done, anyio.Event) else self._done)
        except BaseException:
            self.dropped = not self.taken
            raise
        if self.done.error is not None:
            raise self.done.error
        return self.done.result

    def wake(self) -> None:
        """Delivers the result; runs on the task's event loop."""
        if isinstance(self._done, anyio.Event):
            self._done.set()
        elif not self._done.done():  # else the task was cancelled
            self._done.set_result(None)


def event_loop() -> Any:
    """The event loop of the current task, asyncio's or trio's: see `post`."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # not an asyncio loop
        task = None
    # Trio may run as a guest of asyncio.
    return current_token().native_token if task is None else asyncio.get_running_loop()


def _here() -> tuple[Any, Any]:
    """The event loop of the current task, and an object to wait for. An anyio event would be slower."""
    loop = event_loop()
    return loop, loop.create_future() if isinstance(loop, asyncio.AbstractEventLoop) else anyio.Event()


class Worker:
    """A thread that runs calls in order, all waiting ones together."""

    def __init__(self, run: Callable[[Sequence[Callable[[], Any]]], list[CallResult]], name: str) -> None:
        self._run = run
        self._name = name
        self._waiting: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False

    async def call(self, function: Callable[[], Any]) -> Any:
        """Runs `function` on the thread, and returns its result."""
        request = ThreadCall(function)
        with self._mutex:
            if self._stopping:
                raise Closed("the store is closed")
            if self._thread is not None and not self._thread.is_alive():
                raise Closed("the store was opened before this process was forked")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._waiting.put(request)
        return await request.outcome()

    def post(self, function: Callable[[], Any]) -> None:
        """Queues `function` without waiting for it."""
        with self._mutex:
            if self._thread is not None and not self._stopping:
                self._waiting.put(ThreadCall(function, awaited=False))

    def stop(self) -> None:
        """Finishes waiting calls, then ends the thread. Blocks; idempotent."""
        with self._mutex:
            self._stopping = True
            self._waiting.put(None)
            thread = self._thread
        if thread is not None:
            thread.join()

    def _serve(self) -> None:
        more = True
        while more:
            batch, more = self._take()
            if batch:
                for request, done in zip(batch, self._run([one.function for one in batch]), strict=True):
                    request.done = done
                _wake(batch)

    def _take(self) -> tuple[list[ThreadCall], bool]:
        """Waits for requests and returns them; the flag is False with the last ones."""
        batch: list[ThreadCall] = []
        request = self._waiting.get()
        while request is not None:
            request.taken = True
            if not request.dropped:
                batch.append(request)
            if len(batch) == LARGEST or self._waiting.empty():
                return batch, True
            request = self._waiting.get()  # only this thread takes requests
        return batch, False


def each(functions: Sequence[Callable[[], Any]]) -> list[CallResult]:
    """Runs functions one after the other."""
    return list(map(_outcome, functions))


def _outcome(function: Callable[[], Any]) -> CallResult:
    try:
        return CallResult(function(), None)
    except Exception as error:  # noqa: BLE001 - the task gets it
        return CallResult(None, error)


def post(loop: Any, function: Callable[[], object]) -> None:
    """Runs a function on an event loop, asyncio's or trio's, from any thread."""
    send = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
    with suppress(RuntimeError):  # the loop is closed, so no task waits
        send(function)


def _wake(batch: Iterable[ThreadCall]) -> None:
    """Delivers results, with one callback for each event loop."""
    loops: dict[Any, list[ThreadCall]] = {}
    for request in batch:
        if request.loop is not None:
            loops.setdefault(request.loop, []).append(request)
    for loop, requests in loops.items():
        post(loop, partial(_wake_all, requests))


def _wake_all(requests: list[ThreadCall]) -> None:
    for request in requests:
        request.wake()
