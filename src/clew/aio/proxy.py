"""Async twins of sync classes: a call runs on a thread, and the objects it returns are twins too.

A twin is declared with the sync class that it stands for: ``class Log(Proxy, of=log.Log): ...``. Its members are made
from the members of the sync class when the module is imported. `tools/aio.py` writes the same members with their
types into a ``.pyi`` file for type checkers and editors.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from functools import cached_property, wraps
from inspect import get_annotations, isfunction
from types import TracebackType
from typing import Any, ClassVar, Self

import anyio
from anyio.lowlevel import current_token

from clew.aio.threads import WorkerThreads, post
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


TWINS: dict[type, type[Proxy]] = {}
"""The async class of each sync class that has one."""


class Proxy:
    """An object whose calls are awaited. `of` is the sync class that it stands for.

    - A method is awaited. If it returns an iterator, the twin returns an async iterator; if a `Watch`, an async one.
    - A property is read at once, unless it is in `awaited` because it reads the store: then it is an awaitable.
    - Calls in `commits` share a transaction with others that wait: short writes that programs make often.
    - A member that the class body defines is left as it is; one that it only annotates is an attribute of the object.
    """

    _awaited: ClassVar[frozenset[str]]

    def __init__(self, threads: WorkerThreads, sync: Any) -> None:
        self._threads = threads
        self._sync = sync

    def __init_subclass__(cls, *, of: type, commits: tuple[str, ...] = (), awaited: tuple[str, ...] = ()) -> None:
        super().__init_subclass__()
        cls._awaited = frozenset(awaited)
        cls.__doc__ = cls.__doc__ or of.__doc__
        TWINS[of] = cls
        for name, member in [pair for kind in reversed(of.__mro__) for pair in vars(kind).items()]:
            if name.startswith("_") or name in vars(cls):
                continue
            if isfunction(member):
                setattr(cls, name, _method(member, commit=name in commits))
            elif isinstance(member, property | cached_property):
                setattr(cls, name, _property(name, member.__doc__, awaited=name in awaited))
        for name in get_annotations(cls):
            setattr(cls, name, _property(name, f"See `{of.__name__}.{name}`.", awaited=False))

    def _wrap(self, value: Any) -> Any:
        """The twin of `value`, or of the items of a list; other values as they are."""
        if isinstance(value, list):
            return [self._wrap(item) for item in value]
        twin = next((TWINS[kind] for kind in type(value).__mro__ if kind in TWINS), None)
        return value if twin is None else twin(self._threads, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proxy) and bool(self._sync == other._sync)

    def __hash__(self) -> int:
        return hash(self._sync)

    def __repr__(self) -> str:
        return f"<async {self._sync!r}>"


def unwrap(value: Any) -> Any:
    """The sync object behind a twin; other values as they are."""
    return value._sync if isinstance(value, Proxy) else value


def _method(sync: Callable[..., Any], *, commit: bool) -> Callable[..., Any]:
    name = sync.__name__
    returns = sync.__annotations__.get("return", "")
    twin: Callable[..., Any]
    if returns.startswith("Iterator["):

        def twin(self: Proxy, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            args, kwargs = _unwrap_all(args, kwargs)
            return self._threads.stream(lambda: map(self._wrap, getattr(self._sync, name)(*args, **kwargs)))
    elif returns == "Watch":

        def twin(self: Proxy, *args: Any, **kwargs: Any) -> Watch:
            return Watch(self._threads, getattr(self._sync, name)(*args, **kwargs))
    else:

        async def twin(self: Proxy, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = _unwrap_all(args, kwargs)
            run = self._threads.commit if commit else self._threads.run
            return self._wrap(await run(getattr(self._sync, name), *args, **kwargs))

    return wraps(sync)(twin)


def _unwrap_all(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(unwrap, args)), {key: unwrap(value) for key, value in kwargs.items()}


def _property(name: str, doc: str | None, *, awaited: bool) -> property:
    async def read(self: Proxy) -> Any:
        return self._wrap(await self._threads.run(getattr, self._sync, name))

    def get(self: Proxy) -> Any:
        return read(self) if awaited else self._wrap(getattr(self._sync, name))

    return property(get, doc=doc)
