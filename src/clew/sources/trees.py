"""Trees in which each node names its parent, in any order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def parents_first(parents: Mapping[str, str | None]) -> Iterator[str]:
    """Each node after its parent; a cycle is cut where it is first met."""
    placed: set[str] = set()
    for key in parents:
        way: list[str] = []
        at: str | None = key
        while at is not None and at in parents and at not in placed:
            placed.add(at)
            way.append(at)
            at = parents[at]
        yield from reversed(way)
