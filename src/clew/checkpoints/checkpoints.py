"""`Checkpoints` and `Guard`, the classes that users call."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, get_args

import msgspec

from clew.base import ids
from clew.base.values import whole_number
from clew.checkpoints.capture import Capturing, state_at
from clew.checkpoints.filestate import UNSEEN, FileState, folders_of, is_reserved, pack_path
from clew.checkpoints.repository import CheckpointRepo, StoredCheckpoint
from clew.checkpoints.results import Checkpoint, FileDiff, Rewound
from clew.checkpoints.rewind import Rewinding
from clew.checkpoints.root import RootFolder
from clew.engine.node import Node
from clew.errors import Ambiguous, ClewError, Invalid, NotFound, Unavailable, clip
from clew.store.session import Session
from clew.store.unit import Unit

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


class Guard:
    """The result of `Checkpoints.guard`: a context manager and a decorator. If a capture fails, nothing runs."""

    def __init__(
        self,
        checkpoints: Checkpoints,
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


MAX_FILE = 16 * 1024 * 1024
"""Default limit for the bytes of one file. Larger files are listed as skipped."""
Mode = Literal["files", "conversation", "both"]


class Checkpoints:
    """The checkpoints of a session's files below `root`. Reads and writes nothing outside the root.

    With ``enabled=False`` nothing is captured. Files larger than `max_file` bytes are listed as skipped. A call waits
    up to `patience` seconds for other captures and rewinds of the same root, then raises Unavailable. A message is
    given by its id, handle or node, and need not be stored. `home` is the user's folder, which imported checkpoints may
    not change; without it, the one that the system's list of users has. Use one object per thread.
    """

    def __init__(
        self,
        session: Session,
        root: str | os.PathLike[str],
        *,
        enabled: bool = True,
        max_file: int = MAX_FILE,
        patience: float = 60.0,
        home: str | None = None,
    ) -> None:
        if not isinstance(session, Session):
            raise Invalid(f"session must be a Session, not {type(session).__name__}")
        whole_number("max_file", max_file, 0)
        self._root = RootFolder(root, max_file=max_file)
        self._repo = CheckpointRepo(session, pack_path(self._root.path))
        self._enabled = enabled
        self._patience = patience
        file = self._repo.store.file
        self._store = None if file is None else os.path.realpath(file)
        self._capturing = Capturing(self._root, self._repo, self._own)
        self._rewinding = Rewinding(self._root, self._repo, self._capturing, home)

    @property
    def root(self) -> str:
        """The root folder, with links resolved."""
        return self._root.path

    # -- capturing

    def capture(self, user_message: str | Node, paths: Paths) -> Checkpoint | None:
        """Stores the current state of these files, before a user message changes them. Durable when this returns.

        Files that the message's checkpoint already has keep their first state. A file that does not exist is stored as
        missing, with its missing parent folders; a link is stored as a link, together with its target. Raises
        Unavailable and stores nothing if a file cannot be read. Raises Invalid for a folder, for a path that is not
        below the root, and for files of git, clew or the store.
        """
        message = self._message(user_message)
        names = dict.fromkeys(name for path in to_list(paths) for name in self._root.resolve_paths(path))
        for name in names:
            if self._own(name):
                raise Invalid(f"{clip(name, 4096)} is the store itself", hint="Remove it from paths.")
            if any(map(is_reserved, name.split("/"))):
                raise Invalid(f"{clip(name, 4096)} is managed by git or clew", hint="Remove it from paths.")
        if not self._enabled:
            return None
        with self._lock():
            self._finish_if_possible()
            seat = self._repo.read(self._repo.worktree)
            if seat is not None and seat.data.message == message:
                self._capturing.tree(message)  # else changes of a command would be stored as the original
            return self._capturing.files(message, list(names)).to_checkpoint()

    def capture_tree(self, user_message: str | Node) -> Checkpoint | None:
        """Stores the current state of the whole tree, before a command that may change any file.

        The first capture reads every file that `.gitignore` does not exclude; later ones read only changed files. A
        file that has changed since the last scan is added, in its previous state, to the checkpoint of that scan.
        Excluded files and unreadable folders are not captured: a rewind leaves them unchanged and lists them.
        """
        message = self._message(user_message)
        if not self._enabled:
            return None
        with self._lock():
            self._finish_if_possible()
            return self._capturing.tree(message).to_checkpoint()

    def settle(self, user_message: str | Node, paths: Paths | None = None) -> None:
        """Records how these files, or all files of the message's checkpoint, were left.

        Later changes belong to someone else: a rewind does not undo them without `force`. If the tree was captured, it
        is scanned again.
        """
        message = self._message(user_message)
        if not self._enabled:
            return
        wanted = None if paths is None else {name for path in to_list(paths) for name in self._root.resolve_paths(path)}
        with self._lock():
            if wanted is None and self._repo.read(self._repo.worktree) is not None:
                self._capturing.tree(message, settled=True)
            stored = self._repo.read(lambda unit: self._repo.get(unit, message))
            if stored is None:
                return
            known = stored.manifest.paths()
            if wanted is not None:
                wanted |= {folder for path in wanted for folder in folders_of(path)}
            after = {pack_path(path): self._final_state(path) for path in known if wanted is None or path in wanted}

            def work(unit: Unit) -> None:
                now = self._repo.get(unit, message)
                if now is not None:
                    self._repo.put(unit, now.manifest.with_final_states(after), now)

            self._repo.write(work)

    def alias(self, user_message: str | Node, other: str) -> None:
        """Makes the checkpoint of a message available under another id too. Raises Invalid, NotFound."""
        message, name = self._message(user_message), ids.text(ids.parse(other))

        def work(unit: Unit) -> None:
            stored = self._repo.get(unit, message)
            if stored is None:
                raise NotFound("checkpoint", message)
            if name not in stored.manifest.also:
                also = (*stored.manifest.also, name)
                self._repo.put(unit, msgspec.structs.replace(stored.manifest, also=also), stored)

        self._repo.write(work)

    def guard(
        self,
        user_message: str | Node | Callable[[], str | Node],
        paths: Paths | Callable[..., Paths] | None = None,
    ) -> Guard:
        """Calls `capture` before a block or a function, and `settle` after it; without paths, captures the whole tree.

        Use it as ``with checkpoints.guard(message, ["a.py"]): …`` or as a decorator. For a decorated function,
        `message` and `paths` may be functions; `paths` gets the arguments of the call.
        """
        return Guard(self, user_message, paths)

    # -- looking

    def list(self) -> Sequence[Checkpoint]:
        """All checkpoints, oldest first."""
        return [stored.to_checkpoint() for stored in self._repo.read(self._repo.all)]

    def show(self, user_message: str | Node) -> Checkpoint:
        """The checkpoint of a message. Raises NotFound."""
        stored = self._find(self._message(user_message, known=True))
        if stored is None:
            raise NotFound("checkpoint", str(getattr(user_message, "id", user_message)))
        return stored.to_checkpoint()

    def content(self, state: FileState) -> bytes:
        """The content of a file in a checkpoint, checked against its hash. Raises NotFound, Corrupted."""
        return self._repo.content(state)

    def diff(self, user_message: str | Node) -> Sequence[FileDiff]:
        """The changes that a rewind would make, file by file. Raises NotFound, Unavailable, Corrupted."""
        return self._rewinding.diff(self._message(user_message, known=True))

    # -- going back

    def rewind(
        self,
        user_message: str | Node,
        dry_run: bool = False,
        mode: Mode = "files",
        *,
        force: bool = False,
    ) -> Rewound:
        """Restores files to their state at a message, or rewinds the conversation to it, or both.

        The state at a message is computed from its checkpoint and all later ones. The rewind reads and checks every
        content before it changes anything, and stores the current state first, so that `undo` can restore it. If it is
        not possible, nothing is changed and the result says why: no checkpoint, damage, or files that someone else has
        changed since, which need `force`. It removes only files that are known to have been missing. If it fails
        halfway, it is rolled back. With `dry_run` it only reports what it would do.
        """
        if mode not in get_args(Mode):
            raise Invalid(f"mode must be one of {', '.join(get_args(Mode))}, not {clip(str(mode))}")
        try:
            message = self._message(user_message, known=True)
        except NotFound:
            return Rewound(False, "checkpoint not found", dry_run=dry_run)
        files, conversation = mode != "conversation", mode != "files"
        if dry_run:
            return self._rewinding.rewind(message, files=files, conversation=conversation, dry_run=True, force=force)
        with self._lock():
            self._rewinding.finish()
            return self._rewinding.rewind(message, files=files, conversation=conversation, dry_run=False, force=force)

    def undo(self, *, steps: int = 1, dry_run: bool = False, force: bool = False) -> Rewound:
        """Undoes the last rewind, of files and conversation; with `steps`, the last several rewinds at once.

        Each undo goes back one more rewind: a rewind that was undone is not undone again. To redo it, rewind again; to
        revert an undo, rewind to the id in its `undo`. An interrupted rewind that cannot be finished is rolled back.
        """
        whole_number("steps", steps, 1)
        if dry_run:
            return self._rewinding.undo(steps=steps, dry_run=True, force=force)
        with self._lock():
            cut_short = self._rewinding.pending()
            if cut_short is not None and not self._finish_if_possible():
                if self._rewinding.pending() is None:
                    return Rewound(True, message=cut_short.undo)  # not finished, but rolled back
                self._rewinding.give_up()
            return self._rewinding.undo(steps=steps, dry_run=False, force=force)

    def finish(self) -> Rewound | None:
        """Finishes an interrupted rewind; returns None if there is none.

        Every other call that changes something does this first; captures continue if it fails. Files that have changed
        since are not touched, and are listed.
        """
        with self._lock():
            return self._rewinding.finish()

    # -- inside

    def _lock(self) -> AbstractContextManager[None]:
        return self._root.lock(self._patience)

    def _finish_if_possible(self) -> bool:
        """Calls `finish`; returns False if it fails, because a capture must still happen."""
        try:
            self._rewinding.finish()
        except ClewError:
            return False
        return True

    def _final_state(self, path: str) -> FileState:
        """The state that a path was left in; unseen if it can no longer be read."""
        try:
            return state_at(self._root, path)
        except Unavailable:
            return UNSEEN

    def _own(self, path: str) -> bool:
        """True for the store's own files below the root."""
        full = os.path.join(self._root.path, path)
        return self._store is not None and (full == self._store or full.startswith(f"{self._store}-"))

    def _message(self, given: str | Node, *, known: bool = False) -> str:
        """The id of a message. Raises Invalid; for a handle also NotFound and Ambiguous."""
        if isinstance(given, Node):
            return given.id
        exact = ids.maybe(given)
        if exact is not None:
            return ids.text(exact)
        span = ids.span(given)
        if known and span is not None:
            every = [stored.manifest for stored in self._repo.read(self._repo.all)]
            names = {name for manifest in every for name in (manifest.message, *manifest.also)}
            fits = {name for name in names if span[0] <= ids.parse(name) <= span[1]}
            if len(fits) > 1:
                raise Ambiguous("checkpoint", given, sorted(fits))
            if fits:
                return fits.pop()
        return self._repo.store.nodes.resolve(given)

    def _find(self, message: str) -> StoredCheckpoint | None:
        for stored in self._repo.read(self._repo.all):
            if message in (stored.manifest.message, *stored.manifest.also):
                return stored
        return None
