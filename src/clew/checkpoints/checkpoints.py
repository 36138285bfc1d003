"""Checkpoints of working files: taken before something changes them, keyed by the user message, to go back to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, get_args

import msgspec

from clew import ids
from clew.backends import Tx
from clew.checkpoints.capturing import Capturing, state_at
from clew.checkpoints.guard import Guard, Paths, listed
from clew.checkpoints.rewinding import Rewinding
from clew.checkpoints.root import Root
from clew.checkpoints.shelf import Kept, Shelf
from clew.checkpoints.states import UNSEEN, State, folders_of, is_reserved, packed
from clew.checkpoints.values import Checkpoint, FileDiff, Rewound
from clew.engine import whole_number
from clew.errors import Ambiguous, ClewError, Invalid, NotFound, Unavailable, clip
from clew.node import Node
from clew.session import Session

MAX_FILE = 16 * 1024 * 1024
"""Bytes of one file at most, unless another limit is given. What is larger is skipped, by name."""
Mode = Literal["files", "conversation", "both"]


class Checkpoints:
    """The checkpoints of a session's files below `root`. Nothing outside the root is read or written.

    With ``enabled=False`` nothing is captured. Files with more than `max_file` bytes are skipped by name. `patience` is
    how many seconds a call may wait for others that capture or rewind the same root; then Unavailable. A message is
    named by its id, its handle or its node; it need not be stored. One object serves one thread.
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
            raise Invalid(f"checkpoints belong to a Session, not to {type(session).__name__}")
        whole_number("max_file", max_file, 0)
        self._root = Root(root, max_file=max_file)
        self._shelf = Shelf(session, packed(self._root.path))
        self._enabled = enabled
        self._patience = patience
        file = session._engine.backend.file
        self._store = None if file is None else os.path.realpath(file)
        self._capturing = Capturing(self._root, self._shelf, self._own)
        self._rewinding = Rewinding(self._root, self._shelf, self._capturing)

    @property
    def root(self) -> str:
        """The folder, as it is called without links."""
        return self._root.path

    # -- capturing

    def capture(self, user_message: str | Node, paths: Paths) -> Checkpoint | None:
        """Keeps these files as they are now, before they are changed for a user message. Durable when it returns.

        What the message's checkpoint has already stays as it was first kept. A file that is not there is kept as
        missing, with the folders that are missing above it; a link as a link, and what it leads to as well.
        Unavailable, and nothing is kept, if one cannot be read; Invalid if one is a folder or not below the root, or
        belongs to git, to clew or to the store.
        """
        message = self._message(user_message)
        names = dict.fromkeys(name for path in listed(paths) for name in self._root.named(path))
        for name in names:
            if self._own(name):
                raise Invalid(f"{clip(name, 4096)} is the store itself", hint="Leave it out.")
            if any(map(is_reserved, name.split("/"))):
                raise Invalid(f"{clip(name, 4096)} belongs to git or clew", hint="Leave it out.")
        if not self._enabled:
            return None
        with self._locked():
            self._finish_if_possible()
            seat = self._shelf.read(self._shelf.worktree)
            if seat is not None and seat.data.message == message:
                self._capturing.tree(message)  # what a command has changed since must not pass for the original
            return self._capturing.files(message, list(names)).told()

    def capture_tree(self, user_message: str | Node) -> Checkpoint | None:
        """Keeps the whole tree as it is now, before something changes files that nobody can name: a shell command.

        The first time every file is read that `.gitignore` does not leave out; later only those that have changed.
        What has changed since the tree was last seen is added, as it was then, to the checkpoint of that time. What is
        left out, or is in a folder that cannot be read, was not seen: a rewind leaves it as it is, and names it.
        """
        message = self._message(user_message)
        if not self._enabled:
            return None
        with self._locked():
            self._finish_if_possible()
            return self._capturing.tree(message).told()

    def settle(self, user_message: str | Node, paths: Paths | None = None) -> None:
        """Notes how these files, or all that the message's checkpoint has, were left: what is done to them later is
        someone else's, and a rewind does not undo it unless it is forced. If the tree was captured, it is seen again.
        """
        message = self._message(user_message)
        if not self._enabled:
            return
        wanted = None if paths is None else {name for path in listed(paths) for name in self._root.named(path)}
        with self._locked():
            if wanted is None and self._shelf.read(self._shelf.worktree) is not None:
                self._capturing.tree(message, settled=True)
            kept = self._shelf.read(lambda tx: self._shelf.get(tx, message))
            if kept is None:
                return
            known = kept.manifest.paths()
            if wanted is not None:
                wanted |= {folder for path in wanted for folder in folders_of(path)}
            after = {packed(path): self._left(path) for path in known if wanted is None or path in wanted}

            def work(tx: Tx) -> None:
                now = self._shelf.get(tx, message)
                if now is not None:
                    self._shelf.put(tx, now.manifest.left(after), now)

            self._shelf.write(work)

    def alias(self, user_message: str | Node, other: str) -> None:
        """Lets the checkpoint of a message be found by another id as well. Invalid; NotFound if there is none."""
        message, name = self._message(user_message), ids.text(ids.parse(other))

        def work(tx: Tx) -> None:
            kept = self._shelf.get(tx, message)
            if kept is None:
                raise NotFound("checkpoint", message)
            if name not in kept.manifest.also:
                also = (*kept.manifest.also, name)
                self._shelf.put(tx, msgspec.structs.replace(kept.manifest, also=also), kept)

        self._shelf.write(work)

    def guard(
        self,
        user_message: str | Node | Callable[[], str | Node],
        paths: Paths | Callable[..., Paths] | None = None,
    ) -> Guard:
        """`capture` before a block or a function, and `settle` after it; without paths the whole tree is captured.

        ``with checkpoints.guard(message, ["a.py"]): …``, or as a decorator. Of a decorated function the paths may
        depend on its arguments, and the message on the time of the call: give functions.
        """
        return Guard(self, user_message, paths)

    # -- looking

    def list(self) -> Sequence[Checkpoint]:
        """Every checkpoint, oldest first."""
        return [kept.told() for kept in self._shelf.read(self._shelf.all)]

    def show(self, user_message: str | Node) -> Checkpoint:
        """The checkpoint of a message. NotFound."""
        kept = self._found(self._message(user_message, known=True))
        if kept is None:
            raise NotFound("checkpoint", str(getattr(user_message, "id", user_message)))
        return kept.told()

    def content(self, state: State) -> bytes:
        """The content of a file that a checkpoint has, compared with its hash. NotFound, Tampered."""
        return self._shelf.content(state)

    def diff(self, user_message: str | Node) -> Sequence[FileDiff]:
        """What a rewind would change, file by file. NotFound; Unavailable or Tampered if something cannot be read."""
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
        """Puts files back to what they were when the message was said, or the conversation, or both.

        The state at a message comes from all checkpoints from its own on. Every content is read and checked before
        anything is changed, and what is there is kept first, so that `undo` brings it back. If it cannot be done the
        result says why and nothing was changed: no checkpoint, damage, or files that someone else has changed since;
        those give way only to `force`. Only what is known to have been missing is removed. If it fails halfway, what
        it has done is taken back. With `dry_run` it only tells what it would do.
        """
        if mode not in get_args(Mode):
            raise Invalid(f"a mode is one of {', '.join(get_args(Mode))}, not {clip(str(mode))}")
        try:
            message = self._message(user_message, known=True)
        except NotFound:
            return Rewound(False, "checkpoint not found", dry_run=dry_run)
        files, talk = mode != "conversation", mode != "files"
        if dry_run:
            return self._rewinding.rewind(message, files=files, talk=talk, dry_run=True, force=force)
        with self._locked():
            self._rewinding.finish()
            return self._rewinding.rewind(message, files=files, talk=talk, dry_run=False, force=force)

    def undo(self, *, steps: int = 1, dry_run: bool = False, force: bool = False) -> Rewound:
        """Takes back the last rewind, files and conversation; with `steps` the last so many, in one go.

        Each undo goes back by one more: a rewind that was undone is not undone again. To do it again, rewind again; to
        take back an undo, rewind to the id in its `undo`. A rewind that was cut short and cannot be finished is given
        up: what it has done is taken back.
        """
        whole_number("steps", steps, 1)
        if dry_run:
            return self._rewinding.undo(steps=steps, dry_run=True, force=force)
        with self._locked():
            cut_short = self._rewinding.pending()
            if cut_short is not None and not self._finish_if_possible():
                if self._rewinding.pending() is None:
                    return Rewound(True, message=cut_short.undo)  # to finish it has failed, and to take it back has not
                self._rewinding.give_up()
            return self._rewinding.undo(steps=steps, dry_run=False, force=force)

    def finish(self) -> Rewound | None:
        """Finishes a rewind that was cut short; every other call that changes something does so first, and captures go
        on if it cannot be done. None if there is none. Files that were changed since are left alone, and named.
        """
        with self._locked():
            return self._rewinding.finish()

    # -- inside

    def _locked(self) -> AbstractContextManager[None]:
        return self._root.locked(self._patience)

    def _finish_if_possible(self) -> bool:
        """`finish`; False if that fails. What is about to be changed has to be kept all the same."""
        try:
            self._rewinding.finish()
        except ClewError:
            return False
        return True

    def _left(self, path: str) -> State:
        """How a path was left; unseen if it cannot be read any more."""
        try:
            return state_at(self._root, path)
        except Unavailable:
            return UNSEEN

    def _own(self, path: str) -> bool:
        """True for the files of the store itself, if they are below the root."""
        full = os.path.join(self._root.path, path)
        return self._store is not None and (full == self._store or full.startswith(f"{self._store}-"))

    def _message(self, given: str | Node, *, known: bool = False) -> str:
        """The id that was meant. Invalid; NotFound and Ambiguous if it is a handle."""
        if isinstance(given, Node):
            return given.id
        exact = ids.maybe(given)
        if exact is not None:
            return ids.text(exact)
        span = ids.span(given)
        if known and span is not None:
            every = [kept.manifest for kept in self._shelf.read(self._shelf.all)]
            names = {name for manifest in every for name in (manifest.message, *manifest.also)}
            fits = {name for name in names if span[0] <= ids.parse(name) <= span[1]}
            if len(fits) > 1:
                raise Ambiguous("checkpoint", given, sorted(fits))
            if fits:
                return fits.pop()
        return ids.text(self._shelf.session._engine.resolve_node(given))

    def _found(self, message: str) -> Kept | None:
        for kept in self._shelf.read(self._shelf.all):
            if message in (kept.manifest.message, *kept.manifest.also):
                return kept
        return None
