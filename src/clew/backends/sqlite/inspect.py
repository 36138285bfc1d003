"""Checks the file as SQLite sees it: pages, log, tables, the epoch row, and the counters of numbers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from clew.backends.problems import BROKEN, Problem, describe
from clew.backends.sqlite.schema import differences, schema_of
from clew.backends.sqlite.wal import check_wal
from clew.backends.tables import FORMAT

MESSAGES = 100
"""Messages of SQLite's own check that are listed."""
_INCREMENTAL = 2
NUMBERED = {"trees": "tree", "runs": "run", "refs": "ref", "blobs": "blob", "forgotten": "number"}
"""Tables whose numbers SQLite counts, each with its key."""


def inspect(conn: sqlite3.Connection, path: str) -> Iterator[Problem]:
    """Everything wrong with the file of a store; a check that fails is a problem itself."""
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
    """Tables and indexes are those of the format, word for word, comments aside."""
    for name, how in differences(schema_of(conn)):
        yield Problem("schema", name, f"it {how}")
    if conn.execute("PRAGMA auto_vacuum").fetchone()[0] != _INCREMENTAL:
        yield Problem("schema", "auto_vacuum", "it is not incremental")


def check_epoch(conn: sqlite3.Connection, path: str) -> Iterator[Problem]:
    """One row, of a store of this format."""
    rows = conn.execute("SELECT one, number, format, ord_floor FROM epoch").fetchall()
    if len(rows) != 1:
        yield Problem("epoch", "epoch", f"it has {len(rows)} rows")
        return
    one, number, format, floor = rows[0]
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if (one, format) != (1, version):
        yield Problem("epoch", "epoch", f"it is not that of a store of format {version}")
    if not isinstance(number, int) or not isinstance(floor, int) or number < 1 or floor < 0:
        yield Problem("epoch", "epoch", "its numbers are beyond reason")


def check_numbers(conn: sqlite3.Connection, path: str) -> Iterator[Problem]:
    """No number is given twice: SQLite's counters are at or above the highest."""
    counters = dict(conn.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    for table, key in NUMBERED.items():
        (highest,) = conn.execute(f"SELECT max({key}) FROM {table}").fetchone()
        counter = counters.pop(table, 0)
        if not isinstance(counter, int) or counter < (highest or 0):
            yield Problem("header", f"counter of {table}", "it stands below a number that is in use")
    for name in counters:
        yield Problem("header", f"counter of {str(name)[:64]}", f"format {FORMAT} has no such counter")
