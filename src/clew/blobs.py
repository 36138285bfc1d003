"""Blobs: attachments, images, contents of files. Addressed by content, kept once in a tree, read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import IO, Any, NamedTuple

from clew import outside
from clew.backends import MAX_SEQ, SEQ_BITS, BlobRow, ObjectRow, Tx
from clew.engine import Engine
from clew.envelope import MISTYPED, Box, blob_fields, blob_owner, chunk_context
from clew.errors import ClewError, Invalid, NotFound, Tampered, Unavailable
from clew.loading import loading
from clew.outside import Sent

CHUNK = 256 * 1024
"""Bytes in one piece: small against memory, large against the cost of a row."""
BATCH = 16
"""Pieces in one transaction: a large blob must not keep other writers waiting."""
STALE = 24 * 3600 * 1_000_000
"""Microseconds after which a blob that was never finished is taken for abandoned."""

_STAGED = b"\x00staged."  # no keyed hash has this length, so a blob in the making is never found


class Blob(NamedTuple):
    """A blob's address (SHA-256 of its content, in hex) and size."""

    digest: str
    size: int


Source = bytes | IO[bytes] | Iterable[bytes]
"""Where a blob's bytes come from: at once, from a binary file, or in pieces."""


class Blobs:
    """The blobs of one tree. A message that shows one keeps it; a blob goes with the last message that shows it."""

    def __init__(self, engine: Engine, tree: Callable[[], int]) -> None:
        self._engine = engine
        self._tree = tree

    def put(self, source: Source) -> Blob:
        """Stores bytes, a binary file, or pieces of bytes, as a stream. Content the tree has is not stored twice.

        With object storage, large ones go there, but not inside a transaction. Unavailable if that cannot be reached.
        """
        bucket, pieces = self._engine.bucket, _pieces(source)
        if bucket is None or self._engine.backend.in_transaction():  # nobody should wait for a network meanwhile
            return self._put(pieces)
        first, size = list[bytes](), 0
        while size < bucket.over and (piece := next(pieces, None)) is not None:
            first.append(piece)
            size += len(piece)
        return self._put(iter(first)) if size < bucket.over else self._put_outside(chain(first, pieces))

    def _put(self, pieces: Iterator[bytes]) -> Blob:
        """Stores pieces as rows of the store."""
        with loading:
            from hashlib import sha256

        engine, tree = self._engine, self._tree()
        staged = engine.write(lambda tx: self._stage(tx, tree))
        digest, size, number = sha256(), 0, 0
        try:
            while batch := list(islice(pieces, BATCH)):
                for piece in batch:
                    digest.update(piece)
                    size += len(piece)
                if number + len(batch) > MAX_SEQ:
                    raise Invalid("the blob is too large")
                engine.write(partial(self._fill, row=staged, first=number, batch=batch))
                number += len(batch)
            blob = Blob(digest.hexdigest(), size)
            engine.write(lambda tx: self._finish(tx, staged, blob, number))
        except BaseException:
            engine.write(lambda tx: _give_up(tx, staged))
            raise
        return blob

    def _put_outside(self, pieces: Iterator[bytes]) -> Blob:
        """Stores pieces as an object. What is cut short is noted, and goes later."""
        with loading:
            from hashlib import sha256

        engine, tree, name = self._engine, self._tree(), outside.new_name(self._engine)
        staged = engine.write(lambda tx: self._stage(tx, tree, name))
        digest, size = sha256(), 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                yield piece

        try:
            sent = outside.send(engine, staged, name, counted())
            blob = Blob(digest.hexdigest(), size)
            while (now := engine.write(partial(self._finish_outside, row=staged, blob=blob, sent=sent))) is not None:
                sent = outside.send_again(engine, now, sent)
        except BaseException:
            engine.write(lambda tx: _give_up(tx, staged))
            raise
        with suppress(ClewError):  # it is stored, and what is left stays noted
            outside.clear(engine)
        return blob

    def get(self, digest: str) -> bytes:
        """The whole content. NotFound; Tampered if it is not what was stored."""
        return b"".join(self.open(digest))

    def open(self, digest: str) -> Iterator[bytes]:
        """The content in pieces; no transaction is held between them. NotFound at once; Tampered where it is."""
        row = self._row(digest)
        if self._engine.read(lambda tx: tx.object(row.blob)) is not None:
            outside.bucket(self._engine)
            return self._open_outside(digest, row.blob)

        def stream() -> Iterator[bytes]:
            for number in range(row.chunks):
                pos = row.blob << SEQ_BITS | number
                now, body = self._engine.read(partial(_piece, blob=row.blob, pos=pos))
                if now is None:
                    raise NotFound("blob", digest, hint="It was deleted while it was read.")
                payload = self._open(now, pos, body)
                if payload is None:
                    raise Tampered(f"blob {digest}", f"its piece {number} is missing or damaged")
                yield bytes(payload)

        return stream()

    def _open_outside(self, digest: str, number: int) -> Iterator[bytes]:
        given, before = 0, None
        while True:
            row, kept = self._engine.read(partial(_kept, blob=number))
            if row is None:
                raise NotFound("blob", digest, hint="It was deleted while it was read.")
            if kept is None:
                raise Tampered(f"blob {digest}", "it is not known where it is")
            try:
                for piece in islice(outside.opened(self._engine, row, kept, row.chunks), given, None):
                    given += 1
                    yield piece
                return
            except outside.Lost as lost:
                if before == kept.name:
                    raise Tampered(f"blob {digest}", lost.why) from None
                before = kept.name  # keys may have been exchanged meanwhile: another object has taken its place

    def stat(self, digest: str) -> Blob:
        """Address and size of a blob. NotFound."""
        return Blob(digest, self._row(digest).size)

    def _box(self, row: BlobRow) -> Box:
        return self._engine.seal.box(row.wrapped_key, blob_owner(row.tree, row.blob))

    def _open(self, row: BlobRow, pos: int, body: bytes | None) -> bytes | None:
        """What is in a piece; None if it is missing or damaged."""
        try:
            return None if body is None else self._box(row).open(body, chunk_context(pos))
        except MISTYPED:
            return None

    def _row(self, digest: str) -> BlobRow:
        if not isinstance(digest, str) or not digest.isascii():
            raise Invalid("a blob is named by its digest", hint="Use the digest that put returned.")
        engine, tree = self._engine, self._tree()
        for _ in range(2):
            row = engine.read(lambda tx: tx.blob(tree, engine.blob_look(tree, digest)))
            if row is None:
                raise NotFound("blob", digest)
            if self._signed(row):
                return row
            engine.reload()  # the store may be kept in another way since
        raise Tampered(f"blob {digest}")

    def _signed(self, row: BlobRow) -> bool:
        try:
            return self._engine.seal.signed(blob_fields(row), row.wrapped_key, row.mac)
        except MISTYPED:
            return False

    def _keep(self, tx: Tx, tree: int, data: bytes) -> Blob:
        """`put` for bytes that are in memory, as a step of a transaction that the caller runs."""
        with loading:
            from hashlib import sha256

        blob = Blob(sha256(data).hexdigest(), len(data))
        if tx.blob(tree, self._engine.blob_look(tree, blob.digest)) is None:
            staged, pieces = self._stage(tx, tree), list(_pieces(data))
            self._fill(tx, staged, 0, pieces)
            self._finish(tx, staged, blob, len(pieces))
        return blob

    def _stage(self, tx: Tx, tree: int, name: bytes | None = None) -> BlobRow:
        """A blob in the making, and its object if that has a name. Those that a crash left behind are removed."""
        if tx.tree_workspace(tree) is None:
            raise _deleted()
        now = self._engine.clock()
        for old in tx.blobs_between(tree, _STAGED, _STAGED + b"\xff" * 16):
            if len(old.look) == len(_STAGED) + 16 and old.created_at < now - STALE:
                tx.delete_blob(old.blob)
        row = BlobRow(0, tree, _STAGED + self._engine.new_id(), 0, 0, now, None, b"")
        row = row._replace(blob=tx.add_blob(row))
        _, wrapped = self._engine.seal.new_box(blob_owner(tree, row.blob))
        row = row._replace(wrapped_key=wrapped)
        tx.set_blob(row)
        if name is not None:
            tx.leave_unfinished(now - STALE)
            tx.add_object(ObjectRow(name, row.blob, 0, now))
        return row

    def _fill(self, tx: Tx, row: BlobRow, first: int, batch: list[bytes]) -> None:
        row = _still(tx, row)
        if row.wrapped_key is None and self._engine.keyed:  # the store is being sealed since
            _, wrapped = self._engine.seal.new_box(blob_owner(row.tree, row.blob))
            row = row._replace(wrapped_key=wrapped)
            tx.set_blob(row)
        box = self._box(row)
        for number, piece in enumerate(batch, first):
            pos = row.blob << SEQ_BITS | number
            tx.add_chunk(pos, box.close(piece, chunk_context(pos)))

    def _finish(self, tx: Tx, row: BlobRow, blob: Blob, chunks: int) -> bool:
        """Makes a blob complete; False if the tree has this content, and it is deleted."""
        row = _still(tx, row)
        look = self._engine.blob_look(row.tree, blob.digest)
        if tx.blob(row.tree, look) is not None:
            tx.delete_blob(row.blob)
            return False
        row = row._replace(look=look, size=blob.size, chunks=chunks)
        tx.set_blob(row._replace(mac=self._engine.seal.sign(blob_fields(row), row.wrapped_key)))
        return True

    def _finish_outside(self, tx: Tx, row: BlobRow, blob: Blob, sent: Sent) -> BlobRow | None:
        """`_finish`; but if the blob's key is another than the one it was sent with, nothing, and the row as it is."""
        now = _still(tx, row)
        if self._box(now).head != sent.box.head:
            return now
        if self._finish(tx, row, blob, sent.pieces) and not tx.whole_object(sent.name, row.blob, sent.size):
            raise Unavailable("the upload took too long, and was given up", hint="Make the same call again.")
        return None


def _piece(tx: Tx, blob: int, pos: int) -> tuple[BlobRow | None, bytes | None]:
    """A piece, and its blob as it is at the same moment: its data key may be another than a piece before."""
    return tx.blob_by_number(blob), tx.chunk(pos)


def _kept(tx: Tx, blob: int) -> tuple[BlobRow | None, ObjectRow | None]:
    return tx.blob_by_number(blob), tx.object(blob)


def _still(tx: Tx, row: BlobRow) -> BlobRow:
    """The blob in the making as it is now. NotFound if it is gone: its session was deleted meanwhile."""
    now = tx.blob(row.tree, row.look)
    if now is None:
        raise _deleted()
    return now


def _give_up(tx: Tx, row: BlobRow) -> None:
    """Deletes a blob in the making; not one that was finished after all, which others may rely on already."""
    if tx.blob(row.tree, row.look) is not None:
        tx.delete_blob(row.blob)


def _deleted() -> NotFound:
    return NotFound("session", "of this blob", hint="It was deleted while the blob was being stored.")


def _pieces(source: Source) -> Iterator[bytes]:
    """The source in pieces of `CHUNK` bytes, the last one shorter."""
    rest = bytearray()
    for part in _parts(source):
        if not isinstance(part, bytes | bytearray | memoryview):
            raise Invalid(f"a blob is made of bytes, not {type(part).__name__}")
        view = memoryview(part)
        while view:
            taken = view[: CHUNK - len(rest)]
            rest += taken
            view = view[len(taken) :]
            if len(rest) == CHUNK:
                yield bytes(rest)
                rest.clear()
    if rest:
        yield bytes(rest)


def _parts(source: Any) -> Iterable[Any]:
    if isinstance(source, bytes | bytearray | memoryview):
        return (source,)
    if callable(read := getattr(source, "read", None)):
        return iter(lambda: read(CHUNK), b"")
    if isinstance(source, str) or not isinstance(source, Iterable):
        raise Invalid(f"a blob is made of bytes, not {type(source).__name__}", hint="Encode text first.")
    return source
