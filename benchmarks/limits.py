"""Reading the latest session of a directory, on each SQLite at hand."""

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
_VALUES = ("", "session", _LOOK, 1 << 62, 1 << 62)


def limits(bench: Bench) -> Iterator[Figure]:
    """The statement of `latest` against the same one with a constant limit: SQLite must prepare neither again."""
    path = bench.once("limits", lambda: _store(bench))
    sql = queries()["refs_look"]
    for version, run in _drivers(path):
        sides: dict[str, Side] = {
            "constant": _side(run, sql.replace("?+0", "1"), _VALUES),
            "parameter": _side(run, sql, (*_VALUES, 1)),
            "plain ?": _side(run, sql.replace("?+0", "?"), (*_VALUES, 1)),
        }
        times = interleave(sides, rounds=bench.sizes.rounds)
        plain = f"; LIMIT ? without +0 {times.ratio('plain ?', 'constant'):.2f}"
        name = f"statement of latest, SQLite {version}"
        yield ratio(name, times, side="parameter", base="constant", at_most=1.25, more=plain)


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
    for name in ("sqlite3", "pysqlite3"):
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            continue
        conn = module.Connection(path)
        try:
            yield module.sqlite_version, conn.cursor().execute
        finally:
            conn.close()


def _side(run: Callable[..., Any], sql: str, values: tuple[object, ...]) -> Side:
    return lambda: each(lambda _: run(sql, values).fetchall(), range(OPS))
