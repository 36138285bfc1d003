"""Checks the schema of a file, because an added trigger or view could run inside our transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache

from clew.backends.rows import FORMAT
from clew.backends.sql import migrations
from clew.base.loading import loading
from clew.errors import Corrupted, clip

Row = tuple[str, str, str, str | None]

MISSING = "is missing"
_SELECT = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_OWN = frozenset(
    {
        "CREATE TABLE sqlite_sequence(name,seq)",
        "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
        "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
    }
)
"""Tables that SQLite creates for its own use."""


def check_schema(conn: sqlite3.Connection, path: str) -> None:
    """Corrupted if a trigger, view, table or index was added to the schema or changed.

    Runs no SQL of the schema. Missing parts are left to `verify`, because the rest can still be read.
    """
    rows = schema_of(conn)
    if all(_verbatim(row, _scripts()) for row in rows):
        return
    for name, why in differences(rows):
        if why != MISSING:
            raise Corrupted(path, f"{clip(name)} in its schema {why}")


def schema_of(conn: sqlite3.Connection) -> list[Row]:
    """The rows of the schema."""
    return conn.execute(_SELECT).fetchall()


def differences(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """The differences between a schema and the newest format, except for comments, as (name, difference)."""
    with loading:
        from clew.backends.sqlite.migrate import migrate

    new = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate(new, 0)
        expected = {row[1]: _words(row) for row in schema_of(new)}
    finally:
        new.close()
    actual = [(row[1], _words(row)) for row in rows if row[3] not in _OWN or row[0] != "table"]
    for name, words in actual:
        if name not in expected:
            yield name, f"is not part of format {FORMAT}"
        elif words != expected[name]:
            yield name, f"differs from format {FORMAT}"
    for name in sorted(expected.keys() - {"sqlite_sequence"} - {name for name, _ in actual}):
        yield name, MISSING


@cache
def _scripts() -> str:
    return "".join(script for _, script in migrations("sqlite"))


def _verbatim(row: Row, scripts: str) -> bool:
    """True if a migration contains exactly this SQL."""
    kind, name, _, sql = row
    if sql is None or (kind == "table" and sql in _OWN):
        return sql is not None
    start = sql.removeprefix("CREATE ").removeprefix("UNIQUE ")
    return f"{sql};" in scripts and start.startswith(f"{kind.upper()} {name} ")


def _words(row: Row) -> tuple[object, ...]:
    """A row of the schema, with its SQL as a list of words without comments."""
    *named, sql = row
    lines = (line.partition("--")[0] for line in str(sql).split("\n"))
    return (*named, " ".join(lines).split())
