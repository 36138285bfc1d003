"""A migration that is made up: the next format, which adds one table."""

from __future__ import annotations

import sys

import pytest

import clew.backends.sqlite.migrate  # noqa: F401 - loaded, to be patched
from clew.backends import FORMAT
from clew.backends.sql import migrations
from clew.backends.sqlite import SQLiteBackend, schema

NEXT = FORMAT + 1
SCRIPTS = {
    "sqlite": "CREATE TABLE made_up (number INTEGER PRIMARY KEY);",
    "postgres": "CREATE TABLE made_up (number bigint PRIMARY KEY); ALTER TABLE refs ADD COLUMN made_up bigint;",
}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process knows the next format, and the migration that leads to it."""

    def with_made_up(dialect: str) -> list[tuple[int, str]]:
        return [*migrations(dialect), (NEXT, SCRIPTS[dialect])]

    backends: list[type] = [SQLiteBackend]
    if "clew.backends.postgres" in sys.modules:
        from clew.backends.postgres import PostgresBackend

        backends.append(PostgresBackend)
    for backend in backends:
        monkeypatch.setattr(backend, "newest", NEXT)
    for name, module in list(sys.modules.items()):
        if name.startswith(("clew.backends.sqlite", "clew.backends.postgres")):
            if hasattr(module, "FORMAT"):
                monkeypatch.setattr(module, "FORMAT", NEXT)
            if hasattr(module, "migrations"):
                monkeypatch.setattr(module, "migrations", with_made_up)
    monkeypatch.setattr(schema, "_scripts", lambda: "".join(script for _, script in with_made_up("sqlite")))
