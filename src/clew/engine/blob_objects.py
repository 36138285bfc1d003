"""Blobs in object storage: each is one object in a bucket.

An object consists of the bytes ``clew blob``, 0x01, and the envelopes of the pieces, each after its length. The
envelopes are the same as those of pieces in rows, bound to the same positions. So the objects of a sealed store are
ciphertext, and a changed object does not open.

The store notes an object before the upload starts, and drops the note when the object is known to be gone. So it can
still remove the objects of interrupted uploads and of deleted blobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from clew.backends import SEQ_BITS, BlobRow, ObjectRow, Tx
from clew.engine.engine import Engine
from clew.engine.node import microseconds
from clew.engine.sealing.envelope import MISTYPED, Box, blob_owner, chunk_context
from clew.errors import Corrupted, Invalid, Unavailable

if TYPE_CHECKING:
    from clew.base.buckets import Bucket, ListedObject

HEAD = b"clew blob\x01"
"""The first bytes of an object."""
AHEAD = 2 << 20
"""Bytes of an object read at a time."""
PENDING_MARK = "unclean objects"
"""Header that exists while a receipt lists pending objects."""
_LONGEST = 1 << 20
"""Maximum bytes of an envelope; clew never writes larger ones."""
_LENGTH = 4
_BATCH, _ALL = 100, 1 << 30
_HEX = frozenset("0123456789abcdef")
_MARK, _MARKED = "clew", b"clew blobs 1\n"
"""An object that marks a bucket as one of the store's."""
_NOWHERE = "Open it with blobs=…; on the command line with --blobs or CLEW_BLOBS."


class ObjectLost(Exception):  # not in clew.errors: callers turn it into an error that names the blob
    """An object is missing or damaged."""

    def __init__(self, why: str) -> None:
        self.why = why


class Sent(NamedTuple):
    """An uploaded object."""

    name: bytes
    size: int
    pieces: int
    box: Box
    """The box that closed its envelopes."""


class Cleared(NamedTuple):
    """The removed objects."""

    objects: int
    bytes: int


def bucket(engine: Engine) -> Bucket:
    """The bucket of the store. Unavailable if it was opened without one."""
    if engine.bucket is None:
        raise Unavailable("the store was opened without its object storage", hint=_NOWHERE)
    return engine.bucket


def new_name(engine: Engine) -> bytes:
    """A new, unique name for an object."""
    return engine.lookup_hash("workspace", engine.workspace.encode()) + os.urandom(16)


def path(store_id: bytes, name: bytes) -> str:
    """The path of an object in its bucket."""
    return f"{store_id.hex()}/{name[:16].hex()}/{name[16:].hex()}"


# -- writing


def send(engine: Engine, row: BlobRow, name: bytes, pieces: Iterable[bytes]) -> Sent:
    """Uploads the pieces of a blob under a name that is already noted. Unavailable; Invalid if it is too large."""
    box, where = box_of(engine, row), bucket(engine)
    size, count = len(HEAD), 0

    def closed() -> Iterator[bytes]:
        nonlocal size, count
        for piece in pieces:
            envelope = box.close(piece, chunk_context(row.blob << SEQ_BITS | count))
            size, count = size + _LENGTH + len(envelope), count + 1
            if size > where.largest:
                hint = "Split it into several attachments."
                raise Invalid(f"the blob is larger than the {where.largest:,} bytes that an object may have", hint=hint)
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
    """Uploads the content of an object again, as another object with the current key of its blob."""
    sent = ObjectRow(was.name, row.blob, was.size, 0)
    try:
        return send_renamed(engine, row, open_pieces(engine, row, sent, was.pieces, was.box))
    except ObjectLost:
        raise Unavailable("the uploaded object is missing", hint="Make the same call again.") from None


def send_renamed(engine: Engine, row: BlobRow, pieces: Iterable[bytes]) -> Sent:
    """Uploads pieces of an existing blob under a new name. Corrupted, Unavailable."""
    name = new_name(engine)
    engine.write(lambda tx: tx.blobs.add_object(ObjectRow(name, row.blob, 0, engine.clock())))
    return send(engine, row, name, pieces)


def mark(where: Bucket, store_id: bytes) -> None:
    """Marks a bucket as one of the store's."""
    if where.marked != store_id:
        at = f"{store_id.hex()}/{_MARK}"
        if where.size(at) is None:
            where.put(at, [_MARKED])
        where.marked = store_id


# -- reading


def box_of(engine: Engine, row: BlobRow) -> Box:
    """The box that opens and closes the pieces of a blob."""
    return engine.seal.box(row.wrapped_key, blob_owner(row.tree, row.blob))


def open_pieces(engine: Engine, row: BlobRow, kept: ObjectRow, count: int, box: Box | None = None) -> Iterator[bytes]:
    """The first pieces of a blob, from its object. ObjectLost, Unavailable."""
    try:
        box = box or box_of(engine, row)
        for number, envelope in enumerate(envelopes(bucket(engine), engine.store_id, kept, count)):
            piece = box.open(envelope, chunk_context(row.blob << SEQ_BITS | number))
            if piece is None:
                raise ObjectLost(f"its piece {number} is damaged")
            yield bytes(piece)
    except MISTYPED:
        raise ObjectLost("its row is damaged") from None


def envelopes(where: Bucket, store_id: bytes, kept: ObjectRow, count: int) -> Iterator[bytes]:
    """The first envelopes in an object, not opened. ObjectLost, Unavailable."""
    at, source = 0, path(store_id, kept.name)
    size = where.size(source)
    if size is None:
        reachable(where, store_id)
        raise ObjectLost("its object is missing")
    if size != kept.size:
        raise ObjectLost("its object has the wrong size")
    held = bytearray()

    def take(length: int) -> bytes:
        nonlocal at
        while len(held) < length:
            more = where.read(source, at, min(AHEAD, size - at)) if at < size else b""
            if more is None:
                raise ObjectLost("its object is missing")
            if not more:
                raise ObjectLost("its object ends too soon")
            at += len(more)
            held.extend(more)
        taken = bytes(held[:length])
        del held[:length]
        return taken

    if take(len(HEAD)) != HEAD:
        raise ObjectLost("its object was not written by clew, or by a newer version")
    for _ in range(count):
        length = int.from_bytes(take(_LENGTH), "big")
        if length > _LONGEST:
            raise ObjectLost("its object is damaged")
        yield take(length)
    if held or at < size:
        raise ObjectLost("its object has extra bytes at the end")


def reachable(where: Bucket, store_id: bytes) -> None:
    """Unavailable if a bucket is not one of the store's: a missing object would then be no sign of damage."""
    if where.size(f"{store_id.hex()}/{_MARK}") is None:
        raise Unavailable(
            f"{where.name} has no objects of this store", hint="Use the bucket and prefix that the store used before."
        )


# -- rotating keys


def reencrypt(engine: Engine, row: BlobRow, kept: ObjectRow) -> bool:
    """Replaces a blob's object with one under the blob's newest data key. ObjectLost, Unavailable.

    Does nothing if this is already done, or if the blob was deleted. False if it must be repeated, because the upload
    counted as abandoned before it was complete.
    """
    head = box_of(engine, row).head
    if not head:
        raise ObjectLost("its data key is damaged")
    if next(envelopes(bucket(engine), engine.store_id, kept, row.chunks), b"").startswith(head):
        return True
    sent = send_renamed(engine, row, open_pieces(engine, row, kept, row.chunks))

    def work(tx: Tx) -> bool:
        now = tx.blobs.blob_by_number(row.blob)
        if now is not None and box_of(engine, now).head == sent.box.head:
            tx.blobs.whole_object(sent.name, row.blob, sent.size)
        return tx.blobs.object(row.blob) != kept

    return engine.write(work)


# -- removing


def removal_pending(engine: Engine) -> bool:
    """True if unused objects remain, or if a receipt still lists removed objects as pending."""
    return engine.read(lambda tx: tx.header(PENDING_MARK) is not None or bool(tx.blobs.objects_left(1)))


def clear(engine: Engine) -> Cleared:
    """Removes unused objects. Unavailable if the bucket cannot be reached; then they stay noted.

    Corrupted if a note is damaged. Invalid in a transaction: a rollback would restore notes of removed objects.
    """
    if engine.backend.in_transaction():
        raise Invalid("objects cannot be removed inside a transaction", hint="Finish the transaction first.")
    objects = size = 0
    while rows := engine.read(lambda tx: tx.blobs.objects_left(_BATCH)):
        if not all(isinstance(row.name, bytes) and isinstance(row.size, int) for row in rows):
            raise Corrupted("the note of an object", "it has a value of the wrong kind")
        _remove(engine, [row.name for row in rows])
        objects, size = objects + len(rows), size + sum(row.size for row in rows)
    return Cleared(objects, size)


def _remove(engine: Engine, names: Sequence[bytes]) -> None:
    for name in names:
        bucket(engine).delete(path(engine.store_id, name))
    engine.write(lambda tx: tx.blobs.drop_objects(names))


def sweep(engine: Engine, older: timedelta, *, dry_run: bool) -> Cleared:
    """Removes objects noted as unused, and objects without a note that are `older`.

    A store leaves objects without a note if it is lost, or replaced by an older copy. Only objects of this store and
    workspace are removed.
    """
    if engine.bucket is None and not engine.read(lambda tx: tx.maintenance.sizes()["objects"]):
        return Cleared(0, 0)
    where = bucket(engine)
    before = engine.clock() - older // timedelta(microseconds=1)
    strays = [one for one in _strays(engine, where) if microseconds(one.modified) < before]
    if dry_run:
        noted = engine.read(lambda tx: [*tx.blobs.objects_left(_ALL), *tx.blobs.objects_unfinished(before)])
        gone = Cleared(len(noted), sum(row.size for row in noted))
    else:
        engine.write(lambda tx: tx.blobs.leave_unfinished(before))
        gone = clear(engine)
        for one in strays:
            where.delete(one.path)
    return Cleared(gone.objects + len(strays), gone.bytes + sum(one.size for one in strays))


def _strays(engine: Engine, where: Bucket) -> Iterator[ListedObject]:
    """Objects of this store without a note, and partial files that a killed process left in a folder."""

    def noted(name: bytes) -> bool:
        return engine.read(lambda tx: tx.blobs.object_named(name))

    folder = path(engine.store_id, new_name(engine)).rpartition("/")[0]
    for one in where.list(folder):
        name, _, ending = one.path.rpartition("/")[2].partition(".")
        if len(name) == 32 and set(name) <= _HEX:
            full = bytes.fromhex(folder.rpartition("/")[2] + name)
            if ending.endswith("part") or not noted(full):
                yield one
