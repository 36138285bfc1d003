"""Splits a JSON array into its elements and the bytes between them, and joins them to the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPACE = rb"[ \t\r\n]*"
_gap = re.compile(_SPACE + rb"[\[,]" + _SPACE).match

Frame = tuple[str, ...]
"""The bytes before, between and after the elements; equal separators are stored once."""


def frame(array: bytes, parts: Sequence[bytes]) -> Frame | None:
    """The bytes around the `parts` of an array; None if they are only brackets and commas."""
    gaps, at = list[bytes](), 0
    for part in parts:
        found = _gap(array, at)
        assert found is not None
        gaps.append(found[0])
        at = found.end() + len(part)
    gaps.append(array[at:])
    if len(gaps) > 3 and len({*gaps[1:-1]}) == 1:
        gaps = [gaps[0], gaps[1], gaps[-1]]
    frame = tuple(gap.decode() for gap in gaps)
    return None if frame in (("[]",), ("[", "]"), ("[", ",", "]")) else frame


def join(frame: Frame | None, parts: Iterable[bytes]) -> bytes:
    """Joins the array."""
    if frame is None:
        return b"[" + b",".join(parts) + b"]"
    gaps = [gap.encode() for gap in frame]
    if len(gaps) == 3:
        return gaps[0] + gaps[1].join(parts) + gaps[2]
    return b"".join([piece for pair in zip(gaps, parts, strict=False) for piece in pair]) + gaps[-1]
