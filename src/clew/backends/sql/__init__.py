"""The SQL of every backend: named statements, and numbered migrations."""

from __future__ import annotations

import os

FORMAT = 3
"""The newest format this clew reads and writes, in a file and on a server."""

_FOLDER = os.path.dirname(__file__)

COLUMNS = {
    "{node}": "n.pos, n.facts, n.id, n.body",
    "{run}": "u.run, u.tree, u.parent, u.derived, u.depth, u.carried, u.tip, u.closed, u.wrapped_key, u.mac",
    "{ref}": "r.ref, r.workspace, r.kind, r.key, r.owner, r.tree, r.head, r.head_id, r.version, r.created_at,"
    " r.active_at, r.rank, r.trashed_at, r.expires_at, r.hold, r.look, r.wrapped_key, r.mac, r.data",
    "{blob}": "b.blob, b.tree, b.look, b.size, b.chunks, b.created_at, b.wrapped_key, b.mac",
}


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
