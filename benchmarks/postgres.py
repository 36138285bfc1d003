"""A store on a PostgreSQL server, against bare psycopg on the same server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from importlib.metadata import version
from typing import Any, Literal

from tests.backends.postgres.server import CannotStart
from tests.backends.postgres.trips import counted

import clew
from benchmarks import serverpeers
from benchmarks.bench import Bench, encoded, messages, texts
from benchmarks.floor import session_id
from benchmarks.measure import Block, Figure, Side, each, interleave, missing, once, ratio, span
from benchmarks.server import INSERT, Database, Floor, durability, served

TASKS = 8
OPS = 30
"""Reads in one block."""
Peer = serverpeers.OpenAI | serverpeers.LangGraph


def postgres(bench: Bench) -> Iterator[Figure]:
    """A store on a server of its own, against bare psycopg there: prepared statements, bytes as bytes."""
    try:
        with served() as database:
            yield _append(bench, database)
            yield _trips(database)
            yield _last(bench, database)
            yield _path(bench, database)
            yield _tasks(bench, database)
    except CannotStart as why:
        yield missing("postgres", f"no server: {why}")


def _append(bench: Bench, database: Database) -> Figure:
    """One durable message."""
    said, words = messages(bench.sizes.ops), texts(bench.sizes.ops)
    bodies = encoded(said)

    def bare(floor: Floor, name: str) -> Side:
        return lambda: each(lambda body: floor.append(name, body), bodies)

    def theirs(peer: Peer) -> Side:
        return lambda: _appended(peer, words)

    with ExitStack() as stack:
        store = stack.enter_context(clew.open(database.url(database.schema())))
        session = store.sessions.create()
        schema, name = database.schema(), session_id()
        floor = stack.enter_context(closing(Floor(database, schema)))
        alone = stack.enter_context(closing(database.connect(schema, autocommit=True)))
        sides: dict[str, Side] = {
            "floor": bare(floor, name),
            "alone": lambda: each(lambda body: alone.execute(INSERT, (name, body)), bodies),
            "clew": lambda: each(session.append, said),
        }
        times = interleave(sides, rounds=bench.sizes.blocks)
        more = f"; sums {times.total('clew'):.2f}x; clew {_ours(store)}, floor {durability(floor.conn)}; "
        more += f"{times.ratio('clew', 'alone'):.2f}x of an INSERT that commits itself ({span(times.median('alone'))})"
    others = _peers(bench, database, bare, theirs)
    return ratio("postgres: append", times, at_most=1.3, peers=others, more=more)


def _appended(peer: Peer, words: list[str]) -> Block:
    items = [peer.say(text) for text in words]
    return lambda: peer.append(items)


def _trips(database: Database) -> Figure:
    """How often an append waits for the server."""
    with clew.open(database.url(database.schema())) as store, closing(Floor(database, database.schema())) as floor:
        session = store.sessions.create()
        for text in ("this makes a tree", "this prepares the statement"):
            session.append(clew.user(text))
        session.path(last=20)
        floor.append("hello", b"{}")
        with store._engine.backend._connections.take() as conn:  # type: ignore[attr-defined]
            pass  # the next to ask gets the same
        with counted(conn) as ours:
            session.append(clew.user("hello"))
        with counted(conn) as glance:
            session.path(last=20)
        with counted(floor.conn) as theirs:
            floor.append("hello", b"{}")
    detail = f"INSERT and commit() of the floor: {theirs[0]}; clew's last 20: {glance[0]}"
    return Figure("postgres: round trips of an append", ours[0], unit="", at_most=1, detail=detail)


def _last(bench: Bench, database: Database) -> Figure:
    """The last twenty messages of a long session."""
    length = bench.sizes.long
    with ExitStack() as stack:
        floor, name, session = _long(stack, database, length)
        sides: dict[str, Side] = {
            "floor": lambda: each(lambda _: floor.last(name, 20), range(OPS)),
            "clew": lambda: each(lambda _: [node.message for node in session.path(last=20)], range(OPS)),
        }
        times = interleave(sides, rounds=bench.sizes.rounds)
    others = _peers(
        bench,
        database,
        lambda floor, name: once(lambda: floor.last(name, 20)),
        lambda peer: once(lambda: peer.last(20)),
        read="last",
    )
    return ratio(f"postgres: last 20 of {length:,}", times, at_most=2.0, peers=others)


def _path(bench: Bench, database: Database) -> Figure:
    """A whole session as nodes, every message read."""
    length = bench.sizes.path
    with ExitStack() as stack:
        floor, name, session = _long(stack, database, length)
        sides: dict[str, Side] = {
            "floor": once(lambda: floor.path(name)),
            "clew": once(lambda: [node.message for node in session.path()]),
        }
        times = interleave(sides, rounds=bench.sizes.rounds)
    others = _peers(
        bench, database, lambda floor, name: once(lambda: floor.path(name)), lambda peer: once(peer.load), read="load"
    )
    return ratio(f"postgres: path of {length:,} as nodes", times, at_most=1.2, peers=others)


def _tasks(bench: Bench, database: Database) -> Figure:
    """Appends a second of eight tasks, each with a session of its own, against one connection that commits."""
    rates = asyncio.run(_rates(bench, database))
    ratios = sorted(many / one for one, many in zip(rates["floor"], rates["clew"], strict=True))
    floor, ours = (sorted(found)[len(found) // 2] for found in (rates["floor"], rates["clew"]))
    low, high = ratios[len(ratios) // 4], ratios[len(ratios) * 3 // 4]
    detail = f"floor {floor:,.0f} a second, clew {ours:,.0f}; quartiles {low:.2f} to {high:.2f}"
    name = f"postgres: {TASKS} tasks against one connection"
    return Figure(name, ratios[len(ratios) // 2], at_least=3.0, detail=detail)


async def _rates(bench: Bench, database: Database) -> dict[str, list[float]]:
    import clew.aio

    rates: dict[str, list[float]] = {"floor": [], "clew": []}
    said, wanted = messages(50), bench.sizes.burst
    bodies = encoded(said)
    with closing(Floor(database, database.schema())) as floor:
        async with clew.aio.open(database.url(database.schema())) as store:
            sessions = [await store.sessions.create() for _ in range(TASKS)]

            async def talk(session: Any) -> None:
                for number in range(wanted // TASKS):
                    await session.append(said[number % len(said)])

            for number in range(bench.sizes.rounds // 2 + 1):
                start = time.perf_counter()
                for one in range(wanted):
                    floor.append("floor", bodies[one % len(bodies)])
                between = time.perf_counter()
                await asyncio.gather(*map(talk, sessions))
                end = time.perf_counter()
                if number:
                    rates["floor"].append(wanted / (between - start))
                    rates["clew"].append(wanted / (end - between))
    return rates


def _long(stack: ExitStack, database: Database, length: int) -> tuple[Floor, str, clew.Session]:
    """A session of `length` messages on both sides, each in a schema with nothing else in it."""
    said, name = messages(length), session_id()
    store = stack.enter_context(clew.open(database.url(database.schema())))
    session = store.sessions.create(title="Long", cwd="/src/app")
    with store.transaction():
        for start in range(0, length, 10_000):
            session.append(said[start : start + 10_000])
    floor = stack.enter_context(closing(Floor(database, database.schema())))
    floor.fill(name, encoded(said))
    database.analyze()
    return floor, name, session


def _peers(
    bench: Bench,
    database: Database,
    bare: Callable[[Floor, str], Side],
    theirs: Callable[[Peer], Side],
    *,
    read: Literal["last", "load"] | None = None,
) -> dict[str, str]:
    """What the others take for the same, in the unit of a floor beside them; if they `read`, of as many messages."""
    sizes, found = bench.sizes, {}
    for kind in serverpeers.installed(bench):
        schema, name = database.schema(), session_id()
        with closing(Floor(database, schema)) as floor, closing(kind(database.conninfo(schema))) as peer:
            if read is not None:
                peer.fill(texts(sizes.peer_messages))
                floor.fill(name, encoded(messages(sizes.peer_messages)))
                database.analyze()
            rounds = max(2, sizes.rounds // 6) if read else sizes.blocks // 4 or 1
            times = interleave({"floor": bare(floor, name), "peer": theirs(peer)}, rounds=rounds)
            told = f" of {sizes.peer_messages:,}" if read else f"; {version(kind.package)}, {peer.durability()}"
        note = f"; {kind.notes[read]}" if read in kind.notes else ""
        found[kind.label] = f"{times.ratio('peer'):6.1f}x   {span(times.median('peer'))}{told}{note}"
    return found


def _ours(store: clew.Store) -> str:
    """How durable what clew commits is, asked on a connection of its own."""
    with store._engine.backend._connections.take() as conn:  # type: ignore[attr-defined]
        return durability(conn)
