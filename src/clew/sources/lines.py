"""Lines of a text file, one at a time, with an upper limit for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

LONGEST = 64 * 1024 * 1024
"""Bytes of a line at most. A longer one is skipped; it is read in blocks, and never held as a whole."""
_BLOCK = 1 << 20


class Line(NamedTuple):
    """A line with its newline. `data` is None if it is too long; `size` says how long, or 0 before it is known."""

    number: int
    data: bytes | None
    size: int


def read_lines(file: IO[bytes], number: int = 0) -> Iterator[Line]:
    """The finished lines of a file, after `number` others. An unfinished last line is left for the next import."""
    while True:
        data = file.readline(LONGEST + 1)
        number += 1
        if not data:
            return
        if data.endswith(b"\n"):
            yield Line(number, data, len(data))
            continue
        if len(data) <= LONGEST:
            return
        yield Line(number, None, 0)
        size = len(data)
        while block := file.readline(_BLOCK):
            size += len(block)
            if block.endswith(b"\n"):
                break
        else:
            return
        yield Line(number, None, size)
