"""One file, one name: which files an open store has, whether they are in their place, and who else has them open.

The lock, the write-ahead log, its index and the search index are found by the name of the store's file. Under a second
name they would be other files: two writers would not see each other, and a reader would miss what is in the log. So a
path is resolved once, and a file that still has a second name is not written.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing

from clew.backends.process import forks
from clew.backends.sqlite.connection import uri
from clew.base.mounts import mount_of
from clew.errors import ClewError, Invalid, ReadOnly, Unavailable

PATIENCE = 5.0
"""Seconds to wait for a program that is just closing the file, before it counts as open under another name."""
_LOCK_BYTES = (0x40000000, 512)
"""Start and length of the bytes on which SQLite locks a database file."""
_TRY_LOCK = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))
except OSError:
    sys.exit(3)
"""

_MOVED = (
    "Put the file back, with its -wal; else nobody would find what is written. Or close the store, and open another."
)
_REOPEN = "Close the store in every program that has it open, then open it again."
_COPY = "Remove the other names, or copy the file and use the copy. Then open the store again."


def resolve(path: str) -> str:
    """The one name of a file, absolute and without links. Invalid if it leads to another file."""
    resolved = os.path.realpath(path)
    try:
        same = os.path.samestat(os.stat(path), os.stat(resolved))
    except OSError:  # there is none yet, or opening it says better why not
        same = not os.path.exists(path)
    if not same:
        raise Invalid(f"{path} has no name of its own in this system", hint="Name the file by an ordinary path.")
    return resolved


def check_mount(path: str, *, network: bool) -> None:
    """Invalid if the file is mounted alone, or if it is on a network file system and `network` does not allow that."""
    mount = mount_of(path)
    if mount is None:
        return
    if mount.point == path:
        raise Invalid(
            f"{path} is mounted as a single file, so its -wal and its lock are not beside it",
            hint="Mount the folder that the store is in instead.",
        )
    if mount.network and not network:
        raise Invalid(
            f"{path} is on a network file system ({mount.kind}), where SQLite's locks cannot be relied on",
            hint="Use a local disk; or pass network=True if only one machine ever opens the store.",
        )


def check_new(path: str) -> None:
    """Invalid if a write-ahead log lies where a new store would be made: SQLite would delete it, and what it holds."""
    try:
        orphan = os.path.getsize(f"{path}-wal") and not (os.path.exists(path) and os.path.getsize(path))
    except OSError:
        return
    if orphan:
        raise Invalid(
            f"{path}-wal is there without its store, and may hold the last messages of it",
            hint="Put the store's file back beside it; or move the -wal away, and a new store can be made.",
        )


def check_unshared(path: str, timeout: float) -> bool:
    """Whether the file has one name, a hard link being another. Unavailable if a program has it open under another.

    Whoever has a store open keeps its -wal and -shm in place. If one is missing, the file must be free of SQLite's
    locks, which belong to the file and not to a name. Else it is open under another name, or the missing one was
    deleted meanwhile: who opens it now would miss what is in the -wal, and damage what others write.
    """
    found = os.stat(path)
    one_name = found.st_nlink < 2
    if not found.st_size:
        return one_name
    until, pause = time.monotonic() + min(timeout, PATIENCE), 0.005
    while not ((one_name and _both(path)) or os.path.exists(f"{path}-journal") or _is_free(path, one_name)):
        if time.monotonic() > until:
            raise Unavailable(
                f"{path} is open in a program that uses another name of the file, or its -wal or -shm was deleted",
                hint=_REOPEN if one_name else f"{_REOPEN} A file with several names is read by one program at a time.",
            )
        time.sleep(pause)
        pause *= 2
    return one_name


def _both(path: str) -> bool:
    return os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-shm")


def _is_free(path: str, otherwise: bool) -> bool:
    """True if nobody has the database open; `otherwise` if this cannot be found out."""
    try:
        empty = not os.path.getsize(f"{path}-wal")
    except OSError:
        empty = True
    if not os.access(path, os.W_OK):
        return otherwise
    # A connection that is alone empties the log when it is closed, and whoever opens a store may only want to read.
    return _connect_alone(path) if empty else _lock_elsewhere(path, otherwise)


def _connect_alone(path: str) -> bool:
    """True unless another connection has the database open."""
    try:
        with closing(sqlite3.connect(uri(path, "rw"), uri=True, isolation_level=None, timeout=0)) as conn:
            conn.execute("PRAGMA locking_mode = EXCLUSIVE")
            conn.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:  # what else may be wrong with it is told when it is opened
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            # What a child has from its parent counts for SQLite like a connection of its own, and for nobody else.
            return forks() > 0 and _lock_elsewhere(path, False)
    return True


def _lock_elsewhere(path: str, otherwise: bool) -> bool:
    """The same, asked by another process: closing a descriptor of the file here would drop SQLite's locks."""
    import subprocess

    if getattr(sys, "frozen", False):  # then the program itself stands in the place of Python
        return otherwise
    command = [sys.executable, "-I", "-S", "-c", _TRY_LOCK, path, *map(str, _LOCK_BYTES)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return otherwise
    return {0: True, 3: False}.get(done.returncode, otherwise)


class OpenFiles:
    """The files of a store while it is open. SQLite makes none of them anew in that time."""

    def __init__(self, path: str, *, one_name: bool) -> None:
        self._path, self._log, self._index = self._names = (path, f"{path}-wal", f"{path}-shm")
        self._one_name = one_name
        """False if the file had several names when it was opened: it stays read-only until it is opened again."""
        self._found = tuple(map(_identity, self._names))

    def in_place(self) -> bool:
        """True if the file may be written. Every append asks: three system calls, and little else."""
        try:
            file, log, index = os.stat(self._path), os.stat(self._log), os.stat(self._index)
        except OSError:
            return False
        return (
            file.st_nlink < 2
            and self._one_name
            and ((file.st_dev, file.st_ino), (log.st_dev, log.st_ino), (index.st_dev, index.st_ino)) == self._found
        )

    @property
    def lost_log(self) -> bool:
        """True if the write-ahead log is gone or replaced, and nothing else has changed."""
        now = tuple(map(_identity, self._names))
        return now != self._found and (now[0], now[2]) == (self._found[0], self._found[2])

    def error(self) -> ClewError:
        """Why the file may not be written."""
        for name, before in zip(self._names, self._found, strict=True):
            if _identity(name) != before:
                hint = _MOVED if name == self._path else _REOPEN
                return Unavailable(f"{name} was moved, deleted or replaced while it was open", hint=hint)
        return ReadOnly(f"{self._path} has more than one name (hard links), so it is only read", hint=_COPY)


def _identity(path: str) -> tuple[int, int] | None:
    """Which file is at a path, whatever it holds; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
