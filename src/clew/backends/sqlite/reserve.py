"""Reserves disk space: for deletions and openings when the disk is full, and in the write-ahead log.

`Reserve` keeps a file beside the store: deleting data, or opening a store, needs some free space first.

`LogSpace` makes the write-ahead log longer before it is full. If a file has grown, its new size must be synced as well:
ext4 then writes to its journal at each commit. So zeros are written after the log's end, a quarter of a megabyte at a
time, and the next commit syncs them. SQLite overwrites them, and does not mistake them for commits, because their
checksums are wrong. `fallocate` does not help: the first write to such space changes metadata again. The first 200
appends of a process take three quarters of the time.
"""

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


STEP = 256 << 10
"""Bytes of zeros to write at a time. A message takes about 16 KiB of the log."""
NEAR = 128 << 10
"""Bytes: the log is made longer when fewer are left."""
EVERY = 4
"""Writes between two looks at the log, each of which takes 2 µs. They leave some of `NEAR`, unless they are large."""
_HEADER, _FRAME = 32, 24 + 4096
"""Bytes of the log's header, and of a frame with one page."""
_UNUSED = bytes(4)
"""Where a frame would begin with the number of its page, which is not 0."""


class LogSpace:
    """The unused end of a write-ahead log."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        self._fd = -1
        self._mark = 0
        """Where the last frame begins for which the log is long enough."""
        self._writes = 0

    def keep(self, log: tuple[int, int] | None) -> None:
        """Makes the log longer if it is nearly full. The caller is in a write transaction, so that no other program
        writes to the log, and has written nothing yet. `log` is the identity of the file. Never raises: it only saves
        time, and a full disk has none to save.
        """
        self._writes += 1
        if self._writes % EVERY:
            return
        with suppress(OSError, AttributeError):  # Windows has no `os.pread`
            if self._fd < 0:
                self._open(log)
            if self._fd >= 0 and os.pread(self._fd, 4, self._mark) != _UNUSED:
                self._extend()

    def close(self) -> None:
        """Idempotent. The log may be another file afterwards."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self, log: tuple[int, int] | None) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        found = os.fstat(self._fd)
        if (found.st_dev, found.st_ino) != log:
            self.close()

    def _extend(self) -> None:
        size = os.fstat(self._fd).st_size
        self._mark = _last_frame(size - NEAR)
        # Another process may have made it longer. An empty log was emptied by a purge, which needs it to stay so.
        if size and os.pread(self._fd, 4, self._mark) != _UNUSED:
            self._mark = _last_frame(size + os.pwrite(self._fd, bytes(STEP), size) - NEAR)


def _last_frame(end: int) -> int:
    """Where the last frame begins that begins before `end`."""
    return _HEADER + max(0, end - _HEADER) // _FRAME * _FRAME
