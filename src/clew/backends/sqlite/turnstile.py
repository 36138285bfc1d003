"""A fair queue for the write lock, across processes.

SQLite waits with a back-off that starves writers: of four processes, one completed a single append in four seconds and
another twelve thousand. An advisory lock on a separate file gives all an equal share. It cannot be on the database file
itself, because closing any descriptor of that file would drop SQLite's locks.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, ClassVar

from clew.backends.sqlite.connection import translate_os
from clew.backends.sqlite.one_name import UNSETTLED, settled_time
from clew.backends.timing import Timing
from clew.errors import Unavailable

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN
    from fcntl import flock as _flock

    _WAIT, _TRY, _UNLOCK = LOCK_EX, LOCK_EX | LOCK_NB, LOCK_UN
except ImportError:  # Windows has no such lock: writers rely on SQLite's own waiting
    _WAIT = _TRY = _UNLOCK = 0

    def _flock(fd: Any, operation: int, /) -> None:  # type: ignore[misc]
        """Does nothing."""


_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class _Descriptors:
    """The open descriptors of lock files in this process.

    The lock belongs to the open file, not to the process. A forked child that does nothing would hold it even after its
    parent is killed, so children close these descriptors.
    """

    mutex: ClassVar[threading.RLock] = threading.RLock()
    """Held while a descriptor is opened or closed, and during a fork, so that the child knows all of them."""
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
                _flock(fd, _UNLOCK)  # closing is not enough if another process has inherited the descriptor
                os.close(fd)

    @classmethod
    def forked(cls) -> None:
        """Closes all descriptors; runs in the child."""
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
    """A lock with one holder at a time, across processes that use the same path. An instance is not thread-safe."""

    def __init__(self, path: str, timing: Timing) -> None:
        self._path = path
        self._timing = timing
        self._fd = -1
        self._time = UNSETTLED
        """`settled_time` of `_fd` when the path was last checked."""
        self._waiter: _Waiter | None = None

    def acquire(self, timeout: float) -> None:
        """Unavailable after `timeout` seconds."""
        try:
            self._lock(timeout)
            while not self._is_current():  # other processes lock the file that is there now
                self._close_file()
                self._lock(timeout)
        except BaseException:  # interrupted: nothing else would release the lock
            self.release()
            raise

    def _is_current(self) -> bool:
        """False if the lock file was deleted or replaced after it was opened."""
        mine = os.fstat(self._fd)
        if mine.st_ctime_ns == self._time:  # it changes if the file is moved or deleted
            return True
        self._time = settled_time(mine.st_ctime_ns)
        try:
            now = os.stat(self._path)
        except OSError:
            return False
        return now.st_ino == mine.st_ino and now.st_dev == mine.st_dev

    def _lock(self, timeout: float) -> None:
        if self._fd < 0:
            self._fd, self._time = self._open(), UNSETTLED
        try:
            _flock(self._fd, _TRY)
        except BlockingIOError:
            self._wait(timeout)
        except OSError as error:
            raise Unavailable(
                f"{self._path} cannot be locked: {error.strerror}", hint="Use a file system that supports locks."
            ) from None

    def release(self) -> None:
        if self._fd >= 0:  # otherwise it was closed or abandoned, which releases the lock
            _flock(self._fd, _UNLOCK)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that a child process must inherit to hold the lock, even after this process ends."""
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
        """Waits in the kernel's queue, on another thread because flock has no timeout."""
        if self._waiter is None:
            self._waiter = _Waiter()
        began = time.monotonic()
        try:
            granted = self._waiter.lock(self._fd, timeout)
        except BaseException:
            self._abandon()
            raise
        if not granted:
            self._abandon()
            raise Unavailable(
                f"another process has held the write lock for {timeout:g} s",
                hint="Look for a process that is stopped in the middle of a write, then make the same call again.",
            )
        if (waited := time.monotonic() - began) > self._timing.threshold:
            self._timing.note("lock", waited)

    def _abandon(self) -> None:
        """Leaves the descriptor to the waiting thread, which closes it when it gets the lock."""
        if self._waiter is not None:
            self._waiter.stop()
        self._waiter = None
        self._fd = -1


class _Waiter:
    """A thread that waits for a lock on behalf of another thread."""

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
        except BaseException:  # interrupted: nothing else would release a lock that is granted now
            if not request.settle():
                _Descriptors.close(fd)
            raise
        return not request.settle()

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
        """False if the requesting thread has given up."""
        if not self.settle():
            return False
        self.done.release()
        return True

    def settle(self) -> bool:
        """True for the first caller: either the lock is granted, or the requesting thread has given up."""
        with self._mutex:
            settled, self._settled = self._settled, True
        return not settled
