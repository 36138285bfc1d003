"""A guard: captures before a block or a function, and notes after it how things were left."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from clew.errors import Invalid
from clew.node import Node

if TYPE_CHECKING:
    from clew.checkpoints.checkpoints import Checkpoints

P = ParamSpec("P")
R = TypeVar("R")
Said = str | Node
Paths = Iterable[str | os.PathLike[str]]


PathList = list[str | os.PathLike[str]]


class Opened(NamedTuple):
    """What was captured and is to be settled; without paths, the tree."""

    message: Said
    paths: PathList | None


def listed(paths: Paths) -> PathList:
    """Paths as a list. Invalid if it is one path, whose letters would be taken for paths."""
    if isinstance(paths, str | bytes) or not isinstance(paths, Iterable):
        raise Invalid(f"paths are a list, not {type(paths).__name__}", hint="Put the path in a list.")
    return list(paths)


class Guard:
    """What `Checkpoints.guard` returns: a context manager, and a decorator. If the capture fails, nothing runs."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        message: Said | Callable[[], Said],
        paths: Paths | Callable[..., Paths] | None,
    ) -> None:
        self._checkpoints = checkpoints
        self._message = message
        self._paths = paths if paths is None or callable(paths) else listed(paths)
        self._open: list[Opened] = []

    def __enter__(self) -> None:
        self._open.append(self.begin())

    def __exit__(self, *_: object) -> None:
        self.end(self._open.pop())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, guarded at every call. Invalid if it is async: `clew.aio.checkpoints` guards those."""
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise Invalid("an async function is done when it is awaited", hint="clew.aio.checkpoints guards those.")

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            opened = self.begin_call(args, kwargs)
            try:
                return function(*args, **kwargs)
            finally:
                self.end(opened)

        return guarded

    def begin(self) -> Opened:
        """Captures before a block."""
        if callable(self._paths):
            raise Invalid("paths that depend on arguments need a function to guard", hint="Give a list of paths.")
        return self._begin(self._paths)

    def begin_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Opened:
        """Captures before a call with these arguments."""
        return self._begin(self._paths(*args, **kwargs) if callable(self._paths) else self._paths)

    def _begin(self, paths: Paths | None) -> Opened:
        message = self._message() if callable(self._message) else self._message
        opened = Opened(message, None if paths is None else listed(paths))
        if opened.paths is None:
            self._checkpoints.capture_tree(message)
        else:
            self._checkpoints.capture(message, opened.paths)
        return opened

    def end(self, opened: Opened) -> None:
        """Notes how things were left."""
        self._checkpoints.settle(opened.message, opened.paths)
