"""Connections that cannot write, kept from one read to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress

from clew.backends.sqlite.connection import DRIVER, translate
from clew.backends.sqlite.rows import SQLiteTx

IDLE = 8
"""Connections kept for later reads. More threads may read at once; the rest are closed again."""


class Readers:
    """The connections for reading of one store; each is one thread's from `take` to `give`."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str) -> None:
        self._connect = connect
        self._path = path
        self._idle: list[SQLiteTx] = []
        self._first: SQLiteTx | None = None
        """Stays open until the store is closed: while a connection is open, SQLite keeps the same -wal and -shm."""
        self._closed = False

    def take(self) -> SQLiteTx:
        """One that is idle, or a new one."""
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
        """Keeps it for later, or closes it."""
        self._first = self._first or tx
        if tx.conn.in_transaction or len(self._idle) >= IDLE:
            # One that is still in a transaction was interrupted; it would keep the WAL from being emptied.
            if tx is not self._first:
                tx.conn.close()
                return
            tx.conn.rollback()
        self._idle.append(tx)
        if self._closed:
            self.drop()

    def idle(self) -> list[sqlite3.Connection]:
        """Those that nobody uses."""
        return [tx.conn for tx in self._idle]

    def drop(self) -> None:
        """Closes those that are idle."""
        self._first = None
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().conn.close()

    def close(self) -> None:
        """Closes those that are idle, and the others when they are given back. Idempotent."""
        self._closed = True
        self.drop()
