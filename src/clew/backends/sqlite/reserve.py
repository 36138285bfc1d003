"""Space that is kept for the day the disk is full: deleting takes some before it gives any, and so does opening."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SIZE = 4 << 20
"""As much as the write-ahead log takes while a store is in use."""
SLICE = 64 << 10
"""What opening takes: the index of the write-ahead log."""
PLENTY = 32 << 20
"""Nothing is set aside where less is left: whoever appends needs it more."""

_ALONE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""No link is followed, and no pipe waited for."""


class Reserve:
    """A file beside the store that holds nothing and takes up space, until that is given back."""

    def __init__(self, path: str) -> None:
        self.path = f"{path}-reserve"

    def keep(self) -> None:
        """Makes it whole, if there is plenty of space; never an error."""
        with suppress(OSError, AttributeError):  # the latter where nobody can ask how much is left
            if os.path.exists(self.path) and os.path.getsize(self.path) >= SIZE:
                return
            left = os.statvfs(os.path.dirname(self.path))
            if left.f_bavail * left.f_frsize < PLENTY:
                return
            with self._file(os.O_CREAT) as fd:
                _fill(fd)

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


def _fill(fd: int) -> None:
    """Takes the space up, really: a hole in a file takes none."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, SIZE)
    else:
        while os.fstat(fd).st_size < SIZE:  # of bytes that no file system makes smaller
            os.write(fd, os.urandom(SLICE))
