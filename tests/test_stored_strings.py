"""Strings that are stored, sent or logged stay as they are, also where they look like the name of a module.

A store that exists, a dashboard and a server's settings know them. A rename in the source must not change them.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from tools import house

import clew
from clew import checkpoints, retention, snapshots
from tests.reliability import sample

DOTTED = {
    # keys in the free data of stored messages, sessions and records
    "clew.chat", "clew.cpeconvo", "clew.cpeconvo.part", "clew.damaged", "clew.note", "clew.record", "clew.redaction",
    "clew.replayable", "clew.attached", "clew.whole",
    # loggers ("clew.chat" too)
    "clew.events", "clew.records", "clew.retention", "clew.snapshots",
    # metrics and attributes of OpenTelemetry
    "clew.purge.outcome", "clew.purge.reason", "clew.records.operation.duration", "clew.records.purged",
    "clew.records.warnings", "clew.store", "clew.store.name", "clew.store.retries", "clew.warning",
    # the entry point of sources that other packages add
    "clew.sources",
    # the file of the default store
    "clew.db",
}  # fmt: skip
INTERNAL = {
    "clew.names",
    "clew.cpe_ids",
    "clew.page",
    "clew.chosen",
    "clew.settings",
    "clew.web",
    "clew.exports.render",
    "clew.css",
    "clew.js",
}
"""Keys of click's context: they last as long as a command, and may change."""

ROWS = {
    # kinds of refs
    "engine": {"branch", "mirrors", "deleted", "receipts", "audit"},
    "store": {"snapshot", "chain", "session", "subagent", "retention"},
    "agents": {"memory"},
    "records": {"recovery"},
    "adapters": {"state", "document"},
    "checkpoints": {"checkpoint", "worktree", "rewind"},
    "sources": {"import", "imported"},
    # names in the header
    "engine ": {
        "unclean",
        "unclean objects",
        "secrets",
        "rekey",
        "unsealed",
        "kdf ",
        "mirror ",
        "store_id",
        "lookup_key",
        "traces",
    },
}
"""Kinds of refs and names in the header, with the room whose source has them."""


@cache
def strings(room: str = "") -> frozenset[str]:
    """Every text in the source of a room, or of the package."""
    return frozenset(
        node.value
        for module in house.modules().values()
        if module.path.is_relative_to(house.SOURCE / room)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_names_with_dots() -> None:
    """Keys, loggers and metrics have the names they always had; a new one has to be added here."""
    found = {text for text in strings() if re.fullmatch(r"clew(\.[a-z_]+)+", text)}
    assert found - INTERNAL == DOTTED


def test_settings_of_a_server() -> None:
    """The script that divides tables reads the setting under the name by which it is set."""
    sql = "".join(path.read_text(encoding="utf-8") for path in house.SOURCE.rglob("*.sql"))
    assert set(re.findall(r"'(clew\.[a-z_.]+)'", sql)) == {"clew.partitions"}
    assert any("set_config('clew.partitions'" in text for text in strings("backends"))


@pytest.mark.parametrize("room", ROWS)
def test_kinds_of_refs_and_names_in_the_header(room: str) -> None:
    """The source has the names under which rows are found."""
    assert ROWS[room] - strings(room.strip()) == set()


def test_rows_of_a_store(path: Path, tmp_path: Path) -> None:
    """A store has rows under these names and no others."""
    (tmp_path / "work").mkdir()
    with clew.open(path) as store:
        sample.fill(store, words=4, blob=100)
        session = store.sessions.create()
        asked = session.append(clew.user("x"))
        checkpoints.Checkpoints(session, root=tmp_path / "work").capture(asked, ["a.txt"])
        retention.set_policy(store, retention.Policy(days=30))
        store.snapshots.save(
            snapshots.new_snapshot(provider="claude", model="m", messages=b'[{"role": "user", "content": "x"}]')
        )
        store.sessions.purge(store.sessions.create().id)
    with closing(sqlite3.connect(path)) as conn:
        kinds = {kind for (kind,) in conn.execute("SELECT DISTINCT kind FROM refs")}
        names = {name for (name,) in conn.execute("SELECT name FROM header")}
    assert kinds == {
        "branch",
        "session",
        "subagent",
        "checkpoint",
        "retention",
        "snapshot",
        "audit",
        "receipts",
        "purged",
    }
    assert names == {"created_at", "lookup_key", "store_id"}
