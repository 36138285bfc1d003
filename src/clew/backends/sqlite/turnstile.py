"""A fair queue in front of the write lock, across processes.

SQLite's own waiting is a back-off that starves writers: of four processes one got a single append in four seconds while
another got twelve thousand. Waiting on an advisory lock on a file of its own gives each an even share. It is a second
file because closing any descriptor of the database itself would drop SQLite's locks.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from typing import Any

from clew.errors import ReadOnly, StorageFull, Unavailable

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN
    from fcntl import flock as _flock

    _WAIT, _TRY, _UNLOCK = LOCK_EX, LOCK_EX | LOCK_NB, LOCK_UN
except ImportError:  # Windows has no such lock: SQLite's own waiting has to do
    _WAIT = _TRY = _UNLOCK = 0

    def _flock(fd: Any, operation: int, /) -> None:  # type: ignore[misc]
        """Nothing to wait for."""


class Turnstile:
    """One holder at a time among all that open the same path. Not for two threads of one instance at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._waiter: _Waiter | None = None

    def acquire(self, timeout: float) -> None:
        """Unavailable after `timeout` seconds."""
        if self._fd < 0:
            self._fd = self._open()
        try:
            _flock(self._fd, _TRY)
        except BlockingIOError:
            self._wait(timeout)
        except OSError as error:
            raise Unavailable(
                f"{self._path} cannot be locked: {error.strerror}", hint="Keep the store on a file system with locks."
            ) from None
        except BaseException:  # interrupted: nobody would give the lock back
            self.release()
            raise

    def release(self) -> None:
        if self._fd >= 0:  # else it was closed by whoever came in between, and the lock went with that
            _flock(self._fd, _UNLOCK)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a process of our own inherits to hold the lock together with this one, and after it."""
        return (self._fd,) if self._fd >= 0 and os.name == "posix" else ()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._waiter is not None:
            self._waiter.stop()
            self._waiter = None

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError:
            raise ReadOnly(f"{self._path} cannot be written") from None
        except OSError as error:
            if error.errno == errno.EROFS:
                raise ReadOnly(f"{self._path} is on a read-only file system") from None
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(f"no space is left for {self._path}") from None
            if error.errno in (errno.EMFILE, errno.ENFILE):
                hint = "Close some files or raise the limit on open ones, then make the same call again."
            else:
                hint = "Check the folder and the disk, then make the same call again."
            raise Unavailable(f"{self._path} cannot be opened: {error.strerror}", hint=hint) from None

    def _wait(self, timeout: float) -> None:
        """Blocks in the kernel's queue on a thread of its own, because flock takes no timeout."""
        if self._waiter is None:
            self._waiter = _Waiter()
        try:
            granted = self._waiter.lock(self._fd, timeout)
        except BaseException:
            self._walk_away()
            raise
        if not granted:
            self._walk_away()
            raise Unavailable(
                f"another process has kept the store busy for {timeout:g} s",
                hint="Look for a process that is stopped in the middle of a write; then make the same call again.",
            )

    def _walk_away(self) -> None:
        """The thread still stands in the queue with this descriptor; it lets go when its turn comes."""
        if self._waiter is not None:
            self._waiter.stop()
        self._waiter = None
        self._fd = -1


class _Waiter:
    """A thread that waits for a lock on behalf of another."""

    def __init__(self) -> None:
        self._asked = threading.Semaphore(0)
        self._jobs: deque[_Request | None] = deque()
        threading.Thread(target=self._serve, name="clew-turnstile", daemon=True).start()

    def lock(self, fd: int, timeout: float) -> bool:
        request = _Request(fd)
        self._jobs.append(request)
        self._asked.release()
        try:
            if request.done.acquire(timeout=timeout):
                return True
        except BaseException:  # interrupted: nobody would give back a lock that is granted now
            if not request.give_up():
                os.close(fd)
            raise
        return not request.give_up()

    def stop(self) -> None:
        self._jobs.append(None)
        self._asked.release()

    def _serve(self) -> None:
        while True:
            self._asked.acquire()
            request = self._jobs.popleft()
            if request is None:
                return
            _flock(request.fd, _WAIT)
            if not request.grant():
                os.close(request.fd)


class _Request:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.done = threading.Lock()
        self.done.acquire()
        self._mutex = threading.Lock()
        self._settled = False

    def grant(self) -> bool:
        """False if the asker has given up."""
        with self._mutex:
            if self._settled:
                return False
            self._settled = True
        self.done.release()
        return True

    def give_up(self) -> bool:
        """False if the lock was granted in the last moment."""
        with self._mutex:
            if self._settled:
                return False
            self._settled = True
            return True
