"""The format of stored bytes: an envelope around each body, and a signature over each row that changes.

A plain store detects damage with a CRC-32 seeded with the row's identity: a flipped bit, a body moved to another row,
or a body whose metadata was changed. A sealed store (`clew.engine.sealing.sealed`) encrypts with a data key for each
run, ref and blob. The first byte of an envelope is its format.

The functions below pack the context that a body is bound to. Their bytes are part of the format.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from struct import error as PackError  # noqa: N812 - raised when packing a value of the wrong type
from typing import Protocol
from zlib import crc32

import msgspec

from clew.backends import BlobRow, QuarantineRow, RefRow, RunRow
from clew.errors import Corrupted

_HEAD = 5
MISTYPED = (PackError, TypeError)
"""Raised if damage has changed the type of a value in a row."""
NO_ID = b"\0" * 16
_FACTS, _PLACE = Struct("<qBBqqqqB"), Struct("<q16s16sq")
FACTS_SIZE = _FACTS.size
PLAIN_HEAD = 6
"""Bytes before the JSON of a plain neutral message: the format, the checksum, the tag of the payload."""
plain_head = Struct(">BIB").pack
"""Packs them."""
plain_context = Struct(f"<q16s16sq{FACTS_SIZE}sB").pack
"""Packs the input of a plain neutral message's checksum before its JSON: `node_place`, facts, the same tag."""
pack_facts = _FACTS.pack
"""Packs a node's `Facts`."""
node_place = _PLACE.pack
"""Packs a node's location: tree, id, parent or NO_ID, depth. A body is bound to this and to the packed facts. Not a
wrapper function, because it is called for every message that is read."""
move_fields = Struct("<16sqq16sqqq").pack
"""Packs what a ref's signature covers, the fields that change with its head: key, tree, head or -1, head_id or NO_ID,
version, active_at, rank."""
_REF = Struct("<6q").pack
plain_ref = Struct("<6q16s").pack
"""Packs the end of `ref_context`: owner, tree, created_at, trashed_at, expires_at, hold, key."""
_INTS = {count: Struct(f"<{count}q").pack for count in (2, 6, 8)}


class Facts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a message in its node's row. The last five are totals of the path up to it."""

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
    """Closes and opens the envelopes of one run, ref or blob. A body opens only with its `context`."""

    @property
    def head(self) -> bytes:
        """The first bytes of its envelopes: the tag, and the id of the data key if there is one."""
        ...

    @property
    def seed(self) -> int | None:
        """The seed of its checksums, if all of its envelopes are clear text."""
        ...

    def close(self, payload: bytes, context: bytes) -> bytes:
        """The envelope of `payload`."""
        ...

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        """The payload; None if the envelope was changed, or closed with another context."""
        ...


class Seal(Protocol):
    """Protects the bodies and rows of a store: with checksums, or with keys."""

    @property
    def keyed(self) -> bool:
        """True if new rows get a data key."""
        ...

    @property
    def seed(self) -> int | None:
        """The seed of its checksums, if the store is plain."""
        ...

    def box(self, wrapped: bytes | None, owner: bytes) -> Box:
        """The box of a run, ref or blob. `wrapped` is its stored data key, `owner` identifies it."""
        ...

    def new_box(self, owner: bytes) -> tuple[Box, bytes | None]:
        """A box with a new data key, and the wrapped key to store."""
        ...

    def sign(self, fields: bytes, wrapped: bytes | None) -> bytes:
        """A short signature of a row's fields. `wrapped` is the row's stored data key."""
        ...

    def is_signed(self, fields: bytes, wrapped: bytes | None, mac: bytes) -> bool:
        """True if `mac` is a signature of a row's fields."""
        ...


class _NoBox:
    """The box for a damaged data key: opens nothing."""

    head = b""
    seed = None

    def close(self, payload: bytes, context: bytes) -> bytes:
        raise Corrupted("a data key")

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        return None


NO_BOX = _NoBox()


class Plain:
    """The seal of a store without a key, and its only box: clear text with a checksum."""

    keyed = False
    head = b"\x01"

    def __init__(self, store_id: bytes, reload: Callable[[], object]) -> None:
        """`reload` reads the key state again, and raises Sealed if another process has sealed the store."""
        self.seed = crc32(store_id)
        self._reload = reload

    def box(self, wrapped: bytes | None, owner: bytes) -> Box:
        if wrapped is not None:
            self._reload()
            return NO_BOX
        return self

    def new_box(self, owner: bytes) -> tuple[Box, bytes | None]:
        return self, None

    def close(self, payload: bytes, context: bytes) -> bytes:
        return b"\x01" + crc32(payload, crc32(context, self.seed)).to_bytes(4, "big") + payload

    def open(self, envelope: bytes, context: bytes) -> bytes | None:
        try:
            payload = envelope[_HEAD:]  # for a typical message a copy is faster than a view
            check = crc32(payload, crc32(context, self.seed)).to_bytes(4, "big")
        except TypeError:  # damage has changed its type
            return None
        return payload if envelope[:_HEAD] == b"\x01" + check else None

    def sign(self, fields: bytes, wrapped: bytes | None) -> bytes:
        if wrapped is not None:
            self._reload()
            return b""  # matches no signature
        return crc32(fields, self.seed).to_bytes(4, "big")

    def is_signed(self, fields: bytes, wrapped: bytes | None, mac: bytes) -> bool:
        return mac == self.sign(fields, wrapped)


def facts(stored: bytes) -> Facts:
    """The facts of a node. MISTYPED if they are damaged."""
    return Facts(*_FACTS.unpack(stored))


def totals(stored: bytes) -> tuple[int, int, int, int, int]:
    """The totals in a node's facts. MISTYPED."""
    _, _, _, turns, tokens_in, tokens_out, cost, gaps = _FACTS.unpack(stored)
    return turns, tokens_in, tokens_out, cost, gaps


def run_owner(tree: int, run: int) -> bytes:
    """The owner of a run's data key."""
    return b"run" + _INTS[2](tree, run)


def ref_owner(key: bytes) -> bytes:
    """The owner of a ref's data key, which also encrypts the ref's log entries."""
    return b"ref" + key


def blob_owner(tree: int, blob: int) -> bytes:
    """The owner of a blob's data key."""
    return b"blob" + _INTS[2](tree, blob)


def run_fields(run: RunRow, tip: bytes | None) -> bytes:
    """The fields that a run's signature covers; `tip` is the id of the node at its tip."""
    return run_shape(run, tip) + (run.wrapped_key or b"")


def run_shape(run: RunRow, tip: bytes | None) -> bytes:
    """`run_fields` without the data key."""
    number, tree, parent, derived, depth, carried, last, closed, _, _ = run
    numbers = _INTS[8](number, tree, _int(parent), _int(derived), depth, carried, last, closed)
    return b"run" + numbers + (tip or NO_ID)


def ref_context(ref: RefRow) -> bytes:
    """The context of a ref's data: all columns that change only together with the data."""
    _, workspace, kind, key, owner, tree, _, _, _, created_at, _, _, trashed_at, expires_at, hold, look, _, _, _ = ref
    numbers = _REF(
        -1 if owner is None else _int(owner),  # inline, because calls would take as long as the packing
        _int(tree),
        created_at,
        -1 if trashed_at is None else _int(trashed_at),
        -1 if expires_at is None else _int(expires_at),
        hold,
    )
    return f"ref\0{workspace}\0{kind}\0".encode() + numbers + _id(key) + (look or b"")


@lru_cache(64)
def refs_crc(workspace: str, kind: str, seed: int) -> int:
    """The checksum of the first part of `ref_context`, which is the same for all refs of a list."""
    return crc32(f"ref\0{workspace}\0{kind}\0".encode(), seed)


def ref_fields(ref: RefRow) -> bytes:
    """The fields that a ref's signature covers: `move_fields` of its row."""
    head_id = NO_ID if ref.head_id is None else _id(ref.head_id)
    return move_fields(_id(ref.key), _int(ref.tree), _int(ref.head), head_id, ref.version, ref.active_at, ref.rank)


def quarantine_context(row: QuarantineRow) -> bytes:
    """The context of a body in quarantine."""
    return b"kept" + _INTS[2](row.pos, row.created_at) + f"{row.why}".encode()


def quarantine_payload(context: bytes, found: bytes | None) -> bytes:
    """The payload of a row in quarantine: the context of the message, and its damaged body unless it is purged."""
    return (b"\x00" if found is None else b"\x01") + context + (found or b"")


def quarantine_parts(payload: bytes) -> tuple[bytes, bytes | None]:
    """The context and the body in `quarantine_payload`."""
    end = 1 + _PLACE.size + FACTS_SIZE
    return payload[1:end], payload[end:] if payload[:1] == b"\x01" else None


def log_context(pos: int, created_at: int, id: bytes) -> bytes:
    """The context of a log entry."""
    return b"log" + _INTS[2](pos, created_at) + id


def blob_fields(blob: BlobRow) -> bytes:
    """The fields that a blob's signature covers."""
    return b"blob" + _INTS[6](blob.blob, blob.tree, blob.size, blob.chunks, blob.created_at, len(blob.look)) + blob.look


def chunk_context(pos: int) -> bytes:
    """The context of a piece of a blob."""
    return b"chunk" + _INTS[2](pos, 0)


def _int(value: int | None) -> int:
    """Packs NULL as -1, and -1 as -2: an attacker must not replace NULL with -1."""
    return -1 if value is None else value if value != -1 else -2


def _id(value: bytes) -> bytes:
    """`value`, if it has the length of an id: packing would truncate or pad it. TypeError."""
    if len(value) != 16:
        raise TypeError("an id must have 16 bytes")
    return value
