"""The SQL of every backend: named statements, and the schema as numbered migrations."""

from __future__ import annotations

import os

from clew.backends.tables import BLOBS, NODES, REFS, RUNS

_FOLDER = os.path.dirname(__file__)

COLUMNS = {
    mark: ", ".join(f"{alias}.{column}" for column in table.columns if column != "ord")
    for mark, alias, table in (
        ("{node}", "n", NODES), ("{run}", "u", RUNS), ("{ref}", "r", REFS), ("{blob}", "b", BLOBS)
    )
}  # fmt: skip


def queries(dialect: str | None = None) -> dict[str, str]:
    """The named statements, column lists filled in; those of a dialect's own in place of the common ones."""
    files = ["queries.sql"] if dialect is None else ["queries.sql", f"queries.{dialect}.sql"]
    named = {}
    for file in files:
        text = _read(file)
        for mark, columns in COLUMNS.items():
            text = text.replace(mark, columns)
        for block in text.split("-- name: ")[1:]:
            name, _, statement = block.partition("\n")
            named[name.strip()] = statement.strip()
    return named


def migrations(dialect: str) -> list[tuple[int, str]]:
    """The migrations of one dialect as (format they lead to, script), in order."""
    names = [name for name in os.listdir(_FOLDER) if name.endswith(f".{dialect}.sql") and name[:4].isdigit()]
    return [(int(name[:4]), _read(name)) for name in sorted(names)]


def script(name: str) -> str:
    """A script beside the migrations."""
    return _read(name)


def _read(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()
