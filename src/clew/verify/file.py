"""The file as SQLite sees it: pages, tables, the epoch row, and the counters of numbers."""

from __future__ import annotations

from clew.backends.sql import FORMAT
from clew.backends.sqlite.schema import differences, schema_of
from clew.verify.findings import BROKEN, Findings, why
from clew.verify.header import check_kept

MESSAGES = 100
"""Complaints of SQLite's own check that are listed."""

_INCREMENTAL = 2
_NUMBERED = {"trees": "tree", "runs": "run", "refs": "ref", "blobs": "blob", "forgotten": "number"}


def check_file(found: Findings) -> None:
    """SQLite's own check: pages, b-trees, and that each index has what its table has."""
    try:
        said = [str(row[0]) for row in found.conn.execute(f"PRAGMA integrity_check({MESSAGES})")]
    except BROKEN as error:
        said = [why(error)]
    if said == ["ok"]:
        return
    found.indexes_doubted = True
    for line in said:
        found.add("file", found.engine.backend.path, " ".join(line.replace("*** in database main ***", "").split()))


def check_schema(found: Findings) -> None:
    """Tables and indexes are those of the format, word for word; what their comments say may differ."""
    for name, how in differences(schema_of(found.conn)):
        found.add("schema", name, f"it {how}")
    if found.one("PRAGMA auto_vacuum")[0] != _INCREMENTAL:
        found.add("schema", "auto_vacuum", "it is not incremental")


def check_epoch(found: Findings) -> None:
    """One row, of a store of this format; a sealed one names the key for new things."""
    rows = found.conn.execute("SELECT one, number, format, state, key_id, ord_floor FROM epoch").fetchall()
    if len(rows) != 1:
        found.add("epoch", "epoch", f"it has {len(rows)} rows")
        return
    one, number, format, state, key_id, floor = rows[0]
    check_kept(found, (one, format), found.one("PRAGMA user_version")[0], state, key_id)
    if not isinstance(number, int) or not isinstance(floor, int) or number < 1 or floor < 0:
        found.add("epoch", "epoch", "its numbers are beyond reason")


def check_numbers(found: Findings) -> None:
    """A number given once is not given again: SQLite's counters stand at or above the highest."""
    counters = dict(found.conn.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    for table, key in _NUMBERED.items():
        highest = found.one(f"SELECT max({key}) FROM {table}")[0]
        counter = counters.pop(table, 0)
        if not isinstance(counter, int) or counter < (highest or 0):
            found.add("header", f"counter of {table}", "it stands below a number that is in use")
    for name in counters:
        found.add("header", f"counter of {str(name)[:64]}", f"format {FORMAT} has no such counter")
