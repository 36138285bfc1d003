"""Removes everything but live rows from a store's file and its write-ahead log.

Finding stale bytes takes seconds in a large file, so writers do not wait for it: while the helper looks, a read
transaction on an empty log keeps SQLite from writing to the file, so everything that others write goes to the log. Then
the helper takes the lock and clears the pages that it found and the pages that are in the log by then.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from clew.backends.sqlite.connection import is_full
from clew.backends.sqlite.tx import SQLiteTx
from clew.backends.sqlite.wal import pages_in_log
from clew.backends.sqlite.writer import Writer
from clew.base.loading import loading
from clew.errors import ClewError, Corrupted, NotFound, ReadOnly, StorageFull, Unavailable

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scrub.py")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

Found = dict[int, tuple[str, list[tuple[int, int]]]]
"""Pages with stale bytes: see `scrub.py`."""


class Scrubbed(NamedTuple):
    """The result of a scrub."""

    pages: int
    """Pages in the file."""
    dirty: int
    """Pages with stale bytes."""
    stale: int
    """Bytes that are unused and were not zero."""
    cleared: int
    """Stale bytes that are zero now."""
    freelist: int
    """Unused pages."""
    wal: int
    """Bytes in the write-ahead log, which is not scanned."""
    found: Found
    """Without `write`, the pages with stale bytes."""

    @property
    def clean(self) -> bool:
        """True if the file contains only live rows, and the write-ahead log is empty."""
        return self.stale == self.cleared and not self.wal


class _Report(msgspec.Struct):
    pages: int
    dirty: int
    stale: int
    cleared: int
    freelist: int
    wal: int
    errno: int
    error: str | None
    found: Found = {}


def clean(path: str, *, write: bool, keep: Sequence[int] = (), pages: Found | None = None) -> Scrubbed:
    """Finds the stale bytes of the file, and with `write` zeroes them durably.

    With `pages` does so only in these pages, and durably only after `sync`.

    Without `write` it takes no lock: the caller must prevent checkpoints, or the file may look damaged.

    For `write` the caller must have truncated the write-ahead log, and must have no open transaction. The program takes
    SQLite's write lock; readers can continue. It inherits the descriptors `keep`, whose locks last as long as it runs,
    even if this process is killed. A connection with cached pages would write stale bytes back with its next change:
    truncating the log makes other connections drop their caches, and the caller must close its own.

    Corrupted if the file does not have exactly SQLite's format, Unavailable if the write-ahead log is not empty or
    another program keeps writing; then nothing was changed. After any other error, some bytes may be zeroed already;
    live rows are untouched. There is no timeout: it waits a few seconds for the lock, and reads each page once.
    """
    path = os.path.abspath(path)
    how = [] if not write else ["--write"] if pages is None else ["--clear"]
    report = _run([path, *how], keep, b"" if pages is None else msgspec.json.encode(pages))
    return Scrubbed(report.pages, report.dirty, report.stale, report.cleared, report.freelist, report.wal, report.found)


def sync(path: str) -> None:
    """Waits until everything that was written to the file is on disk. Takes no lock."""
    _run([os.path.abspath(path), "--sync"])


def _run(arguments: list[str], keep: Sequence[int] = (), given: bytes = b"") -> _Report:
    """The report of the program. Raises its error."""
    with loading:
        import subprocess

    path = arguments[0]
    if not sys.executable or getattr(sys, "frozen", False):
        raise Unavailable(f"cleaning {path} needs a Python interpreter", hint="Run clew with Python.")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", _PROGRAM, *arguments],
            input=given,
            capture_output=True,
            check=False,
            pass_fds=keep,
        )
        report = msgspec.json.decode(done.stdout, type=_Report)
    except OSError as error:
        raise Unavailable(
            f"{sys.executable} cannot be run ({error.strerror})", hint="Make the same call again."
        ) from error
    except msgspec.DecodeError:
        why = f"the process exited with {done.returncode}"
        raise Unavailable(f"scanning {path} failed: {why}", hint="Make the same call again.") from None
    if report.error is not None:
        raise _translate_report(report, path)
    return report


def _translate_report(report: _Report, path: str) -> ClewError:
    """Translates the error in a report of the program."""
    why = report.error or ""
    match report.errno:
        case 0:
            return Corrupted(path, why)
        case errno.ENOENT:
            return NotFound("store", path, hint="Check the path.")
        case errno.EBUSY:
            return Unavailable(f"{path} is busy: {why}", hint="Make the same call again.")
        case number if number in _FULL:
            return StorageFull(f"no space is left for {path}")
        case number if number in _FORBIDDEN:
            return ReadOnly(f"{path} cannot be written")
    return Unavailable(
        f"reading or writing {path} failed ({why})", hint="Check the disk, then make the same call again."
    )


NOTHING_KNOWN = ("", list[tuple[int, int]]())
FEW = 200
"""Pages to free in one step on a full disk."""


class Cleaner:
    """Cleans the file of one writer, in three steps: `freeze`, `look`, `clear`. Writers wait for all but `look`.

    The caller makes sure that no other thread of this process writes during `freeze`, `clear` and `make_room`.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def freeze(self) -> sqlite3.Connection | None:
        """Empties the log, and begins a read transaction that freezes the file. None if a reader prevents it."""
        with self._writer.turn():
            try:
                emptied = self._shorten()
            except sqlite3.Error as error:
                if not (is_full(error) and self._writer.reserve.give()):
                    raise
                emptied = self._shorten()
            if not emptied:
                return None
            conn = self._writer.connect()
            try:
                conn.execute("BEGIN")
                conn.execute("SELECT 1 FROM epoch").fetchone()
                if os.path.getsize(f"{self._writer.path}-wal") == 0:
                    return conn
            except BaseException:
                conn.close()
                raise
            conn.close()  # another program has written, so the transaction reads the log and does not freeze the file
            return None

    def look(self) -> Found:
        """The pages with stale bytes. `freeze` keeps the file unchanged meanwhile."""
        return clean(self._writer.path, write=False).found

    def clear(self, frozen: sqlite3.Connection, found: Found) -> tuple[str, ...]:
        """Clears these pages, and all that were written since `freeze`. Returns what could not be cleaned."""
        writer = self._writer
        with writer.turn():
            pages = found | dict.fromkeys(pages_in_log(writer.path), NOTHING_KNOWN)
            frozen.close()
            if not self._empty_log(writer.connection()):
                return ("wal",)
            writer.drop()  # its cached pages would write deleted data back
            if pages:
                clean(writer.path, write=True, keep=writer.turnstile.descriptors, pages=pages)
            writer.low_space = False
            writer.reserve.keep()
            return ()

    def sync(self) -> None:
        """Makes the cleared pages durable."""
        sync(self._writer.path)

    def make_room(self) -> None:
        """Frees as much space as possible. Until `clean`, deleted data is not overwritten, because that needs space."""
        with self._writer.turn():
            self._writer.low_space = True
            self._writer.reserve.give()
            with suppress(ClewError, sqlite3.Error):  # there may be enough space without it
                self._shorten()
            self._writer.drop()

    def _shorten(self) -> bool:
        """Returns free pages to the file system, and empties the log. False if a reader prevents it."""
        tx = self._writer.connection()
        if not self._empty_log(tx):
            return False
        free = tx.conn.execute("PRAGMA freelist_count").fetchone()[0]
        try:
            tx.conn.executescript("PRAGMA incremental_vacuum")  # `execute` would stop after one page
        except sqlite3.OperationalError:
            # On a full disk a few at a time, because moving pages needs space. The rest stays in the file, zeroed.
            with suppress(sqlite3.OperationalError):
                while self._empty_log(tx) and free:
                    tx.conn.executescript(f"PRAGMA incremental_vacuum({FEW})")
                    free = min(free - 1, tx.conn.execute("PRAGMA freelist_count").fetchone()[0])
        return self._empty_log(tx)

    def _empty_log(self, tx: SQLiteTx) -> bool:
        """Truncates the log. False if a reader prevents it."""
        tx.conn.execute("PRAGMA busy_timeout = 20")
        try:
            for pause in (0.0, 0.01, 0.03, 0.06):  # each attempt blocks other writers, so it must be short
                time.sleep(pause)
                if not tx.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                    return True
            return False
        finally:
            tx.conn.execute(f"PRAGMA busy_timeout = {int(self._writer.timeout * 1000)}")
