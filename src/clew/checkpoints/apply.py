"""Carries out a rewind, each file old or new at every moment; and carries on with one that was cut short."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from clew import files
from clew.checkpoints.root import Blocked, Root, part_name
from clew.checkpoints.shelf import Journal, Step
from clew.checkpoints.states import ANY, MISSING, Stamp, State, unpacked
from clew.errors import Unavailable

OPEN = 0o700
"""The permissions of a folder that its owner needs to change names in it."""
Content = Callable[[State], bytes]


class Applied(NamedTuple):
    """What was left alone because it had changed meanwhile, and folders that are not empty and so stayed."""

    left: list[str]
    kept: list[str]


def apply(root: Root, journal: Journal, content: Content) -> Applied:
    """Makes every path what its step says. What is as it should be already, or is not as it was, is left alone.

    It may be cut short anywhere, and done again. Everything is on the disk when it returns.
    """
    run = _Run(root, journal, content)
    try:
        return run.all()
    except OSError as error:
        raise files.unwritten(error, run.at) from error
    except Blocked as blocked:
        raise Unavailable(f"{blocked.at} is not a folder any more", hint="Put it back, then rewind again.") from None


def clear(root: Root, journal: Journal) -> None:
    """Removes files in the making that a rewind has left, and closes what it has opened, as far as that can be done."""
    todo = [(unpacked(step.path), step) for step in journal.steps]
    for path, _ in todo:
        with suppress(OSError):
            root.clear(path, _part(journal, path))
    for path, step in reversed(todo):
        if _is_closed(step):
            with suppress(OSError, Blocked):
                root.set_mode(path, step.old.mode)


def _is_closed(step: Step) -> bool:
    """Whether it is about a folder in which not even its owner may change names."""
    return step.old.kind == "dir" and step.old.mode & OPEN != OPEN


def _part(journal: Journal, path: str) -> str:
    name = f"{journal.key}/{path}".encode("utf-8", "surrogateescape")
    return part_name(hashlib.blake2b(name, digest_size=12).hexdigest())


class _Run:
    def __init__(self, root: Root, journal: Journal, content: Content) -> None:
        self.at = root.path
        self._root = root
        self._journal = journal
        self._content = content
        self._steps = journal.steps
        self._left: list[str] = []
        self._kept: list[str] = []

    def all(self) -> Applied:
        """Folders are opened, files go, folders go from the inside out, folders come from the outside in, files come,
        modes come last.
        """
        todo = [(unpacked(step.path), step) for step in self._steps]
        for path, step in todo:  # a folder comes before what is in it
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
        for path, step in todo:
            if step.new.kind in ("file", "link"):
                self._put(path, step)
        self._root.sync({path for path, _ in todo})  # some of the folders are closed then
        for path, step in deep:
            if step.new.kind == "dir" and step.new.mode != ANY and path not in self._left:
                self.at = path
                self._root.set_mode(path, step.new.mode)
        return Applied(self._left, self._kept)

    def _open(self, path: str, step: Step) -> None:
        """Lets its owner change names in a folder, if that is who runs this."""
        with suppress(FileNotFoundError, Blocked, PermissionError):
            self._root.set_mode(path, step.old.mode | OPEN)

    def _remove(self, path: str, step: Step) -> None:
        stamp = self._expected(path, step)
        if stamp is not None and not self._root.remove(path, stamp):
            self._left.append(path)

    def _remove_folder(self, path: str) -> None:
        self.at = path
        now = self._now(path)[0]
        if now.kind == "dir" and not self._root.remove_folder(path):
            self._kept.append(path)

    def _put(self, path: str, step: Step) -> None:
        now, stamp = self._now(path)
        if now.same(step.new):
            return
        gone = now.kind == "missing" and step.old.kind == "dir"
        if not gone and not now.same(step.old):
            self._left.append(path)
            return
        data = self._content(step.new) if step.new.kind == "file" else b""
        if not self._root.put(path, step.new, data, _part(self._journal, path), stamp):
            self._left.append(path)

    def _expected(self, path: str, step: Step) -> Stamp | None:
        """The stamp of what is to go, if it is still what it was; None if there is nothing to do."""
        now, stamp = self._now(path)
        if now.kind == "missing" or now.same(step.new):
            return None
        if not now.same(step.old):
            self._left.append(path)
            return None
        return stamp

    def _now(self, path: str) -> tuple[State, Stamp | None]:
        self.at = path
        try:
            seen = self._root.look(path)
        except Blocked:
            return MISSING, None
        return seen.state, seen.stamp
