"""What sealing costs beside a plain store, what an exchange of keys costs, and how long a purge takes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing

import clew
from benchmarks.appending import clew_side
from benchmarks.bench import Bench, messages
from benchmarks.measure import Figure, Side, each, interleave, once, ratio, seconds

KEY = bytes(range(32))
PURGED = 1_000
"""Messages in a session that is purged."""


def sealed(bench: Bench) -> Iterator[Figure]:
    """Appending to a sealed store, and loading from one, against a plain one."""
    sizes = bench.sizes
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for label, key in (("plain", None), ("sealed", KEY)):
            store = stack.enter_context(clew.open(bench.file(bench.disk), key=key))
            sides[label] = clew_side(store.sessions.create(), sizes.ops)
        times = interleave(sides, rounds=sizes.blocks)
    yield ratio("sealed append, on disk", times, side="sealed", base="plain", at_most=1.15)
    with ExitStack() as stack:
        loads: dict[str, Side] = {}
        for label, key in (("plain", None), ("sealed", KEY)):
            store = stack.enter_context(clew.open(bench.file(bench.disk), key=key))
            session = store.sessions.create()
            session.append(messages(sizes.path))
            loads[label] = once(lambda session=session: [node.message for node in session.path()])  # type: ignore[misc]
        times = interleave(loads, rounds=sizes.rounds)
    yield ratio(f"sealed load of {sizes.path:,}", times, side="sealed", base="plain", at_most=1.8)


def rotate(bench: Bench) -> Iterator[Figure]:
    """An exchange of the store key that wraps ten thousand runs' keys anew, against as many rows updated bare."""
    count = bench.sizes.path
    with ExitStack() as stack:
        store = stack.enter_context(clew.open(bench.file(bench.disk), key=KEY))
        with store.transaction():
            for message in messages(count):
                store.nodes.save(message)
        bare = stack.enter_context(closing(sqlite3.connect(bench.file(bench.disk), isolation_level=None)))
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute("CREATE TABLE runs (run INTEGER PRIMARY KEY, key BLOB)")
        bare.executemany("INSERT INTO runs (key) VALUES (?)", [(os.urandom(77),) for _ in range(count)])
        sides: dict[str, Side] = {"floor": once(lambda: _update(bare, count)), "clew": once(lambda: _wrap(store))}
        times = interleave(sides, rounds=max(2, bench.sizes.rounds // 6))
    yield ratio(f"rewrapping {count:,} runs", times, at_most=5.0)


def purge(bench: Bench) -> Iterator[Figure]:
    """A session of a thousand messages that shares nothing, in a store of a hundred thousand, searched before."""
    sizes = bench.sizes
    for label, key in (("plain", None), ("sealed", KEY)):
        with clew.open(bench.file(bench.disk), key=key) as store:
            for _ in range(sizes.long // PURGED):
                store.sessions.create().append(messages(PURGED))
            took: list[float] = []
            for _ in range(3):
                session = store.sessions.create()
                session.append(messages(PURGED))
                store.search("harbour", limit=1)
                took += each(lambda one: store.sessions.purge(one.id), [session])()
        yield seconds(f"purge of {PURGED:,} among {sizes.long:,}, {label}", took, at_most=0.5)


def _update(bare: sqlite3.Connection, count: int) -> None:
    rows = [(os.urandom(77), run) for run in range(1, count + 1)]
    for start in range(0, count, 500):
        bare.execute("BEGIN")
        bare.executemany("UPDATE runs SET key = ? WHERE run = ?", rows[start : start + 500])
        bare.execute("COMMIT")


def _wrap(store: clew.Store) -> None:
    """The exchange itself; that everything is read before the old key is retired is not part of it."""
    from clew.upkeep import rekey

    rekey.begin(store._engine, "rotate", os.urandom(32))
    rekey.run(store._engine)
    rekey.finish(store._engine)
