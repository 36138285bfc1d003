"""One file of a history, or one member of a zip archive: found, and read within bounds.

Nothing is unpacked under its own name: a member's path is a label, and never a place on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from typing import IO, NamedTuple

from clew.base.files import open_regular
from clew.errors import Invalid

HEAD = 1 << 16
"""Bytes by which a file is recognised."""
RATIO = 1000
"""How many times larger than its compressed form a member of an archive may be."""
LARGEST_MEMBER = 16 * 1024**3
BLOCK = 1 << 20
SQLITE = b"SQLite format 3\0"
"""The first bytes of a database."""


class Item(NamedTuple):
    """One file of a history, or one member of an archive."""

    path: str
    size: int
    modified: int
    """Nanoseconds since 1970."""
    member: str | None = None

    @property
    def name(self) -> str:
        """What people read: the path, and the member in it."""
        return self.path if self.member is None else f"{self.path}: {self.member}"

    def open(self) -> IO[bytes]:
        """The bytes, to read from front to back. Unavailable, Invalid."""
        file = open_regular(self.path)
        if self.member is None:
            return file
        import zipfile

        try:
            return _unpack(file, self.member)
        except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError) as error:
            raise Invalid(f"{self.name} cannot be unpacked ({type(error).__name__})") from None

    def head(self) -> bytes:
        """The first bytes."""
        with self.open() as file:
            return file.read(HEAD)

    def data(self) -> bytes | mmap:
        """All bytes, as a map of the file: memory does not grow with them."""
        with self.open() as file:
            if os.fstat(file.fileno()).st_size == 0:
                return b""
            return mmap(file.fileno(), 0, access=ACCESS_READ)


def items(path: str) -> Iterator[Item]:
    """A file as an item; of a zip archive, its members. Unavailable if it cannot be read."""
    import zipfile

    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if not zipfile.is_zipfile(file):
            yield Item(path, status.st_size, status.st_mtime_ns)
            return
        try:
            with zipfile.ZipFile(file) as archive:
                members = [info for info in archive.infolist() if not info.is_dir()]
        except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
            raise Invalid(f"{path} is a damaged archive ({type(error).__name__})") from None
    for info in members:
        yield Item(path, info.file_size, status.st_mtime_ns, info.filename)


def _unpack(file: IO[bytes], member: str) -> IO[bytes]:
    """A member in a temporary file without a name. Invalid if it is larger than it may be."""
    import tempfile
    import zipfile

    with file, zipfile.ZipFile(file) as archive:
        info = archive.getinfo(member)
        most = min(LARGEST_MEMBER, max(BLOCK, info.compress_size * RATIO))
        if info.file_size > most:
            raise Invalid(
                f"{member} would unpack to {info.file_size:,} bytes", hint="The archive looks like a zip bomb."
            )
        target = tempfile.TemporaryFile()  # noqa: SIM115 (it is returned)
        try:
            with archive.open(info) as packed:
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
