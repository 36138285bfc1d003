"""Reading a session, its end, and the list of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

import clew
from benchmarks import peers
from benchmarks.bench import Bench, texts
from benchmarks.floor import Floor, session_id
from benchmarks.measure import Figure, Side, Times, each, interleave, once, ratio, span

DIRECTORIES = 50
OPS = 30
"""Reads in one block."""


def path(bench: Bench) -> Iterator[Figure]:
    """A whole session, every message read: as nodes, and as messages alone."""
    length = bench.sizes.path
    with ExitStack() as stack:
        floor, name, session = _long(bench, stack, length)
        sides: dict[str, Side] = {
            "floor": once(lambda: floor.path(name)),
            "clew": once(lambda: [node.message for node in session.path()]),
            "messages": once(session.messages),
        }
        times = interleave(sides, rounds=bench.sizes.rounds)
    yield ratio(f"path of {length:,} as nodes", times, at_most=1.0, peers=_peers(bench, "load"))
    yield ratio(f"path of {length:,} as messages", times, side="messages", at_most=0.7)


def last(bench: Bench) -> Iterator[Figure]:
    """The last twenty messages of a long session."""
    length = bench.sizes.long
    with ExitStack() as stack:
        floor, name, session = _long(bench, stack, length)
        sides: dict[str, Side] = {
            "floor": lambda: each(lambda _: floor.last(name, 20), range(OPS)),
            "clew": lambda: each(lambda _: [node.message for node in session.path(last=20)], range(OPS)),
        }
        times = interleave(sides, rounds=bench.sizes.rounds)
    yield ratio(f"last 20 of {length:,}", times, at_most=3.0, peers=_peers(bench, "last"))


def listing(bench: Bench) -> Iterator[Figure]:
    """The newest fifty sessions, titles read, and the latest of one directory."""
    with ExitStack() as stack:
        newest: dict[str, Side] = {}
        latest: dict[str, Side] = {}
        for count, size in ((100, "few"), (bench.sizes.sessions, "many")):
            ours, theirs = bench.once(f"sessions {count}", lambda count=count: _sessions(bench, count))  # type: ignore[misc]
            store = stack.enter_context(clew.open(ours))
            floor = stack.enter_context(closing(Floor(theirs)))
            newest |= {f"clew {size}": _list(store), f"floor {size}": _newest(floor)}
            latest |= {f"clew {size}": _latest(store), f"floor {size}": _floor_latest(floor)}
        for what, sides in (("newest 50", newest), ("latest in a directory", latest)):
            times = interleave(sides, rounds=bench.sizes.rounds)
            others = _peer_lists(bench, times) if sides is newest else {}
            name = f"{what}, of {bench.sizes.sessions:,} sessions"
            yield ratio(name, times, side="clew many", base="floor many", at_most=3.0, peers=others)
            name = f"{what}, {bench.sizes.sessions:,} against 100"
            yield ratio(name, times, side="clew many", base="clew few", at_most=1.25)


def _long(bench: Bench, stack: ExitStack, length: int) -> tuple[Floor, str, clew.Session]:
    ours, theirs, name = bench.long_session(bench.disk, length)
    store = stack.enter_context(clew.open(ours))
    floor = stack.enter_context(closing(Floor(theirs)))
    return floor, name, store.sessions.latest()


def _peers(bench: Bench, what: str) -> dict[str, str]:
    """What the others take for the same, in the unit of a floor of the same length."""
    count, found = bench.sizes.peer_messages, {}
    _, theirs, name = bench.long_session(bench.memory, count)
    for kind in peers.installed(bench):
        with closing(Floor(theirs)) as floor, closing(_filled(bench, kind, count)) as peer:
            times = interleave(_peer_sides(floor, name, peer, what), rounds=max(2, bench.sizes.rounds // 6))
        note = f"; {kind.notes[what]}" if what in kind.notes else ""
        found[kind.label] = f"{times.ratio('peer'):6.1f}x   {span(times.median('peer'))} of {count:,}{note}"
    return found


def _peer_sides(floor: Floor, name: str, peer: peers.Peer, what: str) -> dict[str, Side]:
    if what == "load":
        return {"floor": once(lambda: floor.path(name)), "peer": once(peer.load)}
    return {"floor": once(lambda: floor.last(name, 20)), "peer": once(lambda: peer.last(20))}


def _filled(bench: Bench, kind: type[peers.Peer], count: int) -> peers.Peer:
    path = bench.once(f"{kind.label} {count}", lambda: _fill(bench, kind, count))
    return kind(path)


def _fill(bench: Bench, kind: type[peers.Peer], count: int) -> str:
    path = bench.file(bench.memory)
    with closing(kind(path)) as peer:
        peer.fill(texts(count))
    return path


def _peer_lists(bench: Bench, times: Times) -> dict[str, str]:
    count, found = bench.sizes.peer_sessions, {}
    for kind in peers.installed(bench):
        with closing(kind(bench.file(bench.memory))) as peer:
            if not peer.make_sessions(count):
                found[kind.label] = "has no list of sessions"
                continue
            took = interleave({"peer": once(partial(peer.newest, 50))}, rounds=3).median("peer")
        found[kind.label] = f"{took / times.median('floor many'):6.0f}x   {span(took)} of {count:,} sessions"
    return found


def _sessions(bench: Bench, count: int) -> tuple[str, str]:
    """As many sessions in clew and at the floor, without messages, in fifty directories."""
    ours, theirs = bench.file(bench.memory), bench.file(bench.memory)
    with clew.open(ours) as store, store.transaction():
        for number in range(count):
            store.sessions.create(title=f"Session {number} about the build", cwd=f"/src/app{number % DIRECTORIES}")
    floor = Floor(theirs)
    rows = ((session_id(), f"Session {n} about the build", f"/src/app{n % DIRECTORIES}", n) for n in range(count))
    floor.add_sessions(rows)
    floor.close()
    return ours, theirs


def _list(store: clew.Store) -> Side:
    return lambda: each(lambda _: [session.title for session in store.sessions.list(limit=50).items], range(OPS))


def _newest(floor: Floor) -> Side:
    return lambda: each(lambda _: floor.newest(50), range(OPS))


def _latest(store: clew.Store) -> Side:
    return lambda: each(lambda n: store.sessions.latest(cwd=f"/src/app{n}").title, range(DIRECTORIES))


def _floor_latest(floor: Floor) -> Side:
    return lambda: each(lambda n: floor.latest(f"/src/app{n}"), range(DIRECTORIES))
