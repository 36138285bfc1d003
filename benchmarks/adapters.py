"""Adapters for agent frameworks, each beside the framework's own store, through the framework's own protocol."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import clew.adapters
from benchmarks import peers
from benchmarks.bench import Bench, texts
from benchmarks.floor import Floor, session_id
from benchmarks.frameworks import PAIRS, Pair
from benchmarks.measure import Figure, Side, Times, each, interleave, missing, ratio, span

OWN = 60.0
"""Microseconds of processor time that an adapter may add to a write."""
OWN_SECONDS = 0.04
"""Seconds of processor time, for each block of an append, in which an adapter is looked at: some 600 looks."""
TURNS = 1000
SLOW = 20.0
"""A framework's own store that takes so many times the floor: an adapter must take at most half of it."""
PAGES = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
ROOM = os.sep.join(("clew", "adapters", ""))
CODE = os.path.dirname(os.path.dirname(clew.adapters.__file__)) + os.sep


def adapters(bench: Bench) -> Iterator[Figure]:
    """One message through each framework's protocol, beside its own store; bytes, and the adapter's own share."""
    for pair in PAIRS:
        if not peers.there(pair.module):
            if bench.peers:
                yield missing(pair.name, f"{pair.module} is not installed")
            continue
        yield from _append(bench, pair)
        if pair.grows:
            yield from _append(bench, pair, min(TURNS, bench.sizes.path))
        yield _own(bench, pair)
        if not pair.only_append:
            yield from _last(bench, pair)
            yield _bytes(bench, pair)


# -- measures


def _append(bench: Bench, pair: Pair, after: int = 0) -> Iterator[Figure]:
    """A write, on disk and where syncing is free: against the framework's own store, or the floor if it does not sync.

    On disk, a store that does not sync cannot be compared. `after` is the number of messages that are stored before.
    """
    for place, where in ((bench.disk, "on disk"), (bench.memory, "software path")):
        times = _beside(bench, place, pair, after)
        own = times.ratio("theirs")
        name = f"{pair.name} append{f' after {after:,}' if after else ''}, {where}"
        told = {pair.theirs.label: f"{own:6.1f}x of the floor   {span(times.median('theirs'))}"}
        more = f"; ours {times.ratio('ours'):.1f}x of the floor"
        if pair.kind != "synced":
            yield ratio(f"{name}, against the floor", times, side="ours", peers=told)
            continue
        limit = 1.0 if where == "on disk" else 0.5 if own >= SLOW else None
        yield ratio(f"{name}, against its own", times, side="ours", base="theirs", at_most=limit, peers=told, more=more)


def _beside(bench: Bench, place: str, pair: Pair, after: int) -> Times:
    sizes = bench.sizes
    with ExitStack() as stack:
        floor = stack.enter_context(closing(Floor(bench.file(place))))
        name, bodies = session_id(), [text.encode() for text in texts(sizes.ops)]
        sides: dict[str, Side] = {"floor": lambda: each(lambda body: floor.append(name, body), bodies)}
        for side, kind in (("ours", pair.ours), ("theirs", pair.theirs)):
            store = stack.enter_context(closing(kind(bench.file(place))))
            if after:
                store.fill(texts(after))
            sides[side] = _side(store, sizes.ops)
        return interleave(sides, rounds=sizes.blocks // 4 or 1)


def _side(store: peers.Peer, count: int) -> Side:
    def ready() -> Callable[[], list[float]]:
        items = [store.say(text) for text in texts(count)]
        return lambda: store.append(items)

    return ready


def _own(bench: Bench, pair: Pair) -> Figure:
    """The processor time of a write during which no function of clew runs but those of `clew.adapters`.

    That is the adapter's own code, and the framework's code that it calls, such as a serializer; not the engine, the
    database, or the thread hop, because calls run on the caller's thread here. While writes run, a hundred to each
    conversation, the program is looked at in steps of its processor time. The figure is the share of looks that found
    the adapter, of the processor time of a write.
    """
    looks = {"own": 0, "all": 0}

    def look(_: int, frame: Any) -> None:
        looks["all"] += 1
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(CODE):
                looks["own"] += ROOM in file
                return
            frame = frame.f_back

    writes, spent = 0, 0.0
    with ExitStack() as stack:
        stack.enter_context(_inline(pair.adapter))
        stack.callback(signal.signal, signal.SIGPROF, signal.signal(signal.SIGPROF, look))
        while spent < bench.sizes.blocks * OWN_SECONDS:
            with closing(pair.ours(bench.file(bench.memory))) as store:
                store.append([store.say(text) for text in texts(2)])
                items = [store.say(text) for text in texts(bench.sizes.ops * 5)]
                gc.collect()
                begun = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
                store.append(items)
                signal.setitimer(signal.ITIMER_PROF, 0)
                spent += time.process_time() - begun
            writes += len(items)
    share = looks["own"] / looks["all"] if looks["all"] else 0.0
    each_one = spent / writes * 1e6
    detail = f"{share:.0%} of {each_one:.0f} µs of processor time for a write; {looks['all']:,} looks"
    return Figure(f"{pair.name} adapter's own", share * each_one, " µs", at_most=OWN, detail=detail)


def _inline(adapter: str) -> Any:
    """The adapter's calls run where they are made, not on a thread."""
    from importlib import import_module
    from unittest.mock import patch

    async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return patch.object(import_module(f"clew.adapters.{adapter}"), "in_thread", call)


def _last(bench: Bench, pair: Pair) -> Iterator[Figure]:
    """The last twenty messages of a long session, as the protocol allows: some load all of it."""
    count = bench.sizes.path
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for side, kind in (("ours", pair.ours), ("theirs", pair.theirs)):
            store = stack.enter_context(closing(kind(bench.file(bench.memory))))
            store.fill(texts(count))
            sides[side] = lambda store=store: each(lambda _: store.last(20), range(5))  # type: ignore[misc]
        times = interleave(sides, rounds=bench.sizes.rounds // 4 or 1)
    yield ratio(f"{pair.name} last 20 of {count:,}, against its own", times, side="ours", base="theirs")


def _bytes(bench: Bench, pair: Pair) -> Figure:
    """Bytes on disk for a message of about 450 bytes, at the end of a session of a thousand."""
    count = min(TURNS, bench.sizes.path)
    found: dict[str, list[float]] = {}
    for side, kind in (("ours", pair.ours), ("theirs", pair.theirs)):
        path = bench.file(bench.memory)
        sizes = []
        with closing(kind(path)) as store:
            for part in (count // 4, count // 4, count // 2):
                store.append([store.say(text) for text in texts(part)])
                sizes.append(_size(path))
        found[side] = [(sizes[1] - sizes[0]) / (count // 4), (sizes[2] - sizes[1]) / (count // 2)]
        for name in _files(path):
            remove = shutil.rmtree if os.path.isdir(name) else os.remove
            remove(name)
    early, late = found["theirs"]
    told = (
        {pair.theirs.label: f"{late:,.0f} bytes; before {count // 2:,} {early:,.0f}"} if pair.kind != "memory" else {}
    )
    early, late = found["ours"]
    detail = f"before {count // 2:,} {early:,.0f}"
    return Figure(f"{pair.name} bytes a message at {count:,}", late, " B", detail=detail, peers=told)


def _files(path: str) -> list[str]:
    """The files of a database and the folder of a store that is none, by the path that both were given."""
    folder, start = os.path.split(path)
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(start)]


def _size(path: str) -> int:
    """Bytes of a store: the pages of a database, also those that are only in its log, or the files of a folder."""
    if os.path.exists(path):
        with closing(sqlite3.connect(path)) as conn:
            return int(conn.execute(PAGES).fetchone()[0])
    found = [os.path.join(folder, name) for folder, _, names in os.walk(f"{path}.d") for name in names]
    return sum(os.stat(name).st_size for name in found)
