"""Reads a snapshot of a whole store, for verify and copies, and checks its file: pages, log, tables and counters."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from clew.backends.problems import BROKEN, Problem, describe
from clew.backends.rows import FORMAT
from clew.backends.sqlite.schema import differences, schema_of
from clew.backends.sqlite.tx import SQLiteTx
from clew.backends.sqlite.wal import check_wal


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


MESSAGES = 100
"""Maximum number of messages from SQLite's own check."""
_INCREMENTAL = 2
NUMBERED = {"trees": "tree", "runs": "run", "refs": "ref", "blobs": "blob", "forgotten": "number"}
"""Tables whose numbers SQLite assigns, with their keys."""


def inspect(conn: sqlite3.Connection, path: str) -> Iterator[Problem]:
    """All problems of the file. A check that fails is a problem, too."""
    for check in (check_file, check_wal, check_schema, check_epoch, check_numbers):
        try:
            yield from check(conn, path)
        except BROKEN as error:
            yield Problem("file", check.__name__.removeprefix("check_"), describe(error))


def check_file(conn: sqlite3.Connection, path: str) -> Iterator[Problem]:
    """SQLite's own check: pages, b-trees, and that each index has the rows of its table."""
    try:
        lines = [str(row[0]) for row in conn.execute(f"PRAGMA integrity_check({MESSAGES})")]
    except BROKEN as error:
        lines = [describe(error)]
    for line in lines if lines != ["ok"] else ():
        yield Problem("file", path, " ".join(line.replace("*** in database main ***", "").split()))


def check_schema(conn: sqlite3.Connection, path: str) -> Iterator[Problem]:
    """Tables and indexes have the SQL of the format, except for comments."""
    for name, how in differences(schema_of(conn)):
        yield Problem("schema", name, f"it {how}")
    if conn.execute("PRAGMA auto_vacuum").fetchone()[0] != _INCREMENTAL:
        yield Problem("schema", "auto_vacuum", "it is not incremental")


def check_epoch(conn: sqlite3.Connection, path: str) -> Iterator[Problem]:
    """There is one row, with the format of the file."""
    rows = conn.execute("SELECT one, number, format, ord_floor FROM epoch").fetchall()
    if len(rows) != 1:
        yield Problem("epoch", "epoch", f"it has {len(rows)} rows")
        return
    one, number, format, floor = rows[0]
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if (one, format) != (1, version):
        yield Problem("epoch", "epoch", f"it does not match format {version}")
    if not isinstance(number, int) or not isinstance(floor, int) or number < 1 or floor < 0:
        yield Problem("epoch", "epoch", "its numbers are out of range")


def check_numbers(conn: sqlite3.Connection, path: str) -> Iterator[Problem]:
    """SQLite's counters are not below the highest number in use, so that no number is assigned twice."""
    counters = dict(conn.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    for table, key in NUMBERED.items():
        (highest,) = conn.execute(f"SELECT max({key}) FROM {table}").fetchone()
        counter = counters.pop(table, 0)
        if not isinstance(counter, int) or counter < (highest or 0):
            yield Problem("header", f"counter of {table}", "it is below a number that is in use")
    for name in counters:
        yield Problem("header", f"counter of {str(name)[:64]}", f"format {FORMAT} has no such counter")
