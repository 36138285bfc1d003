"""Records what each test costs, so that the lanes can be decided by sums and on a busy machine.

``CLEW_TEST_COSTS=costs.jsonl pytest …`` appends a line for each test: seconds on the clock, processor time of the test
process and of its finished children, and seconds the main thread was ready to run but other processes had the
processor. ``python -m tests.costs costs.jsonl …`` adds them up.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

VARIABLE = "CLEW_TEST_COSTS"


class Cost(NamedTuple):
    """What a test took, in seconds."""

    wall: float = 0.0
    cpu: float = 0.0
    children: float = 0.0
    queued: float = 0.0

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def idle_machine(self) -> float:
        """An estimate of the seconds on a machine that does nothing else.

        Children wait for the processor as often as the test process does; so their share of the clock is scaled. A
        server that runs for many tests is counted with those that wait for it, not with the last one, which ends it.
        """
        children = min(self.children, 2 * self.wall)
        running = self.cpu + children
        share = self.cpu / (self.cpu + self.queued) if self.cpu > 0.01 else 1.0
        waiting = self.wall - self.queued - self.cpu - children / share
        return running + max(0.0, waiting)


def now() -> Cost:
    """The counters of this process."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        queued = int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        queued = 0.0
    return Cost(time.monotonic(), time.process_time(), usage.ru_utime + usage.ru_stime, queued)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Appends the cost of a test, with its fixtures."""
    before = now()
    try:
        return (yield)
    finally:
        line = json.dumps({"test": item.nodeid, **(now() - before)._asdict()})
        with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
            file.write(line + "\n")


def main(paths: list[str]) -> None:
    """Prints the sums by folder and module, and the most expensive tests."""
    costs: dict[str, Cost] = {}
    for path in paths:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            data = json.loads(line)
            test = data.pop("test")
            costs[test] = Cost(**data)
    by_file: defaultdict[str, float] = defaultdict(float)
    for test, cost in costs.items():
        by_file[test.partition("::")[0]] += cost.idle_machine
    for file, seconds in sorted(by_file.items(), key=lambda item: -item[1]):
        print(f"{seconds:8.1f}  {file}")
    print()
    for test, cost in sorted(costs.items(), key=lambda item: -item[1].idle_machine)[:100]:
        print(f"{cost.idle_machine:8.2f}  wall {cost.wall:6.2f}  cpu {cost.cpu:6.2f} + {cost.children:6.2f}  {test}")
    total = sum(cost.idle_machine for cost in costs.values())
    running = sum(cost.cpu + cost.children for cost in costs.values())
    print(f"\n{len(costs)} tests: {total:.0f} s alone, {running:.0f} s of them running; {total / 2:.0f} s on two cores")


if __name__ == "__main__":
    main(sys.argv[1:])
