"""A guard: captures before a block or a function, and records afterwards how files were left."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from clew.engine.node import Node
from clew.errors import Invalid

P = ParamSpec("P")
R = TypeVar("R")
MessageRef = str | Node
Paths = Iterable[str | os.PathLike[str]]


PathList = list[str | os.PathLike[str]]


class OpenGuard(NamedTuple):
    """What was captured and must be settled; without paths, the tree."""

    message: MessageRef
    paths: PathList | None


def to_list(paths: Paths) -> PathList:
    """Paths as a list. Raises Invalid for a single string, whose characters would be taken as paths."""
    if isinstance(paths, str | bytes) or not isinstance(paths, Iterable):
        raise Invalid(f"paths must be a list, not {type(paths).__name__}", hint="Put the path in a list.")
    return list(paths)


class Captures(Protocol):
    """The methods that a guard calls: see `Checkpoints`."""

    def capture(self, user_message: MessageRef, paths: Paths) -> object:
        """Stores these files as they are now."""

    def capture_tree(self, user_message: MessageRef) -> object:
        """Stores the whole tree as it is now."""

    def settle(self, user_message: MessageRef, paths: Paths | None = None) -> None:
        """Records the state that these files were left in."""


class Guard:
    """The result of `Checkpoints.guard`: a context manager and a decorator. If a capture fails, nothing runs."""

    def __init__(
        self,
        checkpoints: Captures,
        message: MessageRef | Callable[[], MessageRef],
        paths: Paths | Callable[..., Paths] | None,
    ) -> None:
        self._checkpoints = checkpoints
        self._message = message
        self._paths = paths if paths is None or callable(paths) else to_list(paths)
        self._open: list[OpenGuard] = []

    def __enter__(self) -> None:
        self._open.append(self.begin())

    def __exit__(self, *_: object) -> None:
        self.end(self._open.pop())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wraps a function. Raises Invalid if it is async: use `clew.aio.checkpoints` for those."""
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise Invalid("guard does not support async functions", hint="Use clew.aio.checkpoints.")

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            opened = self.begin_call(args, kwargs)
            try:
                return function(*args, **kwargs)
            finally:
                self.end(opened)

        return guarded

    def begin(self) -> OpenGuard:
        """Captures before a block."""
        if callable(self._paths):
            raise Invalid("paths can be a function only for a decorated function", hint="Pass a list of paths.")
        return self._begin(self._paths)

    def begin_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> OpenGuard:
        """Captures before a call with these arguments."""
        return self._begin(self._paths(*args, **kwargs) if callable(self._paths) else self._paths)

    def _begin(self, paths: Paths | None) -> OpenGuard:
        message = self._message() if callable(self._message) else self._message
        opened = OpenGuard(message, None if paths is None else to_list(paths))
        if opened.paths is None:
            self._checkpoints.capture_tree(message)
        else:
            self._checkpoints.capture(message, opened.paths)
        return opened

    def end(self, opened: OpenGuard) -> None:
        """Records how files were left."""
        self._checkpoints.settle(opened.message, opened.paths)
