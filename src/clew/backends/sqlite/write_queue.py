"""A fair queue in front of the write lock, across processes.

SQLite's own waiting is a back-off that starves writers: of four processes one got a single append in four seconds while
another got twelve thousand. Waiting on an advisory lock on a file of its own gives each an even share. It is a second
file because closing any descriptor of the database itself would drop SQLite's locks.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from typing import Any, ClassVar

from clew.backends.sqlite.connection import translate_os
from clew.errors import Unavailable

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN
    from fcntl import flock as _flock

    _WAIT, _TRY, _UNLOCK = LOCK_EX, LOCK_EX | LOCK_NB, LOCK_UN
except ImportError:  # Windows has no such lock: SQLite's own waiting has to do
    _WAIT = _TRY = _UNLOCK = 0

    def _flock(fd: Any, operation: int, /) -> None:  # type: ignore[misc]
        """Nothing to wait for."""


_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class _Descriptors:
    """Descriptors of lock files that this process has open.

    Such a lock belongs to what was opened, not to a process: a forked child that does nothing would keep it when its
    parent is killed. So a child closes them.
    """

    mutex: ClassVar[threading.RLock] = threading.RLock()
    """Held while one is opened or closed, and during a fork: the child must know of all."""
    found: ClassVar[set[int]] = set()

    @classmethod
    def open(cls, path: str) -> int:
        with cls.mutex:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _NO_LINK, 0o600)
            cls.found.add(fd)
            return fd

    @classmethod
    def close(cls, fd: int) -> None:
        with cls.mutex:
            if fd in cls.found:
                cls.found.remove(fd)
                _flock(fd, _UNLOCK)  # closing is not enough if a process has it by other ways
                os.close(fd)

    @classmethod
    def forked(cls) -> None:
        """Closes them, in the child."""
        while cls.found:
            with suppress(OSError):
                os.close(cls.found.pop())
        cls.mutex.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_Descriptors.mutex.acquire,
        after_in_parent=_Descriptors.mutex.release,
        after_in_child=_Descriptors.forked,
    )


class Turnstile:
    """One holder at a time among all that open the same path. Not for two threads of one instance at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._file: os.stat_result | None = None
        """What `_fd` was found to be."""
        self._waiter: _Waiter | None = None

    def acquire(self, timeout: float) -> None:
        """Unavailable after `timeout` seconds."""
        try:
            self._lock(timeout)
            while not self._is_current():  # others would wait at the file that is there now
                self._close_file()
                self._lock(timeout)
        except BaseException:  # interrupted: nobody would give the lock back
            self.release()
            raise

    def _is_current(self) -> bool:
        """False if the lock file was deleted or replaced since it was opened."""
        assert self._file is not None
        try:
            now = os.stat(self._path)
        except OSError:
            return False
        return now.st_ino == self._file.st_ino and now.st_dev == self._file.st_dev

    def _lock(self, timeout: float) -> None:
        if self._fd < 0:
            self._fd = self._open()
            self._file = os.fstat(self._fd)
        try:
            _flock(self._fd, _TRY)
        except BlockingIOError:
            self._wait(timeout)
        except OSError as error:
            raise Unavailable(
                f"{self._path} cannot be locked: {error.strerror}", hint="Keep the store on a file system with locks."
            ) from None

    def release(self) -> None:
        if self._fd >= 0:  # else it was closed by whoever came in between, and the lock went with that
            _flock(self._fd, _UNLOCK)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a process of our own inherits to hold the lock together with this one, and after it."""
        return (self._fd,) if self._fd >= 0 and os.name == "posix" else ()

    def _close_file(self) -> None:
        if self._fd >= 0:
            _Descriptors.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        self._close_file()
        if self._waiter is not None:
            self._waiter.stop()
            self._waiter = None

    def _open(self) -> int:
        try:
            return _Descriptors.open(self._path)
        except OSError as error:
            raise translate_os(error, self._path) from None

    def _wait(self, timeout: float) -> None:
        """Blocks in the kernel's queue on a thread of its own, because flock takes no timeout."""
        if self._waiter is None:
            self._waiter = _Waiter()
        try:
            granted = self._waiter.lock(self._fd, timeout)
        except BaseException:
            self._abandon()
            raise
        if not granted:
            self._abandon()
            raise Unavailable(
                f"another process has kept the store busy for {timeout:g} s",
                hint="Look for a process that is stopped in the middle of a write; then make the same call again.",
            )

    def _abandon(self) -> None:
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
                _Descriptors.close(fd)
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
                _Descriptors.close(request.fd)


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
