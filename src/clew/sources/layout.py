"""How a session keeps the records of a history: their bytes, and their order, so that it can be written out again.

The log of an imported session has six kinds of entries, told by their first byte. A message is a node; its place
among the records is its id in a layout. Every other record is in the log itself. A layout names the file that its
records came from, and their numbers in it: a file may have several conversations, and a conversation several files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clew.base import ids
from clew.base.messages import AnyMessage
from clew.errors import NotFound
from clew.sources.contract import ENVELOPE
from clew.sources.documents import FRAME, PLACE, DocumentPlace

if TYPE_CHECKING:
    from clew.engine.node import Node
    from clew.store.session import Session
    from clew.store.store import Store

PAGE = 200
"""Records that are read at a time."""
RECORD, LAYOUT, PIECE, FRAMED, PLACED, RENAMED = b"\x01", b"\x02", b"\x03", b"\x04", b"\x05", b"\x06"
"""First byte of a log entry: a record of the source, the order of those before it, the first part of a record, what is
around a conversation (see `clew.sources.documents`), or the id under which a message is stored if its own is taken (see
`clew.sources.identity`)."""
_KINDS = {FRAME: FRAMED, PLACE: PLACED}
WHOLE = "clew.whole"
"""Where the free data of a message that was too large for the store has the digest of the blob with its record."""


class FileName(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of a history, as its records name it."""

    name: str
    folder: str
    """A hash of the folder, which distinguishes files of the same name."""
    rows: bool = False
    """True for a database: its records are rows."""


class Layout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The order of the records of one batch: the id of a message, or None for the next record in the log."""

    order: list[str | None]
    file: FileName | None = None
    numbers: list[tuple[int, int]] = []
    """The numbers that the records have in the file: the first of some that follow each other, and how many."""


class RecordOrigin(NamedTuple):
    """Where an imported session came from."""

    files: tuple[FileName | None, ...]
    """The files of its records, by their names; the one that was read last is the last."""
    frame: bytes | None
    """The frame around its messages, as it was read last; None if its records are complete without one."""
    place: DocumentPlace | None
    """Where it is in a file with several conversations."""


class KeptRecord(NamedTuple):
    """A record as it was read."""

    kind: bytes
    """RECORD, FRAMED or PLACED."""
    number: int
    data: bytes
    id: str | None
    """The id of the message that it is."""
    given: str | None = None
    """The id that the file gives to the message, if it is another."""


def record_id(session: bytes, key: str, raw: bytes) -> bytes:
    """The id of a record in the log of a session: the same for the same bytes under the same key."""
    digest = bytearray(sha256(session + key.encode(errors="replace") + b"\0" + raw).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80  # a UUID of version 8
    return bytes(digest)[::-1]


def pieces(raw: bytes, most: int, key: str = "") -> list[bytes]:
    """A record as log entries of at most `most` bytes; `key` is that of its entry."""
    room = most - 1
    cut = [raw[at : at + room] for at in range(0, len(raw), room)] or [b""]
    return [*(PIECE + one for one in cut[:-1]), _KINDS.get(key, RECORD) + cut[-1]]


def piece_id(record: bytes, number: int) -> bytes:
    """The id of the piece of a record with this number."""
    return ids.parse(f"{sha256(record + number.to_bytes(4, 'big')).hexdigest()[:32]}")


def layout_entry(order: list[str | None], file: FileName | None, numbers: list[int]) -> bytes:
    """The log entry for an order of records."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and sum(runs[-1]) == number:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((number, 1))
    return LAYOUT + msgspec.json.encode(Layout(order, file, runs))


def renamed_entry(given: str, stored: str) -> bytes:
    """The log entry for a message that is stored under another id than its file gives."""
    return RENAMED + f"{given} {stored}".encode()


def renaming(data: bytes) -> tuple[str, str]:
    """The id that a file gives to a message, and the one under which it is stored, from the entry that says so."""
    given, _, stored = data[1:].decode().partition(" ")
    return given, stored


def laid_out(session: Session) -> set[str]:
    """The ids of the messages whose place among the records of a session is known."""
    return {
        id
        for entry in session.log.read()
        if entry.data[:1] == LAYOUT
        for id in _layout(entry.data).order
        if id is not None
    }


def records(session: Session, store: Store, start: int = 0) -> Iterator[bytes]:
    """The records of an imported session, as they were read and in their order. Corrupted.

    With `start`, the length of its log at an earlier time, only those that were stored since. A message that was
    deleted since is left out. Records that redaction changed are as they are stored. What is around a conversation
    inside a document comes as its frame and its place: see `clew.sources.documents`.
    """
    return (one.data for one in _read(session, store, lambda _: True, start))


def file_records(session: Session, store: Store, file: FileName | None) -> Iterator[KeptRecord]:
    """The records that came from a file, wherever it was then. Corrupted."""
    return _read(session, store, lambda one: _name(one) == _name(file))


def message_bytes(session: Session, store: Store) -> Iterator[KeptRecord]:
    """The records of a conversation inside a document, without the frame. Corrupted."""
    return (one for one in _read(session, store, lambda _: True) if one.kind == RECORD)


def record_origin(session: Session) -> RecordOrigin:
    """The files that an imported session came from, with its frame and place."""
    files: dict[str | None, FileName | None] = {}
    frame: bytes | None = None
    place: DocumentPlace | None = None
    begun = b""
    for entry in session.log.read():
        kind, data = entry.data[:1], entry.data[1:]
        if kind == LAYOUT:
            file = _layout(entry.data).file
            files.pop(_name(file), None)
            files[_name(file)] = file
        elif kind == FRAMED:
            frame = begun + data
        elif kind == PLACED:
            place = msgspec.json.decode(begun + data, type=DocumentPlace)
        begun = begun + data if kind == PIECE else b""
    return RecordOrigin(tuple(files.values()), frame, place)


def _read(
    session: Session, store: Store, wanted: Callable[[FileName | None], bool], start: int = 0
) -> Iterator[KeptRecord]:
    """The records of the files that are wanted."""
    waiting: list[tuple[bytes, bytes]] = []
    begun = b""
    found: list[KeptRecord] = []
    names: dict[str | None, str] = {}
    for entry in session.log.read(start):
        kind, data = entry.data[:1], entry.data[1:]
        if kind == PIECE:
            begun += data
        elif kind == RENAMED:
            given, stored = renaming(entry.data)
            names[stored] = given
        elif kind in (RECORD, FRAMED, PLACED):
            waiting.append((kind, begun + data))
            begun = b""
        elif kind == LAYOUT:
            layout = _layout(entry.data)
            if wanted(layout.file):
                found += (one._replace(given=names.get(one.id)) for one in _in_order(layout, waiting))
            waiting = []
            if len(found) >= PAGE:
                yield from _fill_in(session, store, found)
                found = []
    yield from _fill_in(session, store, found)


def _fill_in(session: Session, store: Store, found: list[KeptRecord]) -> Iterator[KeptRecord]:
    """The records; those that are messages get their bytes. Leaves out deleted messages."""
    names = [one.id for one in found if one.id is not None]
    try:
        nodes = {node.id: node for node in store.nodes.get(names)}
    except NotFound:
        nodes = {node.id: node for id in names for node in _find_nodes(store, id)}
    for one in found:
        if one.id is None:
            yield one
        elif one.id in nodes:
            yield one._replace(data=_line(session, nodes[one.id].said))


def _find_nodes(store: Store, id: str) -> list[Node]:
    try:
        return store.nodes.get(id)
    except NotFound:
        return []


def _in_order(layout: Layout, waiting: list[tuple[bytes, bytes]]) -> Iterator[KeptRecord]:
    """The records of a layout; those that are messages have no bytes yet."""
    spare = iter(waiting)
    numbers = (number for first, count in layout.numbers for number in range(first, first + count))
    for id in layout.order:
        number = next(numbers, 0)
        kind, data = next(spare) if id is None else (RECORD, b"")
        yield KeptRecord(kind, number, data, id)


def _name(file: FileName | None) -> str | None:
    return None if file is None else file.name


def _layout(data: bytes) -> Layout:
    return msgspec.json.decode(data[1:], type=Layout)


def _line(session: Session, said: AnyMessage) -> bytes:
    extra = said.extra or {}
    if WHOLE in extra:
        return session.blobs.get(extra[WHOLE])
    raw: bytes = getattr(said, "raw", b"")
    around = extra.get(ENVELOPE)
    return raw if around is None else around[0].encode() + raw + around[1].encode()
