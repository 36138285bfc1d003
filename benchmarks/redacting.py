"""What redaction costs: an append with the built-in rules beside one without, and how fast text is looked through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from time import process_time

import clew
from benchmarks.appending import clew_side
from benchmarks.bench import Bench, texts
from benchmarks.measure import Figure, Side, interleave, ratio
from clew.redaction import Rules, builtin
from clew.redaction import redact as redacted


def redact(bench: Bench) -> Iterator[Figure]:
    """Appends on disk, and megabytes a second in memory: prose, and a list that is nothing but what is looked for."""
    sizes, rules = bench.sizes, Rules(builtin("email"))
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for label, given in (("plain", None), ("redacted", rules)):
            store = stack.enter_context(clew.open(bench.file(bench.disk), redact=given))
            sides[label] = clew_side(store.sessions.create(), sizes.ops)
        times = interleave(sides, rounds=sizes.blocks)
    yield ratio("append with redaction, on disk", times, side="redacted", base="plain", at_most=1.5)
    prose = "\n".join(texts(sizes.path))
    yield _speed("redaction of prose", prose, rules, at_least=20)
    yield _speed("redaction of addresses", "ada@example.com\n" * sizes.path, rules, at_least=0.5)


def _speed(name: str, text: str, rules: Rules, *, at_least: float) -> Figure:
    said = clew.user(text)
    took = []
    for _ in range(3):
        began = process_time()
        redacted(said, rules)
        took.append(process_time() - began)
    megabytes = len(text.encode()) / 1e6
    detail = f"{megabytes:.2f} MB, processor time, best of 3"
    return Figure(name, megabytes / min(took), " MB/s", at_least=at_least, detail=detail)
