"""Divides a conversation into its future messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from clew.base.messages import Media, Text, ToolCall, ToolResult
from clew.convert.report import Notes
from clew.providers.target import Piece, Target

Unit = list[Piece]
"""The pieces of one message; in formats of items, of several items."""


def cut(laid: Sequence[Piece], sizes: Mapping[int, int], target: Target) -> tuple[list[Unit], set[int]]:
    """The units, and those messages in the target's format that must be converted after all.

    `sizes` has the number of pieces of each message in the target's format.
    """
    units: list[Unit] = []
    broken: set[int] = set()
    for _, stretch in groupby(laid, key=side):
        run = list(stretch)
        segments = [list(group) for _, group in groupby(run, key=lambda piece: piece.message if piece.own else -1)]
        own = {piece.message for piece in run if piece.own}
        broken.update(one[0].message for one in segments if one[0].own and not _whole(one, sizes))
        united = _must_unite(run, target)
        if united and len(segments) > 1 and _must_be_one(segments, target):
            broken |= own
        for segment in segments:
            units.extend([segment] if united or segment[0].own else _apart(segment))
    return units, broken


def side(piece: Piece) -> str:
    """The side that a piece belongs to; results of tools belong to the user."""
    return "user" if piece.role == "tool" else piece.role


def note(unit: Unit, target: Target, notes: Notes) -> None:
    """Reports the changes that these pieces undergo when they become one message of the target."""
    spoken = [piece.message for piece in unit if isinstance(piece.what, Text | Media) and not piece.aside]
    for message in list(dict.fromkeys(spoken))[1:]:
        notes.add(message, None, "merged", "messages")
    call = next((piece for piece in unit if isinstance(piece.what, ToolCall)), None)
    if call is not None and target.signs_calls:
        notes.add(call.message, call.block, "added", "placeholder signature")


def _must_unite(run: Unit, target: Target) -> bool:
    if target.unites == "calls":
        return any(isinstance(piece.what, ToolCall) for piece in run)
    return target.unites == "turns"


def _must_be_one(segments: Sequence[Unit], target: Target) -> bool:
    """True if the target would refuse these messages.

    Nothing may come between calls and their results. If a turn must be one message, its results must be, too.
    """
    if target.unites == "calls":
        return any(isinstance(piece.what, ToolCall) for segment in segments[:-1] for piece in segment)
    run = [piece for segment in segments for piece in segment]
    return any(isinstance(piece.what, ToolResult) for piece in run) and not all(piece.own for piece in run)


def _whole(segment: Unit, sizes: Mapping[int, int]) -> bool:
    return [piece.block for piece in segment] == list(range(sizes[segment[0].message]))


def _apart(segment: Unit) -> list[Unit]:
    """A unit for each message, and for each result."""

    def key(piece: Piece) -> tuple[int, str, int]:
        return piece.message, piece.role, id(piece) if isinstance(piece.what, ToolResult) else 0

    return [list(group) for _, group in groupby(segment, key=key)]
