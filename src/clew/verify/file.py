"""The file as SQLite sees it, and the few rows that say what kind of store it is."""

from __future__ import annotations

from clew.backends.sql import FORMAT
from clew.backends.sqlite.schema import differences, schema_of
from clew.verify.findings import BROKEN, Findings, why

MESSAGES = 100
"""Complaints of SQLite's own check that are listed."""

_INCREMENTAL = 2
_HEADER: dict[str, int | None] = {"store_id": 16, "created_at": 8}
"""Values of every store, with their sizes."""
_PLAIN: dict[str, int | None] = {"lookup_key": 32}
_SEALED: dict[str, int | None] = {"secrets": None}
_OPTIONAL = ("kdf ", "rekey", "unclean")
_STATES = ("sealing", "sealed", "rotating", "unsealing")
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


def check_header(found: Findings) -> None:
    """The values fixed when the store was made."""
    actual = {row[0]: row[1] for row in found.conn.execute("SELECT name, value FROM header")}
    expected = _HEADER | (_SEALED if found.tx.state().state in _STATES else _PLAIN)
    for name in sorted(expected.keys() | actual.keys(), key=str):
        value = actual.get(name)
        if name not in expected:
            if not isinstance(name, str) or not name.startswith(_OPTIONAL):
                found.add("header", str(name)[:64], f"format {FORMAT} has no such value")
        elif not isinstance(value, bytes) or len(value) != (expected[name] or len(value)):
            found.add("header", name, "it is missing" if value is None else "it has the wrong size")


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


def check_kept(found: Findings, said: tuple[object, object], version: int, state: object, key_id: object) -> None:
    """The row is that of a store of format `version`, kept with the key that it names, or with none."""
    kept = state == "plain" if key_id is None else state in _STATES and isinstance(key_id, bytes) and len(key_id) == 8
    if said != (1, version) or not kept:
        found.add("epoch", "epoch", f"it is not that of a store of format {version}")
    elif key_id is not None and key_id != _first_key(found):
        found.add("epoch", "epoch", "it names another key than the header")


def _first_key(found: Findings) -> bytes | None:
    """The id of the store key for new things, as the header has it."""
    from clew.sealed import SECRETS, key_ids

    packed = found.tx.header(SECRETS)
    return None if packed is None else next(iter(key_ids(packed, found.engine.backend.path)), None)


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
