"""Reading a session, its end, and the list of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import clew
from benchmarks import peers
from benchmarks.bench import Bench, texts
from benchmarks.floor import Floor, session_id
from benchmarks.measure import Figure, Side, Times, interleave, ratio, span

DIRECTORIES = 50


def path(bench: Bench) -> Iterator[Figure]:
    """A whole session as nodes, every message read."""
    length = bench.sizes.path
    with ExitStack() as stack:
        floor, name, session = _long(bench, stack, length)
        sides: dict[str, Side] = {
            "floor": lambda: lambda: floor.path(name),
            "clew": lambda: lambda: [node.message for node in session.path()],
        }
        times = interleave(sides, rounds=bench.sizes.rounds, ops=1)
    yield ratio(f"path of {length:,} as nodes", times, at_most=1.0, peers=_peers(bench, "load"))


def last(bench: Bench) -> Iterator[Figure]:
    """The last twenty messages of a long session."""
    length, ops = bench.sizes.long, 50
    with ExitStack() as stack:
        floor, name, session = _long(bench, stack, length)

        def ours() -> None:
            for _ in range(ops):
                [node.message for node in session.path(last=20)]

        def theirs() -> None:
            for _ in range(ops):
                floor.last(name, 20)

        times = interleave({"floor": lambda: theirs, "clew": lambda: ours}, rounds=bench.sizes.rounds, ops=ops)
    yield ratio(f"last 20 of {length:,}", times, at_most=3.0, peers=_peers(bench, "last"))


def listing(bench: Bench) -> Iterator[Figure]:
    """The newest fifty sessions, titles read, and the latest of one directory."""
    ops = 30
    with ExitStack() as stack:
        sides: dict[str, dict[str, Side]] = {"newest 50": {}, "latest in a directory": {}}
        for count, size in ((100, "few"), (bench.sizes.sessions, "many")):
            store_path, floor_path = bench.once(f"sessions {count}", lambda count=count: _sessions(bench, count))  # type: ignore[misc]
            store = stack.enter_context(clew.open(store_path))
            floor = stack.enter_context(closing(Floor(floor_path)))
            sides["newest 50"] |= {f"clew {size}": _list(store, ops), f"floor {size}": _newest(floor, ops)}
            sides["latest in a directory"] |= {
                f"clew {size}": _latest(store, ops),
                f"floor {size}": _floor_latest(floor, ops),
            }
        for what, both in sides.items():
            times = interleave(both, rounds=bench.sizes.rounds, ops=ops)
            others = _peer_lists(bench, times) if what == "newest 50" else {}
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
            times = interleave(_peer_sides(floor, name, peer, what), rounds=max(2, bench.sizes.rounds // 6), ops=1)
        note = f"; {kind.notes[what]}" if what in kind.notes else ""
        found[kind.label] = f"{times.ratio('peer'):6.1f}x   {span(times.median('peer'))} of {count:,}{note}"
    return found


def _peer_sides(floor: Floor, name: str, peer: peers.Peer, what: str) -> dict[str, Side]:
    if what == "load":
        return {"floor": lambda: lambda: floor.path(name), "peer": lambda: peer.load}
    return {"floor": lambda: lambda: floor.last(name, 20), "peer": lambda: lambda: peer.last(20)}


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
            took = interleave({"peer": lambda: lambda: peer.newest(50)}, rounds=3, ops=1).median("peer")
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


def _list(store: clew.Store, ops: int) -> Side:
    def block() -> None:
        for _ in range(ops):
            [session.title for session in store.sessions.list(limit=50).items]

    return lambda: block


def _newest(floor: Floor, ops: int) -> Side:
    def block() -> None:
        for _ in range(ops):
            floor.newest(50)

    return lambda: block


def _latest(store: clew.Store, ops: int) -> Side:
    def block() -> None:
        for number in range(ops):
            _ = store.sessions.latest(cwd=f"/src/app{number % DIRECTORIES}").title

    return lambda: block


def _floor_latest(floor: Floor, ops: int) -> Side:
    def block() -> None:
        for number in range(ops):
            floor.latest(f"/src/app{number % DIRECTORIES}")

    return lambda: block
