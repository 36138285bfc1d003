"""Applies a rewind: each file is replaced atomically, and an interrupted rewind can be continued."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from clew.base import files
from clew.checkpoints.filestate import ANY, MISSING, FileState, Stamp, unpack_path
from clew.checkpoints.repository import Journal, RewindStep
from clew.checkpoints.root import PathBlocked, RootFolder, part_name
from clew.errors import Unavailable

OPEN = 0o700
"""The permissions that an owner needs to change names in a folder."""
Content = Callable[[FileState], bytes]
KEPT = 32 << 20
"""Most bytes that `ContentTwice` caches."""


class ContentTwice:
    """Caches each content between its two reads, for the plan of a rewind and for its step, up to a limit."""

    def __init__(self, read: Content) -> None:
        self._read = read
        self._kept: dict[str, bytes] = {}
        self._size = 0

    def __call__(self, state: FileState) -> bytes:
        data = self._kept.pop(state.digest, None)
        if data is not None:
            self._size -= len(data)
            return data
        data = self._read(state)
        if self._size + len(data) <= KEPT:
            self._kept[state.digest] = data
            self._size += len(data)
        return data


class ApplyResult(NamedTuple):
    """Paths that were not touched because they had changed, and folders that stayed because they are not empty."""

    left: list[str]
    kept: list[str]


def apply(root: RootFolder, journal: Journal, content: Content) -> ApplyResult:
    """Applies the steps. Skips paths that are already correct and paths that have changed since the plan.

    It may be interrupted anywhere and repeated. All changes are synced to disk when it returns.
    """
    run = _Run(root, journal, content)
    try:
        return run.all()
    except OSError as error:
        raise files.unwritten(error, run.at) from error
    except PathBlocked as blocked:
        raise Unavailable(f"{blocked.at} is no longer a folder", hint="Restore the folder and rewind again.") from None


def clear(root: RootFolder, journal: Journal) -> None:
    """Removes temporary files of a rewind and restores the modes of folders it opened, as far as possible."""
    todo = [(unpack_path(step.path), step) for step in journal.steps]
    for path, _ in todo:
        with suppress(OSError):
            root.clear(path, _part(journal, path))
    for path, step in reversed(todo):
        if _is_closed(step):
            with suppress(OSError, PathBlocked):
                root.set_mode(path, step.old.mode)


def _is_closed(step: RewindStep) -> bool:
    """True if a step needs a folder in which even the owner may not change names."""
    return step.old.kind == "dir" and step.old.mode & OPEN != OPEN


def _part(journal: Journal, path: str) -> str:
    name = f"{journal.key}/{path}".encode("utf-8", "surrogateescape")
    return part_name(hashlib.blake2b(name, digest_size=12).hexdigest())


class _Run:
    def __init__(self, root: RootFolder, journal: Journal, content: Content) -> None:
        self.at = root.path
        self._root = root
        self._journal = journal
        self._content = content
        self._steps = journal.steps
        self._left: list[str] = []
        self._kept: list[str] = []

    def all(self) -> ApplyResult:
        """Applies the steps in an order that always works.

        Open folders, delete files, delete folders from the inside out, create folders from the outside in, create
        files, set modes.
        """
        todo = [(unpack_path(step.path), step) for step in self._steps]
        for path, step in todo:  # a folder sorts before its content
            if _is_closed(step):
                self._open(path, step)
        for path, _ in todo:
            self._root.clear(path, _part(self._journal, path))
        for path, step in todo:
            if step.old.kind in ("file", "link") and step.new.kind in ("missing", "dir"):
                self._remove(path, step)
        deep = sorted(todo, key=lambda one: -one[0].count("/"))
        for path, step in deep:
            if step.old.kind == "dir" and step.new.kind != "dir":
                self._remove_folder(path)
        for path, step in reversed(deep):
            if step.new.kind == "dir" and step.old.kind != "dir" and path not in self._left:
                self.at = path
                self._root.make_folder(path)
        for some in files.batches([(path, step) for path, step in todo if step.new.kind in ("file", "link")]):
            self._put(some)
        self._root.sync({path for path, _ in todo})  # some of these folders may be read-only by then
        for path, step in deep:
            if step.new.kind == "dir" and step.new.mode != ANY and path not in self._left:
                self.at = path
                self._root.set_mode(path, step.new.mode)
        return ApplyResult(self._left, self._kept)

    def _open(self, path: str, step: RewindStep) -> None:
        """Allows the owner to change names in a folder, if this process runs as the owner."""
        with suppress(FileNotFoundError, PathBlocked, PermissionError):
            self._root.set_mode(path, step.old.mode | OPEN)

    def _remove(self, path: str, step: RewindStep) -> None:
        stamp = self._check_unchanged(path, step)
        if stamp is not None and not self._root.remove(path, stamp):
            self._left.append(path)

    def _remove_folder(self, path: str) -> None:
        self.at = path
        now = self._now(path)[0]
        if now.kind == "dir" and not self._root.remove_folder(path):
            self._kept.append(path)

    def _put(self, todo: Sequence[tuple[str, RewindStep]]) -> None:
        """Replaces files and links: writes all of them beside the old ones, syncs them together, then renames them."""
        staged: list[tuple[str, str, Stamp | None]] = []
        opened: list[int] = []
        try:
            for path, step in todo:
                now, stamp = self._now(path)
                if self._is_due(path, step, now):
                    data = self._content(step.new) if step.new.kind == "file" else b""
                    part = _part(self._journal, path)
                    fd = self._root.stage(path, step.new, data, part)
                    staged.append((path, part, stamp))
                    if fd is not None:
                        opened.append(fd)
            files.sync_all(opened)
        finally:
            for fd in opened:
                os.close(fd)
        for path, part, stamp in staged:
            self.at = path
            if not self._root.swap(path, part, stamp):
                self._left.append(path)

    def _is_due(self, path: str, step: RewindStep, now: FileState) -> bool:
        """True if a path must be replaced: it is as planned, and not yet in its new state."""
        if now.same(step.new):
            return False
        gone = now.kind == "missing" and step.old.kind == "dir"
        if not gone and not now.same(step.old):
            self._left.append(path)
            return False
        return True

    def _check_unchanged(self, path: str, step: RewindStep) -> Stamp | None:
        """The stamp of the path to remove if it is unchanged; None if there is nothing to do."""
        now, stamp = self._now(path)
        if now.kind == "missing" or now.same(step.new):
            return None
        if not now.same(step.old):
            self._left.append(path)
            return None
        return stamp

    def _now(self, path: str) -> tuple[FileState, Stamp | None]:
        self.at = path
        try:
            seen = self._root.observe(path)
        except PathBlocked:
            return MISSING, None
        return seen.state, seen.stamp
