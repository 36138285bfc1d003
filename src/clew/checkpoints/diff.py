"""Counts the lines that a change adds and removes, as a minimal diff does, and writes the diff as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

MOST = 20_000
"""Maximum lines of the shorter side, without common prefix and suffix, for an exact count.

Beyond it all lines count as replaced, because the time grows with the product of both sides.
"""
_HEAD = 8000


class LineCount(NamedTuple):
    """Number of added and removed lines."""

    insertions: int = 0
    deletions: int = 0


def is_binary(data: bytes) -> bool:
    """True if the content is binary: it has a NUL among its first bytes, as git decides."""
    return b"\0" in data[:_HEAD]


def split(data: bytes) -> list[bytes]:
    """Lines with their line ends; a last line without one differs from a line with one."""
    parts = data.split(b"\n")
    last = parts.pop()
    return [part + b"\n" for part in parts] + ([last] if last else [])


def count(old: bytes, new: bytes) -> LineCount:
    """The lines that a diff from `old` to `new` adds and removes; binary content has none."""
    if old == new or is_binary(old) or is_binary(new):
        return LineCount()
    before, after = split(old), split(new)
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    before, after = before[head:], after[head:]
    tail = sum(1 for _ in takewhile(lambda p: p[0] == p[1], zip(reversed(before), reversed(after), strict=False)))
    if tail:
        before, after = before[:-tail], after[:-tail]
    common = _common(*sorted((before, after), key=len))
    return LineCount(len(after) - common, len(before) - common)


def _common(short: list[bytes], long: list[bytes]) -> int:
    """The length of the longest common subsequence; computes all rows of the table at once as bits of one number."""
    if not short or len(short) > MOST:
        return 0
    there = set(long)
    places: dict[bytes, int] = {}
    for at, line in enumerate(short):
        if line in there:
            places[line] = places.get(line, 0) | 1 << at
    whole = (1 << len(short)) - 1
    row = whole
    for line in long:
        match = places.get(line)
        if match is not None:
            row = (row + (row & match) | row & ~match) & whole
    return len(short) - row.bit_count()


def unified(path: str, old: bytes | None, new: bytes | None, *, context: int = 3) -> Iterator[str]:
    """The diff as lines without line ends; None means that there is no file."""
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    before, after = old or b"", new or b""
    if is_binary(before) or is_binary(after):
        yield f"Binary files {names[0]} and {names[1]} differ"
        return
    import difflib  # a capture compares nothing

    for line in difflib.unified_diff(_text(before), _text(after), *names, n=context):
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _text(data: bytes) -> list[str]:
    return [line.decode("utf-8", "backslashreplace") for line in split(data)]
