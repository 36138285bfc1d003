"""Conversations inside a JSON document: what is around the messages, so that the document can be written out again.

A document is kept as a frame: its text without the messages, and between two texts the message that belongs there. Of a
file with several conversations, each also keeps its place: what is before it, and what is after the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

import msgspec

FRAME, PLACE = "frame", "place"
"""Keys of the entries of a conversation that have its frame and its place."""


class DocumentPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a conversation is in a file with several."""

    file: str
    """A hash of the file: all of its conversations have the same."""
    size: int
    """Bytes of the file."""
    start: int
    """Where its part of the file begins, with the text before it."""
    end: int
    before: str
    after: str = ""
    """Empty for all but the last one."""


def short_hash(data: bytes) -> str:
    """A short hash that distinguishes different bytes of one message."""
    return sha256(data).hexdigest()[:8]


def frame(raw: bytes, bodies: Mapping[str, bytes]) -> bytes:
    """A document without the messages in it, whose bodies come by their ids, in the order in which they are in `raw`.

    A JSON list of text and, between two texts, the id of a message and the hash of its bytes.
    """
    parts: list[str] = []
    for id, body in bodies.items():
        before, found, rest = raw.partition(body)
        if found:
            parts += [before.decode(), f"{id} {short_hash(body)}"]
            raw = rest
    return msgspec.json.encode([*parts, raw.decode()])


def framed_row(record: bytes, column: str, body: bytes, bodies: Mapping[str, bytes]) -> bytes:
    """The record of a row, one column of which is a document: a JSON object with its frame."""
    framed = msgspec.Raw(frame(body, bodies))
    return msgspec.json.encode({"record": msgspec.Raw(record), "column": column, "frame": framed})


def unframe(framed: bytes, find: Callable[[str, str], bytes]) -> bytes:
    """The document of a frame. `find` returns the bytes of a message by its id and their hash."""
    if framed[:1] == b"[":
        return _join(msgspec.json.decode(framed, type=list[str]), find)
    row = msgspec.json.decode(framed)
    record = row["record"]
    record["row"][row["column"]] = _join(row["frame"], find).decode()
    return msgspec.json.encode(record)


def _join(parts: list[str], find: Callable[[str, str], bytes]) -> bytes:
    found: list[bytes] = []
    for at, part in enumerate(parts):
        id, _, hash = part.partition(" ")
        found.append(find(id, hash) if at % 2 else part.encode())
    return b"".join(found)
