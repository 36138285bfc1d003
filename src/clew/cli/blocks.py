"""Markdown as it comes, cut where one block ends and another begins: what is finished need not be drawn again.

Each piece is looked at once, however long a block becomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})(?P<info>.*)")


class Blocks:
    """Takes text, and gives back the blocks that are finished: those after which, past an empty line, another begins.

    Nothing is cut inside of code, nor before a line that is indented: that still belongs to a list.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._empty: list[str] = []
        """Empty lines after the last one: they belong to the block only if it goes on."""
        self._rest = ""
        """The line that has no end yet."""
        self._fence = ""
        """What the code that is open began with."""
        self._opening = ""
        """The line with which it began."""

    def add(self, text: str) -> Iterator[str]:
        """The blocks that are finished now."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if self._ends(line):
                yield self._cut()
            self._take(line)
        if self._ends(self._rest):
            yield self._cut()

    def rest(self) -> str:
        """What is not finished."""
        return "".join(f"{line}\n" for line in (*self._lines, *self._empty)) + self._rest

    def end(self, most: int) -> str:
        """The end of what is not finished, about so many characters: a screen shows no more, and asks often."""
        kept, room = [self._rest[-most:]], most - len(self._rest)
        for line in chain(reversed(self._empty), reversed(self._lines)):
            if room <= 0:
                break
            kept.append(line[-room:] + "\n")
            room -= len(line) + 1
        if room >= 0:
            return self.rest()
        return "".join([f"{self._opening}\n" if self._fence else "", *reversed(kept)])

    def clear(self) -> None:
        """Forgets what is not finished."""
        self._lines, self._empty, self._rest, self._fence = [], [], "", ""

    def _ends(self, line: str) -> bool:
        """Whether the block is over, because of the beginning of another line."""
        return bool(self._empty and not self._fence and self._lines and line[:1].strip())

    def _take(self, line: str) -> None:
        if not line.strip() and not self._fence:
            self._empty.append(line)
            return
        self._lines += [*self._empty, line]
        self._empty = []
        found = _FENCE.fullmatch(line)
        if found is None:
            return
        fence, info = found["fence"], found["info"]
        if not self._fence:
            if fence[0] == "~" or "`" not in info:  # else it is code within a line
                self._fence, self._opening = fence, line
        elif fence.startswith(self._fence) and not info.strip():
            self._fence = ""

    def _cut(self) -> str:
        block = "".join(f"{line}\n" for line in self._lines)
        self._lines, self._empty = [], []
        return block
