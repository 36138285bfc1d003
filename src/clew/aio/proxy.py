"""Async twins of sync classes: a call runs on a thread, and the objects it returns are twins too.

A twin is declared with the sync class that it stands for: ``class Log(Proxy, of=log.Log): ...``. Its members are made
from the members of the sync class when the module is imported. `tools/aio.py` writes the same members with their
types into a ``.pyi`` file for type checkers and editors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import cached_property, wraps
from inspect import get_annotations, isfunction
from typing import Any, ClassVar

from clew.aio.dispatch import WorkerThreads
from clew.aio.watch import Watch

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
