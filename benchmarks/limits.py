"""Reading the latest sessions, on each SQLite at hand: Python's own, pysqlite3's and apsw's, if they are installed."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import clew
from benchmarks.bench import Bench
from benchmarks.measure import Figure, Side, each, interleave, ratio
from clew.backends.sql import queries

OPS = 200
"""Statements in one block."""
_LOOK = bytes(16)
_STATEMENTS = {
    "latest": ("refs_look", ("", "session", _LOOK, 1 << 62, 1 << 62), 1),
    "newest 50": ("refs_recent", ("", "session", 1 << 62, 1 << 62), 50),
}
"""By name, a statement, its values and its limit."""


def limits(bench: Bench) -> Iterator[Figure]:
    """Statements against the same ones with a constant limit: SQLite must prepare neither again."""
    path = bench.once("limits", lambda: _store(bench))
    for version, run in _drivers(path):
        for what, (name, values, limit) in _STATEMENTS.items():
            sql = queries()[name]
            sides: dict[str, Side] = {
                "constant": _side(run, sql.replace("?+0", str(limit)), values),
                "parameter": _side(run, sql, (*values, limit)),
                "plain ?": _side(run, sql.replace("?+0", "?"), (*values, limit)),
            }
            times = interleave(sides, rounds=bench.sizes.rounds)
            plain = f"; LIMIT ? without +0 {times.ratio('plain ?', 'constant'):.2f}"
            title = f"statement of {what}, SQLite {version}"
            yield ratio(title, times, side="parameter", base="constant", at_most=1.25, more=plain)


def _store(bench: Bench) -> str:
    path = bench.file(bench.memory)
    with clew.open(path) as store:
        store.sessions.create(cwd="/src/app")
    with sqlite3.connect(path) as conn:  # a known hash, so that the statement runs without clew
        conn.execute("UPDATE refs SET look = ? WHERE kind = 'session'", (_LOOK,))
    conn.close()
    return path


def _drivers(path: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Version and `execute` of each SQLite. Only one has the file open at a time: copies share no locks."""
    for name in ("sqlite3", "pysqlite3", "apsw"):
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            continue
        conn = module.Connection(path)
        try:
            version = module.sqlite_lib_version() if name == "apsw" else module.sqlite_version
            yield version, conn.cursor().execute
        finally:
            conn.close()


def _side(run: Callable[..., Any], sql: str, values: tuple[object, ...]) -> Side:
    return lambda: each(lambda _: run(sql, values).fetchall(), range(OPS))
