"""How a session keeps the records of a history: their bytes, and their order, so that it can be written out again.

The log of an imported session has three kinds of entries, told by their first byte. A message is a node; its place
among the records is its id in a layout. Every other record is in the log itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from clew.base import ids
from clew.base.messages import AnyMessage
from clew.errors import NotFound
from clew.sources.contract import ENVELOPE

if TYPE_CHECKING:
    from clew.store.session import Session
    from clew.store.store import Store

RECORD, LAYOUT, PIECE = b"\x01", b"\x02", b"\x03"
"""First byte of a log entry: a record of the source, the order of those before it, or the first part of a record."""
WHOLE = "clew.whole"
"""Where the free data of a message that was too large for the store has the digest of the blob with its record."""


class Layout(msgspec.Struct, frozen=True):
    """The order of the records of one batch: the id of a message, or None for the next record in the log."""

    order: list[str | None]


def record_id(session: bytes, key: str, raw: bytes) -> bytes:
    """The id of a record in the log of a session: the same for the same bytes under the same key."""
    digest = bytearray(sha256(session + key.encode(errors="replace") + b"\0" + raw).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80  # a UUID of version 8
    return bytes(digest)[::-1]


def pieces(raw: bytes, most: int) -> list[bytes]:
    """A record as log entries of at most `most` bytes."""
    room = most - 1
    cut = [raw[at : at + room] for at in range(0, len(raw), room)] or [b""]
    return [*(PIECE + one for one in cut[:-1]), RECORD + cut[-1]]


def piece_id(record: bytes, number: int) -> bytes:
    """The id of the piece of a record with this number."""
    return ids.parse(f"{sha256(record + number.to_bytes(4, 'big')).hexdigest()[:32]}")


def layout_entry(order: list[str | None]) -> bytes:
    """The log entry for an order of records."""
    return LAYOUT + msgspec.json.encode(Layout(order))


def laid_out(session: Session) -> set[str]:
    """The ids of the messages whose place among the records of a session is known."""
    return {
        id
        for entry in session.log.read()
        if entry.data[:1] == LAYOUT
        for id in _layout(entry.data).order
        if id is not None
    }


def records(session: Session, store: Store) -> Iterator[bytes]:
    """The records of an imported session, as they were read and in their order. Corrupted.

    A message that was deleted since is left out. Records that redaction changed are as they are stored.
    """
    waiting: list[bytes] = []
    begun = b""
    for entry in session.log.read():
        kind, data = entry.data[:1], entry.data[1:]
        if kind == PIECE:
            begun += data
        elif kind == RECORD:
            waiting.append(begun + data)
            begun = b""
        elif kind == LAYOUT:
            spare = iter(waiting)
            for id in _layout(entry.data).order:
                if id is None:
                    yield next(spare)
                else:
                    try:
                        (node,) = store.nodes.get(id)
                    except NotFound:
                        continue
                    yield _line(session, node.said)
            waiting = []


def _layout(data: bytes) -> Layout:
    return msgspec.json.decode(data[1:], type=Layout)


def _line(session: Session, said: AnyMessage) -> bytes:
    extra = said.extra or {}
    if WHOLE in extra:
        return session.blobs.get(extra[WHOLE])
    raw: bytes = getattr(said, "raw", b"")
    around = extra.get(ENVELOPE)
    return raw if around is None else around[0].encode() + raw + around[1].encode()
