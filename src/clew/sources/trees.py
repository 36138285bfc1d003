"""Trees of messages: named by parents in any order and with any fault, or as lines that follow each other."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

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


class ChainLink(NamedTuple):
    """Where a message goes: after another message, or to a root that stands for one."""

    parent: str | None
    derived: str | None = None


class LinkMap:
    """The lines of a file so far, and the message that each stands for. Lines that are no messages are passed over."""

    def __init__(self) -> None:
        self._after: dict[str, ChainLink] = {}
        self._last = ChainLink(None)

    @property
    def head(self) -> str | None:
        """The message that the last line stands for."""
        return self._last.parent

    def above(self, id: object, parent: object) -> tuple[ChainLink, str | None]:
        """Where a line goes, and what is wrong with that."""
        if not isinstance(parent, str):
            return ChainLink(None), None
        if parent == id:
            return ChainLink(None), "it names itself as its parent"
        found = self._after.get(parent)
        return (ChainLink(None), "its parent is missing") if found is None else (found, None)

    def add(self, id: object, link: ChainLink) -> None:
        """Notes what a line stands for: itself, if it is a message, or what it follows."""
        if isinstance(id, str):
            self._after[id] = self._last = link
