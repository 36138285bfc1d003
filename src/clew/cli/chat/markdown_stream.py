"""Splits streamed Markdown into blocks, so that finished blocks need not be drawn again.

Each piece of text is processed once, however long a block becomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})(?P<info>.*)")


class Blocks:
    """Collects text and returns finished blocks: those followed by an empty line and the start of another block.

    Does not split inside code, or before an indented line, which may belong to a list.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._empty: list[str] = []
        """Empty lines at the end; part of the block only if it continues."""
        self._rest = ""
        """The unfinished last line."""
        self._fence = ""
        """The fence of the open code block."""
        self._opening = ""
        """The first line of the open code block."""

    def add(self, text: str) -> Iterator[str]:
        """Adds text; returns the blocks that are finished."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if self._ends(line):
                yield self._cut()
            self._take(line)
        if self._ends(self._rest):
            yield self._cut()

    def rest(self) -> str:
        """The unfinished text."""
        return "".join(f"{line}\n" for line in (*self._lines, *self._empty)) + self._rest

    def end(self, most: int) -> str:
        """The last `most` characters, approximately, of the unfinished text: as much as a screen shows."""
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
        """Discards the unfinished text."""
        self._lines, self._empty, self._rest, self._fence = [], [], "", ""

    def _ends(self, line: str) -> bool:
        """True if this line starts a new block."""
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
            if fence[0] == "~" or "`" not in info:  # otherwise it is inline code
                self._fence, self._opening = fence, line
        elif fence.startswith(self._fence) and not info.strip():
            self._fence = ""

    def _cut(self) -> str:
        block = "".join(f"{line}\n" for line in self._lines)
        self._lines, self._empty = [], []
        return block
