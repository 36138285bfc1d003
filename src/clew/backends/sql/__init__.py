"""The SQL of all backends: named statements, and the schema as numbered migrations."""

from __future__ import annotations

import os

from clew.backends.rows import BLOBS, NODES, REFS, RUNS

_FOLDER = os.path.dirname(__file__)

COLUMNS = {
    mark: ", ".join(f"{alias}.{column}" for column in table.columns if column != "ord")
    for mark, alias, table in (
        ("{node}", "n", NODES), ("{run}", "u", RUNS), ("{ref}", "r", REFS), ("{blob}", "b", BLOBS)
    )
}  # fmt: skip


def queries(dialect: str | None = None) -> dict[str, str]:
    """The named statements, with column lists filled in. Those of the dialect replace the common ones."""
    files = ["queries.sql"] if dialect is None else ["queries.sql", f"queries.{dialect}.sql"]
    named = {}
    for file in files:
        text = script(file)
        for mark, columns in COLUMNS.items():
            text = text.replace(mark, columns)
        for block in text.split("-- name: ")[1:]:
            name, _, statement = block.partition("\n")
            named[name.strip()] = statement.strip()
    return named


def migrations(dialect: str) -> list[tuple[int, str]]:
    """The migrations of a dialect, in order, as (resulting format, script)."""
    names = [name for name in os.listdir(_FOLDER) if name.endswith(f".{dialect}.sql") and name[:4].isdigit()]
    return [(int(name[:4]), script(name)) for name in sorted(names)]


def script(name: str) -> str:
    """The text of a file in this folder."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()
