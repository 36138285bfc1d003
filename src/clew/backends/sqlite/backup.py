"""Copies a snapshot of a store to a new file, while other processes write.

SQLite itself copies the pages. Nothing else may open the store's file, because closing another descriptor would drop
SQLite's locks. The copy has a temporary name until it is complete and synced.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress

from clew.backends import Backup, Progress
from clew.backends.sqlite.connection import translate, uri
from clew.backends.sqlite.reader import FileReader
from clew.base.files import sync, sync_folder, unwritten
from clew.errors import Conflict, Invalid, Unavailable

PAGES = 256
"""Pages to copy between two calls of `progress`: 1 MiB."""
PATIENCE = 30.0
"""Seconds without progress after which a backup fails."""

_BESIDE = ("-wal", "-journal")


def backup(
    reader: Callable[[], AbstractContextManager[FileReader]], path: str | os.PathLike[str], progress: Progress | None
) -> Backup:
    """See `clew.backends.Backend.backup`."""
    target = os.path.abspath(os.fspath(path))
    if "\0" in target or not os.path.basename(target) or os.path.isdir(target):
        raise Invalid(f"{target} is not a valid file name", hint="Name a file that does not exist yet.")
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise Invalid(f"there is no folder {folder}", hint="Create it first.")
    for name in (target, *(target + end for end in _BESIDE)):  # SQLite would use the log of an older file for the copy
        if os.path.lexists(name):
            raise _exists(name)
    part = f"{target}.{os.urandom(6).hex()}.part"
    try:
        _create(part)
        _copy(reader, part, target, progress)
        size = _sync(part)
        _rename(part, target)
        sync_folder(folder)
    except OSError as error:
        raise unwritten(error, target) from error
    finally:
        for name in (part, f"{part}-journal"):
            with suppress(OSError):
                os.unlink(name)
    return Backup(target, size)


def _exists(name: str) -> Conflict:
    return Conflict(f"{name} already exists", hint="A backup never overwrites files: name another file.")


def _create(name: str) -> None:
    """Creates an empty file that only the owner can access. FileExistsError."""
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _copy(
    reader: Callable[[], AbstractContextManager[FileReader]], part: str, target: str, progress: Progress | None
) -> None:
    moved = time.monotonic()

    def step(status: int, remaining: int, total: int) -> None:
        nonlocal moved
        if status in (sqlite3.SQLITE_OK, sqlite3.SQLITE_DONE):
            moved = time.monotonic()
            if progress is not None:
                progress(total - remaining, total)
        elif time.monotonic() - moved > PATIENCE:  # the driver itself would wait forever
            raise Unavailable(f"{store.path} is locked by another program", hint="Make the same call again.")

    with reader() as store, closing(sqlite3.connect(uri(part, "rw"), uri=True, isolation_level=None)) as copy:
        source = store.conn
        # This read begins the snapshot. Without one, SQLite would restart the copy after each write.
        source.execute("SELECT count(*) FROM epoch").fetchone()
        # If this fails, the temporary file is deleted, so it needs no journal; it is synced at the end.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        try:
            source.backup(copy, pages=PAGES, progress=step, sleep=0.05)
        except sqlite3.Error as error:
            damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            raise translate(error, store.path if damaged else target) from error


def _sync(part: str) -> int:
    """Syncs the copy to disk, and returns its size."""
    fd = os.open(part, os.O_RDWR | os.O_CLOEXEC)
    try:
        sync(fd)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _rename(part: str, target: str) -> None:
    """Gives the copy its final name. Conflict if a file has that name by now."""
    try:
        os.link(part, target)
        os.unlink(part)  # at once: a store with two names is read-only
    except FileExistsError:
        raise _exists(target) from None
    except OSError:
        # No hard links on this file system: create the target first, then replace it with the copy.
        try:
            _create(target)
        except FileExistsError:
            raise _exists(target) from None
        try:
            os.replace(part, target)
        except OSError:
            os.unlink(target)
            raise
