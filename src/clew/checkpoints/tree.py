"""What has changed in a work tree since it was last seen.

A file whose stamp is the same is not read again, unless it was written so shortly before it was last read that it could
have been written once more without a trace: see `RACY`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import NamedTuple

import msgspec

from clew.checkpoints.ignored import NAME, Rules, Tracked, outside, tracked
from clew.checkpoints.index import Folder, Index, Known, Row, folder_of, rows_of
from clew.checkpoints.root import PERMISSIONS, Blocked, Root, Seen, is_part, skipped, stamp
from clew.checkpoints.states import MISSING, UNSEEN, State, folders_of, is_reserved, packed, unpacked
from clew.errors import Invalid, Unavailable

RACY = 2_000_000_000
"""Nanoseconds: what was changed this shortly before it was read is read again. Some file systems count seconds."""
MOST = 200_000
"""Files in a tree: more is likely a home folder taken for a project."""


class Change(NamedTuple):
    """A path that is not as it was."""

    path: str
    old: State
    new: State


class Scan(NamedTuple):
    """A tree as it is now, what has changed since it was last seen, and whether the index has to be kept again.

    `blobs` are the contents that it did not have before.
    """

    now: Index
    changes: list[Change]
    changed: bool
    blobs: set[str]


Keep = Callable[[bytes], str]
"""Stores a file's content; returns where."""


def scan(root: Root, before: Index | None, own: Callable[[str], bool], keep: Keep) -> Scan:
    """Looks at the whole tree. Contents of files that are new or changed are given to `keep`.

    `own` tells paths that are the store's own. A path is missing only if its folder was listed and did not have it:
    what rules leave out, and what is in a folder that cannot be read, is unseen.
    """
    rules, stamps = outside(root.path)
    was = Tracked() if before is None else before.tracked
    all_the_same = tracked(root.path, was)
    walk = _Walk(root, before or Index(), own, keep, all_the_same.paths)
    fresh = before is None or before.rules != stamps or was.paths != all_the_same.paths
    walk.into(_Place("", rules, stale=fresh))
    gone = [path for path in walk.old if path not in walk.folders]
    for path in gone:
        walk.lost(path, walk.old[path])
    for path in walk.before.unread:
        if path.rpartition("/")[0] in walk.folders and not os.path.lexists(os.path.join(root.path, path)):
            walk.changes.append(Change(path, UNSEEN, MISSING))
    now = Index(2, stamps, walk.folders, all_the_same, tuple(sorted(walk.unread)))
    changed = walk.changed or fresh or bool(gone) or was != all_the_same or walk.before.unread != now.unread
    return Scan(now, _merged(walk.changes), changed, walk.blobs)


class _Place(NamedTuple):
    """A folder to look at, and the rules there: `stale` if they have changed, `ignored` if they leave it out."""

    path: str
    rules: Rules
    stale: bool = False
    ignored: bool = False


class _Listed(NamedTuple):
    """What is in a folder: files with their stamps, names that are left out, and folders."""

    rows: list[Row]
    left_out: list[str]
    folders: list[str]


class _Walk:
    def __init__(
        self, root: Root, before: Index, own: Callable[[str], bool], keep: Keep, tracked: Iterable[str]
    ) -> None:
        self.root = root
        self.before = before
        self.old = before.folders
        self.folders: dict[str, Folder] = {}
        self.changes: list[Change] = []
        self.unread: list[str] = []
        self.blobs: set[str] = set()
        self.changed = False
        self._way = _Way(root)
        self._count = 0
        self._own = own
        self._keep = keep
        self._tracked = frozenset(tracked)
        self._on_the_way = frozenset(folder for path in self._tracked for folder in folders_of(path))
        self._trusted_before = time.time_ns() - RACY

    def into(self, place: _Place) -> None:
        """Looks at a folder and at all that is below it."""
        todo = [place]
        try:
            while todo:
                todo.extend(self._folder(todo.pop()))
        finally:
            self._way.close()

    def _folder(self, place: _Place) -> list[_Place]:
        known = self.old.get(place.path)
        try:
            fd = self._way.to(place.path)
            listed = _listed(fd, frozenset(() if known is None or place.stale else known.ignored))
            mode = os.fstat(fd).st_mode & PERMISSIONS
        except (FileNotFoundError, Blocked):  # it went meanwhile
            return []
        except OSError:
            self.unread.append(place.path)
            if known is None and self.before.absent(place.path) == MISSING:
                self.changes.append(Change(place.path, MISSING, UNSEEN))
            return []
        self._count += len(listed.rows)
        if self._count > MOST:
            hint = "Take a smaller root, or have .gitignore leave out what is made."
            raise Invalid(f"{self.root.path} has more than {MOST:,} files", hint=hint)
        if known is not None and not place.stale and known.mode == mode and known.rows == rows_of(listed.rows):
            return self._unchanged(fd, place, known, listed)
        return self._compared(fd, place, known, listed, mode)

    def _unchanged(self, fd: int, place: _Place, known: Folder, listed: _Listed) -> list[_Place]:
        """Looks at a folder whose files are as they were. Names that are left out may have come or gone."""
        self.folders[place.path] = known
        ignored = list(listed.left_out)
        below = self._below(fd, place, known, listed, ignored)
        now = tuple(sorted(map(packed, ignored)))
        if now != known.ignored:
            self._went(place.path, known, {*ignored, *listed.folders})
            self.folders[place.path] = msgspec.structs.replace(known, ignored=now)
            self.changed = True
        return below

    def _compared(self, fd: int, place: _Place, known: Folder | None, listed: _Listed, mode: int) -> list[_Place]:
        """Looks at a folder in which something has changed, or may have."""
        files = {} if known is None else known.files()
        before = f"{place.path}/" if place.path else ""
        rows = {name: mark for name, *mark in listed.rows}
        if rows.get(NAME) != (list(files[NAME].stamp) if NAME in files else None):
            place = place._replace(stale=True)
            listed = listed._replace(left_out=[])
            rows = {name: mark for name, *mark in _listed(fd, frozenset()).rows}
        here, now, ignored = place, dict[str, Known](), list(listed.left_out)
        if NAME in rows:
            here = place._replace(rules=self._rules(fd, place))
        for name, mark in rows.items():
            was = files.get(name)
            if was is not None and list(was.stamp) == mark:
                now[name] = was
            elif was is not None or not self._omits(here, before + name, name, ignored):
                self._look(fd, before + name, name, was, now)
        for name in files.keys() - rows.keys():
            self.changes.append(Change(before + name, files[name].state, MISSING))
        if known is None:
            self._came(place.path, State("dir", mode=mode))
        elif known.mode != mode:
            self.changes.append(Change(place.path, State("dir", mode=known.mode), State("dir", mode=mode)))
        below = self._below(fd, here, known, listed, ignored)
        if known is not None:
            self._went(place.path, known, {*rows, *ignored, *listed.folders})
        self.folders[place.path] = folder_of(mode, now, ignored)
        self.changed = True
        return below

    def _omits(self, here: _Place, path: str, name: str, ignored: list[str]) -> bool:
        """Whether a file that is not known is to stay so; notes that it is left out, if rules say so."""
        if is_reserved(name) or is_part(name) or self._own(path):
            return True
        if path not in self._tracked and (here.ignored or here.rules.ignores(path, folder=False)):
            ignored.append(name)
            return True
        return False

    def _rules(self, fd: int, place: _Place) -> Rules:
        try:
            said = self.root.look_in(fd, NAME, NAME)
        except (OSError, Unavailable):
            return place.rules
        return place.rules.below(place.path, said.data if said.state.kind == "file" else None)

    def _below(self, fd: int, place: _Place, known: Folder | None, listed: _Listed, ignored: list[str]) -> list[_Place]:
        """The folders to look at next. One that was looked at before is looked at again, whatever the rules say now."""
        before, below = f"{place.path}/" if place.path else "", list[_Place]()
        left_out = frozenset(() if known is None or place.stale else known.ignored)
        here = place
        if listed.folders and known is not None and self.folders.get(place.path) is known:
            here = place._replace(rules=self._rules(fd, place)) if NAME.encode() in known.rows else place
        for name in listed.folders:
            path = before + name
            if is_reserved(name):
                continue
            if path not in self.old and packed(f"{name}/") in left_out:
                ignored.append(f"{name}/")
                continue
            way = path in self._on_the_way
            asked = here.stale or path not in self.old or way
            said = here.rules.ignores(path, folder=True) if asked else packed(f"{name}/") in left_out
            out = here.ignored or said
            if out:
                ignored.append(f"{name}/")
            if not out or path in self.old or way:
                below.append(here._replace(path=path, ignored=out))
        return below

    def _look(self, fd: int, path: str, name: str, was: Known | None, now: dict[str, Known]) -> None:
        """Reads a file that is new, or may have changed."""
        old = MISSING if was is None else was.state
        try:
            seen = self.root.look_in(fd, name, path)
        except FileNotFoundError:
            seen = Seen(MISSING)
        except (OSError, Unavailable):
            seen = _unread(fd, name)
        if seen.stamp is None or seen.state.kind == "dir":  # it went, or became a folder, meanwhile
            if was is not None:
                self.changes.append(Change(path, old, MISSING))
            return
        state, same = seen.state, seen.state.same(old)
        if state.kind == "file":
            state = State("file", state.mode, state.size, state.digest, old.blob if same else self._keep(seen.data))
            if not same:
                self.blobs.add(state.blob)
        changed, *rest = seen.stamp
        if state.kind != "skipped" and max(changed, rest[0]) >= self._trusted_before:
            changed = 0
        now[name] = Known((changed, rest[0], rest[1], rest[2]), state)
        if was is None:
            self._came(path, state)
        elif not same:
            self.changes.append(Change(path, old, state))

    def _came(self, path: str, now: State) -> None:
        """Something that the last look did not have: it was missing, or unseen."""
        old, folder = self.before.absent(path), path.rpartition("/")[0]
        if old == UNSEEN and folder and folder not in self.old:
            return  # its folder was unseen, and says so for all that is in it
        self.changes.append(Change(path, old, now))

    def _went(self, folder: str, known: Folder, names: set[str]) -> None:
        """Notes names that were left out and are missing now: if they come again, they were not missing at first."""
        for name in {unpacked(one).rstrip("/") for one in known.ignored} - names:
            path = f"{folder}/{name}" if folder else name
            if path not in self.old:
                self.changes.append(Change(path, UNSEEN, MISSING))

    def lost(self, path: str, folder: Folder) -> None:
        """A folder that is not there any more, or is a file now, or cannot be read any more."""
        hidden = any(path == one or not one or path.startswith(f"{one}/") for one in self.unread)
        now = UNSEEN if hidden else MISSING
        self.changes.append(Change(path, State("dir", mode=folder.mode), now))
        before = f"{path}/" if path else ""
        self.changes.extend(Change(before + name, known.state, now) for name, known in folder.files().items())


def _listed(fd: int, left_out: frozenset[str]) -> _Listed:
    rows, omitted, folders = list[Row](), list[str](), list[str]()
    with os.scandir(fd) as names:
        for one in names:
            name = one.name
            if one.is_dir(follow_symlinks=False):
                folders.append(name)
            elif left_out and packed(name) in left_out:
                omitted.append(name)
            else:
                try:
                    said = one.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                # Whatever is done to a file, its time of change is set, and nobody can set it to another.
                rows.append((name, said.st_ctime_ns, said.st_mtime_ns, said.st_ino, said.st_size))
    return _Listed(rows, omitted, folders)


class _Way:
    """The folders that are open on the way to the one that is looked at: its neighbour shares most of them."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._parts: list[str] = []
        self._open: list[int] = []

    def to(self, path: str) -> int:
        """The descriptor of a folder. FileNotFoundError, Blocked, and what else the system says."""
        parts = path.split("/") if path else []
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(parts, self._parts, strict=False))))
        if not self._open:
            self._open.append(self._root.open())
        while len(self._open) > shared + 1:
            os.close(self._open.pop())
        self._parts = parts[:shared]
        for part in parts[shared:]:
            self._open.append(self._root.enter(self._open[-1], part, path))
            self._parts.append(part)
        return self._open[-1]

    def close(self) -> None:
        """Idempotent."""
        while self._open:
            os.close(self._open.pop())


def _unread(fd: int, name: str) -> Seen:
    try:
        said = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return Seen(MISSING)
    return Seen(skipped(said, "it cannot be read"), b"", stamp(said))


def _merged(changes: list[Change]) -> list[Change]:
    """Each path once: a folder that became a file was found twice, as something that went and something that came."""
    found: dict[str, Change] = {}
    for one in changes:
        other = found.get(one.path, one)
        old = other.old if one.old.kind == "missing" else one.old
        new = other.new if one.new.kind == "missing" else one.new
        found[one.path] = Change(one.path, old, new)
    return [change for change in found.values() if not change.old.same(change.new)]
