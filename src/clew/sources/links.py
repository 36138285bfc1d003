"""Lines that follow each other by their ids, as a tree: lines that are no messages are passed over."""

from __future__ import annotations

from typing import NamedTuple


class ChainLink(NamedTuple):
    """Where a message goes: after another message, or to a root that stands for one."""

    parent: str | None
    derived: str | None = None


class LinkMap:
    """The lines of a file so far, and the message that each of them stands for."""

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
