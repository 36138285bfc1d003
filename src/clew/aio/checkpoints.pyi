"""Types of the async twins. Written by tools/aio.py."""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar

from clew import checkpoints as sync
from clew.aio.proxy import Proxy
from clew.aio.store import Session
from clew.checkpoints.checkpoints import MessageRef, Mode, Paths
from clew.checkpoints.filestate import FileState
from clew.checkpoints.results import Checkpoint, FileDiff, Rewound
from clew.engine.node import Node

P = ParamSpec("P")
R = TypeVar("R")
__all__ = ["Checkpoints", "Guard"]

class Checkpoints(Proxy, of=sync.Checkpoints):
    """The checkpoints of a session's files below `root`: see `clew.checkpoints.Checkpoints`. Tasks may share it."""

    _sync: sync.Checkpoints
    def __init__(
        self,
        session: Session,
        root: str | os.PathLike[str],
        *,
        enabled: bool = True,
        max_file: int = ...,
        patience: float = 60.0,
        home: str | None = None,
    ) -> None: ...
    def guard(
        self, user_message: MessageRef | Callable[[], MessageRef], paths: Paths | Callable[..., Paths] | None = None
    ) -> Guard:
        """Calls `capture` before a block or an async function and `settle` after it; without paths, for the whole tree."""
    @property
    def root(self) -> str:
        """The root folder, with links resolved."""
    async def capture(self, user_message: str | Node, paths: Paths) -> Checkpoint | None:
        """Stores the current state of these files, before a user message changes them. Durable when this returns."""
    async def capture_tree(self, user_message: str | Node) -> Checkpoint | None:
        """Stores the current state of the whole tree, before a command that may change any file."""
    async def settle(self, user_message: str | Node, paths: Paths | None = None) -> None:
        """Records how these files, or all files of the message's checkpoint, were left."""
    async def alias(self, user_message: str | Node, other: str) -> None:
        """Makes the checkpoint of a message available under another id too. Raises Invalid, NotFound."""
    async def list(self) -> Sequence[Checkpoint]:
        """All checkpoints, oldest first."""
    async def show(self, user_message: str | Node) -> Checkpoint:
        """The checkpoint of a message. Raises NotFound."""
    async def content(self, state: FileState) -> bytes:
        """The content of a file in a checkpoint, checked against its hash. Raises NotFound, Corrupted."""
    async def diff(self, user_message: str | Node) -> Sequence[FileDiff]:
        """The changes that a rewind would make, file by file. Raises NotFound, Unavailable, Corrupted."""
    async def rewind(
        self, user_message: str | Node, dry_run: bool = False, mode: Mode = "files", *, force: bool = False
    ) -> Rewound:
        """Restores files to their state at a message, or rewinds the conversation to it, or both."""
    async def undo(self, *, steps: int = 1, dry_run: bool = False, force: bool = False) -> Rewound:
        """Undoes the last rewind, of files and conversation; with `steps`, the last several rewinds at once."""
    async def finish(self) -> Rewound | None:
        """Finishes an interrupted rewind; returns None if there is none."""

class Guard:
    """The result of `guard`: an async context manager and a decorator. If the capture fails, nothing runs."""
    def __init__(
        self,
        checkpoints: Checkpoints,
        message: MessageRef | Callable[[], MessageRef],
        paths: Paths | Callable[..., Paths] | None,
    ) -> None: ...
    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *_: object) -> None: ...
    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """Wraps an async function."""
