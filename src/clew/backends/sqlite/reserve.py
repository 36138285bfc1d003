"""Space that is kept for the day the disk is full: deleting takes some before it gives any, and so does opening."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SIZE = 4 << 20
"""As much as the write-ahead log takes while a store is in use."""
SLICE = 64 << 10
"""What opening takes: the index of the write-ahead log."""
PAGE = 4096
"""Bytes of a page of a store."""
SHARE = 8
"""At most this fraction (one in so many) of the free space is reserved: on a small disk, appends need it more."""

_ALONE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""No link is followed, and no pipe waited for."""


class Reserve:
    """A file beside the store that holds nothing and takes up space, until that is given back."""

    def __init__(self, path: str) -> None:
        self.path = f"{path}-reserve"

    @property
    def size(self) -> int:
        """Bytes that it has."""
        try:
            return os.path.getsize(self.path)
        except OSError:
            return 0

    def keep(self) -> None:
        """Makes it as large as there is space for; never an error."""
        with suppress(OSError, AttributeError):  # the latter where nobody can ask how much is left
            have = self.size
            if have >= SIZE:
                return
            left = os.statvfs(os.path.dirname(self.path))
            size = min(SIZE, (left.f_bavail * left.f_frsize + have) // SHARE // SLICE * SLICE)
            if size <= have:
                return
            with self._file(os.O_CREAT) as fd:
                _fill(fd, size)

    def give(self, size: int = SIZE) -> bool:
        """Gives so much of it back. False if there was nothing left of it, or it cannot be reached."""
        try:
            with self._file() as fd:
                left = os.fstat(fd).st_size
                os.ftruncate(fd, max(0, left - size))
        except OSError:
            return False
        return left > 0

    @contextmanager
    def _file(self, flags: int = 0) -> Iterator[int]:
        """The file. OSError if it is a link: what it leads to is somebody's, and holds something."""
        fd = os.open(self.path, flags | os.O_WRONLY | _ALONE, 0o600)
        try:
            if os.fstat(fd).st_nlink > 1:
                raise OSError(f"{self.path} has another name")
            yield fd
        finally:
            os.close(fd)


def _fill(fd: int, size: int) -> None:
    """Takes the space up, really: a hole in a file takes none."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        while os.fstat(fd).st_size < size:  # of bytes that no file system makes smaller
            os.write(fd, os.urandom(SLICE))
