"""A work tree as it was last seen, and what has changed in it since.

The index remembers each file's stamp and content. A file whose stamp is the same is not read again, unless it was
written so shortly before it was last read that it could have been written once more without a trace: see `RACY`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from clew.checkpoints.ignored import NAME, Rules, outside
from clew.checkpoints.root import Blocked, Root, Seen, is_part, skipped, stamp
from clew.checkpoints.states import MISSING, Kind, Stamp, State, packed, unpacked
from clew.errors import Invalid, Tampered, Unavailable

RACY = 2_000_000_000
"""Nanoseconds: what was changed this shortly before it was read is read again. Some file systems count seconds."""
MOST = 200_000
"""Files in a tree: more is likely a home folder taken for a project."""

_KINDS: tuple[Kind, ...] = ("file", "link", "dir", "missing", "skipped")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Known(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A file as it was last read; without a stamp it is read again."""

    stamp: Stamp | None
    kind: int
    mode: int
    size: int
    digest: bytes = b""
    blob: bytes = b""
    text: str = ""

    @property
    def state(self) -> State:
        kind = _KINDS[self.kind]
        return State(
            kind, self.mode, self.size, self.digest.hex(), self.blob.hex(), self.text if kind == "link" else "",
            self.text if kind == "skipped" else "", self.stamp if kind == "skipped" else None,
        )  # fmt: skip


class Folder(msgspec.Struct, array_like=True, gc=False):
    """A folder: its mode, its files by name, the names that rules leave out (folders end with a slash)."""

    mode: int
    files: dict[str, Known]
    ignored: list[str]


class Index(msgspec.Struct, array_like=True):
    """A whole tree. Folders are named by their path below the root; the root is ""."""

    version: int = 1
    rules: list[list[int]] = []
    folders: dict[str, Folder] = {}

    def state(self, path: str) -> State | None:
        """What was at a path; None if nothing of it is known."""
        if path in self.folders:
            return State("dir", mode=self.folders[path].mode)
        folder, _, name = path.rpartition("/")
        known = self.folders.get(folder)
        return None if known is None or name not in known.files else known.files[name].state


_decode = msgspec.msgpack.Decoder(Index).decode
_TAG = b"\x01"
_WHAT = "the index of a work tree"


def pack(index: Index) -> bytes:
    """An index as bytes behind a tag; names that are not valid UTF-8 are written as `states.packed` says."""
    try:
        return _TAG + msgspec.msgpack.encode(index)
    except UnicodeEncodeError:
        return _TAG + msgspec.msgpack.encode(_renamed(index, packed))


def _renamed(index: Index, rename: Callable[[str], str]) -> Index:
    return Index(
        1,
        index.rules,
        {
            rename(path): Folder(
                folder.mode,
                {rename(name): known for name, known in folder.files.items()},
                [rename(name) for name in folder.ignored],
            )
            for path, folder in index.folders.items()
        },
    )


def unpack(data: bytes) -> Index:
    """The index that `pack` made these bytes of. Tampered."""
    try:
        if data[:1] != _TAG:
            raise Tampered(_WHAT, f"it has the unknown tag {data[:1].hex()}")
        index = _decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise Tampered(_WHAT, f"it does not decode ({type(error).__name__})") from None
    odd = any(name.startswith("\0") for path, one in index.folders.items() for name in (path, *one.files, *one.ignored))
    return _renamed(index, unpacked) if odd else index


class Change(NamedTuple):
    """A path that is not as it was."""

    path: str
    old: State
    new: State


class Scan(NamedTuple):
    """A tree as it is now, what has changed since it was last seen, and whether the index has to be kept again."""

    now: Index
    changes: list[Change]
    changed: bool
    skipped: list[str]


Keep = Callable[[bytes], str]
"""Stores a file's content; returns where."""


def scan(root: Root, before: Index | None, own: Callable[[str], bool], keep: Keep) -> Scan:
    """Looks at the whole tree. Contents of files that are new or changed are given to `keep`.

    `own` tells paths that are the store's own. What cannot be read is skipped by name, and never taken for missing.
    """
    rules, stamps = outside(root.path)
    walk = _Walk(root, before or Index(), own, keep)
    walk.into("", rules, stale=before is None or before.rules != stamps, ignored=False)
    gone = [path for path in walk.old if path not in walk.folders]
    for path in gone:
        walk.lost(path, walk.old[path])
    changed = walk.changed or bool(gone) or before is None or before.rules != stamps
    return Scan(Index(1, stamps, walk.folders), _merged(walk.changes), changed, walk.skipped)


class _Walk:
    def __init__(self, root: Root, before: Index, own: Callable[[str], bool], keep: Keep) -> None:
        self.root = root
        self.old = before.folders
        self.folders: dict[str, Folder] = {}
        self.changes: list[Change] = []
        self.skipped: list[str] = []
        self.changed = False
        self.count = 0
        self._own = own
        self._keep = keep
        self._trusted_before = time.time_ns() - RACY

    def into(self, path: str, rules: Rules, *, stale: bool, ignored: bool) -> None:
        """Looks at a folder and what is below it: `stale` if the rules have changed, `ignored` if they leave it out."""
        todo = [(path, rules, stale, ignored)]
        while todo:
            todo.extend(self._folder(*todo.pop()))

    def _folder(self, path: str, rules: Rules, stale: bool, ignored: bool) -> list[tuple[str, Rules, bool, bool]]:
        try:
            with self.root.folder(f"{path}/." if path else ".") as (fd, _):
                return self._names(fd, path, rules, stale, ignored)
        except (FileNotFoundError, Blocked):  # it went meanwhile: nothing inside raises these
            return []
        except OSError:
            self._unreadable(path)
            return []

    def _names(
        self, fd: int, path: str, rules: Rules, stale: bool, ignored: bool
    ) -> list[tuple[str, Rules, bool, bool]]:
        known = self.old.get(path)
        files = {} if known is None else known.files
        left_out = set[str]() if known is None else set(known.ignored)
        seen, suspects, strangers, below = set[str](), list[str](), list[str](), list[str]()
        with os.scandir(fd) as names:
            for one in names:
                name = one.name
                if one.is_dir(follow_symlinks=False):
                    below.append(name)
                    continue
                was = files.get(name)
                if was is None:
                    strangers.append(name)
                    continue
                seen.add(name)
                try:
                    said = one.stat(follow_symlinks=False)
                except FileNotFoundError:
                    seen.discard(name)
                    continue
                if was.stamp != (said.st_mode, said.st_size, said.st_mtime_ns, said.st_ctime_ns, said.st_ino):
                    suspects.append(name)
        self.count += len(seen) + len(strangers) - len(left_out)
        if self.count > MOST:
            raise Invalid(
                f"{self.root.path} has more than {MOST:,} files", hint="Take a smaller root, or ignore what is made."
            )
        own_rules = NAME in seen or NAME in strangers
        stale = stale or NAME in suspects or NAME in strangers or (NAME in files and NAME not in seen)
        if own_rules and (strangers or below):
            rules = self._rules(fd, path, rules)
        now = Folder(os.fstat(fd).st_mode & 0o7777, dict(files), [])
        before = f"{path}/" if path else ""
        for name in suspects:
            self._look(fd, before + name, name, now)
        for name in files.keys() - seen:
            del now.files[name]
            self.changes.append(Change(before + name, files[name].state, MISSING))
        for name in strangers:
            if name in left_out and not stale:
                now.ignored.append(name)
            else:
                self._stranger(fd, before + name, name, now, rules, ignored)
        deeper = self._below(below, before, now, rules, stale, ignored, left_out)
        now.ignored.sort()
        self._settle(path, known, now)
        return deeper

    def _rules(self, fd: int, path: str, rules: Rules) -> Rules:
        try:
            said = self.root.look_in(fd, NAME, NAME)
        except (OSError, Unavailable):
            return rules
        return rules.below(path, said.data if said.state.kind == "file" else None)

    def _below(
        self, names: list[str], before: str, now: Folder, rules: Rules, stale: bool, ignored: bool, left_out: set[str]
    ) -> list[tuple[str, Rules, bool, bool]]:
        deeper = []
        for name in names:
            path = before + name
            if name == ".git":
                continue
            known = path in self.old
            if not known and not stale and f"{name}/" in left_out:
                now.ignored.append(f"{name}/")
                continue
            out = ignored or ((stale or not known) and rules.ignores(path, folder=True))
            if out and not known:
                now.ignored.append(f"{name}/")
            else:
                deeper.append((path, rules, stale, out))
        return deeper

    def _stranger(self, fd: int, path: str, name: str, now: Folder, rules: Rules, ignored: bool) -> None:
        if name == ".git" or is_part(name) or self._own(path):
            return
        if ignored or rules.ignores(path, folder=False):
            now.ignored.append(name)
        else:
            self._look(fd, path, name, now)

    def _look(self, fd: int, path: str, name: str, now: Folder) -> None:
        """Reads a file that is new, or may have changed."""
        was = now.files.get(name)
        old = MISSING if was is None else was.state
        try:
            seen = self.root.look_in(fd, name, path)
        except FileNotFoundError:
            seen = Seen(MISSING)
        except (OSError, Unavailable):
            seen = _unread(fd, name)
        if seen.state.kind in ("missing", "dir"):  # it went, or became a folder, meanwhile
            if now.files.pop(name, None) is not None:
                self.changes.append(Change(path, old, MISSING))
            return
        same = seen.state.same(old)
        blob = old.blob if same else self._keep(seen.data) if seen.state.kind == "file" else ""
        now.files[name] = _known(seen, blob, self._trusted_before)
        if seen.state.kind == "skipped":
            self.skipped.append(path)
        if not same:
            self.changes.append(Change(path, old, now.files[name].state))

    def _settle(self, path: str, known: Folder | None, now: Folder) -> None:
        if known is None:
            self.changes.append(Change(path, MISSING, State("dir", mode=now.mode)))
        elif known.mode != now.mode:
            self.changes.append(Change(path, State("dir", mode=known.mode), State("dir", mode=now.mode)))
        if known is not None and known == now:
            self.folders[path] = known
        else:
            self.folders[path] = now
            self.changed = True

    def _unreadable(self, path: str) -> None:
        """A folder that cannot be read is taken to be as it was."""
        self.skipped.append(path or ".")
        for name, folder in self.old.items():
            if name == path or not path or name.startswith(f"{path}/"):
                self.folders[name] = folder

    def lost(self, path: str, folder: Folder) -> None:
        """A folder that is not there any more, or is a file now."""
        self.changes.append(Change(path, State("dir", mode=folder.mode), MISSING))
        before = f"{path}/" if path else ""
        self.changes.extend(Change(before + name, known.state, MISSING) for name, known in folder.files.items())


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


def _known(seen: Seen, blob: str, trusted_before: int) -> Known:
    state, mark = seen.state, seen.stamp
    sure = mark is not None and max(mark[2], mark[3]) < trusted_before
    return Known(
        mark if sure or state.kind == "skipped" else None, _KINDS.index(state.kind), state.mode, state.size,
        bytes.fromhex(state.digest), bytes.fromhex(blob), state.target or state.why,
    )  # fmt: skip


def folders_of(path: str) -> Iterator[str]:
    """The folders that a path is in, the outermost first."""
    for at, letter in enumerate(path):
        if letter == "/":
            yield path[:at]
