"""Agent sessions: resuming long ones, and what a mirror costs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import clew
from benchmarks.bench import Bench, messages
from benchmarks.measure import Figure, Side, each, interleave, ratio
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
    """An append to a session with a mirror, against one without: three more syncs, and no more as it grows."""
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, length in (("plain", 0), ("mirrored", 0), ("long", bench.sizes.path)):
            path = bench.file(bench.disk)
            root = None if name == "plain" else f"{path}-mirror"
            session = stack.enter_context(agents.open(path, mirror=root)).create()
            for message in messages(length):
                session.add(message)
            session.save()
            sides[name] = _append(session, bench.sizes.ops)
            assert root is None or os.path.isdir(root)
        times = interleave(sides, rounds=bench.sizes.blocks // 4 + 1)
    yield ratio("append with a mirror, against without", times, side="mirrored", base="plain")
    name = f"append with a mirror, to {bench.sizes.path:,} against none"
    yield ratio(name, times, side="long", base="mirrored", at_most=1.5)


def _resume(sessions: agents.SessionStore) -> Side:
    (about,) = sessions.list()
    return lambda: each(lambda _: [node.message for node in sessions.resume(about.id).last(LAST)], range(OPS))


def _append(session: agents.Session, count: int) -> Side:
    return lambda: each(lambda n: session.append_and_save(clew.user(f"message {n}")), range(count))
