"""Ensures that a store's file is used under one name, and that its files stay in place while it is open.

The paths of the lock, the write-ahead log, its index and the search index derive from the path of the store's file.
Under a second name they would be different files: two writers would not see each other, and a reader would miss the
log. So a path is resolved once, and a file that still has a second name is read-only.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing

from clew.backends.process import forks
from clew.backends.sqlite.connection import uri
from clew.base.files import mount_of
from clew.errors import ClewError, Invalid, ReadOnly, Unavailable

PATIENCE = 5.0
"""Seconds to wait for a program that is closing the file, before the file counts as open under another name."""
ROUNDING = 3_000_000_000
"""Nanoseconds: more than any file system rounds times by. FAT rounds to two seconds."""
FINE_ROUNDING = 100_000_000
"""Nanoseconds: the same for file systems whose times are not whole milliseconds. They have the tick of the system."""
UNSETTLED = -1
"""Equals no time."""
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

_MOVED = "Move the file and its -wal back, or close the store and open another."
_REOPEN = "Close the store in every program that has it open, then open it again."
_COPY = "Remove the other names, or copy the file and use the copy. Then open the store again."


def resolve(path: str) -> str:
    """The absolute path of a file, without links. Invalid if it refers to another file than `path`."""
    resolved = os.path.realpath(path)
    try:
        found = os.stat(path)
    except OSError:  # it does not exist yet, or opening it raises a better error
        return resolved
    try:
        same = os.path.samestat(found, os.stat(resolved))
    except OSError:
        same = False
    if not same:
        raise Invalid(f"{path} does not have a path of its own", hint="Use the regular path of the file.")
    return resolved


def check_mount(path: str, *, network: bool) -> None:
    """Invalid if the file itself is a mount point, or is on a network file system and `network` is False."""
    mount = mount_of(path)
    if mount is None:
        return
    if mount.point == path:
        raise Invalid(
            f"{path} is mounted as a single file, so its -wal and its lock are not next to it",
            hint="Mount the folder of the store instead.",
        )
    if mount.network and not network:
        raise Invalid(
            f"{path} is on a network file system ({mount.kind}), where SQLite's locks are not reliable",
            hint="Use a local disk; or pass network=True if only one machine ever opens the store.",
        )


def check_complete(path: str) -> None:
    """Unavailable if a log or journal next to the file is not empty: an immutable store shows none of what it has."""
    for name in (f"{path}-wal", f"{path}-journal"):
        if os.path.exists(name) and os.path.getsize(name):
            raise Unavailable(
                f"{name} is not empty: it has messages, or parts of them, that an immutable store would not show",
                hint="Use a copy that `clew backup` has made: it is one file with everything.",
            )


def check_new(path: str) -> None:
    """Invalid if there is a write-ahead log at the path of a new store: SQLite would delete it with its messages."""
    try:
        orphan = os.path.getsize(f"{path}-wal") and not (os.path.exists(path) and os.path.getsize(path))
    except OSError:
        return
    if orphan:
        raise Invalid(
            f"{path}-wal exists without its store, and may contain its last messages",
            hint="Put the store's file back next to it, or move the -wal away to create a new store.",
        )


def check_unshared(path: str, timeout: float) -> bool:
    """True if the file has one name (no hard links). Unavailable if a program has it open under another name.

    While a store is open, its -wal and -shm exist. If one is missing, the file must have no SQLite locks, which belong
    to the file and not to its name. If there are locks, the file is open under another name, or the missing file was
    deleted: a program that opens it now would miss the messages in the -wal, and damage the store.
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
                hint=_REOPEN if one_name else f"{_REOPEN} Only one program at a time can read a file with hard links.",
            )
        time.sleep(pause)
        pause *= 2
    return one_name


def _both(path: str) -> bool:
    return os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-shm")


def _is_free(path: str, otherwise: bool) -> bool:
    """True if no program has the database open; `otherwise` if that cannot be determined."""
    try:
        empty = not os.path.getsize(f"{path}-wal")
    except OSError:
        empty = True
    if not os.access(path, os.W_OK):
        return otherwise
    # Closing the only connection truncates the log, but opening a store for reading must not change it.
    return _connect_alone(path) if empty else _lock_elsewhere(path, otherwise)


def _connect_alone(path: str) -> bool:
    """True unless another connection has the database open."""
    try:
        with closing(sqlite3.connect(uri(path, "rw"), uri=True, isolation_level=None, timeout=0)) as conn:
            conn.execute("PRAGMA locking_mode = EXCLUSIVE")
            conn.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:  # opening the store raises any other error
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            # In a forked child, SQLite counts the parent's connections as its own; other processes do not.
            return forks() > 0 and _lock_elsewhere(path, False)
    return True


def _lock_elsewhere(path: str, otherwise: bool) -> bool:
    """`_connect_alone` in another process, because closing a descriptor of the file here would drop SQLite's locks."""
    import subprocess

    if getattr(sys, "frozen", False):  # `sys.executable` is then the program, not Python
        return otherwise
    command = [sys.executable, "-I", "-S", "-c", _TRY_LOCK, path, *map(str, _LOCK_BYTES)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return otherwise
    return {0: True, 3: False}.get(done.returncode, otherwise)


def settled_time(changed: int) -> int:
    """The ctime of a file or folder, if every later change gives it another one; otherwise UNSETTLED."""
    rounding = FINE_ROUNDING if changed % 1_000_000 else ROUNDING
    return changed if time.time_ns() - changed > rounding else UNSETTLED


class OpenFiles:
    """The files of an open store. SQLite replaces none of them while the store is open."""

    def __init__(self, path: str, *, one_name: bool) -> None:
        self._path, self._log, self._index = self._names = (path, f"{path}-wal", f"{path}-shm")
        self._one_name = one_name
        """False if the file had several names when it was opened: then it stays read-only until it is reopened."""
        self._found = tuple(map(_identity, self._names))
        self._folder = _open_folder(path)
        self._folder_time = UNSETTLED
        """`settled_time` of the folder when the files in it were last looked up."""

    def __del__(self) -> None:
        if isinstance(self._folder, int):
            os.close(self._folder)

    def in_place(self) -> bool:
        """True if the files were not moved or replaced, and the store may be written. Called for every append."""
        try:
            file, changed = os.stat(self._path), os.stat(self._folder).st_ctime_ns
        except OSError:
            return False
        return (
            file.st_nlink < 2
            and self._one_name
            and (file.st_dev, file.st_ino) == self._found[0]
            and (changed == self._folder_time or self.look_up(changed))
        )

    def look_up(self, changed: int) -> bool:
        """`in_place` for the log and its index. Unless the time of the folder changes, no name in it does."""
        found = (_identity(self._log), _identity(self._index)) == self._found[1:]
        self._folder_time = settled_time(changed) if found else UNSETTLED
        return found

    @property
    def log(self) -> tuple[int, int] | None:
        """The identity of the write-ahead log."""
        return self._found[1]

    @property
    def lost_log(self) -> bool:
        """True if only the write-ahead log was deleted or replaced."""
        now = tuple(map(_identity, self._names))
        return now != self._found and (now[0], now[2]) == (self._found[0], self._found[2])

    def error(self) -> ClewError:
        """The reason why the store may not be written."""
        for name, before in zip(self._names, self._found, strict=True):
            if _identity(name) != before:
                hint = _MOVED if name == self._path else _REOPEN
                return Unavailable(f"{name} was moved, deleted or replaced while it was open", hint=hint)
        return ReadOnly(f"{self._path} has more than one name (hard links), so it is read-only", hint=_COPY)


def _open_folder(path: str) -> int | str:
    """A descriptor of the folder of a file: `os.stat` takes half as long as with a path. The path, if there is none."""
    folder = os.path.dirname(path)
    try:
        return os.open(folder, os.O_PATH | os.O_CLOEXEC)
    except (AttributeError, OSError):  # only Linux has O_PATH
        return folder


def _identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the file at a path; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
