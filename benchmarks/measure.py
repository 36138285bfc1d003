"""How time is taken, and how a figure is told.

Blocks of every side take turns, in an order that rotates, so that a slow spell of the machine meets all alike. Each
operation of a block is timed by itself, and the block counts as their median: a long block is interrupted more often
than a short one, and its mean would say so. A ratio is the median, over the rounds, of one side's block to the floor's
block of the same round.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

Block = Callable[[], Sequence[float]]
"""Does some operations, and returns the seconds that each took."""
Side = Callable[[], Block]
"""Makes the next block ready, untimed."""
T = TypeVar("T")
clock = time.perf_counter


def each(operation: Callable[[T], object], items: Iterable[T]) -> Block:
    """A block that does the operation to one item after the other."""

    def block() -> list[float]:
        took = []
        for item in items:
            start = clock()
            operation(item)
            took.append(clock() - start)
        return took

    return block


def once(operation: Callable[[], object]) -> Side:
    """A side whose block is one operation."""
    return lambda: each(lambda _: operation(), (None,))


@dataclass(frozen=True)
class Times:
    """Seconds per operation, one number for each round, by side: the medians of the blocks, and their means."""

    rounds: Mapping[str, Sequence[float]]
    means: Mapping[str, Sequence[float]]

    def median(self, side: str) -> float:
        return statistics.median(self.rounds[side])

    def ratios(self, side: str, base: str = "floor") -> list[float]:
        return [one / floor for one, floor in zip(self.rounds[side], self.rounds[base], strict=True)]

    def ratio(self, side: str, base: str = "floor") -> float:
        return statistics.median(self.ratios(side, base))

    def total(self, side: str, base: str = "floor") -> float:
        """The ratio of the sums: what medians hide, such as a checkpoint now and then, is in it."""
        return sum(self.means[side]) / sum(self.means[base])

    def fastest(self, side: str, base: str = "floor") -> float:
        """The ratio of the fastest blocks: on a busy machine, the least disturbed."""
        return min(self.rounds[side]) / min(self.rounds[base])

    def spread(self, side: str, base: str = "floor") -> tuple[float, float]:
        """The quartiles of the ratio."""
        found = self.ratios(side, base)
        if len(found) < 2:
            return found[0], found[0]
        low, _, high = statistics.quantiles(found, n=4)
        return low, high


def interleave(sides: Mapping[str, Side], *, rounds: int) -> Times:
    """Runs each side's blocks, turn by turn. One round before is not counted."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    means: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    gc.collect()
    gc.freeze()  # what is imported by now is not looked through again in the middle of a block
    try:
        for number in range(rounds + 1):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                block = sides[name]()
                gc.collect()
                took = block()
                if number:
                    found[name].append(statistics.median(took))
                    means[name].append(statistics.fmean(took))
    finally:
        gc.unfreeze()
    return Times(found, means)


@dataclass
class Figure:
    """One number, what was asked of it, and what stands behind it."""

    name: str
    value: float
    unit: str = "x"
    at_most: float | None = None
    at_least: float | None = None
    detail: str = ""
    peers: dict[str, str] = field(default_factory=dict)
    """What the others did, in words, by name."""
    kind: Literal["figure", "missing"] = "figure"

    @property
    def met(self) -> bool | None:
        """None if nothing was asked of it."""
        if self.kind == "missing" or self.at_most is self.at_least is None:
            return None
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g}{self.unit}"
        return "" if self.at_least is None else f">= {self.at_least:g}{self.unit}"

    def lines(self) -> list[str]:
        """As printed."""
        if self.kind == "missing":
            return [f"{self.name:<44} {self.detail}"]
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        shown = f"{self.value:,.0f}" if abs(self.value) >= 1000 else f"{self.value:.2f}"
        lines = [f"{self.name:<44} {shown + self.unit:>12}  {self.target:<11} {verdict}".rstrip()]
        if self.detail:
            lines.append(f"    {self.detail}")
        lines += [f"    {name:<34} {words}" for name, words in self.peers.items()]
        return lines

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "target": self.target, "met": self.met}


def missing(name: str, why: str) -> Figure:
    """A figure that could not be taken."""
    return Figure(name, 0.0, detail=why, kind="missing")


def ratio(
    name: str,
    times: Times,
    *,
    side: str = "clew",
    base: str = "floor",
    at_most: float | None = None,
    peers: Mapping[str, str] | None = None,
    more: str = "",
) -> Figure:
    """The figure of one side against another, with both times and the quartiles."""
    low, high = times.spread(side, base)
    detail = f"{base} {span(times.median(base))}, {side} {span(times.median(side))}"
    detail += f"; quartiles {low:.2f} to {high:.2f}, fastest blocks {times.fastest(side, base):.2f}"
    found = dict(peers or {})
    return Figure(name, times.ratio(side, base), at_most=at_most, detail=detail + more, peers=found)


def seconds(name: str, took: Sequence[float], *, at_most: float) -> Figure:
    """The median of times that are asked for as such."""
    detail = f"{len(took)} times, from {span(min(took))} to {span(max(took))}"
    return Figure(name, statistics.median(took), " s", at_most=at_most, detail=detail)


def span(seconds: float) -> str:
    """A duration in the unit that suits it."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
