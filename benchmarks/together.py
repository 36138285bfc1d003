"""Several writers at once: tasks, threads, processes."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import clew
from benchmarks.bench import Bench, messages
from benchmarks.floor import Floor, session_id
from benchmarks.measure import Figure, missing, span

WRITERS = 4
Took = list[float]
"""Seconds of each append of one process."""


def tasks(bench: Bench) -> Iterator[Figure]:
    """Appends a second from 8 and from 64 tasks, against one, each with a session of its own; on disk."""
    if importlib.util.find_spec("clew.aio") is None:
        yield missing("tasks", "clew.aio is not there yet")
        return
    rates = asyncio.run(_tasks(bench, importlib.import_module("clew.aio")))
    for count, target in ((8, 2.5), (64, 4.0)):
        yield _gain(f"{count} tasks against one, on disk", rates[1], rates[count], target)


async def _tasks(bench: Bench, aio: Any) -> dict[int, list[float]]:
    rates: dict[int, list[float]] = {1: [], 8: [], 64: []}
    said, wanted = messages(50), bench.sizes.burst
    async with aio.open(bench.file(bench.disk)) as store:
        sessions = [await store.sessions.create() for _ in range(64)]

        async def talk(session: Any, count: int) -> None:
            for number in range(count):
                await session.append(said[number % len(said)])

        for number in range(bench.sizes.rounds // 2 + 1):
            for count, found in rates.items():
                start = time.perf_counter()
                await asyncio.gather(*(talk(session, wanted // count) for session in sessions[:count]))
                if number:
                    found.append(wanted / (time.perf_counter() - start))
    return rates


def threads(bench: Bench) -> Iterator[Figure]:
    """Appends a second from 8 threads that share a store, against one; on disk."""
    rates: dict[int, list[float]] = {1: [], 8: []}
    said, wanted = messages(50), bench.sizes.burst
    with clew.open(bench.file(bench.disk)) as store:
        sessions = [store.sessions.create() for _ in range(8)]

        def talk(session: clew.Session, count: int) -> None:
            for number in range(count):
                session.append(said[number % len(said)])

        for number in range(bench.sizes.rounds // 2 + 1):
            for count, found in rates.items():
                took = _at_once([(lambda s=session, c=count: talk(s, wanted // c)) for session in sessions[:count]])  # type: ignore[misc]
                if number:
                    found.append(wanted / took)
    yield _gain("8 threads against one, on disk", rates[1], rates[8], 1.7)


def _at_once(jobs: list[Callable[[], None]]) -> float:
    """Seconds until all are done; the threads exist before the clock runs."""
    gate = threading.Barrier(len(jobs) + 1)

    def run(job: Callable[[], None]) -> None:
        gate.wait()
        job()

    crew = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for one in crew:
        one.start()
    gate.wait()
    start = time.perf_counter()
    for one in crew:
        one.join()
    return time.perf_counter() - start


def _gain(name: str, alone: list[float], together: list[float], target: float) -> Figure:
    value = statistics.median(many / one for one, many in zip(alone, together, strict=True))
    detail = f"one {statistics.median(alone):,.0f} a second, together {statistics.median(together):,.0f}"
    return Figure(name, value, at_least=target, detail=detail)


def processes(bench: Bench) -> Iterator[Figure]:
    """Four processes append to one session in one file for some seconds; on disk."""
    ours, theirs, name = bench.file(bench.disk), bench.file(bench.disk), session_id()
    with clew.open(ours) as store:
        session = store.sessions.create()
    with closing(Floor(theirs)):
        pass
    seconds = bench.sizes.seconds
    found = _race("clew", ours, session.id, seconds)
    floor = _race("floor", theirs, name, seconds)
    with clew.open(ours) as store:
        kept = store.sessions.get(session.id).counters.messages
    with closing(Floor(theirs)) as left:
        floor_kept = left.count()
    acked = sum(len(one) for one in found)
    beside = f"the floor lost {sum(len(one) for one in floor) - floor_kept}"
    yield Figure(
        f"{WRITERS} processes, lost", acked - kept, unit="", at_most=0, detail=f"of {acked:,} acknowledged; {beside}"
    )
    yield Figure(
        f"{WRITERS} processes, smallest share", _share(found), unit=" even", at_least=0.5,
        detail=f"of an even one; appends each: {_counts(found)}; the floor: {_share(floor):.2f} even, {_counts(floor)}",
    )  # fmt: skip
    yield _longest(found, floor)


def _longest(found: list[Took], floor: list[Took]) -> Figure:
    worst, median = _waits(found)
    floor_worst, floor_median = _waits(floor)
    detail = (
        f"{span(worst)}; the unit is the median ({span(median)}) times {WRITERS} writers; "
        f"the floor: {span(floor_worst)}, {floor_worst / floor_median / WRITERS:,.0f}x of its ({span(floor_median)})"
    )
    return Figure(f"{WRITERS} processes, longest append", worst / median / WRITERS, at_most=20, detail=detail)


def _race(kind: str, path: str, session: str, seconds: float) -> list[Took]:
    command = [sys.executable, "-m", "benchmarks.writer", kind, path, session, str(seconds)]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    crew = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        for _ in range(WRITERS)
    ]
    for one in crew:
        assert one.stdout is not None
        one.stdout.readline()  # ready
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return [json.loads(one.communicate()[0]) for one in crew]


def _share(found: list[Took]) -> float:
    counts = [len(one) for one in found]
    return float(min(counts) / (sum(counts) / len(counts)))


def _counts(found: list[Took]) -> str:
    return ", ".join(f"{len(one):,}" for one in found)


def _waits(found: list[Took]) -> tuple[float, float]:
    """The longest single append, and the median of all."""
    took = [seconds for one in found for seconds in one]
    return max(took), statistics.median(took)
