"""Finds the changes in a work tree since the last scan.

A file with an unchanged stamp is not read again, unless it was written so shortly before the last read that a further
write could have left the same stamp: see `RACY`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple

import msgspec

from clew.checkpoints.filestate import MISSING, UNSEEN, FileState, folders_of, is_reserved, pack_path, unpack_path
from clew.checkpoints.gitignore import NAME, IgnoreRules, Tracked, outside, read_tracked
from clew.checkpoints.root import PERMISSIONS, ObservedState, PathBlocked, RootFolder, is_part, skipped_state, stamp
from clew.checkpoints.tree_index import Folder, KnownFile, Row, TreeIndex, folder_of, rows_of
from clew.errors import Invalid, Unavailable

RACY = 2_000_000_000
"""Nanoseconds: a file changed this shortly before it was read is read again. Some file systems store whole seconds."""
MOST = 200_000
"""Maximum number of files. A larger tree is probably a home folder used as the root by mistake."""


class PathChange(NamedTuple):
    """A path that has changed."""

    path: str
    old: FileState
    new: FileState


class TreeScan(NamedTuple):
    """The result of a scan: the new index, the changes, and whether the index must be stored.

    `blobs` are the contents that are new.
    """

    now: TreeIndex
    changes: list[PathChange]
    changed: bool
    blobs: set[str]


Keep = Callable[[bytes], str]
"""Stores a file's content; returns its blob."""


def scan(root: RootFolder, before: TreeIndex | None, own: Callable[[str], bool], keep: Keep) -> TreeScan:
    """Scans the whole tree. Passes the contents of new and changed files to `keep`.

    `own` returns True for the store's own files. A path is missing only if its folder was listed without it: ignored
    paths, and paths in unreadable folders, are unseen.
    """
    rules, stamps = outside(root.path)
    was = Tracked() if before is None else before.tracked
    all_the_same = read_tracked(root.path, was)
    walk = _Walk(root, before or TreeIndex(), own, keep, all_the_same.paths)
    fresh = before is None or before.rules != stamps or was.paths != all_the_same.paths
    walk.into(_Place("", rules, stale=fresh))
    gone = [path for path in walk.old if path not in walk.folders]
    for path in gone:
        walk.add_lost_folder(path, walk.old[path])
    for path in walk.before.unread:
        listed = path.rpartition("/")[0] in walk.folders
        if not walk.hides(path) and not (listed and os.path.lexists(os.path.join(root.path, path))):
            walk.changes.append(PathChange(path, UNSEEN, MISSING))
    now = TreeIndex(2, stamps, walk.folders, all_the_same, tuple(sorted(walk.unread)))
    changed = walk.changed or fresh or bool(gone) or was != all_the_same or walk.before.unread != now.unread
    return TreeScan(now, _merge(walk.changes), changed, walk.blobs)


def not_ignored_by(root: RootFolder, index: TreeIndex, restored: Mapping[str, bytes | None]) -> list[str]:
    """The ignored paths of a scan that would not be ignored with other `.gitignore` files.

    `restored` has the text of those files by path, or None for a file that does not exist; the rest stay as they are.
    """
    found, above = list[str](), {"": _Place("", outside(root.path)[0])}
    for folder in sorted(index.folders):  # each after its parent
        place = above[folder.rpartition("/")[0]]
        out = place.ignored or bool(folder and place.rules.ignores(folder, folder=True))
        before = f"{folder}/" if folder else ""
        text = restored[before + NAME] if before + NAME in restored else _text(root, before + NAME)
        above[folder] = place = _Place(folder, place.rules.below(folder, text), ignored=out)
        for name in () if out else map(unpack_path, index.folders[folder].ignored):
            path = before + name.rstrip("/")
            if path not in index.folders and not place.rules.ignores(path, folder=name.endswith("/")):
                found.append(path)
    return found


def _text(root: RootFolder, path: str) -> bytes | None:
    try:
        file = root.observe(path)
    except (PathBlocked, Unavailable):
        return None
    return file.data if file.state.kind == "file" else None


class _Place(NamedTuple):
    """A folder to scan, and its rules: `stale` if they have changed, `ignored` if they ignore the folder."""

    path: str
    rules: IgnoreRules
    stale: bool = False
    ignored: bool = False


class _Listed(NamedTuple):
    """The content of a folder: files with stamps, ignored names, and subfolders."""

    rows: list[Row]
    left_out: list[str]
    folders: list[str]


class _Walk:
    def __init__(
        self, root: RootFolder, before: TreeIndex, own: Callable[[str], bool], keep: Keep, tracked: Iterable[str]
    ) -> None:
        self.root = root
        self.before = before
        self.old = before.folders
        self.folders: dict[str, Folder] = {}
        self.changes: list[PathChange] = []
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
        """Scans a folder and everything below it."""
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
            listed = _list_folder(fd, frozenset(() if known is None or place.stale else known.ignored))
            mode = os.fstat(fd).st_mode & PERMISSIONS
        except (FileNotFoundError, PathBlocked):  # it was deleted during the scan
            return []
        except OSError:
            self.unread.append(place.path)
            if known is None and self.before.absent(place.path) == MISSING:
                self.changes.append(PathChange(place.path, MISSING, UNSEEN))
            return []
        self._count += len(listed.rows)
        if self._count > MOST:
            hint = "Use a smaller root, or exclude generated files in .gitignore."
            raise Invalid(f"{self.root.path} has more than {MOST:,} files", hint=hint)
        if known is not None and not place.stale and known.mode == mode and known.rows == rows_of(listed.rows):
            return self._scan_unchanged(fd, place, known, listed)
        return self._compare(fd, place, known, listed, mode)

    def _scan_unchanged(self, fd: int, place: _Place, known: Folder, listed: _Listed) -> list[_Place]:
        """Scans a folder whose files are unchanged. Ignored names may have appeared or disappeared."""
        self.folders[place.path] = known
        ignored = list(listed.left_out)
        below = self._below(fd, place, known, listed, ignored)
        now = tuple(sorted(map(pack_path, ignored)))
        if now != known.ignored:
            self._went(place.path, known, {*ignored, *listed.folders})
            self.folders[place.path] = msgspec.structs.replace(known, ignored=now)
            self.changed = True
        return below

    def _compare(self, fd: int, place: _Place, known: Folder | None, listed: _Listed, mode: int) -> list[_Place]:
        """Scans a folder that has changed, or may have."""
        files = {} if known is None else known.files()
        before = f"{place.path}/" if place.path else ""
        rows = {name: mark for name, *mark in listed.rows}
        if rows.get(NAME) != (list(files[NAME].stamp) if NAME in files else None):
            place = place._replace(stale=True)
            listed = listed._replace(left_out=[])
            rows = {name: mark for name, *mark in _list_folder(fd, frozenset()).rows}
        here, now, ignored = place, dict[str, KnownFile](), list(listed.left_out)
        if NAME in rows:
            here = place._replace(rules=self._rules(fd, place))
        for name, mark in rows.items():
            was = files.get(name)
            if was is not None and list(was.stamp) == mark:
                now[name] = was
            elif was is not None or not self._omits(here, before + name, name, ignored):
                self._look(fd, before + name, name, was, now)
        for name in files.keys() - rows.keys():
            self.changes.append(PathChange(before + name, files[name].state, MISSING))
        if known is None:
            self._came(place.path, FileState("dir", mode=mode))
        elif known.mode != mode:
            self.changes.append(PathChange(place.path, FileState("dir", mode=known.mode), FileState("dir", mode=mode)))
        below = self._below(fd, here, known, listed, ignored)
        if known is not None:
            self._went(place.path, known, {*rows, *ignored, *listed.folders})
        self.folders[place.path] = folder_of(mode, now, ignored)
        self.changed = True
        return below

    def _omits(self, here: _Place, path: str, name: str, ignored: list[str]) -> bool:
        """True if an unknown file is to be ignored; records it as ignored."""
        if is_reserved(name) or is_part(name) or self._own(path):
            return True
        if path not in self._tracked and (here.ignored or here.rules.ignores(path, folder=False)):
            ignored.append(name)
            return True
        return False

    def _rules(self, fd: int, place: _Place) -> IgnoreRules:
        try:
            file = self.root.observe_in(fd, NAME, NAME)
        except (OSError, Unavailable):
            return place.rules
        return place.rules.below(place.path, file.data if file.state.kind == "file" else None)

    def _below(self, fd: int, place: _Place, known: Folder | None, listed: _Listed, ignored: list[str]) -> list[_Place]:
        """The subfolders to scan. One that was scanned before is scanned again, whatever the rules say now."""
        before, below = f"{place.path}/" if place.path else "", list[_Place]()
        left_out = frozenset(() if known is None or place.stale else known.ignored)
        here = place
        if listed.folders and known is not None and self.folders.get(place.path) is known:
            here = place._replace(rules=self._rules(fd, place)) if NAME.encode() in known.rows else place
        for name in listed.folders:
            path = before + name
            if is_reserved(name):
                continue
            if path not in self.old and pack_path(f"{name}/") in left_out:
                ignored.append(f"{name}/")
                continue
            way = path in self._on_the_way
            asked = here.stale or path not in self.old or way
            is_ignored = here.rules.ignores(path, folder=True) if asked else pack_path(f"{name}/") in left_out
            out = here.ignored or is_ignored
            if out:
                ignored.append(f"{name}/")
            if not out or path in self.old or way:
                below.append(here._replace(path=path, ignored=out))
        return below

    def _look(self, fd: int, path: str, name: str, was: KnownFile | None, now: dict[str, KnownFile]) -> None:
        """Reads a file that is new or may have changed."""
        old = MISSING if was is None else was.state
        try:
            seen = self.root.observe_in(fd, name, path)
        except FileNotFoundError:
            seen = ObservedState(MISSING)
        except (OSError, Unavailable):
            seen = _unread(fd, name)
        if seen.stamp is None or seen.state.kind == "dir":  # it was deleted or became a folder during the scan
            if was is not None:
                self.changes.append(PathChange(path, old, MISSING))
            return
        state, same = seen.state, seen.state.same(old)
        if state.kind == "file":
            state = FileState("file", state.mode, state.size, state.digest, old.blob if same else self._keep(seen.data))
            if not same:
                self.blobs.add(state.blob)
        changed, *rest = seen.stamp
        if state.kind != "skipped" and max(changed, rest[0]) >= self._trusted_before:
            changed = 0
        now[name] = KnownFile((changed, rest[0], rest[1], rest[2]), state)
        if was is None:
            self._came(path, state)
        elif not same:
            self.changes.append(PathChange(path, old, state))

    def _came(self, path: str, now: FileState) -> None:
        """Records a path that the last scan did not have: it was missing, or unseen."""
        old, folder = self.before.absent(path), path.rpartition("/")[0]
        if old == UNSEEN and folder and folder not in self.old:
            return  # its folder was unseen, which covers its content
        self.changes.append(PathChange(path, old, now))

    def _went(self, folder: str, known: Folder, names: set[str]) -> None:
        """Records ignored names that are missing now: if they return, they were not missing originally."""
        for name in {unpack_path(one).rstrip("/") for one in known.ignored} - names:
            path = f"{folder}/{name}" if folder else name
            if path not in self.old:
                self.changes.append(PathChange(path, UNSEEN, MISSING))

    def add_lost_folder(self, path: str, folder: Folder) -> None:
        """Records a folder that is gone, is a file now, or can no longer be read."""
        now = UNSEEN if self.hides(path) else MISSING
        self.changes.append(PathChange(path, FileState("dir", mode=folder.mode), now))
        before = f"{path}/" if path else ""
        self.changes.extend(PathChange(before + name, known.state, now) for name, known in folder.files().items())
        if now == MISSING:
            self._went(path, folder, set())

    def hides(self, path: str) -> bool:
        """True if a path is, or is in, a folder that cannot be read now."""
        return any(path == one or not one or path.startswith(f"{one}/") for one in self.unread)


def _list_folder(fd: int, left_out: frozenset[str]) -> _Listed:
    rows, omitted, folders = list[Row](), list[str](), list[str]()
    with os.scandir(fd) as names:
        for one in names:
            name = one.name
            if one.is_dir(follow_symlinks=False):
                folders.append(name)
            elif left_out and pack_path(name) in left_out:
                omitted.append(name)
            else:
                try:
                    status = one.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                # Every change to a file sets its change time, and no program can set it to another value.
                rows.append((name, status.st_ctime_ns, status.st_mtime_ns, status.st_ino, status.st_size))
    return _Listed(rows, omitted, folders)


class _Way:
    """The open folders on the path to the current one; siblings share most of them."""

    def __init__(self, root: RootFolder) -> None:
        self._root = root
        self._parts: list[str] = []
        self._open: list[int] = []

    def to(self, path: str) -> int:
        """The descriptor of a folder. Raises FileNotFoundError, PathBlocked and other OSErrors."""
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


def _unread(fd: int, name: str) -> ObservedState:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return ObservedState(MISSING)
    return ObservedState(skipped_state(status, "it cannot be read"), b"", stamp(status))


def _merge(changes: list[PathChange]) -> list[PathChange]:
    """Each path once. A folder that became a file was found twice, as removed and as added."""
    found: dict[str, PathChange] = {}
    for one in changes:
        other = found.get(one.path, one)
        old = other.old if one.old.kind == "missing" else one.old
        new = other.new if one.new.kind == "missing" else one.new
        found[one.path] = PathChange(one.path, old, new)
    return [change for change in found.values() if not change.old.same(change.new)]
