"""Reads a snapshot of a whole store, for verify and copies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from clew.backends.problems import Problem
from clew.backends.sqlite.inspect import NUMBERED, inspect
from clew.backends.sqlite.tx import SQLiteTx


class FileReader:
    """See `clew.backends.Reader`. Its connection is read-only, and raises the driver's errors (`BROKEN`)."""

    def __init__(self, conn: sqlite3.Connection, path: str) -> None:
        self.conn = conn
        self.tx = SQLiteTx(conn)
        self.execute = self.stream = conn.execute
        self.path = path

    def inspect(self) -> Iterator[Problem]:
        return inspect(self.conn, self.path)

    def counters(self) -> dict[str, int]:
        given = dict(self.conn.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        (floor,) = self.conn.execute("SELECT ord_floor FROM epoch").fetchone()
        (highest,) = self.conn.execute("SELECT coalesce(max(ord), 0) FROM nodes").fetchone()
        return {**{table: given.get(table, 0) for table in NUMBERED}, "ords": max(floor, highest)}
