"""Costs that must not grow with the store: search after a purge, the wait of writers, counting, other files."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import clew
from benchmarks.bench import RARE, Bench, encoded, messages
from benchmarks.floor import Floor, session_id
from benchmarks.measure import Figure, clock, each, seconds, span

TALK = 5
"""Messages in a session."""
FOLDERS = 1_000
BLOCK = 20_000
"""Messages in one transaction while a store is filled."""
TIMES = 3
SMALL = 1_000
WRITER = """
import select, sys, time, clew
with clew.open({path!r}) as store:
    session = store.sessions.create()
    session.append(clew.user("first"))
    print("ready", flush=True)
    longest, end = 0.0, time.monotonic() + {most}
    while time.monotonic() < end and not select.select([sys.stdin], [], [], 0.002)[0]:
        start = time.perf_counter()
        session.append(clew.user("more " * 80))
        longest = max(longest, time.perf_counter() - start)
    print(longest)
"""
MOST = 300
"""Seconds after which a writer ends in any case."""


def growth(bench: Bench) -> Iterator[Figure]:
    """Stores of several sizes, five messages in each session: costs that should be nearly equal at each size."""
    latest: dict[int, float] = {}
    for count in bench.sizes.stores:
        path = _filled(bench, count)
        size = os.path.getsize(path)
        with clew.open(path) as store:
            start = clock()
            store.search(RARE, limit=1)
            took = clock() - start
            index = os.path.getsize(f"{path}-search") + os.path.getsize(f"{path}-search-wal")
            detail = f"{index / 1e6:,.1f} MB beside {size / 1e6:,.1f} MB, made in {span(took)}"
            yield Figure(f"search index of {count:,} messages", index / size, at_most=0.6, detail=detail)
            waits, searches = list[float](), list[float]()
            for _ in range(TIMES):
                waits.append(_purge_beside_a_writer(store, path))
                searches += each(lambda word: store.search(word), [RARE])()
            yield seconds(f"first search after a purge, of {count:,}", searches, at_most=0.1)
            yield seconds(f"longest wait of a writer for a purge, of {count:,}", waits, at_most=0.5)
            counts = each(lambda _: store.sessions.list(limit=1, total=True), range(10))()
            yield seconds(f"list with total, {count // TALK:,} sessions", counts, at_most=0.02)
            latest[count] = statistics.median(
                each(store.sessions.latest, map(_folder, range(min(FOLDERS, count // TALK) // 2)))()
            )
    least, most = min(latest), max(latest)
    detail = ", ".join(f"{count:,}: {span(took)}" for count, took in latest.items())
    yield Figure(f"latest at {most:,} against {least:,}", latest[most] / latest[least], at_most=1.25, detail=detail)
    yield _closed(bench)


def _filled(bench: Bench, count: int) -> str:
    """A closed store with so many messages."""
    path = bench.file(bench.disk)
    said = messages(min(count, BLOCK))
    with clew.open(path, durability="relaxed") as store:
        for first in range(0, count, len(said)):
            with store.transaction():
                for at in range(0, min(len(said), count - first), TALK):
                    store.sessions.create(title="A talk", cwd=_folder((first + at) // TALK)).append(
                        said[at : at + TALK]
                    )
    return path


def _folder(number: int) -> str:
    return f"/src/app{number % FOLDERS}"


def _purge_beside_a_writer(store: clew.Store, path: str) -> float:
    """Purges a session while another process appends. Returns the longest append, in seconds."""
    code = WRITER.format(path=path, most=MOST)
    writer = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    gone = store.sessions.list(limit=6).items[-1]  # not the one that the writer appends to
    assert not (left := store.sessions.purge(gone.id).pending), left
    said, _ = writer.communicate("stop\n")
    return float(said)


def _closed(bench: Bench) -> Figure:
    """All files of a small store, against a bare table with the same messages."""
    theirs, ours = bench.file(bench.disk), bench.file(bench.disk)
    said = messages(SMALL)
    with closing(Floor(theirs)) as floor:
        floor.fill(session_id(), encoded(said))
    with clew.open(ours) as store:
        store.sessions.create().append(said)
    folder, name = os.path.split(ours)
    sizes = {one.name: one.stat().st_size for one in os.scandir(folder) if one.name.startswith(name)}
    bare = os.path.getsize(theirs)
    detail = f"floor {bare:,} bytes; " + ", ".join(
        f"{file[len(name) :] or 'store'} {size:,}" for file, size in sizes.items()
    )
    return Figure(f"all files of {SMALL:,} messages, closed", sum(sizes.values()) / bare, at_most=1.3, detail=detail)
