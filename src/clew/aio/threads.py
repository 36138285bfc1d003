"""The threads that run async calls: one that commits for many tasks, and one for each open transaction.

SQLite has no async I/O, so work goes to threads. An append never runs on the event loop: waiting for the disk there
would stall every other task.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import current_token

from clew.errors import Closed, Unavailable
from clew.store.store import CallResult, Store, run_together

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


class CallThread:
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


T = TypeVar("T")

AHEAD = 64
"""The number of items that an async iterator fetches at a time."""


class WorkerThreads:
    """Runs each call on any worker thread. `ahead` is the number of items that an iterator fetches at a time."""

    def __init__(self, ahead: int = AHEAD) -> None:
        self._ahead = ahead

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs a call. It finishes even if the task is cancelled meanwhile."""
        return await to_thread.run_sync(partial(function, *args, **kwargs))

    async def commit(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs a call that writes."""
        return await self.run(function, *args, **kwargs)

    async def stream(self, function: Callable[..., Iterator[T]], *args: Any, **kwargs: Any) -> AsyncIterator[T]:
        """Runs a call that returns an iterator, and yields its items, fetched a few at a time."""
        items = await self.run(function, *args, **kwargs)
        while batch := await self.run(lambda: list(islice(items, self._ahead))):
            for item in batch:
                yield item


class Threads(WorkerThreads):
    """The threads of one store: calls inside a transaction run on its thread, and writes share commits."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._committer = CallThread(partial(run_together, store), "clew-commit")
        self._pinned: ContextVar[_Scope | None] = ContextVar("clew-transaction", default=None)

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs a call on a worker thread; inside a transaction, on the thread of the transaction."""
        call = partial(function, *args, **kwargs)
        pinned = self._pinned.get() and await self._transaction()
        return await (to_thread.run_sync(call) if pinned is None else pinned.call(call))

    async def commit(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs a call that writes, in one transaction with other writes that wait."""
        call = partial(function, *args, **kwargs)
        pinned = self._pinned.get() and await self._transaction()
        return await (self._committer.call(call) if pinned is None else pinned.call(call))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Runs the calls of the task in one transaction, on a thread of its own; a nested one uses the same thread."""
        scope = _Scope(self._store.transaction(), await self._transaction())
        worker = scope.worker
        token = None
        try:
            with anyio.CancelScope(shield=True):  # do not leave a lock behind that was acquired after the cancellation
                await worker.call(scope.enter)
            token = self._pinned.set(scope)
            try:
                yield
            except BaseException as error:
                with (
                    anyio.CancelScope(shield=True),
                    suppress(Closed),
                ):  # the outer transaction has ended, and its thread with it
                    await worker.call(partial(scope.leave, error))
                raise
            scope.still()
            with anyio.CancelScope(shield=True):
                await worker.call(scope.leave)
        finally:
            if token is not None:
                self._pinned.reset(token)
            # asyncio's own cancellation interrupts the calls above in spite of their shields.
            worker.post(scope.abandon)
            scope.over()
            if scope.outer is None:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(worker.stop)

    async def _transaction(self) -> _Scope | None:
        """The innermost open transaction of the task. A task may outlive the transaction that it was started in.

        Waits while another task has a nested transaction open: otherwise this call would become part of that one and
        could be rolled back with it.
        """
        pinned = self._pinned.get()
        while pinned is not None:
            if pinned.ended.is_set():
                pinned = pinned.outer
            elif pinned.inner is not None:
                await pinned.inner.ended.wait()
            else:
                pinned.still()
                break
        return pinned

    async def close(self) -> None:
        """Finishes waiting calls, then closes the store."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._committer.stop)


class _Scope:
    """A transaction that begins and ends on the thread of its worker."""

    def __init__(self, transaction: AbstractContextManager[None], outer: _Scope | None) -> None:
        self._transaction = transaction
        self._open = False
        self.outer = outer
        self.inner: _Scope | None = None
        """The nested transaction, if one is open."""
        self.ended = anyio.Event()
        self.worker: CallThread = CallThread(each, "clew-transaction") if outer is None else outer.worker
        if outer is not None:
            outer.inner = self

    def over(self) -> None:
        """Marks it as ended: later calls run outside of it."""
        self.ended.set()
        if self.outer is not None:
            self.outer.inner = None

    def enter(self) -> None:
        """Begins it."""
        self.still()
        self._transaction.__enter__()
        self._open = True

    async def call(self, function: Callable[[], T]) -> T:
        """Runs `function` inside it, and returns its result."""
        return await self.worker.call(partial(self._run, function))  # type: ignore[no-any-return]

    def _run(self, function: Callable[[], T]) -> T:
        if not self._open:
            self.still()
        return function()

    def still(self) -> None:
        """Unavailable if the outer transaction has ended, which rolled this one back: it must not be partly stored."""
        if self.outer is not None and not self.outer._open:
            hint = "Wait for the tasks inside a transaction before you leave it."
            raise Unavailable("the outer transaction has ended", hint=hint)

    def leave(self, error: BaseException | None = None) -> None:
        """Commits it, or with an error rolls it back and raises that error again.

        Rolls back nested transactions that are still open.
        """
        if not self._open:
            if error is None:
                self.still()
            return
        if self.inner is not None:
            self.inner.abandon()
        self._open = False
        raised_in = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        try:
            self._transaction.__exit__(*raised_in)
        except BaseException as raised:
            if raised is not error:
                raise

    def abandon(self) -> None:
        """Rolls it back if it has not ended."""
        if self._open:
            self.leave(Closed("the task was cancelled"))
