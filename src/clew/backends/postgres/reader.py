"""Reads a snapshot of a whole store, for verify and copies, and checks its columns, epoch row and counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from clew.backends.postgres.connection import Connection
from clew.backends.postgres.errors import translate
from clew.backends.postgres.tx import PostgresTx
from clew.backends.problems import Problem
from clew.backends.rows import (
    BLOBS,
    CHUNKS,
    FORGOTTEN,
    FORMAT,
    LOG,
    MAX_COUNTER,
    NODES,
    QUARANTINE,
    REFS,
    RUNS,
    TREES,
    creation_counter,
)

_KINDS = {int: "bigint", bytes: "bytea", str: "text"}
_COUNTED = {
    "run_numbers": f"SELECT max(run & {MAX_COUNTER}) FROM runs",
    "ords": "SELECT max(ord) FROM nodes",
    "trees_tree_seq": "SELECT max(tree) FROM trees",
    "ref_numbers": f"SELECT max(ref & {MAX_COUNTER}) FROM refs",
    "blob_numbers": f"SELECT max(blob & {MAX_COUNTER}) FROM blobs",
    "forgotten_number_seq": "SELECT max(number) FROM forgotten",
}


def inspect(reader: ServerReader) -> Iterator[Problem]:
    """All problems of the schema, the epoch row and the counters."""
    for check in (check_tables, check_epoch, check_sequences):
        yield from check(reader)


def check_tables(reader: ServerReader) -> Iterator[Problem]:
    """Every column exists, and has the type of the format."""
    known = reader.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = current_schema()"
    )
    kinds = {(table, column): kind for table, column, kind in known.fetchall()}
    for table in (NODES, RUNS, REFS, LOG, BLOBS, TREES, FORGOTTEN, QUARANTINE, CHUNKS):
        for column, allowed in table.columns.items():
            first = allowed if isinstance(allowed, type) else allowed[0]
            kind = kinds.get((table.name, column))
            if kind != _KINDS[first]:
                why = "it is missing" if kind is None else f"it differs from format {FORMAT}"
                yield Problem("schema", f"{table.name}.{column}", why)


def check_epoch(reader: ServerReader) -> Iterator[Problem]:
    """There is one row, with the current format."""
    rows = reader.execute("SELECT one, number, format FROM epoch").fetchall()
    if len(rows) != 1:
        yield Problem("epoch", "epoch", f"it has {len(rows)} rows")
        return
    one, number, format = rows[0]
    if (one, format) != (1, FORMAT):
        yield Problem("epoch", "epoch", f"it does not match format {FORMAT}")
    if number < 1:
        yield Problem("epoch", "epoch", "its number is out of range")


def check_sequences(reader: ServerReader) -> Iterator[Problem]:
    """The counters are not below the highest number in use, so that no number is assigned twice."""
    for counter, highest in _COUNTED.items():
        (most,) = reader.execute(highest).fetchall()[0]
        if reader.last_value(counter) < (most or 0):
            yield Problem("header", f"counter {counter}", "it is below a number that is in use")


class ServerReader:
    """See `clew.backends.Reader`. A read-only transaction."""

    def __init__(self, conn: Connection, tx: PostgresTx, path: str) -> None:
        self.tx = tx
        self._conn = conn
        self._path = path
        self._streams = 0

    def execute(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            return self._conn.cursor(binary=True).execute(_with_placeholders(sql), values)
        except psycopg.Error as error:
            raise translate(error, self._path) from error

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        self._streams += 1
        try:
            with self._conn.cursor(f"scan{self._streams}", binary=True) as cursor:
                cursor.itersize = 500
                yield from cursor.execute(_with_placeholders(sql), values)
        except psycopg.Error as error:
            raise translate(error, self._path) from error

    def inspect(self) -> Iterator[Problem]:
        return inspect(self)

    def counters(self) -> dict[str, int]:
        """Combines the highest shard of a table with the highest counter: no existing number is higher."""
        given = {"trees": self.last_value("trees_tree_seq"), "forgotten": self.last_value("forgotten_number_seq")}
        for table, key in (("runs", "run"), ("refs", "ref"), ("blobs", "blob")):
            highest = self._number(f"SELECT coalesce(max({key}), 0) FROM {table}")
            given[table] = highest - creation_counter(highest) + self.last_value(f"{key}_numbers")
        highest = self._number("SELECT coalesce(max(ord), 0) FROM nodes")
        return {**given, "ords": max(self.last_value("ords"), highest)}

    def last_value(self, sequence: str) -> int:
        """The last number of a sequence; 0 if it was never used."""
        return self._number("SELECT coalesce(pg_sequence_last_value(to_regclass(?)), 0)", sequence)

    def _number(self, sql: str, *values: object) -> int:
        return int((self.execute(sql, values).fetchone() or (0,))[0])


def _with_placeholders(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()
