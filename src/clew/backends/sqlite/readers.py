"""A pool of read-only connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress

from clew.backends.sqlite.connection import DRIVER, translate
from clew.backends.sqlite.rows import SQLiteTx

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
