"""Saving a conversation as it goes: after each answer, and when the program ends."""

from __future__ import annotations

import atexit
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

from clew.errors import ClewError, Invalid
from clew.snapshots.types import Snapshot, validate_snapshot_id

if TYPE_CHECKING:
    from types import TracebackType

TURNS = ("ask", "chat", "stream")
"""The methods of a client that end with an answer."""


class Saves(Protocol):
    """What can be saved: a client."""

    def save(self) -> Snapshot:
        """The conversation as it is now."""


class Keeps(Protocol):
    """Where it is saved: a `SnapshotStore`, or one whose methods are awaited."""

    def save(self, snapshot: Snapshot) -> Awaitable[None] | None:
        """Keeps a snapshot."""


C = TypeVar("C", bound=Saves)


def autosave(client: C, store: Keeps, *, every: int = 1, id: str | None = None) -> C:
    """The same client, saved to `store` after each answer, or after `every` so many, and when the program ends.

    What was answered before the program was killed is in the store. The conversation has one snapshot, with the
    client's own id or with `id`, that is saved again and again. Use it in place of the client; as a context manager it
    saves at the end of the block, too. If saving fails, the error is raised, the answer stays in the conversation, and
    the next answer is saved together with it. An async client is saved in a thread, or by a store that is
    awaited; with the latter, what is open at the end of the program is only saved by the block.
    """
    if not callable(getattr(client, "save", None)):
        raise Invalid(f"a {type(client).__name__} cannot be saved", hint="Use a client that has save and restore.")
    if not callable(getattr(store, "save", None)):
        hint = "Use a FileStore, an ObjectStore, or the snapshots of a store."
        raise Invalid(f"a {type(store).__name__} keeps no snapshots", hint=hint)
    if not isinstance(every, int) or every < 1:
        raise Invalid("every is a whole number of answers, from 1 on")
    if id is not None:
        validate_snapshot_id(id)
    names = [name for name in dir(client) if not name.startswith("_")]
    # On the class, because isinstance of a protocol looks there.
    made = type(type(client).__name__, (_Saving,), {name: _forward(name) for name in names if name not in _OWN})
    return cast("C", made(client, _Keeper(client, store, every, id)))


class _Keeper:
    """Saves a client, and knows whether there is something to save."""

    def __init__(self, client: Saves, store: Keeps, every: int, id: str | None) -> None:
        self._client = client
        self._store = store
        self._every = every
        self._awaited = inspect.iscoroutinefunction(store.save)
        self._asked = id
        self._id: str | None = None
        self._mints: bool | None = None
        """True if the client makes a new id at each save."""
        self._open = 0
        """Answers that are not saved yet."""

    def due(self) -> bool:
        """Counts an answer; True if it is time to save."""
        if self._open == 0:
            atexit.register(self._at_exit)
        self._open += 1
        return self._open >= self._every

    @property
    def pending(self) -> bool:
        """True if an answer is not saved yet."""
        return self._open > 0

    def is_answer(self, piece: object) -> bool:
        """True for the last piece of a stream, if the client has it as its `reply`."""
        return piece is not None and piece is getattr(self._client, "reply", None)

    def follow(self, id: str) -> None:
        """Another conversation was restored into the client: from now on that one is saved."""
        self._id = id

    def save(self) -> None:
        """Saves the conversation as it is now."""
        if self._awaited:
            raise Invalid("a store that is awaited saves async clients alone", hint="Give the store itself.")
        self._store.save(self._taken())
        self._done()

    async def save_async(self) -> None:
        """`save`, without holding up the event loop; not to be cancelled in the middle."""
        import anyio
        from anyio.to_thread import run_sync

        snapshot = self._taken()
        with anyio.CancelScope(shield=True):
            if self._awaited:
                await cast("Awaitable[None]", self._store.save(snapshot))
            else:
                await run_sync(self._store.save, snapshot)
        self._done()

    def _taken(self) -> Snapshot:
        snapshot = self._client.save()
        id = self._asked or self._own(snapshot)
        return snapshot if snapshot.id == id else snapshot.replace(id=id)

    def _own(self, snapshot: Snapshot) -> str:
        """The id of the conversation: it must not become many snapshots because each has another id."""
        if self._mints is None:
            self._mints = self._client.save().id != snapshot.id
        self._id = self._id or snapshot.id
        return self._id if self._mints else snapshot.id

    def _done(self) -> None:
        self._open = 0
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        with suppress(ClewError):  # the store may be closed by now, and nobody is there to be told
            self.save()


class _Saving:
    """What `autosave` returns: everything is the client's, but an answer is saved before it is handed over."""

    def __init__(self, client: Any, keeper: _Keeper) -> None:
        self.__dict__.update(_client=client, _keeper=keeper)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._client, name, value)

    def __repr__(self) -> str:
        return f"<autosaved {self._client!r}>"

    def restore(self, snapshot: Snapshot, *args: Any, **options: Any) -> Any:
        """Restores the client, and goes on saving under the snapshot's id."""
        result = self._client.restore(snapshot, *args, **options)
        self._keeper.follow(snapshot.id)
        return result

    def __enter__(self) -> Any:
        getattr(self._client, "__enter__", lambda: None)()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        try:
            if self._keeper.pending:
                self._keeper.save()
        finally:
            leave = getattr(self._client, "__exit__", lambda *_: None)
            result = leave(kind, error, trace)
        return result

    async def __aenter__(self) -> Any:
        enter = getattr(self._client, "__aenter__", None)
        if enter is not None:
            await enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        try:
            if self._keeper.pending:
                await self._keeper.save_async()
        finally:
            leave = getattr(self._client, "__aexit__", None)
            result = None if leave is None else await leave(kind, error, trace)
        return result


_OWN = frozenset({"restore"})


def _forward(name: str) -> Any:
    """A member of the client; one that ends with an answer saves it."""
    if name not in TURNS:
        return property(lambda self: getattr(self._client, name))

    def turn(self: _Saving, *args: Any, **options: Any) -> Any:
        try:
            result = getattr(self._client, name)(*args, **options)
        except BaseException:
            _save_quietly(self._keeper)
            raise
        if inspect.isawaitable(result):
            return _awaited(self._keeper, result)
        if hasattr(result, "__anext__"):
            return _Pieces(_streamed_async(self._keeper, result))
        if hasattr(result, "__next__"):
            return _streamed(self._keeper, result)
        _save(self._keeper)
        return result

    turn.__name__ = name
    return turn


def _save(keeper: _Keeper) -> None:
    if keeper.due():
        keeper.save()


def _save_quietly(keeper: _Keeper) -> None:
    """After an error: what arrived before it is saved, and the error is what the caller hears of."""
    with suppress(ClewError):
        _save(keeper)


def _streamed(keeper: _Keeper, pieces: Iterator[Any]) -> Iterator[Any]:
    saved = False
    try:
        for piece in pieces:
            if keeper.is_answer(piece):
                saved = True
                _save(keeper)
            yield piece
    except BaseException:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
        if not saved:
            _save_quietly(keeper)
        raise
    if not saved:
        _save(keeper)


async def _awaited(keeper: _Keeper, answer: Awaitable[Any]) -> Any:
    try:
        result = await answer
    except BaseException:
        with suppress(ClewError):
            await _save_async(keeper)
        raise
    await _save_async(keeper)
    return result


async def _streamed_async(keeper: _Keeper, pieces: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    saved = False
    try:
        async for piece in pieces:
            if keeper.is_answer(piece):
                saved = True
                await _save_async(keeper)
            yield piece
    except BaseException:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
        if not saved:
            with suppress(ClewError):
                await _save_async(keeper)
        raise
    if not saved:
        await _save_async(keeper)


class _Pieces(AsyncIterator[Any]):
    """The pieces of an answer; with ``async with`` it ends at once when the block does, like a client's own stream."""

    def __init__(self, pieces: AsyncGenerator[Any, None]) -> None:
        self._pieces = pieces

    async def __anext__(self) -> Any:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Ends the answer here; what arrived is saved."""
        await self._pieces.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _save_async(keeper: _Keeper) -> None:
    if keeper.due():
        await keeper.save_async()
