"""Finding words, once they are indexed, and how fast that goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import clew
from benchmarks.bench import COMMON, RARE, Bench, texts
from benchmarks.floor import Floor
from benchmarks.measure import Figure, Side, each, interleave, missing, ratio


def search(bench: Bench) -> Iterator[Figure]:
    """One word in all messages: the twenty best, with snippets."""
    if not hasattr(clew.Store, "search"):
        yield missing("search", "store.search is not there yet")
        return
    count, ops = bench.sizes.long, 20
    ours, _, _ = bench.long_session(bench.disk, count)
    with clew.open(bench.copy(ours)) as opened, closing(Floor(bench.file(bench.disk))) as floor:
        store: Any = opened
        start = time.perf_counter()
        store.search("nowhere", limit=1)
        took = time.perf_counter() - start
        start = time.perf_counter()
        floor.index(texts(count))
        floor_took = time.perf_counter() - start
        for word, often in ((RARE, "1 message in 5,000"), (COMMON, "1 in 100")):
            sides: dict[str, Side] = {
                "floor": lambda word=word: each(lambda _: floor.search(word, 20), range(ops)),  # type: ignore[misc]
                "clew": lambda word=word: each(lambda _: _shown(store.search(word, limit=20)), range(ops)),  # type: ignore[misc]
            }
            times = interleave(sides, rounds=bench.sizes.rounds)
            yield ratio(f"search {count:,} for a word in {often}", times, at_most=2.0)
    yield Figure(
        "indexing", count / took, unit=" a second", detail=f"the floor's FTS5 {count / floor_took:,.0f} a second"
    )


def _shown(hits: list[Any]) -> list[Any]:
    """What the floor's rows have as well."""
    return [(hit.node.id, hit.snippet, hit.score) for hit in hits]
