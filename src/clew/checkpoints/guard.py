"""A guard: captures before a block or a function, and notes after it how things were left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from clew.errors import Invalid
from clew.node import Node

if TYPE_CHECKING:
    from clew.checkpoints.checkpoints import Checkpoints

P = ParamSpec("P")
R = TypeVar("R")
Said = str | Node
Paths = Iterable[str | os.PathLike[str]]


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
        self._paths = paths
        self._open: list[tuple[Said, list[str | os.PathLike[str]] | None]] = []

    def __enter__(self) -> None:
        if callable(self._paths):
            raise Invalid("paths that depend on arguments need a function to guard", hint="Give a list of paths.")
        self._begin(self._paths)

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, guarded at every call."""

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            self._begin(self._paths(*args, **kwargs) if callable(self._paths) else self._paths)
            try:
                return function(*args, **kwargs)
            finally:
                self._end()

        return guarded

    def _begin(self, paths: Paths | None) -> None:
        message = self._message() if callable(self._message) else self._message
        named = None if paths is None else list(paths)
        if named is None:
            self._checkpoints.capture_tree(message)
        else:
            self._checkpoints.capture(message, named)
        self._open.append((message, named))

    def _end(self) -> None:
        message, named = self._open.pop()
        self._checkpoints.settle(message, named)
