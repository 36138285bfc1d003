"""The file system of a `FileStore`: the real one, or one in memory."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from clew.base import files
from clew.base.outside import close_fd, open_fd

LOCK = ".lock"
"""The name of the lock file. It is empty and is never removed."""
LARGEST = 2**31 - 1
"""Maximum size of a file in bytes: more cannot be decrypted at once."""
PATIENCE = 60.0
"""Seconds to wait for another process that cleans up the same folder."""


class Files(Protocol):
    """The file system of a `FileStore`. Paths are absolute; failures are OSErrors."""

    def read(self, path: str, limit: int | None = None) -> bytes:
        """A file, or its first `limit` bytes. Does not follow a link."""

    def size(self, path: str) -> int:
        """The bytes of a file. Does not follow a link."""

    def replace(self, path: str, data: bytes) -> None:
        """Writes or replaces a file atomically, with mode 0600. Durable on return."""

    def remove(self, path: str) -> None:
        """Removes a file, durably."""

    def names(self, directory: str, *, follow: bool = True) -> list[str]:
        """The names in a directory; with `follow` also if it is a link to one."""

    def make_directory(self, path: str) -> None:
        """Creates a directory with mode 0700, and its parents, unless it exists."""

    def lock(self, directory: str) -> AbstractContextManager[None]:
        """An exclusive lock among all processes that use the directory."""


class LocalFiles:
    """The real file system."""

    def read(self, path: str, limit: int | None = None) -> bytes:
        fd = open_fd(path, _READ)
        try:
            if limit is not None:
                return os.read(fd, limit)
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", path)
            if status.st_size > LARGEST:
                raise OSError(errno.EFBIG, "it is larger than any snapshot", path)
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            close_fd(fd)

    def size(self, path: str) -> int:
        return os.lstat(path).st_size

    def replace(self, path: str, data: bytes) -> None:
        files.replace_private(path, data)

    def remove(self, path: str) -> None:
        os.unlink(path)
        files.sync_folder(os.path.dirname(path))

    def names(self, directory: str, *, follow: bool = True) -> list[str]:
        if not follow and os.path.islink(directory):
            raise OSError(errno.ENOTDIR, "it is a link", directory)
        return os.listdir(directory)

    def make_directory(self, path: str) -> None:
        files.make_folder(path)

    def lock(self, directory: str) -> AbstractContextManager[None]:
        path = os.path.join(directory, LOCK)
        if not os.path.lexists(path):
            files.make_private(path, b"")
        return files.lock(path, PATIENCE)


_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class MemoryFiles:
    """A file system in memory, for tests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = set()
        self._lock = threading.RLock()

    def read(self, path: str, limit: int | None = None) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self.files[path][:limit]

    def size(self, path: str) -> int:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return len(self.files[path])

    def replace(self, path: str, data: bytes) -> None:
        if os.path.dirname(path) not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.files[path] = bytes(data)

    def remove(self, path: str) -> None:
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)

    def names(self, directory: str, *, follow: bool = True) -> list[str]:
        if directory not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return sorted(
            os.path.basename(path)
            for path in (*self.files, *self.directories)
            if os.path.dirname(path) == directory != path
        )

    def make_directory(self, path: str) -> None:
        while path not in self.directories:
            self.directories.add(path)
            path = os.path.dirname(path)

    @contextmanager
    def lock(self, directory: str) -> Iterator[None]:
        with self._lock:
            yield
