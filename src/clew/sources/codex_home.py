"""The folder of Codex: which file has which part of a thread, and the names of threads."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import IO, Any, NamedTuple

import msgspec

from clew.errors import ClewError, Invalid, MissingPackage
from clew.sources.items import BLOCK, LARGEST_MEMBER, RATIO, Item
from clew.sources.lines import read_lines
from clew.sources.sqlite import open_database, scan, tables

FOLDERS = ("sessions", "archived_sessions")
ZST = b"\x28\xb5\x2f\xfd"
"""The first bytes of a compressed file."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(rf"rollout-(?P<time>[0-9T-]+?)-(?P<thread>{_UUID})(?:_(?P<part>{_UUID}))?\.jsonl(?P<zst>\.zst)?$")
_WINDOW = 1 << 27
"""Bytes of memory that a compressed file may ask for."""

_any = msgspec.json.Decoder().decode


class Rollout(NamedTuple):
    """A file of a thread. A thread has a second one after a rewind, with an id of its own."""

    time: str
    part: str
    """The id of the file: that of the thread, for its first one."""
    thread: str
    path: str


def rollout(path: str) -> Rollout | None:
    """What the name of a file says; None if it is another's."""
    found = _NAME.search(os.path.basename(path))
    if found is None:
        return None
    return Rollout(found["time"], found["part"] or found["thread"], found["thread"], path)


class CodexHome:
    """The files around a rollout. Scanned when first needed, and again when the newest folder has changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: object = None
        self._parts: dict[str, Rollout] = {}
        self._newest: dict[str, Rollout] = {}
        self._names_seen: object = None
        self._names: dict[str, str] = {}

    @staticmethod
    def folder(path: str) -> str:
        """The folder of Codex that a rollout is in; the rollout's own if it is in no such folder."""
        place = os.path.dirname(path)
        while place != os.path.dirname(place):
            if os.path.basename(place) in FOLDERS:
                return os.path.dirname(place)
            place = os.path.dirname(place)
        return os.path.dirname(path)

    def item(self, path: str) -> Item:
        """A file of this folder. No link below the folder is followed."""
        return Item(path, 0, 0, root=self._path)

    def part(self, id: str) -> Rollout | None:
        """The file with this id."""
        self._scan()
        return self._parts.get(id)

    def newest(self, thread: str) -> Rollout | None:
        """The newest file of a thread: where the program continues."""
        self._scan()
        return self._newest.get(thread)

    def name(self, thread: str) -> str | None:
        """The name that the user gave a thread."""
        files = [os.path.join(self._path, "session_index.jsonl"), *self._databases()]
        states = [_changed(path) for path in files]
        if states != self._names_seen:
            self._names = {}
            for path in files:
                with suppress(ClewError, OSError):
                    self._names.update(
                        _names_of_index(self.item(path))
                        if path.endswith(".jsonl")
                        else _names_of_database(self.item(path))
                    )
            self._names_seen = states
        return self._names.get(thread)

    def _databases(self) -> list[str]:
        with suppress(OSError):
            found = [
                (int(n[1]), n[0]) for n in map(re.compile(r"state_(\d+)\.sqlite$").match, os.listdir(self._path)) if n
            ]
            return [os.path.join(self._path, name) for _, name in sorted(found)]
        return []

    def _scan(self) -> None:
        seen = list(self._stamps())
        if seen == self._seen:
            return
        self._seen, self._parts, self._newest = seen, {}, {}
        roots = [root for name in FOLDERS if os.path.isdir(root := os.path.join(self._path, name))]
        # a folder of somebody's own is not walked: below it may be anything
        walked = [one for root in roots for one in os.walk(root)] if roots else islice(os.walk(self._path), 1)
        for place, _, names in walked:
            for name in sorted(names):  # a plain file is before its compressed form
                found = rollout(os.path.join(place, name))
                if found is not None and self._parts.setdefault(found.part, found) is found:
                    self._newest[found.thread] = max(found, self._newest.get(found.thread, found))

    def _stamps(self) -> Iterator[object]:
        """The times of the folders in which files appear: the newest day, and the archive."""
        yield _changed(os.path.join(self._path, FOLDERS[1]))
        place: str | None = os.path.join(self._path, FOLDERS[0])
        if not os.path.isdir(place or ""):
            place = self._path
        while place is not None:
            yield place, _changed(place)
            with suppress(OSError):
                folders = [entry.path for entry in os.scandir(place) if entry.is_dir() and entry.name.isdigit()]
                place = max(folders, default=None)
                continue
            return


def open_rollout(item: Item) -> IO[bytes]:
    """The lines of a rollout, unpacked if need be. MissingPackage if the package for that is missing."""
    file = item.open()
    if file.read(4) != ZST:
        file.seek(0)
        return file
    file.seek(0)
    try:
        return io.BufferedReader(_Unpacked(file, item.name), 1 << 16)
    except ImportError:
        file.close()
        raise MissingPackage(f"{item.name} is compressed, and the package zstandard is not installed", "cli") from None


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a file, within bounds. Invalid if it is damaged or too large."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file  # first: it is closed even if the package is missing
        import zstandard

        self._stream: Any = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(file)
        self._error = zstandard.ZstdError
        self._name = name
        packed = os.fstat(file.fileno()).st_size
        self._most = min(LARGEST_MEMBER, max(BLOCK, packed * RATIO))
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            size: int = self._stream.readinto(buffer)
        except self._error as error:
            raise Invalid(f"{self._name} cannot be unpacked ({error})") from None
        self._size += size
        if self._size > self._most:
            raise Invalid(f"{self._name} unpacks to more than {self._most:,} bytes")
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _names_of_index(item: Item) -> Iterator[tuple[str, str]]:
    with item.open() as file:
        for line in read_lines(file):
            with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                data = _any(line.data or b"")
                if (
                    isinstance(data, dict)
                    and isinstance(data.get("id"), str)
                    and isinstance(data.get("thread_name"), str)
                ):
                    yield data["id"], data["thread_name"]


def _names_of_database(item: Item) -> Iterator[tuple[str, str]]:
    with open_database(item) as connection:
        if {"id", "name"} <= set(tables(connection).get("threads", ())):
            for row in scan(connection, "threads", "id, name"):
                if isinstance(row["id"], str) and isinstance(row["name"], str) and row["name"].strip():
                    yield row["id"], row["name"]


def _changed(path: str) -> tuple[int, int]:
    """The time of a file, and of its WAL if it is a database."""
    times = []
    for one in (path, f"{path}-wal"):
        try:
            times.append(os.stat(one).st_mtime_ns)
        except OSError:
            times.append(0)
    return times[0], times[1]
