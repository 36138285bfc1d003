"""Ten million sessions, without storing one: `python -m benchmarks.simulation [sessions]`.

Ids are made by `clew.base.ids`, by many processes whose clocks differ, stand still and step back; numbers are given as
a server gives them. What is looked at is how they spread: over the index of ids, over handles, over shards and over
partitions; and where the writes of one moment meet. Sessions are as long and as busy as those of people: a fifth of
them has four fifths of the messages. `check` raises if something is further from even than chance explains.
"""

from __future__ import annotations

import random
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from clew.backends.rows import COUNTER_BITS, SEQ_BITS, SHARDS
from clew.base.ids import SHORTEST, Uuid7

SESSIONS = 10_000_000
PARTITIONS = 16
PROCESSES = 200
MONTHS = 12
LONGEST = 100_000
"""Messages in the longest session."""
SHORT, TAIL = 6.5, 1.16
"""Where the Pareto distribution of lengths begins, and its exponent: 40 messages on average, and the 80/20 rule."""
FORKED = 0.1
"""How many of the sessions begin another run, by a fork or a rewind; and of those again, and so on."""
ACTIVE = 10_000
"""Sessions that are written to in the same minutes."""
WRITES = 100_000
LEAF = 250
"""Entries in a page of an index."""
_EVEN = 4096


class Spread(NamedTuple):
    """How evenly something is shared out: the largest share over the mean, and the most that chance explains."""

    largest: float
    bound: float


class Hot(NamedTuple):
    """Where the writes of one moment meet: the largest share that one place gets."""

    session: float
    """Of the session that is written to most: what it gets is one after the other, whatever the store."""
    shard: float
    partition: float
    position_page: float
    """Of a page of the index of positions."""
    id_page: float
    order_page: float
    """Of a page of the index by order of commit: everything, in a store that is whole; else what one partition gets."""


class Report(NamedTuple):
    sessions: int
    messages: int
    runs: int
    twice: int
    """Ids that were made twice."""
    backwards: int
    """Ids that do not come after the one before, of the same process."""
    ids: Spread
    """Over 4,096 stretches of the index of ids."""
    handles: dict[int, int]
    """How many sessions have a handle of so many letters."""
    shards: Spread
    """Messages, over 256 shards."""
    partitions: Spread
    """Messages, over 16 partitions."""
    disorder: int
    """Runs whose position does not lie in the range of their tree's shard, or not after the tree's earlier ones."""
    hot: Hot


def number(tree: int, counter: int) -> int:
    """The number of a run of a tree, as `add_run` of queries.postgres.sql gives it."""
    return (tree & SHARDS - 1) << COUNTER_BITS | counter


def partition(pos: int, parts: int = PARTITIONS) -> int:
    """Where partitions.postgres.sql puts a position."""
    return (pos >> COUNTER_BITS + SEQ_BITS) * parts // SHARDS


class _Process:
    """One of the programs that write: a clock that is wrong, and a source of ids."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._wrong = int(chance.gauss(0, 2e9))
        self._now = 0
        self._last = 0
        self.backwards = 0
        self._new = Uuid7(lambda: self._now)

    def id(self, now: int) -> bytes:
        """A new id at a moment, given in nanoseconds."""
        if self._chance.random() < 0.001:  # set anew, by up to a minute either way
            self._wrong = int(self._chance.uniform(-6e10, 6e10))
        self._now = now + self._wrong
        made = self._new()
        read = int.from_bytes(made, "little") >> 64  # what orders ids: time, then the count within it
        self.backwards += read <= self._last
        self._last = read
        return made


def lengths(chance: random.Random) -> Iterator[int]:
    """Messages in one session after the other."""
    while True:
        yield min(LONGEST, round(SHORT * chance.paretovariate(TAIL)))


def simulate(sessions: int = SESSIONS, seed: int = 1) -> Report:
    """Makes the sessions one after the other; what it holds grows by eight bytes for each."""
    chance = random.Random(seed)
    processes = [_Process(chance) for _ in range(PROCESSES)]
    begin, step = 1_800_000_000 * 10**9, MONTHS * 30 * 86_400 * 10**9 // sessions
    tails = [array("Q") for _ in range(256)]  # what leads in the index of ids, in 256 stretches of it
    rows = [0] * SHARDS
    counter = messages = squares = longest = disorder = 0
    active: list[tuple[int, int, int]] = []
    for tree, length in zip(range(1, sessions + 1), lengths(chance), strict=False):
        id = processes[tree % PROCESSES].id(begin + tree * step)
        tails[id[0]].append(int.from_bytes(id[:8], "big"))
        before, shard = 0, tree & SHARDS - 1
        while True:
            counter += 1
            pos = number(tree, counter) << SEQ_BITS
            disorder += pos >> COUNTER_BITS + SEQ_BITS != shard or pos <= before
            before = pos
            if chance.random() >= FORKED:
                break
        rows[shard] += length
        messages += length
        squares += length * length
        longest = max(longest, length)
        if tree > sessions - ACTIVE:
            active.append((pos, rows[shard] // LEAF, tree))
    sigma = max(squares / sessions - (messages / sessions) ** 2, 0) ** 0.5 / (messages / sessions)
    parts = [0] * PARTITIONS
    for shard, count in enumerate(rows):
        parts[shard * PARTITIONS // SHARDS] += count
    twice, handles, stretches = _ids(tails)
    return Report(
        sessions, messages, counter, twice, sum(process.backwards for process in processes),
        _spread(stretches, 1.0, sessions, 8), handles,  # in a stretch with few, chance may well put eight more
        _spread(rows, sigma, sessions, longest), _spread(parts, sigma, sessions, longest),
        disorder, _hot(chance, active, sessions),
    )  # fmt: skip


def _spread(shares: list[int], deviation: float, sessions: int, longest: int) -> Spread:
    """Chance explains five standard deviations of a share, and the longest session, which is in one of them whole."""
    mean = sum(shares) / len(shares)
    return Spread(max(shares) / mean, 1 + 5 * deviation * (len(shares) / sessions) ** 0.5 + longest / mean)


def _ids(tails: list[array[int]]) -> tuple[int, dict[int, int], list[int]]:
    """Ids that are there twice, the lengths of handles, and how the ids are spread; by and by, to hold little."""
    twice, handles, stretches = 0, Counter[int](), [0] * _EVEN
    for stretch in tails:
        ordered = sorted(stretch)
        stretch[:] = array("Q")
        shared = 0
        for one, after in zip(ordered, [*ordered[1:], None], strict=True):
            stretches[one >> 52] += 1
            ahead = 0 if after is None else (64 - (one ^ after).bit_length()) // 5
            twice += one == after
            handles[max(SHORTEST, max(shared, ahead) + 1)] += 1
            shared = ahead
    return twice, dict(sorted(handles.items())), stretches


def _hot(chance: random.Random, active: list[tuple[int, int, int]], sessions: int) -> Hot:
    """The writes of some minutes, to the sessions that are active then, some of them far busier than others."""
    busy = [min(chance.paretovariate(TAIL), 50.0) for _ in active]
    places: tuple[Counter[object], ...] = tuple(Counter() for _ in range(5))
    writes = min(WRITES, sessions)
    for pos, leaf, tree in chance.choices(active, busy, k=writes):
        shard = pos >> COUNTER_BITS + SEQ_BITS
        id_page = chance.randrange(max(1, sessions * 40 // LEAF))
        for counted, place in zip(places, (tree, shard, partition(pos), (shard, leaf), id_page), strict=True):
            counted[place] += 1
    most = [counted.most_common(1)[0][1] / writes for counted in places]
    return Hot._make([*most, 1.0])


def check(report: Report) -> None:
    """AssertionError if something is not as it must be."""
    assert report.twice == 0, f"{report.twice} ids were made twice"
    assert report.backwards == 0, f"{report.backwards} ids do not come after the one before"
    assert report.disorder == 0, f"{report.disorder} runs are not where their tree is"
    for name in ("ids", "shards", "partitions"):
        largest, bound = getattr(report, name)
        assert largest <= bound, f"{name}: {largest:.3f} times the mean, where chance explains {bound:.3f}"
    letters = sum(length * count for length, count in report.handles.items()) / report.sessions
    assert letters < SHORTEST + 0.1, f"a handle has {letters:.2f} letters on average"
    assert max(report.handles) <= 13, f"a handle has {max(report.handles)} letters"
    hot = report.hot
    assert hot.session < 0.005, f"one session gets {hot.session:.2%} of the writes"
    assert hot.shard < 3 / SHARDS, f"one shard gets {hot.shard:.2%} of the writes"
    assert hot.partition < 1.3 / PARTITIONS, f"one partition gets {hot.partition:.2%} of the writes"
    assert hot.position_page < 0.02, f"one page of positions gets {hot.position_page:.2%} of the writes"
    assert hot.id_page < 0.001, f"one page of ids gets {hot.id_page:.2%} of the writes"


def lines(report: Report) -> Iterator[str]:
    """The report, for people."""
    yield f"{report.sessions:,} sessions, {report.messages:,} messages, {report.runs:,} runs"
    yield f"ids: {report.twice} made twice, {report.backwards} out of order; fullest stretch {_told(report.ids)}"
    shares = ", ".join(f"{count / report.sessions:.4%} with {length}" for length, count in report.handles.items())
    yield f"letters of handles: {shares}"
    yield f"messages in the fullest of {SHARDS} shards {_told(report.shards)}"
    yield f"messages in the fullest of {PARTITIONS} partitions {_told(report.partitions)}"
    hot = report.hot
    yield (
        f"of the writes of one moment to {ACTIVE:,} sessions, the busiest session gets {hot.session:.2%}, shard"
        f" {hot.shard:.2%}, partition {hot.partition:.2%}; a page of the index of positions {hot.position_page:.2%},"
        f" of ids {hot.id_page:.3%}, by order of commit {hot.order_page:.0%} ({hot.partition:.2%} in partitions)"
    )


def _told(spread: Spread) -> str:
    return f"{spread.largest:.3f} times the mean (chance explains {spread.bound:.3f})"


if __name__ == "__main__":
    made = simulate(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS)
    print("\n".join(lines(made)))
    check(made)
