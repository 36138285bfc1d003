"""What a server has of a store beside its rows: tables and columns, the epoch, and the counters of numbers."""

from __future__ import annotations

from clew.backends.rows import MAX_COUNTER
from clew.backends.sql import FORMAT
from clew.verify.findings import (
    BLOBS,
    CHUNKS,
    FORGOTTEN,
    LOG,
    NODES,
    QUARANTINE,
    REFS,
    RUNS,
    TREES,
    Findings,
)
from clew.verify.header import check_kept

_KINDS = {int: "bigint", bytes: "bytea", str: "text"}
_COUNTED = {
    "run_numbers": f"SELECT max(run & {MAX_COUNTER}) FROM runs",
    "ords": "SELECT max(ord) FROM nodes",
    "trees_tree_seq": "SELECT max(tree) FROM trees",
    "ref_numbers": f"SELECT max(ref & {MAX_COUNTER}) FROM refs",
    "blob_numbers": f"SELECT max(blob & {MAX_COUNTER}) FROM blobs",
    "forgotten_number_seq": "SELECT max(number) FROM forgotten",
}


def check_tables(found: Findings) -> None:
    """Every column is there, and of the kind that the format has."""
    known = found.conn.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = current_schema()"
    )
    kinds = {(table, column): kind for table, column, kind in known.fetchall()}
    for table in (NODES, RUNS, REFS, LOG, BLOBS, TREES, FORGOTTEN, QUARANTINE, CHUNKS):
        for column, allowed in table.columns.items():
            first = allowed if isinstance(allowed, type) else allowed[0]
            kind = kinds.get((table.name, column))
            if kind != _KINDS[first]:
                why = "it is missing" if kind is None else f"it is not as format {FORMAT} has it"
                found.add("schema", f"{table.name}.{column}", why)


def check_server_epoch(found: Findings) -> None:
    """One row, of a store of this format; a sealed one names the key for new things."""
    rows = found.conn.execute("SELECT one, number, format, state, key_id FROM epoch").fetchall()
    if len(rows) != 1:
        found.add("epoch", "epoch", f"it has {len(rows)} rows")
        return
    one, number, format, state, key_id = rows[0]
    check_kept(found, (one, format), FORMAT, state, key_id)
    if number < 1:
        found.add("epoch", "epoch", "its number is beyond reason")


def check_sequences(found: Findings) -> None:
    """A number given once is not given again: the counters stand at or above the highest."""
    for counter, highest in _COUNTED.items():
        (last,) = found.one("SELECT coalesce(pg_sequence_last_value(to_regclass(?)), 0)", counter)
        (most,) = found.one(highest)
        if last < (most or 0):
            found.add("header", f"counter {counter}", "it stands below a number that is in use")
