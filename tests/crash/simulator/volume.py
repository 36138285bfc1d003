"""What a file system may still hold after a power cut, from a log of `shim.c`.

Each file is a durable image plus the data operations issued since its last completed sync; names are
a durable table plus pending operations.  `crash_image` picks what survives of the pending part.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEADER = struct.Struct("<IIIIIIQQQ")
MAGIC = 0x50435554
SECTOR = 512


@dataclass
class Event:
    kind: str
    pid: int
    ino: int
    off: int
    length: int
    a: bytes
    b: bytes

    @property
    def path(self) -> str:
        return os.fsdecode(self.a)


def read_log(path: Path) -> Iterator[Event]:
    """Yield the whole records of a log; a record cut short by SIGKILL ends it."""
    data = path.read_bytes() if path.exists() else b""
    pos = 0
    while pos + HEADER.size <= len(data):
        magic, kind, pid, alen, blen, _, ino, off, length = HEADER.unpack_from(data, pos)
        if magic != MAGIC:
            raise ValueError(f"{path}: bad record at byte {pos}")
        body = pos + HEADER.size
        if body + alen + blen > len(data):
            return
        yield Event(chr(kind), pid, ino, off, length, data[body : body + alen], data[body + alen : body + alen + blen])
        pos = body + alen + blen


@dataclass
class Inode:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, Event]] = field(default_factory=list)


def apply_data(image: bytearray, ev: Event, keep: Callable[[int], bool] = lambda sector: True) -> None:
    """Apply one data operation, sector by sector, where `keep` says which sectors reached the disk."""
    if ev.kind == "t":
        if ev.off < len(image):
            del image[ev.off :]
        else:
            image.extend(bytes(ev.off - len(image)))
    elif ev.kind == "x":
        image.extend(bytes(max(0, ev.off - len(image))))
    else:
        data = ev.b if ev.kind == "W" else bytes(ev.length)
        start = ev.off
        while data:
            take = min(len(data), SECTOR - start % SECTOR)
            if keep(start // SECTOR):
                if start > len(image):
                    image.extend(bytes(start - len(image)))
                image[start : start + take] = data[:take]
            data, start = data[take:], start + take


class Names(dict[str, "int | bytes | None"]):
    """path -> file number (int), symlink target (bytes) or None for a directory."""

    def apply(self, ev: Event, number: int | None) -> None:
        path = ev.path
        if ev.kind == "C":
            self[path] = number
        elif ev.kind == "M":
            self[path] = None
        elif ev.kind == "l":
            self[path] = ev.b
        elif ev.kind in "UX":
            self.pop(path, None)
        elif ev.kind in "RL":
            new = os.fsdecode(ev.b)
            if path in self:
                self[new] = self[path]
            elif number is not None:
                self[new] = number
            if ev.kind == "R":
                self.pop(path, None)
                for old in [p for p in self if p.startswith(path + "/")]:
                    self[new + old[len(path) :]] = self.pop(old)


class Volume:
    """Replays events; `meta` is 'journaled' (a sync of any file commits earlier name changes, as ext4
    and XFS do) or 'strict' (a name is durable only once its directory is synced: bare POSIX)."""

    def __init__(self, root: Path, meta: str = "journaled"):
        self.root, self.meta = str(root), meta
        self.files: dict[int, Inode] = {}
        self.current, self.durable = Names(), Names()
        self.pending_names: list[tuple[int, Event, int | None]] = []
        self.by_ino: dict[int, int] = {}
        self.begun: dict[tuple[int, int], int] = {}
        self.index = 0
        self.mapped: set[str] = set()
        for path in sorted(Path(root).rglob("*")):
            name = str(path)
            if path.is_symlink():
                self.current[name] = os.fsencode(os.readlink(path))
            elif path.is_dir():
                self.current[name] = None
            else:
                number = self._new(path.stat().st_ino)
                self.files[number].durable = bytearray(path.read_bytes())
                self.current[name] = number
        self.durable.update(self.current)

    def _new(self, ino: int) -> int:
        number = len(self.files)
        self.files[number] = Inode()
        self.by_ino[ino] = number
        return number

    def feed(self, ev: Event) -> None:
        i = self.index = self.index + 1
        if ev.kind in "Wtxz":
            if ev.ino in self.by_ino:
                self.files[self.by_ino[ev.ino]].pending.append((i, ev))
        elif ev.kind in "CRLUXMl":
            number = self.by_ino.get(ev.ino)
            if ev.kind == "C":
                if self.current.get(ev.path, -1) == number and number is not None:
                    return  # two processes both saw the file missing
                number = self._new(ev.ino)
            elif ev.kind == "R" and number is None and not ev.path.startswith(self.root + "/"):
                number = self._new(ev.ino)  # moved in from outside: contents unknown, treated as unsynced
            self.current.apply(ev, number)
            self.pending_names.append((i, ev, number))
        elif ev.kind in "sy":
            self.begun[ev.pid, ev.ino] = i
        elif ev.kind in "SY":
            start = self.begun.pop((ev.pid, ev.ino), i)
            if ev.kind == "Y":
                for node in self.files.values():
                    self._settle(node, start)
                self._settle_names(start, None)
            elif ev.ino in self.by_ino:
                self._settle(self.files[self.by_ino[ev.ino]], start)
                if self.meta == "journaled":
                    self._settle_names(start, None)
            else:
                self._settle_names(start, None if self.meta == "journaled" else ev.path)
        elif ev.kind == "m":
            self.mapped.add(ev.path)

    @staticmethod
    def _settle(node: Inode, before: int) -> None:
        for i, ev in node.pending:
            if i < before:
                apply_data(node.durable, ev)
        node.pending = [p for p in node.pending if p[0] >= before]

    def _settle_names(self, before: int, directory: str | None) -> None:
        left = []
        for i, ev, number in self.pending_names:
            touched = {os.path.dirname(ev.path)} | ({os.path.dirname(os.fsdecode(ev.b))} if ev.kind in "RL" else set())
            if i < before and (directory is None or directory in touched):
                self.durable.apply(ev, number)
            else:
                left.append((i, ev, number))
        self.pending_names = left

    def crash_image(self, target: Path, survive: str, rng: random.Random) -> None:
        """Write to `target` what is left: 'none' nothing unsynced; 'all' everything (like kill -9);
        'prefix' the oldest part of each file's unsynced writes; 'random' any sectors, so torn and
        reordered writes."""
        names = Names(self.durable)
        keep_names = {"none": 0, "all": len(self.pending_names)}.get(survive)
        if keep_names is None:
            keep_names = rng.randint(0, len(self.pending_names))
        for _, ev, number in self.pending_names[:keep_names]:
            names.apply(ev, number)
        target.mkdir(parents=True, exist_ok=True)
        done: dict[int, Path] = {}
        for name, what in sorted(names.items()):
            out = target / os.path.relpath(name, self.root)
            if what is None:
                out.mkdir(parents=True, exist_ok=True)
                continue
            if not out.parent.is_dir():
                continue  # its directory did not survive
            if isinstance(what, bytes):
                os.symlink(what, os.fsencode(out))
                continue
            if what in done:
                os.link(done[what], out)
                continue
            node = self.files[what]
            image = bytearray(node.durable)
            pending = [ev for _, ev in node.pending]
            if survive == "all":
                for ev in pending:
                    apply_data(image, ev)
            elif survive == "prefix":
                for ev in pending[: rng.randint(0, len(pending))]:
                    apply_data(image, ev)
            elif survive == "random":
                odds = rng.choice([0.1, 0.5, 0.9])
                for ev in pending:
                    if ev.kind in "tx" and rng.random() > odds:
                        continue
                    apply_data(image, ev, lambda sector: rng.random() < odds)
            out.write_bytes(image)
            out.chmod(0o600)
            done[what] = out
