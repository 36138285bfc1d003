"""One file of a history, or one member of a zip archive: found, and read within bounds.

Nothing is unpacked under its own name: a member's path is a label, and never a place on the disk.
"""

from __future__ import annotations

import os
import posixpath
import weakref
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from typing import IO, NamedTuple

from clew.base.outside import open_regular
from clew.errors import ClewError, Invalid, Unavailable

HEAD = 1 << 16
"""Bytes by which a file is recognised."""
RATIO = 1000
"""How many times larger than its compressed form a member of an archive may be."""
LARGEST_MEMBER = 16 * 1024**3
BLOCK = 1 << 20
_SMALL = 8 * BLOCK
"""Bytes of a file that is read into memory."""
BOM = b"\xef\xbb\xbf"
"""Some programs write it before the first byte of a text in UTF-8."""
SQLITE = b"SQLite format 3\0"
"""The first bytes of a database."""


class Item(NamedTuple):
    """One file of a history, or one member of an archive."""

    path: str
    size: int
    modified: int
    """Nanoseconds since 1970."""
    member: str | None = None
    archive: Archive | None = None
    """The open archive that it is a member of."""
    root: str | None = None
    """The folder that was named, if the file was found below it: then no link below that folder is followed."""

    @property
    def name(self) -> str:
        """What people read: the path, and the member in it."""
        return self.path if self.member is None else f"{self.path}: {self.member}"

    def open(self) -> IO[bytes]:
        """The bytes, to read from front to back. Unavailable, Invalid."""
        if self.member is None:
            return open_regular(self.path, self.root)
        import zipfile

        try:
            return (self.archive or Archive(open_regular(self.path, self.root))).unpack(self.member)
        except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError) as error:
            raise Invalid(f"{self.name} cannot be unpacked ({type(error).__name__})") from None

    def head(self) -> bytes:
        """The first bytes, without a byte order mark."""
        with self.open() as file:
            return file.read(HEAD).removeprefix(BOM)

    def at(self, path: str) -> Item:
        """Another file of the same history, by its absolute path. No link is followed below the folder of both."""
        root = self.root or os.path.dirname(self.path)
        return Item(path, 0, 0, root=os.path.commonpath((root, os.path.dirname(path))))

    def data(self) -> bytes | mmap:
        """All bytes. If they are many, as a map of a private copy: memory does not grow with them.

        The file itself is not mapped: if another program cuts it off, reading the map would end this program.
        Unavailable if the copy does not fit on the disk.
        """
        import shutil
        import tempfile

        with self.open() as file:
            first = file.read(_SMALL)
            if len(first) < _SMALL:
                return first
            try:
                with tempfile.TemporaryFile() as copy:
                    copy.write(first)
                    shutil.copyfileobj(file, copy, BLOCK)
                    copy.flush()
                    return mmap(copy.fileno(), 0, access=ACCESS_READ)
            except OSError as error:
                hint = "Set TMPDIR to a larger disk."
                raise Unavailable(f"{self.name} cannot be copied ({error.strerror})", hint=hint) from None


def items(path: str, root: str | None = None) -> Iterator[Item]:
    """A file as an item; of a zip archive, its members. Unavailable if it cannot be read."""
    import zipfile

    file = open_regular(path, root)
    status = os.fstat(file.fileno())
    if not zipfile.is_zipfile(file):
        file.close()
        yield Item(path, status.st_size, status.st_mtime_ns, root=root)
        return
    try:
        archive = Archive(file)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise Invalid(f"{path} is a damaged archive ({type(error).__name__})") from None
    for name, size in archive.members():
        yield Item(path, size, status.st_mtime_ns, name, archive, root)


class Archive:
    """A zip archive whose list of members is read once. It is open as long as one of its items is needed."""

    def __init__(self, file: IO[bytes]) -> None:
        import zipfile

        # Not __del__: of objects that are collected together, the file may be first, and would warn that it is open.
        weakref.finalize(self, file.close)
        self._zip = zipfile.ZipFile(file)
        self._infos: dict[str, zipfile.ZipInfo] = {}
        """By name. A second member of the same name has a number before it: no member hides another."""
        count: dict[str, int] = {}
        for info in self._zip.infolist():
            name = info.filename
            while name in self._infos:
                number = count[info.filename] = count.get(info.filename, 1) + 1
                name = f"{number}/{info.filename}"
            self._infos[name] = info

    def members(self) -> list[tuple[str, int]]:
        """The name and the size of each file in it."""
        return [(name, info.file_size) for name, info in self._infos.items() if not info.is_dir()]

    def unpack(self, member: str) -> IO[bytes]:
        """A member in a temporary file without a name. Invalid if it is larger than it may be."""
        import tempfile

        info = self._infos[member]
        most = min(LARGEST_MEMBER, max(BLOCK, info.compress_size * RATIO))
        if info.file_size > most:
            raise Invalid(
                f"{member} would unpack to {info.file_size:,} bytes", hint="The archive looks like a zip bomb."
            )
        target = tempfile.TemporaryFile()  # noqa: SIM115 (it is returned)
        try:
            with self._zip.open(info) as packed:
                size = 0
                while block := packed.read(BLOCK):
                    size += len(block)
                    if size > most:
                        raise Invalid(f"{member} unpacks to more than the {info.file_size:,} bytes it names")
                    target.write(block)
        except BaseException:
            target.close()
            raise
        target.seek(0)
        return target


def read_beside(item: Item, name: str) -> bytes:
    """The first `BLOCK` bytes of a file, by its path relative to the folder of `item`; empty if there is none.

    Such a small file beside a history says more about it: its title, its folder.
    """
    if item.member is None:
        other = item.at(os.path.normpath(os.path.join(os.path.dirname(item.path), name)))
    else:
        other = item._replace(member=posixpath.normpath(posixpath.join(posixpath.dirname(item.member), name)))
    try:
        with other.open() as file:
            return file.read(BLOCK)
    except (ClewError, KeyError):  # KeyError: the archive has no such member
        return b""
