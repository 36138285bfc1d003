"""The data of a project's memory as stored: the byte 0x01, then JSON with the project's hash and the text."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from clew.errors import Corrupted

MEMORY = "memory"
"""Kind of the refs that hold project memories."""


class MemoryData(msgspec.Struct, frozen=True):
    """The hash of a project, and the text that agents keep for it."""

    project: str
    text: str


def memory_key(lookup_hash: Callable[[str, bytes], bytes], project: str) -> bytes:
    """The key of a project's memory: a keyed hash, which reveals nothing without the store's secrets."""
    return lookup_hash("memory", project.encode())


def unpack(payload: bytes) -> MemoryData:
    """The data of a memory. Raises Corrupted."""
    try:
        return msgspec.json.decode(payload[1:], type=MemoryData)
    except msgspec.DecodeError:
        raise Corrupted("a memory", "its data does not decode") from None
