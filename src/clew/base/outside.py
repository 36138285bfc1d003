"""Opens files that are named from outside, and never a file of a store that is open in this process.

SQLite's locks are POSIX locks: they end when any descriptor of the file is closed in the process. A program that reads
its own store's file as a history loses its locks, and with them acknowledged messages. So each store that is open is
registered here, and everything that opens a file by a name from outside does it with `open_fd` or `open_regular`.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
from _weakref import ref  # `weakref` takes longer to import than the rest of this
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from clew.errors import Invalid, Unavailable

ENDINGS = ("", "-wal", "-shm", "-journal", "-lock", "-reserve", "-search", "-search-wal", "-search-shm")
"""The files of a store, by what follows its path."""
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | _NO_LINK | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_HINT = "Use clew's own commands to read a store."

_stores: set[ref[StoreFiles]] = set()
_guard = threading.RLock()
"""Held while a store is registered, and while a descriptor is compared and closed."""


class StoreFiles:
    """The files of a store that is open in this process, or is about to be opened. Keep it until it is closed."""

    def __init__(self, path: str) -> None:
        self._names = tuple(f"{path}{ending}" for ending in ENDINGS)
        self._seen: set[tuple[int, int]] = set()
        with _guard:
            _stores.add(ref(self, _stores.discard))

    def note(self) -> None:
        """Notes which files are open now, in case they are renamed. SQLite replaces none of these while it is open."""
        self._seen.update(filter(None, map(_identity, self._names[:3])))

    def release(self) -> None:
        """The store is closed: its files may be opened again."""
        _stores.discard(ref(self))

    def has(self, file: tuple[int, int]) -> bool:
        """True if the file with this device and inode is one of them."""
        return file in self._seen or any(_identity(name) == file for name in self._names)


def is_of_store(status: os.stat_result) -> bool:
    """True for a file of a store that is open in this process."""
    file = status.st_dev, status.st_ino
    return any(one.has(file) for one in filter(None, [known() for known in list(_stores)]))


def refuse_store(path: str) -> None:
    """Invalid if a path leads to a file of a store that is open in this process. For files that SQLite will open."""
    with suppress(OSError):
        _refuse(path, os.stat(path))


def open_fd(path: str, flags: int = READ, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """`os.open`; Invalid for a file of a store that is open in this process. Close it with `close_fd`."""
    with suppress(FileNotFoundError):
        _refuse(path, os.stat(path, dir_fd=dir_fd, follow_symlinks=not flags & _NO_LINK))
    fd = os.open(path, flags, mode, dir_fd=dir_fd)
    _refuse(path, os.fstat(fd))  # the name was changed meanwhile: the descriptor must stay open, or the locks end
    return fd


def close_fd(fd: int) -> None:
    """`os.close`, unless a store has been opened on the file since: then the descriptor stays open for good."""
    with _guard:
        if not is_of_store(os.fstat(fd)):
            os.close(fd)


def as_file(fd: int, mode: str = "rb", buffering: int = io.DEFAULT_BUFFER_SIZE) -> IO[bytes]:
    """`os.fdopen` for a descriptor of `open_fd`."""
    raw = _OutsideFile(fd, mode.replace("b", ""), closefd=False)
    if not buffering:
        return raw
    return (io.BufferedRandom if "+" in mode else io.BufferedReader)(raw, buffering)


def open_outside(path: str) -> IO[bytes]:
    """`open(path, "rb")`; Invalid for a file of a store that is open in this process. OSError."""
    return as_file(open_fd(path, READ & ~getattr(os, "O_NONBLOCK", 0)))


def open_regular(path: str, root: str | None = None) -> IO[bytes]:
    """A file to read, or a link to one, and nothing else: a pipe could block for ever. Unavailable, Invalid.

    With `root`, a folder above it, no name below that folder may be a link; the folder itself may.
    """
    try:
        if root is None:
            return _regular(path, path, None)
        with _folder(root, path) as (folder, name):
            return _regular(path, name, folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Invalid(f"{path} is a link, or is below one") from None
        raise Unavailable(
            f"{path} cannot be opened ({error.strerror})", hint="Check the path and its rights."
        ) from None
    except ValueError:  # NUL
        raise Invalid(f"{path!r} is not a path") from None


def names_in(folder: str, root: str) -> list[str]:
    """The names in a folder below `root`, without following a link below it. OSError, also if it is a link."""
    if os.open not in os.supports_dir_fd:
        _no_links(root, folder)
        return os.listdir(folder)
    with _folder(root, os.path.join(folder, ".")) as (fd, _):
        return os.listdir(fd)


def _regular(path: str, name: str, folder: int | None) -> IO[bytes]:
    status = os.stat(name, dir_fd=folder, follow_symlinks=folder is None)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(status.st_mode):
        raise Invalid(f"{path} is not a file")
    _refuse(path, status)
    fd = open_fd(name, READ if folder is None else READ | _NO_LINK, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        close_fd(fd)
        raise Invalid(f"{path} is not a file")
    return as_file(fd)


@contextmanager
def _folder(root: str, path: str) -> Iterator[tuple[int | None, str]]:
    """The folder of a path, opened name by name from `root` on, and the last name. OSError (ELOOP) for a link."""
    *way, name = _below(root, path)
    if os.open not in os.supports_dir_fd:  # Windows: links need special rights there
        _no_links(root, path)
        yield None, path
        return
    fd = os.open(root, _FOLDER & ~_NO_LINK)
    try:
        for part in way:
            if stat.S_ISLNK(os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            below = os.open(part, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd, name
    finally:
        os.close(fd)


def _below(root: str, path: str) -> list[str]:
    """The names that lead from a folder to a path below it. Invalid if the path is not below it."""
    parts = path.removeprefix(root.rstrip(os.sep) + os.sep).split(os.sep)
    if os.path.isabs(os.sep.join(parts)) or ".." in parts:
        raise Invalid(f"{path} is not below {root}")
    return parts


def _no_links(root: str, path: str) -> None:
    for part in _below(root, path):
        root = os.path.join(root, part)
        if os.path.islink(root):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


class _OutsideFile(io.FileIO):
    """A file whose descriptor is closed with `close_fd`."""

    def close(self) -> None:
        if not self.closed:
            fd = self.fileno()
            super().close()
            close_fd(fd)


def _refuse(path: str, status: os.stat_result) -> None:
    if is_of_store(status):
        raise Invalid(f"{path} is a file of a store that is open in this program", hint=_HINT)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that another thread holds
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release)
