"""One of several processes that append to the same file; `together` starts them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import clew
from benchmarks.bench import encoded, messages
from benchmarks.floor import Floor


def main(kind: str, path: str, session: str, seconds: float) -> None:
    """Says that it is ready, waits for a line, appends until the time is over, and prints what each append took."""
    said = messages(50)
    append: Callable[[int], object]
    if kind == "clew":
        ours = clew.open(path).sessions.get(session)
        append = lambda number: ours.append(said[number % 50])  # noqa: E731
    else:
        floor, bodies = Floor(path), encoded(said)
        append = lambda number: floor.append(session, bodies[number % 50])  # noqa: E731
    print("ready", flush=True)
    sys.stdin.readline()
    took: list[float] = []
    end = time.perf_counter() + seconds
    before = time.perf_counter()
    while before < end:
        append(len(took))
        now = time.perf_counter()
        took.append(now - before)
        before = now
    print(json.dumps(took))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
