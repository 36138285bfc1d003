"""Messages inside a record: the record is cut into pieces with one message each, and no byte is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import Native
from clew.sources.contract import ENVELOPE
from clew.sources.values import elements, fields, without_surrogates


class RecordPiece(NamedTuple):
    """A part of a record that has one message: joined, the pieces of a record are the record."""

    raw: bytes
    message: Native


def pieces(
    provider: str, data: bytes, bodies: Sequence[bytes], extras: Sequence[dict[str, Any]] = ()
) -> list[RecordPiece]:
    """A record cut into pieces, each with one of the `bodies`, which are in it in this order."""
    cuts: list[tuple[int, int]] = []
    at = 0
    for body in bodies:
        start = data.index(body, at)
        at = start + len(body)
        cuts.append((start, at))
    found: list[RecordPiece] = []
    for number, (start, end) in enumerate(cuts):
        before = data[:start] if number == 0 else b""
        after = data[end : cuts[number + 1][0] if number + 1 < len(cuts) else len(data)]
        extra = {ENVELOPE: [before.decode(), after.decode()], **(extras[number] if extras else {})}
        found.append(RecordPiece(before + data[start:end] + after, Native(provider, data[start:end], extra=extra)))
    return found


def field_bytes(raw: bytes, *names: str) -> bytes:
    """The bytes of a field, by the names of the fields that lead to it; empty if there is none."""
    try:
        for name in names:
            raw = all_fields(raw).get(name, b"")
    except msgspec.MsgspecError:
        return b""
    return raw


def all_fields(raw: bytes) -> dict[str, bytes]:
    """The bytes of each field of a JSON object. MsgspecError."""
    try:
        return {name: bytes(one) for name, one in fields(raw).items()}
    except msgspec.MsgspecError:
        shape = without_surrogates(raw)
        # a name may be there twice, so that the order is not that of the bytes
        return {name: next(_in_place(raw, shape, [one])) for name, one in fields(shape).items()}


def element_bytes(raw: bytes) -> list[bytes]:
    """The bytes of each element of a JSON array; none if it is not an array."""
    try:
        return [bytes(one) for one in elements(raw)]
    except msgspec.MsgspecError:
        shape = without_surrogates(raw)
    try:
        return list(_in_place(raw, shape, elements(shape)))
    except msgspec.MsgspecError:
        return []


def _in_place(raw: bytes, shape: bytes, parts: Iterable[msgspec.Raw]) -> Iterator[bytes]:
    """The bytes at the places where `shape`, which is as long as `raw`, has these parts, in their order."""
    at = 0
    for part in parts:
        at = shape.index(part, at)
        yield raw[at : at + len(bytes(part))]
        at += len(bytes(part))
