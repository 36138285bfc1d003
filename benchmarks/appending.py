"""Appending one message at a time; forking and rewinding beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import clew
from benchmarks import peers
from benchmarks.bench import Bench, encoded, messages, texts
from benchmarks.floor import Floor, session_id
from benchmarks.measure import Block, Figure, Side, Times, each, interleave, ratio, span

FIRST = 200
ROOT = Path(__file__).parent.parent


def append(bench: Bench) -> Iterator[Figure]:
    """One durable message on disk, and the same where syncing is free."""
    for place, name, target in (
        (bench.disk, "append, steady, on disk", 1.25),
        (bench.memory, "append, software path", 4.0),
    ):
        times = _beside(bench, place, [])
        kinds = peers.installed(bench)
        # The others run after, against a floor of their own turn: their threads and heaps would slow clew's blocks.
        theirs = _beside(bench, place, kinds) if kinds else times
        others = {peer.label: f"{theirs.ratio(peer.label):6.1f}x   {span(theirs.median(peer.label))}" for peer in kinds}
        more = f"; sums {times.total('clew'):.2f}x"
        yield ratio(name, times, at_most=target, peers=others, more=more)


def first(bench: Bench) -> Iterator[Figure]:
    """The first durable messages of a process, in a new file: its write-ahead log is still growing."""
    sides: dict[str, Side] = {kind: _first_side(bench, kind) for kind in ("floor", "clew")}
    times = interleave(sides, rounds=max(2, bench.sizes.blocks // 4))
    yield ratio(
        f"append, first {FIRST} of a process, on disk", times, at_most=0.9, more=f"; sums {times.total('clew'):.2f}x"
    )


def _first_side(bench: Bench, kind: str) -> Side:
    def block() -> list[float]:
        command = [sys.executable, "-m", "benchmarks.first", kind, bench.file(bench.disk), str(FIRST)]
        done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        took: list[float] = json.loads(done.stdout)
        return took

    return lambda: block


def _beside(bench: Bench, place: str, kinds: Sequence[type[peers.Peer]]) -> Times:
    """The floor's blocks by turns with clew's, or with those of other stores."""
    sizes = bench.sizes
    with ExitStack() as stack:
        floor = stack.enter_context(closing(Floor(bench.file(place))))
        sides: dict[str, Side] = {"floor": _floor_side(floor, session_id(), sizes.ops)}
        if not kinds:
            store = stack.enter_context(clew.open(bench.file(place)))
            sides["clew"] = clew_side(store.sessions.create(), sizes.ops)
        for kind in kinds:
            peer = stack.enter_context(closing(kind(bench.file(place))))
            sides[kind.label] = _peer_side(peer, sizes.ops)
        # A checkpoint of langgraph is the whole state: long sessions would fill the disk.
        return interleave(sides, rounds=sizes.blocks // 4 or 1 if kinds else sizes.blocks)


def long(bench: Bench) -> Iterator[Figure]:
    """What an append costs after a hundred thousand others, against one after a hundred."""
    sizes = bench.sizes
    for place, name in ((bench.disk, "on disk"), (bench.memory, "software path")):
        with ExitStack() as stack:
            sides: dict[str, Side] = {}
            for length, label in ((100, "short"), (sizes.long, "long")):
                ours, theirs, session = bench.long_session(place, length)
                store = stack.enter_context(clew.open(bench.copy(ours)))
                sides[label] = clew_side(store.sessions.latest(), sizes.ops)
                floor = stack.enter_context(closing(Floor(bench.copy(theirs))))
                sides[f"floor {label}"] = _floor_side(floor, session, sizes.ops)
            times = interleave(sides, rounds=sizes.blocks)
        more = f"; the floor's own growth {times.ratio('floor long', 'floor short'):.2f}x"
        title = f"append at {sizes.long:,} against at 100, {name}"
        yield ratio(title, times, side="long", base="short", at_most=1.1, more=more)


def fork(bench: Bench) -> Iterator[Figure]:
    """A fork of the whole session, and a rewind to its first message, against an append to it."""
    sizes = bench.sizes
    for length in (100, sizes.long):
        ours, *_ = bench.long_session(bench.disk, length)
        with clew.open(bench.copy(ours)) as store:
            base = store.sessions.latest()
            first = next(base.iter()).id
            sides = {
                "append": clew_side(base, sizes.ops),
                "fork": _fork_side(base, sizes.ops),
                "rewind": _rewind_side(base, first, sizes.ops),
            }
            times = interleave(sides, rounds=sizes.blocks)
        for what in ("fork", "rewind"):
            yield ratio(f"{what} at {length:,}, in appends", times, side=what, base="append", at_most=2.0)


def _floor_side(floor: Floor, session: str, ops: int) -> Side:
    bodies = encoded(messages(ops))
    return lambda: each(lambda body: floor.append(session, body), bodies)


def clew_side(session: clew.Session, ops: int) -> Side:
    """Appends to a session."""
    said = messages(ops)
    return lambda: each(session.append, said)


def _peer_side(peer: peers.Peer, ops: int) -> Side:
    words = texts(ops)

    def side() -> Block:
        items = [peer.say(text) for text in words]
        return lambda: peer.append(items)

    return side


def _fork_side(session: clew.Session, ops: int) -> Side:
    return lambda: each(lambda _: session.fork(), range(ops))


def _rewind_side(session: clew.Session, to: str, ops: int) -> Side:
    return lambda: each(lambda fork: fork.rewind(to), [session.fork() for _ in range(ops)])
