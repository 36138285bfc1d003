"""Opens the file of a store: checks it before changing anything, creates or migrates it. Pools its read connections."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Literal

from clew.backends import Tx
from clew.backends.rows import FORMAT
from clew.backends.sqlite import connection
from clew.backends.sqlite.connection import DRIVER, check, is_full, translate
from clew.backends.sqlite.one_name import OpenFiles, check_mount, check_new, check_unshared
from clew.backends.sqlite.reserve import SLICE
from clew.backends.sqlite.schema import check_schema
from clew.backends.sqlite.tx import SQLiteTx
from clew.backends.sqlite.writer import Writer
from clew.base.files import exists
from clew.base.loading import loading
from clew.errors import Invalid, NotFound

if TYPE_CHECKING:
    from clew.backends.sqlite.reader import FileReader

IDLE = 8
"""Connections to keep for later reads. More threads may read at once; their connections are closed afterwards."""


class Readers:
    """The read-only connections of a store. A connection belongs to one thread from `take` to `give`."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str) -> None:
        self._connect = connect
        self._path = path
        self._idle: list[SQLiteTx] = []
        self._first: SQLiteTx | None = None
        """Stays open until the store is closed: while a connection is open, SQLite does not replace -wal and -shm."""
        self._closed = False

    def take(self) -> SQLiteTx:
        """Returns an idle connection, or opens one."""
        try:
            return self._idle.pop()
        except IndexError:
            try:
                made = SQLiteTx(self._connect())
            except DRIVER as error:
                raise translate(error, self._path) from error
            self._first = self._first or made
            return made

    def give(self, tx: SQLiteTx) -> None:
        """Returns a connection to the pool, or closes it."""
        self._first = self._first or tx
        if tx.conn.in_transaction or len(self._idle) >= IDLE:
            # After an interrupt it may still be in a transaction, which would prevent SQLite from truncating the WAL.
            if tx is not self._first:
                tx.conn.close()
                return
            tx.conn.rollback()
        self._idle.append(tx)
        if self._closed:
            self.drop()

    def idle(self) -> list[sqlite3.Connection]:
        """The idle connections."""
        return [tx.conn for tx in self._idle]

    def drop(self) -> None:
        """Closes the idle connections."""
        self._first = None
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().conn.close()

    def close(self) -> None:
        """Closes the idle connections now, and the others when they are returned. Idempotent."""
        self._closed = True
        self.drop()


class Opener:
    """Opens or creates the store of a backend, and adds connections to its readers and writer."""

    def __init__(
        self,
        path: str,
        connect: Callable[[Literal["ro", "rw"]], sqlite3.Connection],
        readers: Readers,
        writer: Writer,
        timeout: float,
    ) -> None:
        self.one_name = True
        """False if the file has several names (hard links)."""
        self._path = path
        self._connect = connect
        self._readers = readers
        self._writer = writer
        self._timeout = timeout

    def create_in_memory(self, copy_of: Callable[[], AbstractContextManager[FileReader]] | None) -> None:
        """Creates a store without a file: empty, or a copy of the store of a reader."""
        tx = self._writer.tx = SQLiteTx(self._connect("rw"))
        if copy_of is None:
            _migrate(tx.conn, 0)
            return
        with copy_of() as source:
            source.conn.backup(tx.conn)

    def open(self, check_older: Callable[[Tx], object], *, create: bool, network: bool) -> None:
        """Opens the file; with `create`, creates it if it is missing or empty. Otherwise NotFound. Forbidden."""
        if os.path.isdir(self._path):
            raise Invalid(f"{self._path} is a folder", hint="Name a file in it.")
        check_mount(self._path, network=network)
        connection.close_inherited()
        found = 0
        if exists(self._path):
            self.one_name = check_unshared(self._path, self._timeout)
            found = self._check_format(check_older) if os.path.getsize(self._path) else 0
        if found == FORMAT:
            return
        if not create and not found:
            raise NotFound("store", self._path, hint="Check the path.")
        self.create_or_migrate()

    def _check_format(self, check_older: Callable[[Tx], object]) -> int:
        """The format of the file, read through a read-only connection, which becomes the first reader."""
        conn = self._connect("ro")
        try:
            found = check(conn, self._path)
            check_schema(conn, self._path)
            if 0 < found < FORMAT:
                check_older(SQLiteTx(conn))
        except BaseException as error:
            conn.close()
            # An interrupted first open leaves one page and a journal, which only a read-write connection can roll back.
            hot = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK
            if hot and os.path.getsize(self._path) <= 4096:
                return 0
            if is_full(error) and self._writer.reserve.give(SLICE):
                return self._check_format(check_older)
            raise
        self._readers.give(SQLiteTx(conn))
        return found

    def create_or_migrate(self) -> None:
        """Creates the store, or migrates it to the newest format. Only one process does so; the others wait for it."""
        folder = os.path.dirname(os.path.abspath(self._path))
        if not os.path.isdir(folder):
            raise Invalid(f"there is no folder {folder}", hint="Create it first.")
        if not self.one_name:
            raise OpenFiles(self._path, one_name=False).error()
        self._readers.drop()
        self._writer.turnstile.acquire(self._timeout)
        try:
            check_new(self._path)
            with suppress(OSError):  # the file exists, or SQLite reports a better error below
                # Owner-only from the first byte on: -wal and -shm take their mode from it.
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            tx = self._writer.tx = SQLiteTx(self._connect("rw"))
            found = check(tx.conn, self._path)
            check_schema(tx.conn, self._path)
            _migrate(tx.conn, found)
            self._writer.reserve_space(tx)
        finally:
            self._writer.turnstile.release()


def _migrate(conn: sqlite3.Connection, found: int) -> None:
    with loading:
        from clew.backends.sqlite.migrate import migrate  # most stores have the newest format

    migrate(conn, found)
