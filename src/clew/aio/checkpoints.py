"""The async face of `clew.checkpoints`: the same names, awaited. Files are read and written on worker threads."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

import anyio

from clew import checkpoints as sync
from clew.aio.faces import Session
from clew.checkpoints import MAX_FILE, Checkpoint, FileDiff, Mode, Rewound, State
from clew.checkpoints.guard import Opened, Paths, Said
from clew.errors import Invalid

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["Checkpoints", "Guard"]


class Checkpoints:
    """The checkpoints of a session's files below `root`: see `clew.checkpoints.Checkpoints`. Tasks may share it.

    A call that was begun is finished, also if the task is cancelled meanwhile.
    """

    def __init__(
        self,
        session: Session,
        root: str | os.PathLike[str],
        *,
        enabled: bool = True,
        max_file: int = MAX_FILE,
        patience: float = 60.0,
    ) -> None:
        if not isinstance(session, Session):
            raise Invalid(f"these checkpoints belong to an async Session, not to {type(session).__name__}")
        self._sync = sync.Checkpoints(session._sync, root, enabled=enabled, max_file=max_file, patience=patience)
        self._threads = session._threads
        self._turn = anyio.Lock()  # one object serves one thread at a time

    @property
    def root(self) -> str:
        """The folder, as it is called without links."""
        return self._sync.root

    async def capture(self, user_message: Said, paths: Paths) -> Checkpoint | None:
        """Keeps these files as they are now, before they are changed for a user message. Durable when it returns."""
        return await self._run(lambda: self._sync.capture(user_message, paths))

    async def capture_tree(self, user_message: Said) -> Checkpoint | None:
        """Keeps the whole tree as it is now, before something changes files that nobody can name."""
        return await self._run(lambda: self._sync.capture_tree(user_message))

    async def settle(self, user_message: Said, paths: Paths | None = None) -> None:
        """Notes how these files, or all that the message's checkpoint has, were left."""
        await self._run(lambda: self._sync.settle(user_message, paths))

    async def alias(self, user_message: Said, other: str) -> None:
        """Lets the checkpoint of a message be found by another id as well. Invalid; NotFound if there is none."""
        await self._run(lambda: self._sync.alias(user_message, other))

    def guard(
        self, user_message: Said | Callable[[], Said], paths: Paths | Callable[..., Paths] | None = None
    ) -> Guard:
        """`capture` before a block or an async function, and `settle` after it; without paths, the whole tree.

        ``async with checkpoints.guard(message, ["a.py"]): …``, or as a decorator.
        """
        return Guard(self, user_message, paths)

    async def list(self) -> Sequence[Checkpoint]:
        """Every checkpoint, oldest first."""
        return await self._run(self._sync.list)

    async def show(self, user_message: Said) -> Checkpoint:
        """The checkpoint of a message. NotFound."""
        return await self._run(lambda: self._sync.show(user_message))

    async def content(self, state: State) -> bytes:
        """The content of a file that a checkpoint has, compared with its hash. NotFound, Tampered."""
        return await self._run(lambda: self._sync.content(state))

    async def diff(self, user_message: Said) -> Sequence[FileDiff]:
        """What a rewind would change, file by file. NotFound; Unavailable or Tampered if something cannot be read."""
        return await self._run(lambda: self._sync.diff(user_message))

    async def rewind(
        self, user_message: Said, dry_run: bool = False, mode: Mode = "files", *, force: bool = False
    ) -> Rewound:
        """Puts files back to what they were when the message was said, or the conversation, or both."""
        return await self._run(lambda: self._sync.rewind(user_message, dry_run, mode, force=force))

    async def undo(self, *, steps: int = 1, dry_run: bool = False, force: bool = False) -> Rewound:
        """Takes back the last rewind, files and conversation; with `steps` the last so many, in one go."""
        return await self._run(lambda: self._sync.undo(steps=steps, dry_run=dry_run, force=force))

    async def finish(self) -> Rewound | None:
        """Finishes a rewind that was cut short; every other call that changes something does so first."""
        return await self._run(self._sync.finish)

    async def _run(self, call: Callable[[], R]) -> R:
        async with self._turn:
            return await self._threads.run(call)


class Guard:
    """What `guard` returns: an async context manager, and a decorator. If the capture fails, nothing runs."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        message: Said | Callable[[], Said],
        paths: Paths | Callable[..., Paths] | None,
    ) -> None:
        self._checkpoints = checkpoints
        self._guard = sync.Guard(checkpoints._sync, message, paths)
        self._open: list[Opened] = []

    async def __aenter__(self) -> None:
        self._open.append(await self._checkpoints._run(self._guard.begin))

    async def __aexit__(self, *_: object) -> None:
        await self._end(self._open.pop())

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """The function, guarded at every call."""
        if not inspect.iscoroutinefunction(function):
            raise Invalid("this guards async functions", hint="clew.checkpoints guards others.")

        @wraps(function)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            opened = await self._checkpoints._run(lambda: self._guard.begin_call(args, kwargs))
            try:
                return await function(*args, **kwargs)
            finally:
                await self._end(opened)

        return guarded

    async def _end(self, opened: Opened) -> None:
        with anyio.CancelScope(shield=True):  # what a cancelled task has done is noted too
            await self._checkpoints._run(lambda: self._guard.end(opened))
