"""Reserves disk space for when the disk is full: deleting data, or opening a store, needs some free space first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SIZE = 4 << 20
"""About the size of the write-ahead log of a store in use."""
SLICE = 64 << 10
"""The space that opening a store needs, for the index of the write-ahead log."""
PAGE = 4096
"""The page size of a store, in bytes."""
SHARE = 8
"""At most 1/SHARE of the free space is reserved: on a small disk, appends need it more. If there is plenty of space,
at most 1/SHARE of the size of the store: a deletion needs less in a small store."""
PLENTY = 1 << 30
"""A disk with this many free bytes is far from full. With fewer, the reserve is larger."""

_ALONE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags that refuse to follow links or to wait for pipes."""


class Reserve:
    """A file next to the store that occupies space until it is truncated."""

    def __init__(self, path: str) -> None:
        self.path = f"{path}-reserve"
        self.scarce = False
        """True if the disk has too little space for a whole reserve."""
        self._store = path

    @property
    def size(self) -> int:
        """Its current size in bytes."""
        try:
            return os.path.getsize(self.path)
        except OSError:
            return 0

    def keep(self) -> None:
        """Extends the file as far as necessary, and as free space allows. Never raises."""
        with suppress(OSError, AttributeError):  # Windows has no `os.statvfs`
            have = self.size
            if have >= SIZE:
                return
            disk = os.statvfs(os.path.dirname(self.path))
            left = disk.f_bavail * disk.f_frsize
            plenty = left >= PLENTY
            share = max(SLICE, os.path.getsize(self._store) // SHARE) if plenty else (left + have) // SHARE
            size = min(SIZE, share // SLICE * SLICE)
            self.scarce = not plenty and size < SIZE
            if size <= have:
                return
            with self._file(os.O_CREAT) as fd:
                _fill(fd, size)

    def give(self, size: int = SIZE) -> bool:
        """Frees `size` bytes of it. False if it was empty already, or cannot be opened."""
        try:
            with self._file() as fd:
                left = os.fstat(fd).st_size
                os.ftruncate(fd, max(0, left - size))
        except OSError:
            return False
        return left > 0

    @contextmanager
    def _file(self, flags: int = 0) -> Iterator[int]:
        """Opens the file. OSError if it is a link, because the linked file may contain someone's data."""
        fd = os.open(self.path, flags | os.O_WRONLY | _ALONE, 0o600)
        try:
            if os.fstat(fd).st_nlink > 1:
                raise OSError(f"{self.path} has another name")
            yield fd
        finally:
            os.close(fd)


def _fill(fd: int, size: int) -> None:
    """Allocates the space. A sparse file would not occupy any."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        while os.fstat(fd).st_size < size:  # random bytes, because some file systems compress
            os.write(fd, os.urandom(SLICE))
