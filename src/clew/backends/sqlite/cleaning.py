"""Removes everything but live rows from a store's file and its write-ahead log.

Finding stale bytes takes seconds in a large file, so writers do not wait for it: while the helper looks, a read
transaction on an empty log keeps SQLite from writing to the file, so everything that others write goes to the log. Then
the helper takes the lock and clears the pages that it found and the pages that are in the log by then.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress

from clew.backends.sqlite.connection import is_full
from clew.backends.sqlite.rows import SQLiteTx
from clew.backends.sqlite.run_scrub import Found, clean, sync
from clew.backends.sqlite.wal import pages_in_log
from clew.backends.sqlite.writer import Writer
from clew.errors import ClewError

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
