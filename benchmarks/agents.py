"""Agent sessions: resuming long ones, and what a mirror costs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import clew
from benchmarks.bench import Bench, messages
from benchmarks.measure import Figure, Side, clock, each, interleave, ratio
from clew import agents

SHORT, LAST, OPS = 100, 20, 30


def resume(bench: Bench) -> Iterator[Figure]:
    """The last twenty messages of a session that is resumed by its id: a long one against a short one."""
    length = bench.sizes.long
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, count in (("long", length), ("short", SHORT)):
            ours, _, _ = bench.long_session(bench.disk, count)
            sides[name] = _resume(stack.enter_context(agents.open(ours)))
        times = interleave(sides, rounds=bench.sizes.rounds)
    yield ratio(f"resume last {LAST} of {length:,}, against {SHORT}", times, side="long", base="short", at_most=1.2)


def mirror(bench: Bench) -> Iterator[Figure]:
    """An append to a session with a mirror, which a thread writes, against one without. The sums include its files."""
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, length in (("plain", 0), ("mirrored", 0), ("long", bench.sizes.path)):
            path = bench.file(bench.disk)
            root = None if name == "plain" else f"{path}-mirror"
            sessions = stack.enter_context(agents.open(path, mirror=root))
            session = sessions.create()
            for message in messages(length):
                session.add(message)
            session.save()
            sides[name] = _append(sessions, session, bench.sizes.ops)
            assert root is None or os.path.isdir(root)
        times = interleave(sides, rounds=bench.sizes.blocks // 4 + 1)
    more = f"; sums {times.total('mirrored', 'plain'):.2f}x"
    yield ratio("append with a mirror, against without", times, side="mirrored", base="plain", more=more)
    name = f"append with a mirror, to {bench.sizes.path:,} against none"
    yield ratio(name, times, side="long", base="mirrored", at_most=1.5)


def _resume(sessions: agents.SessionStore) -> Side:
    (about,) = sessions.list()
    return lambda: each(lambda _: [node.message for node in sessions.resume(about.id).last(LAST)], range(OPS))


def _append(sessions: agents.SessionStore, session: agents.Session, count: int) -> Side:
    def block() -> list[float]:
        took = list(each(lambda n: session.append_and_save(clew.user(f"message {n}")), range(count))())
        start = clock()
        sessions.flush()
        took[-1] += clock() - start
        return took

    return lambda: block
