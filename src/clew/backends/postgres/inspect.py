"""Checks the tables of a store on a server: columns, the epoch row, and the counters of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from clew.backends.problems import Problem
from clew.backends.rows import MAX_COUNTER
from clew.backends.tables import (
    BLOBS,
    CHUNKS,
    FORGOTTEN,
    FORMAT,
    LOG,
    NODES,
    QUARANTINE,
    REFS,
    RUNS,
    TREES,
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


class CatalogReader(Protocol):
    """The statements that the checks need: see `ServerReader`."""

    def execute(self, sql: str, values: Any = ...) -> Any:
        """A cursor with the rows of a statement."""

    def last_value(self, counter: str) -> int:
        """The last number of a sequence."""


def inspect(reader: CatalogReader) -> Iterator[Problem]:
    """All problems of the schema, the epoch row and the counters."""
    for check in (check_tables, check_epoch, check_sequences):
        yield from check(reader)


def check_tables(reader: CatalogReader) -> Iterator[Problem]:
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


def check_epoch(reader: CatalogReader) -> Iterator[Problem]:
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


def check_sequences(reader: CatalogReader) -> Iterator[Problem]:
    """The counters are not below the highest number in use, so that no number is assigned twice."""
    for counter, highest in _COUNTED.items():
        (most,) = reader.execute(highest).fetchall()[0]
        if reader.last_value(counter) < (most or 0):
            yield Problem("header", f"counter {counter}", "it is below a number that is in use")
