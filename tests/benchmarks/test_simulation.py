"""Many sessions: ids, numbers and partitions spread as evenly as chance allows, and the look at them can tell."""

from __future__ import annotations

import random

import pytest
from benchmarks.simulation import SESSIONS, Report, Spread, check, lines, number, partition, simulate

from clew.backends.rows import MAX_POS, SEQ_BITS, creation_counter
from clew.base import ids
from clew.base.ids import handle_beside


def test_a_hundred_thousand_sessions() -> None:
    """Nothing is made twice, nothing goes backwards, and no shard, partition or page gets more than its share."""
    report = simulate(100_000)
    check(report)
    assert sum(report.handles.values()) == report.sessions
    assert "100,000 sessions" in "\n".join(lines(report))


@pytest.mark.soak
def test_ten_million_sessions() -> None:
    """The same at the size that it is about, where the shares must be even, too."""
    report = simulate(SESSIONS)
    print("\n".join(lines(report)))
    check(report)
    assert report.shards.largest < 1.5
    assert report.partitions.largest < 1.1


def test_what_is_uneven_is_told() -> None:
    """Each look fails if what it looks at is wrong."""
    report = simulate(20_000)
    check(report)
    wrong: list[Report] = [
        report._replace(twice=1),
        report._replace(backwards=1),
        report._replace(disorder=1),
        report._replace(shards=Spread(report.shards.bound + 0.1, report.shards.bound)),
        report._replace(handles={6: 10_000, 9: 10_000}),
        report._replace(hot=report.hot._replace(partition=0.2)),
        report._replace(hot=report.hot._replace(id_page=0.01)),
    ]
    for one in wrong:
        with pytest.raises(AssertionError):
            check(one)


def test_numbers_and_handles_are_the_stores_own() -> None:
    """Positions lie in the partition of their tree, in the order of counters; handles are as long as the store's."""
    chance = random.Random(7)
    for _ in range(500):
        tree, counter, seq = chance.randrange(1 << 40), chance.randrange(1, 1 << 31), chance.randrange(1 << 24)
        run = number(tree, counter)
        assert creation_counter(run) == counter
        assert 0 <= run << SEQ_BITS | seq <= MAX_POS
        assert partition(run << SEQ_BITS | seq) == (tree & 255) // 16
    assert number(255, (1 << 31) - 1) << SEQ_BITS | (1 << SEQ_BITS) - 1 == MAX_POS == (1 << 63) - 1
    for _ in range(500):
        one, other = ids.new_id(), ids.new_id()
        close = one[:4] + other[4:]
        shared = (64 - (int.from_bytes(one[:8], "big") ^ int.from_bytes(close[:8], "big")).bit_length()) // 5
        assert len(handle_beside(one, [close])) == max(6, shared + 1)
