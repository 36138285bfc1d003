"""Blobs whose pieces lie outside of the store: each is one object in a bucket.

An object is the bytes ``clew blob`` and 0x01, and then the envelopes of the pieces, each after its length: those that
would be rows of the store otherwise, closed in the same way and bound to the same places. So a sealed store's objects
are ciphertext, and what was changed in them does not open.

An object is noted in the store before it is begun, and the note goes only when the object is known to be gone. Between
the two nothing is forgotten, whatever is cut short: an upload that did not end, a blob that was deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from clew.backends import SEQ_BITS, BlobRow, ObjectRow, Tx
from clew.engine import Engine
from clew.envelope import MISTYPED, Box, blob_owner, chunk_context
from clew.errors import Invalid, Tampered, Unavailable
from clew.node import microseconds

if TYPE_CHECKING:
    from clew.objects import Bucket, Listed

HEAD = b"clew blob\x01"
"""How an object begins."""
AHEAD = 2 << 20
"""Bytes of an object that are read at a time."""
OWED = "unclean objects"
"""Name of the header that is there while a receipt says that objects are pending."""
_LONGEST = 1 << 20
"""Bytes of an envelope at most; larger ones were never written."""
_LENGTH = 4
_BATCH, _ALL = 100, 1 << 30
_HEX = frozenset("0123456789abcdef")
_MARK, _MARKED = "clew", b"clew blobs 1\n"
"""An object that tells a bucket in which the store has something from any other."""
_NOWHERE = "Open it with blobs=…; on the command line with --blobs or CLEW_BLOBS."


class Lost(Exception):  # not of clew.errors: whoever knows which blob it is raises what says so
    """An object is not there, or is not what was put there."""

    def __init__(self, why: str) -> None:
        self.why = why


class Sent(NamedTuple):
    """An object that was put."""

    name: bytes
    size: int
    pieces: int
    box: Box
    """What its envelopes were closed with."""


class Cleared(NamedTuple):
    """Objects that nothing needed, and that are gone."""

    objects: int
    bytes: int


def bucket(engine: Engine) -> Bucket:
    """Where the store's objects are. Unavailable if it was opened without."""
    if engine.bucket is None:
        raise Unavailable("attachments of this store are in object storage, which it was opened without", hint=_NOWHERE)
    return engine.bucket


def new_name(engine: Engine) -> bytes:
    """A name that no object has had."""
    return engine.look("workspace", engine.workspace.encode()) + os.urandom(16)


def path(store_id: bytes, name: bytes) -> str:
    """Where an object is in its bucket."""
    return f"{store_id.hex()}/{name[:16].hex()}/{name[16:].hex()}"


# -- writing


def send(engine: Engine, row: BlobRow, name: bytes, pieces: Iterable[bytes]) -> Sent:
    """Puts the pieces of a blob, under a name that is noted. Unavailable; Invalid if they are too many."""
    box, where = box_of(engine, row), bucket(engine)
    size, count = len(HEAD), 0

    def closed() -> Iterator[bytes]:
        nonlocal size, count
        for piece in pieces:
            envelope = box.close(piece, chunk_context(row.blob << SEQ_BITS | count))
            size, count = size + _LENGTH + len(envelope), count + 1
            if size > where.largest:
                hint = "Cut it into several attachments."
                raise Invalid(f"an object has at most {where.largest:,} bytes, and this blob has more", hint=hint)
            yield envelope

    mark(where, engine.store_id)
    where.put(path(engine.store_id, name), framed(closed()))
    return Sent(name, size, count, box)


def framed(envelopes: Iterable[bytes]) -> Iterator[bytes]:
    """An object, in parts."""
    yield HEAD
    for envelope in envelopes:
        yield len(envelope).to_bytes(_LENGTH, "big") + envelope


def send_again(engine: Engine, row: BlobRow, was: Sent) -> Sent:
    """Closes what was sent with the key that its blob has now, as another object."""
    sent = ObjectRow(was.name, row.blob, was.size, 0)
    try:
        return reclosed(engine, row, opened(engine, row, sent, was.pieces, was.box))
    except Lost:
        raise Unavailable("what was sent is not there any more", hint="Make the same call again.") from None


def reclosed(engine: Engine, row: BlobRow, pieces: Iterable[bytes]) -> Sent:
    """Puts pieces of a blob that is there, under a new name. Tampered, Unavailable."""
    name = new_name(engine)
    engine.write(lambda tx: tx.add_object(ObjectRow(name, row.blob, 0, engine.clock())))
    return send(engine, row, name, pieces)


def mark(where: Bucket, store_id: bytes) -> None:
    """Leaves a mark that this is a bucket of the store's."""
    if where.marked != store_id:
        at = f"{store_id.hex()}/{_MARK}"
        if where.size(at) is None:
            where.put(at, [_MARKED])
        where.marked = store_id


# -- reading


def box_of(engine: Engine, row: BlobRow) -> Box:
    """What opens and closes the pieces of a blob."""
    return engine.seal.box(row.wrapped_key, blob_owner(row.tree, row.blob))


def opened(engine: Engine, row: BlobRow, kept: ObjectRow, count: int, box: Box | None = None) -> Iterator[bytes]:
    """The first pieces of a blob, from its object. Lost, Unavailable."""
    try:
        box = box or box_of(engine, row)
        for number, envelope in enumerate(envelopes(bucket(engine), engine.store_id, kept, count)):
            piece = box.open(envelope, chunk_context(row.blob << SEQ_BITS | number))
            if piece is None:
                raise Lost(f"its piece {number} is damaged")
            yield bytes(piece)
    except MISTYPED:
        raise Lost("its row is damaged") from None


def envelopes(where: Bucket, store_id: bytes, kept: ObjectRow, count: int) -> Iterator[bytes]:
    """The first envelopes in an object, as they are. Lost, Unavailable."""
    at, source = 0, path(store_id, kept.name)
    size = where.size(source)
    if size is None:
        reachable(where, store_id)
        raise Lost("its object is missing")
    if size != kept.size:
        raise Lost("its object has another size")
    held = bytearray()

    def take(length: int) -> bytes:
        nonlocal at
        while len(held) < length:
            more = where.read(source, at, min(AHEAD, size - at)) if at < size else b""
            if more is None:
                raise Lost("its object is missing")
            if not more:
                raise Lost("its object ends too soon")
            at += len(more)
            held.extend(more)
        taken = bytes(held[:length])
        del held[:length]
        return taken

    if take(len(HEAD)) != HEAD:
        raise Lost("its object is none of clew's, or of a newer one")
    for _ in range(count):
        length = int.from_bytes(take(_LENGTH), "big")
        if length > _LONGEST:
            raise Lost("its object is damaged")
        yield take(length)
    if held or at < size:
        raise Lost("its object has more than its pieces")


def reachable(where: Bucket, store_id: bytes) -> None:
    """Unavailable if a bucket has nothing of a store: that an object is not there would mean nothing."""
    if where.size(f"{store_id.hex()}/{_MARK}") is None:
        raise Unavailable(
            f"{where.name} has nothing of this store", hint="Name the bucket and the prefix it was used with before."
        )


# -- exchanging keys


def reclose(engine: Engine, row: BlobRow, kept: ObjectRow) -> bool:
    """Closes a blob's pieces with the newest key of their owner: another object takes the place of this one.

    Lost, Unavailable. Nothing happens if it was done already, or if the blob is gone meanwhile. False if it has to be
    done again: what was sent was taken for abandoned before it was whole.
    """
    head = box_of(engine, row).head
    if not head:
        raise Lost("its data key is damaged")
    if next(envelopes(bucket(engine), engine.store_id, kept, row.chunks), b"").startswith(head):
        return True
    sent = reclosed(engine, row, opened(engine, row, kept, row.chunks))

    def work(tx: Tx) -> bool:
        now = tx.blob_by_number(row.blob)
        if now is not None and box_of(engine, now).head == sent.box.head:
            tx.whole_object(sent.name, row.blob, sent.size)
        return tx.object(row.blob) != kept

    return engine.write(work)


# -- removing


def owed(engine: Engine) -> bool:
    """True if there are objects that nothing needs, or a receipt that does not know yet that they are gone."""
    return engine.read(lambda tx: tx.header(OWED) is not None or bool(tx.objects_left(1)))


def clear(engine: Engine) -> Cleared:
    """Removes the objects that nothing needs. Unavailable if they cannot be reached; then they stay noted.

    Tampered if a note does not say which object it means. Not in a transaction: what it forgets may come back.
    """
    if engine.backend.in_transaction():
        raise Invalid("objects cannot be removed inside a transaction", hint="Finish the transaction first.")
    objects = size = 0
    while rows := engine.read(lambda tx: tx.objects_left(_BATCH)):
        if not all(isinstance(row.name, bytes) and isinstance(row.size, int) for row in rows):
            raise Tampered("the note of an object", "it has a value of the wrong kind")
        _remove(engine, [row.name for row in rows])
        objects, size = objects + len(rows), size + sum(row.size for row in rows)
    return Cleared(objects, size)


def _remove(engine: Engine, names: Sequence[bytes]) -> None:
    for name in names:
        bucket(engine).delete(path(engine.store_id, name))
    engine.write(lambda tx: tx.drop_objects(names))


def sweep(engine: Engine, older: timedelta, *, dry_run: bool) -> Cleared:
    """Removes what nothing needs: what is noted so, and what the store has never heard of, if it is `older`.

    That is what a store leaves behind that was lost, or replaced by an older copy of itself. Only objects of this
    store, and of this workspace, are looked at.
    """
    if engine.bucket is None and not engine.read(lambda tx: tx.sizes()["objects"]):
        return Cleared(0, 0)
    where = bucket(engine)
    before = engine.clock() - older // timedelta(microseconds=1)
    strays = [one for one in _strays(engine, where) if microseconds(one.modified) < before]
    if dry_run:
        noted = engine.read(lambda tx: [*tx.objects_left(_ALL), *tx.objects_unfinished(before)])
        gone = Cleared(len(noted), sum(row.size for row in noted))
    else:
        engine.write(lambda tx: tx.leave_unfinished(before))
        gone = clear(engine)
        for one in strays:
            where.delete(one.path)
    return Cleared(gone.objects + len(strays), gone.bytes + sum(one.size for one in strays))


def _strays(engine: Engine, where: Bucket) -> Iterator[Listed]:
    """Objects of this store that it does not know, and what a process that was killed left in a folder."""

    def noted(name: bytes) -> bool:
        return engine.read(lambda tx: tx.object_named(name))

    folder = path(engine.store_id, new_name(engine)).rpartition("/")[0]
    for one in where.list(folder):
        name, _, ending = one.path.rpartition("/")[2].partition(".")
        if len(name) == 32 and set(name) <= _HEX:
            full = bytes.fromhex(folder.rpartition("/")[2] + name)
            if ending.endswith("part") or not noted(full):
                yield one
