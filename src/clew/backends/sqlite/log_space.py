"""Makes the write-ahead log longer before it is full, because syncing a file that grows takes longer.

If a file has grown, its new size must be synced as well: ext4 then writes to its journal at each commit. So zeros are
written after the log's end, a quarter of a megabyte at a time, and the next commit syncs them. SQLite overwrites them,
and does not mistake them for commits, because their checksums are wrong. `fallocate` does not help: the first write to
such space changes metadata again. The first 200 appends of a process take three quarters of the time.
"""

from __future__ import annotations

import os
from contextlib import suppress

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
