"""Finding words, once they are indexed, and how fast that goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import clew
from benchmarks.bench import COMMON, RARE, Bench, messages, texts
from benchmarks.floor import Floor
from benchmarks.measure import Figure, Side, each, interleave, ratio

KEY = bytes(range(32))


def search(bench: Bench) -> Iterator[Figure]:
    """One word in all messages: the twenty best, with and without snippets; their order; labels; sealed stores."""
    count, ops = bench.sizes.long, 20
    ours, _, _ = bench.long_session(bench.disk, count)
    with clew.open(bench.copy(ours)) as store, closing(Floor(bench.file(bench.disk))) as floor:
        took = _seconds(lambda: store.search("nowhere", limit=1))
        floor_took = _seconds(lambda: floor.index(texts(count)))
        for word, often in ((RARE, "1 message in 5,000"), (COMMON, "1 in 100")):
            sides: dict[str, Side] = {
                "floor": lambda word=word: each(lambda _: floor.search(word, 20), range(ops)),  # type: ignore[misc]
                "clew": lambda word=word: each(lambda _: _shown(store.search(word, limit=20)), range(ops)),  # type: ignore[misc]
                "unread": lambda word=word: each(lambda _: store.search(word, limit=20), range(ops)),  # type: ignore[misc]
            }
            times = interleave(sides, rounds=bench.sizes.rounds)
            yield ratio(f"search {count:,} for a word in {often}", times, at_most=2.0)
            yield ratio(f"search {count:,} for a word in {often}, snippets not read", times, side="unread")
    yield Figure(
        "indexing", count / took, unit=" a second", detail=f"the floor's FTS5 {count / floor_took:,.0f} a second"
    )
    yield _topic(bench)
    yield _labels(bench)
    yield _sealed(bench)


def _topic(bench: Bench) -> Figure:
    """How many of the best hits are in a session about the word, if other sessions mention it in passing."""
    count = bench.sizes.long // 4
    with clew.open(bench.file(bench.disk)) as store:
        talk, topic = store.sessions.create(), store.sessions.create()
        said = [clew.user(f"{one} {'by the way a zeppelin' * (at % 500 == 0)}") for at, one in enumerate(texts(count))]
        talk.append(said[: count // 2])
        topic.append([clew.user(f"zeppelin {one} zeppelin, zeppelin") for one in texts(max(50, count // 5))])
        talk.append(said[count // 2 :])
        found = sum(hit.node.text.startswith("zeppelin") for hit in store.search("zeppelin", limit=50))
    return Figure("a topic's messages among the first 50 hits", found, unit="", at_least=45)


def _labels(bench: Bench) -> Figure:
    """A label of one session among 100 and among 10,000."""
    stores, most = {}, min(10_000, bench.sizes.sessions)
    for name, count in (("few", 100), ("many", most)):
        stores[name] = store = clew.open(bench.file(bench.disk))
        store.sessions.create(labels=["wanted"])
        with store.transaction():
            for _ in range(count):
                store.sessions.create()

    def find(name: str) -> Side:
        return lambda: each(lambda _: stores[name].sessions.list(label="wanted", total=True), range(100))

    times = interleave({name: find(name) for name in stores}, rounds=bench.sizes.rounds)
    for store in stores.values():
        store.close()
    return ratio(f"label among {most:,} sessions, of 100", times, side="many", base="few", at_most=1.2)


def _sealed(bench: Bench) -> Figure:
    """The first search of a process in a sealed store that another process has searched before."""
    path, count = bench.file(bench.disk), bench.sizes.long
    with clew.open(path, key=KEY) as store:
        store.sessions.create().append(messages(count))
        indexing = _seconds(lambda: store.search(RARE))
    took = []
    for _ in range(5):
        with clew.open(path, key=KEY) as store:
            took.append(_seconds(lambda store=store: store.search(RARE)))  # type: ignore[misc]
    return Figure(
        f"sealed, first search of a process, {count:,} messages", min(took), unit=" s", at_most=0.3,
        detail=f"indexing takes {indexing:.2f} s; all in processor time",
    )  # fmt: skip


def _seconds(work: Callable[[], object]) -> float:
    """The processor time that it takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _shown(hits: list[Any]) -> list[Any]:
    """What the floor's rows have as well."""
    return [(hit.node.id, hit.snippet, hit.score) for hit in hits]
