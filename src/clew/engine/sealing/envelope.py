"""How bytes lie at rest: an envelope around each body, and a signature over each row that changes.

A plain store guards against damage with a CRC-32 seeded with the row's identity, so that a flipped bit, a body moved
to another row, and metadata parted from its body all show. A sealed one (`clew.engine.sealing.sealed`)
encrypts under a data key for each run, ref and blob. The first byte of an envelope says how it was closed.

The functions below pack what a body must not be parted from. Their bytes are part of the format.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as PackError  # noqa: N812 - what packing raises for a value of another type
from typing import Protocol
from zlib import crc32

import msgspec

from clew.backends import BlobRow, QuarantineRow, RefRow, RunRow
from clew.errors import Corrupted

_HEAD = 5
MISTYPED = (PackError, TypeError)
"""What is raised where damage has turned a value of a row into something else."""
NO_ID = b"\0" * 16
_FACTS, _PLACE = Struct("<qBBqqqqB"), Struct("<q16s16sq")
FACTS_SIZE = _FACTS.size
pack_facts = _FACTS.pack
"""A node's `Facts` as they are stored."""
node_place = _PLACE.pack
"""Where a node stands: tree, id, parent or NO_ID, depth. This and its facts, as they are stored, are what its body is
bound to. The packer itself, because it is called for every message that is read."""
move_fields = Struct("<16sqq16sqqq").pack
"""What a ref's signature covers, the fields that move with its head: key, tree, head or -1, head_id or NO_ID, version,
active_at, rank."""
_REF = Struct("<6q").pack
_INTS = {count: Struct(f"<{count}q").pack for count in (2, 6, 8)}


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What a node's row says of its message. The last five are totals of the path down to it."""

    created_at: int
    role: int
    kind: int
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    gaps: int = 0
    """1: the tokens of some answer are unknown; 2: the cost of one is; 3: both."""


class Box(Protocol):
    """Closes and opens the envelopes of one run, ref or blob. `context`: all that a body must not be parted from."""

    @property
    def head(self) -> bytes:
        """How the envelopes begin that it closes: with their tag, and the id of the data key if there is one."""
        ...

    def close(self, payload: bytes, context: bytes) -> bytes:
        """The envelope of `payload`."""
        ...

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        """What was closed with the same context; None if this is not it."""
        ...


class Seal(Protocol):
    """How a store keeps its bodies and rows: readable, or under keys."""

    @property
    def keyed(self) -> bool:
        """True if what is written now gets a data key."""
        ...

    def box(self, wrapped: bytes | None, owner: bytes) -> Box:
        """The box of a run, ref or blob, given its data key as it is stored; `owner` says whose it is."""
        ...

    def new_box(self, owner: bytes) -> tuple[Box, bytes | None]:
        """A box with a new data key, and the key as it is to be stored."""
        ...

    def sign(self, fields: bytes, wrapped: bytes | None) -> bytes:
        """A short signature of a row's fields; `wrapped` is the row's data key as it is stored."""
        ...

    def is_signed(self, fields: bytes, wrapped: bytes | None, mac: bytes) -> bool:
        """True if `mac` is a signature of a row's fields."""
        ...


class _NoBox:
    """Stands for a box whose data key is damaged: nothing opens."""

    head = b""

    def close(self, payload: bytes, context: bytes) -> bytes:
        raise Corrupted("a data key")

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        return None


NO_BOX = _NoBox()


class Plain:
    """The seal of a store without a key, and its only box: readable, and checked."""

    keyed = False
    head = b"\x01"

    def __init__(self, store_id: bytes, reload: Callable[[], object]) -> None:
        """`reload` looks at the store again, and raises Sealed if another process has sealed it."""
        self._seed = crc32(store_id)
        self._reload = reload

    def box(self, wrapped: bytes | None, owner: bytes) -> Box:
        if wrapped is not None:
            self._reload()
            return NO_BOX
        return self

    def new_box(self, owner: bytes) -> tuple[Box, bytes | None]:
        return self, None

    def close(self, payload: bytes, context: bytes) -> bytes:
        return b"\x01" + crc32(payload, crc32(context, self._seed)).to_bytes(4, "big") + payload

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        try:
            payload = envelope[_HEAD:]  # for a message of usual size a copy costs less than a view
            check = crc32(payload, crc32(context, self._seed)).to_bytes(4, "big")
        except TypeError:  # damage has made it something else than bytes
            return None
        return payload if envelope[:_HEAD] == b"\x01" + check else None

    def sign(self, fields: bytes, wrapped: bytes | None) -> bytes:
        if wrapped is not None:
            self._reload()
            return b""  # nothing matches it
        return crc32(fields, self._seed).to_bytes(4, "big")

    def is_signed(self, fields: bytes, wrapped: bytes | None, mac: bytes) -> bool:
        return mac == self.sign(fields, wrapped)


def facts(stored: bytes) -> Facts:
    """The facts of a node. MISTYPED if damage has made something else of them."""
    return Facts(*_FACTS.unpack(stored))


def totals(stored: bytes) -> tuple[int, int, int, int, int]:
    """The last five of a node's facts. MISTYPED."""
    _, _, _, turns, tokens_in, tokens_out, cost, gaps = _FACTS.unpack(stored)
    return turns, tokens_in, tokens_out, cost, gaps


def run_owner(tree: int, run: int) -> bytes:
    """Whose the data key of a run is."""
    return b"run" + _INTS[2](tree, run)


def ref_owner(key: bytes) -> bytes:
    """Whose the data key of a ref is; its log entries are closed with it too."""
    return b"ref" + key


def blob_owner(tree: int, blob: int) -> bytes:
    """Whose the data key of a blob is."""
    return b"blob" + _INTS[2](tree, blob)


def run_fields(run: RunRow, tip: bytes | None) -> bytes:
    """What a run's signature covers; `tip` is the id of the node at its tip."""
    return run_shape(run, tip) + (run.wrapped_key or b"")


def run_shape(run: RunRow, tip: bytes | None) -> bytes:
    """`run_fields` but for the data key."""
    number, tree, parent, derived, depth, carried, last, closed, _, _ = run
    numbers = _INTS[8](number, tree, _int(parent), _int(derived), depth, carried, last, closed)
    return b"run" + numbers + (tip or NO_ID)


def ref_context(ref: RefRow) -> bytes:
    """What a ref's data is bound to: all of its row that changes only together with the data."""
    _, workspace, kind, key, owner, tree, _, _, _, created_at, _, _, trashed_at, expires_at, hold, look, _, _, _ = ref
    numbers = _REF(_int(owner), _int(tree), created_at, _int(trashed_at), _int(expires_at), hold)
    return f"ref\0{workspace}\0{kind}\0".encode() + numbers + _id(key) + (look or b"")


def ref_fields(ref: RefRow) -> bytes:
    """What a ref's signature covers: `move_fields` of its row."""
    head_id = NO_ID if ref.head_id is None else _id(ref.head_id)
    return move_fields(_id(ref.key), _int(ref.tree), _int(ref.head), head_id, ref.version, ref.active_at, ref.rank)


def quarantine_context(row: QuarantineRow) -> bytes:
    """What is kept in quarantine is bound to."""
    return b"kept" + _INTS[2](row.pos, row.created_at) + f"{row.why}".encode()


def quarantine_payload(context: bytes, found: bytes | None) -> bytes:
    """What is kept in quarantine: the context of a message's row, and its body as it was found, until it is purged."""
    return (b"\x00" if found is None else b"\x01") + context + (found or b"")


def quarantine_parts(payload: bytes) -> tuple[bytes, bytes | None]:
    """The context and the body in `quarantine_payload`."""
    end = 1 + _PLACE.size + FACTS_SIZE
    return payload[1:end], payload[end:] if payload[:1] == b"\x01" else None


def log_context(pos: int, created_at: int, id: bytes) -> bytes:
    """What a log entry is bound to."""
    return b"log" + _INTS[2](pos, created_at) + id


def blob_fields(blob: BlobRow) -> bytes:
    """What a blob's signature covers."""
    return b"blob" + _INTS[6](blob.blob, blob.tree, blob.size, blob.chunks, blob.created_at, len(blob.look)) + blob.look


def chunk_context(pos: int) -> bytes:
    """What a piece of a blob is bound to."""
    return b"chunk" + _INTS[2](pos, 0)


def _int(value: int | None) -> int:
    """NULL is -1. So a -1 that someone has put in its place must not be."""
    return -1 if value is None else value if value != -1 else -2


def _id(value: bytes) -> bytes:
    """`value`, if it has the length of an id: packing would cut off the rest, or fill it up. TypeError."""
    if len(value) != 16:
        raise TypeError("an id has 16 bytes")
    return value
