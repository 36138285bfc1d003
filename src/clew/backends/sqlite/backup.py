"""Copies a store as it is at one moment to a new file, while others write.

SQLite copies its own pages; nothing else opens the store's file, because closing a second descriptor would drop
SQLite's locks. The copy is written under another name, and gets its final name when it is complete and synced.
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
"""Pages copied between two calls of `progress`: 1 MiB."""
PATIENCE = 30.0
"""Seconds without a page copied after which a backup gives up."""

_BESIDE = ("-wal", "-journal")


def backup(
    reader: Callable[[], AbstractContextManager[FileReader]], path: str | os.PathLike[str], progress: Progress | None
) -> Backup:
    """See `clew.backends.Backend.backup`."""
    target = os.path.abspath(os.fspath(path))
    if "\0" in target or not os.path.basename(target) or os.path.isdir(target):
        raise Invalid(f"{target} is not a name for a file", hint="Name a file that does not exist yet.")
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise Invalid(f"there is no folder {folder}", hint="Create it first.")
    _refuse(target)
    part = f"{target}.{os.urandom(6).hex()}.part"
    try:
        # Owner-only from the first byte on.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        _copy(reader, part, target, progress)
        size = _settle(part)
        _name(part, target)
        sync_folder(folder)
    except OSError as error:
        raise unwritten(error, target) from error
    finally:
        for name in (part, f"{part}-journal"):
            with suppress(OSError):
                os.unlink(name)
    return Backup(target, size)


def _refuse(target: str) -> None:
    """Conflict if the name is taken; a write-ahead log that lies beside it would be taken for the copy's own."""
    for name in (target, *(target + end for end in _BESIDE)):
        if os.path.lexists(name):
            raise Conflict(f"{name} is there already", hint="A backup never overwrites: name another file.")


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
        elif time.monotonic() - moved > PATIENCE:  # the driver itself would wait for ever
            raise Unavailable(f"{store.path} is kept busy by another program", hint="Make the same call again.")

    with reader() as store, closing(sqlite3.connect(uri(part, "rw"), uri=True, isolation_level=None)) as copy:
        source = store.conn
        # From this read on the connection sees one moment, so a writer cannot make the copy begin again.
        source.execute("SELECT count(*) FROM epoch").fetchone()
        # The file has another name and is thrown away if this fails, so it needs no journal; it is synced at the end.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        try:
            source.backup(copy, pages=PAGES, progress=step, sleep=0.05)
        except sqlite3.Error as error:
            damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            raise translate(error, store.path if damaged else target) from error


def _settle(part: str) -> int:
    """Brings the copy to the disk, and returns its size."""
    fd = os.open(part, os.O_RDWR | os.O_CLOEXEC)
    try:
        sync(fd)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _name(part: str, target: str) -> None:
    """Gives the copy its name, unless something has it by now."""
    try:
        os.link(part, target)
        os.unlink(part)  # at once: while a store has two names, it is only read
    except FileExistsError:
        raise Conflict(f"{target} is there already", hint="A backup never overwrites: name another file.") from None
    except OSError:
        # No hard links on this file system: claim the name first, then put the copy in its place.
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            raise Conflict(f"{target} is there already", hint="A backup never overwrites: name another file.") from None
        try:
            os.replace(part, target)
        except OSError:
            os.unlink(target)
            raise
