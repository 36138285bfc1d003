"""Trees of messages that name their parents, in any order and with any fault."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

Parents = Mapping[str, str | None]
"""For each message the one it follows; None for a root. A parent may be missing, and there may be cycles."""


def path_to(key: str | None, parents: Parents) -> list[str]:
    """The messages from the root to one; a cycle is cut where it is met."""
    way: dict[str, None] = {}
    while key is not None and key in parents and key not in way:
        way[key] = None
        key = parents[key]
    return [*way][::-1]


def parents_first(parents: Parents, head: str | None = None) -> Iterator[str]:
    """Each message after its parent, and the path to the head last; a cycle is cut where it is first met."""
    shown = path_to(head, parents)
    placed: set[str] = set()
    last = frozenset(shown)
    for key in (*(key for key in parents if key not in last), *shown):
        way: list[str] = []
        at: str | None = key
        while at is not None and at in parents and at not in placed:
            placed.add(at)
            way.append(at)
            at = parents[at]
        yield from reversed(way)


class Nearest:
    """The first of the `kept` messages from one upwards, itself included. No message is passed twice."""

    def __init__(self, parents: Parents, kept: Container[str]) -> None:
        self._parents, self._kept = parents, kept
        self._found: dict[str, str | None] = {}

    def __call__(self, key: str | None) -> str | None:
        way: list[str] = []
        while key is not None and key not in self._kept:
            if key in self._found or key not in self._parents:
                key = self._found.get(key)
                break
            self._found[key] = None  # what a cycle leads to
            way.append(key)
            key = self._parents[key]
        self._found.update(dict.fromkeys(way, key))
        return key


def parent_fault(above: str | None, given: Container[str], parents: Parents) -> str | None:
    """Why a message cannot follow `above`, which does not come before it; None if it can."""
    if above is None or above in given:
        return None
    return "its parents are a cycle, which is cut here" if above in parents else "its parent is missing"
