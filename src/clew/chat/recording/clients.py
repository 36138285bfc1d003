"""Clients that record each answer before they return it, and `autosave`, which saves them as snapshots."""

from __future__ import annotations

import atexit
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, Self, TypeVar

from clew.chat.protocols import Event, Reply
from clew.errors import ClewError, Invalid
from clew.snapshots import Snapshot, validate_snapshot_id

T = TypeVar("T")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""


class Recorder(Protocol):
    """Where a conversation is recorded. With async clients, its methods run in a thread."""

    chats_by_stream: bool
    """True if ``chat`` must stream the answer, so that each step before it is recorded."""

    def begin(self, arguments: Arguments) -> Arguments:
        """Called before a question is sent, with the arguments of the call; returns those for the client."""

    def is_step(self, event: Any) -> bool:
        """True if the conversation must be recorded before the caller gets this event of a stream."""

    def is_last(self, event: Any) -> bool:
        """True for a step that completes the answer."""

    def keep(self) -> None:
        """Records the conversation as it is now."""

    def keep_after_error(self) -> None:
        """The same after a call that raised an error. The caller gets that error."""

    def keep_partial(self, pieces: Sequence[Event]) -> None:
        """Records a partial answer after an error; `pieces` are the events since the last recorded step."""

    def finish(self, pieces: Sequence[Event]) -> None:
        """Records an answer whose stream ended without a last step."""

    def follow(self, snapshot: Snapshot) -> None:
        """Another conversation was restored into the client."""

    def close(self) -> None:
        """Records everything that is not recorded yet."""


def record(client: Any, recorder: Recorder) -> Any:
    """The common part of recorded clients. All other members are those of the client."""
    base = AsyncSavedClient if inspect.iscoroutinefunction(getattr(client, "chat", None)) else SavedClient
    # These are on the class because isinstance of a protocol checks the class.
    members: dict[str, Any] = {}
    for name in dir(client):
        if name in _RECORDED:
            members[name] = getattr(base, f"_{name}")
        elif not name.startswith("_") and not hasattr(base, name):
            members[name] = _forward(name)
    if hasattr(recorder, "session"):
        members["session"] = property(lambda self: self._recorder.session)
    return type(base.__name__, (base,), members)(client, recorder)


_RECORDED = frozenset({"ask", "chat", "restore", "stream"})


def _forward(name: str) -> property:
    return property(lambda self: getattr(self._client, name))


class _Recorded:
    def __init__(self, client: Any, recorder: Recorder) -> None:
        self.__dict__.update(_client=client, _recorder=recorder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._client, name, value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._client!r}>"

    def _restore(self, snapshot: Snapshot, *args: Any, **options: Any) -> Any:
        """Restores the client, and tells the recorder about the other conversation."""
        result = self._client.restore(snapshot, *args, **options)
        self._recorder.follow(snapshot)
        return result


class SavedClient(_Recorded):
    """A client that records each answer before it returns it.

    It has all members of the recorded client. `chat`, `ask`, `stream` and `restore` record; the others do not change.
    """

    def _chat(self, *args: Any, **options: Any) -> Any:
        """Sends a prompt and returns the answer. ProviderError."""
        if not self._recorder.chats_by_stream:
            return self._call("chat", (args, options))
        for event in self._stream(*args, **options):
            if isinstance(event, Reply):
                return event.text
        raise AssertionError("a stream ends with its reply")

    def _ask(self, *args: Any, **options: Any) -> Any:
        """The answer as a value of a type. ProviderError if it does not fit; it is still recorded."""
        return self._call("ask", (args, options))

    def _call(self, name: str, arguments: Arguments) -> Any:
        args, options = self._recorder.begin(arguments)
        try:
            result = getattr(self._client, name)(*args, **options)
        except BaseException:
            self._recorder.keep_after_error()
            raise
        self._recorder.keep()
        return result

    def _stream(self, *args: Any, **options: Any) -> Generator[Any, None, None]:
        """The answer in pieces. If the caller stops early, what arrived is recorded."""
        args, options = self._recorder.begin((args, options))
        progress = _Progress(self._recorder)
        try:
            with _close_after(self._client.stream(*args, **options)) as events:
                for event in events:
                    if progress.is_step(event):
                        self._recorder.keep()
                        progress.advance(event)
                    yield event
        except BaseException:
            if not progress.ended:
                self._recorder.keep_partial(progress.pieces)
            raise
        if not progress.ended:
            self._recorder.finish(progress.pieces)

    def close(self) -> None:
        """Closes the connections to the provider."""
        if hasattr(self._client, "close"):
            self._client.close()

    def __enter__(self) -> Self:
        if hasattr(self._client, "__enter__"):
            self._client.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        try:
            self._recorder.close()
        finally:
            leave = getattr(self._client, "__exit__", lambda *_: self.close())
            result = leave(*error)
        return result


class AsyncSavedClient(_Recorded):
    """`SavedClient`, awaited. It records in a thread; a cancelled task does not interrupt that."""

    async def _chat(self, *args: Any, **options: Any) -> Any:
        """Sends a prompt and returns the answer. ProviderError."""
        if not self._recorder.chats_by_stream:
            return await self._call("chat", (args, options))
        async with self._stream(*args, **options) as events:
            async for event in events:
                if isinstance(event, Reply):
                    return event.text
        raise AssertionError("a stream ends with its reply")

    async def _ask(self, *args: Any, **options: Any) -> Any:
        """The answer as a value of a type. ProviderError if it does not fit; it is still recorded."""
        return await self._call("ask", (args, options))

    async def _call(self, name: str, arguments: Arguments) -> Any:
        args, options = await _in_thread(lambda: self._recorder.begin(arguments))
        try:
            result = await getattr(self._client, name)(*args, **options)
        except BaseException:
            await _in_thread(self._recorder.keep_after_error)
            raise
        await _in_thread(self._recorder.keep)
        return result

    def _stream(self, *args: Any, **options: Any) -> SavedStream:
        """The answer in pieces. If the task is cancelled, what arrived is recorded."""
        return SavedStream(self._events((args, options)))

    async def _events(self, arguments: Arguments) -> AsyncGenerator[Any, None]:
        args, options = await _in_thread(lambda: self._recorder.begin(arguments))
        progress = _Progress(self._recorder)
        events = self._client.stream(*args, **options)
        try:
            try:
                async for event in events:
                    if progress.is_step(event):
                        await _in_thread(self._recorder.keep)
                        progress.advance(event)
                    yield event
            finally:
                if hasattr(events, "aclose"):
                    await events.aclose()
        except BaseException:
            if not progress.ended:
                await _in_thread(lambda: self._recorder.keep_partial(progress.pieces))
            raise
        if not progress.ended:
            await _in_thread(lambda: self._recorder.finish(progress.pieces))

    async def close(self) -> None:
        """Closes the connections to the provider."""
        if hasattr(self._client, "close"):
            await self._client.close()

    async def __aenter__(self) -> Self:
        if hasattr(self._client, "__aenter__"):
            await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        try:
            await _in_thread(self._recorder.close)
        finally:
            leave = getattr(self._client, "__aexit__", lambda *_: self.close())
            result = await leave(*error)
        return result


class SavedStream(AsyncIterator[Any]):
    """The events of an answer. With ``async with``, leaving the block stops and records it."""

    def __init__(self, events: AsyncGenerator[Any, None]) -> None:
        self._events = events

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stops the answer and records what arrived."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Progress:
    """Tracks how much of a stream is recorded. A step whose recording failed is recorded again."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.pieces: list[Any] = []
        """The events since the last recorded step."""
        self.ended = False

    def is_step(self, event: Any) -> bool:
        if self._recorder.is_step(event):
            return True
        self.pieces.append(event)
        return False

    def advance(self, step: Any) -> None:
        self.pieces.clear()
        self.ended = self._recorder.is_last(step)


@contextmanager
def _close_after(events: Any) -> Iterator[Any]:
    try:
        yield events
    finally:
        if hasattr(events, "close"):
            events.close()


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs blocking work in a thread. A cancelled task waits for it."""
    import anyio
    from anyio.to_thread import run_sync

    done: list[T] = []
    with anyio.CancelScope(shield=True):
        done.append(await run_sync(work))
    return done[0]


class HasSave(Protocol):
    """A client that can be saved."""

    def save(self) -> Snapshot:
        """A snapshot of the conversation."""


class SavesSnapshots(Protocol):
    """A `SnapshotStore`, or one whose methods are awaited."""

    def save(self, snapshot: Snapshot) -> Awaitable[None] | None:
        """Stores a snapshot."""


C = TypeVar("C", bound=HasSave)


def autosave(client: C, store: SavesSnapshots, *, every: int = 1, id: str | None = None) -> C:
    """Returns a client that saves to `store` after each answer, or each `every` answers, and at the end of the program.

    Use it in place of the client. It saves an answer before it returns it, so a killed program loses none. The
    conversation has one snapshot, with the client's id or with `id`, which each save replaces. As a context manager it
    also saves at the end of the block. If a save fails, it raises the error; the answer stays in the conversation, and
    the next save includes it. An async client is saved in a thread, or with an async store; with the latter, only the
    end of the block saves outstanding answers, not the end of the program.
    """
    if not callable(getattr(client, "save", None)):
        raise Invalid(f"a {type(client).__name__} cannot be saved", hint="Use a client that has save and restore.")
    if not callable(getattr(store, "save", None)):
        hint = "Use a FileStore, an ObjectStore, or the snapshots of a store."
        raise Invalid(f"a {type(store).__name__} cannot store snapshots", hint=hint)
    if not isinstance(every, int) or every < 1:
        raise Invalid("every must be a whole number greater than 0")
    if id is not None:
        validate_snapshot_id(id)
    return record(client, SnapshotRecorder(client, store, every, id))  # type: ignore[no-any-return]


class SnapshotRecorder:
    """Saves a client to a store of snapshots, and counts unsaved answers."""

    chats_by_stream = False

    def __init__(self, client: HasSave, store: SavesSnapshots, every: int, id: str | None) -> None:
        self._client = client
        self._store = store
        self._every = every
        self._fixed_id = id
        self._id: str | None = None
        self._mints: bool | None = None
        """True if the client makes a new id at each save."""
        self._unsaved = 0
        """The number of unsaved answers."""

    def begin(self, arguments: Arguments) -> Arguments:
        """Nothing is saved before the answer."""
        return arguments

    def is_step(self, event: object) -> bool:
        """True for the last event of a stream, if the client has it as its `reply`."""
        return event is not None and event is getattr(self._client, "reply", None)

    is_last = is_step

    def keep(self) -> None:
        """Counts an answer, and saves after every `every` of them."""
        if self._unsaved == 0:
            atexit.register(self._at_exit)
        self._unsaved += 1
        if self._unsaved >= self._every:
            self._save()

    def keep_after_error(self) -> None:
        """Saves what arrived before the error. Suppresses errors of saving: the caller gets the first error."""
        with suppress(ClewError):
            self.keep()

    def keep_partial(self, pieces: Sequence[object]) -> None:
        """Does nothing with the pieces: the client has them in its conversation."""
        self.keep_after_error()

    def finish(self, pieces: Sequence[object]) -> None:
        """Saves, as after each answer: not every client ends a stream with its `reply`."""
        self.keep()

    def follow(self, snapshot: Snapshot) -> None:
        """Uses the id of the restored snapshot from now on."""
        self._id = snapshot.id

    def close(self) -> None:
        """Saves answers that are not saved yet."""
        if self._unsaved:
            self._save()

    def _save(self) -> None:
        snapshot = self._client.save()
        id = self._fixed_id or self._snapshot_id(snapshot)
        snapshot = snapshot if snapshot.id == id else snapshot.replace(id=id)
        if inspect.iscoroutinefunction(self._store.save):
            _await_in_loop(self._store.save, snapshot)
        else:
            self._store.save(snapshot)
        self._unsaved = 0
        atexit.unregister(self._at_exit)

    def _snapshot_id(self, snapshot: Snapshot) -> str:
        """The snapshot with the id of the conversation, so that each save replaces the one before."""
        if self._mints is None:
            self._mints = self._client.save().id != snapshot.id
        self._id = self._id or snapshot.id
        return self._id if self._mints else snapshot.id

    def _at_exit(self) -> None:
        with suppress(ClewError):  # the store may be closed by now
            self._save()


def _await_in_loop(save: Any, snapshot: Snapshot) -> None:
    """Awaits a save in the event loop of the calling worker thread. Invalid if there is none."""
    from anyio import from_thread

    try:
        from_thread.check_cancelled()
    except RuntimeError:
        raise Invalid("an async store can save only async clients", hint="Pass the sync store.") from None
    from_thread.run(save, snapshot)
