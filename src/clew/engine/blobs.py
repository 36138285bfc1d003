"""Blobs: attachments, images, file contents. Addressed by content, stored once per tree, read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import IO, Any, NamedTuple

from clew.backends import MAX_SEQ, SEQ_BITS, BlobRow, ObjectRow, Tx
from clew.base.loading import loading
from clew.engine import blob_objects
from clew.engine.blob_objects import Sent
from clew.engine.engine import Engine
from clew.engine.sealing.envelope import MISTYPED, Box, blob_fields, blob_owner, chunk_context
from clew.errors import ClewError, Corrupted, Invalid, NotFound, Unavailable

CHUNK = 256 * 1024
"""Bytes in one piece: small enough for memory, large enough that the cost of a row does not matter."""
BATCH = 16
"""Pieces in one transaction: a large blob must not keep other writers waiting."""
STALE = 24 * 3600 * 1_000_000
"""Microseconds after which an unfinished blob counts as abandoned."""

STAGED = b"\x00staged."  # no lookup hash has this length, so lookups never find an unfinished blob


class Blob(NamedTuple):
    """A blob's address (SHA-256 of its content, in hex) and size."""

    digest: str
    size: int


Source = bytes | IO[bytes] | Iterable[bytes]
"""The content of a blob: bytes, a binary file, or an iterable of bytes."""


class Blobs:
    """The blobs of one tree. A blob is deleted with the last message that refers to it."""

    def __init__(self, engine: Engine, tree: Callable[[], int]) -> None:
        self._engine = engine
        self._tree = tree

    def put(self, source: Source) -> Blob:
        """Streams bytes, a binary file or pieces of bytes into the store. A tree stores the same content once.

        With object storage, large blobs go there, except inside a transaction. Unavailable if it cannot be reached.
        """
        bucket, pieces = self._engine.bucket, _pieces(source)
        if bucket is None or self._engine.backend.in_transaction():  # other writers must not wait for a network
            return self._put(pieces)
        first, size = list[bytes](), 0
        while size < bucket.over and (piece := next(pieces, None)) is not None:
            first.append(piece)
            size += len(piece)
        return self._put(iter(first)) if size < bucket.over else self._put_object(chain(first, pieces))

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
                    raise Invalid(f"the blob has more than {MAX_SEQ:,} pieces of {CHUNK:,} bytes", hint="Split it.")
                engine.write(partial(self._fill, row=staged, first=number, batch=batch))
                number += len(batch)
            blob = Blob(digest.hexdigest(), size)
            engine.write(lambda tx: self._finish(tx, staged, blob, number))
        except BaseException:
            engine.write(lambda tx: _discard(tx, staged))
            raise
        return blob

    def _put_object(self, pieces: Iterator[bytes]) -> Blob:
        """Stores pieces as an object. An interrupted upload stays noted and is removed later."""
        with loading:
            from hashlib import sha256

        engine, tree, name = self._engine, self._tree(), blob_objects.new_name(self._engine)
        staged = engine.write(lambda tx: self._stage(tx, tree, name))
        digest, size = sha256(), 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                yield piece

        try:
            sent = blob_objects.send(engine, staged, name, counted())
            blob = Blob(digest.hexdigest(), size)
            while (now := engine.write(partial(self._finish_object, row=staged, blob=blob, sent=sent))) is not None:
                sent = blob_objects.send_again(engine, now, sent)
        except BaseException:
            engine.write(lambda tx: _discard(tx, staged))
            raise
        with suppress(ClewError):  # the blob is stored, and objects not removed stay noted
            blob_objects.clear(engine)
        return blob

    def get(self, digest: str) -> bytes:
        """The whole content. NotFound; Corrupted if the content was changed."""
        return b"".join(self.open(digest))

    def open(self, digest: str) -> Iterator[bytes]:
        """The content in pieces, without a transaction between them. NotFound at once; Corrupted at a damaged piece."""
        return self.open_row(self._row(digest), digest)

    def open_row(self, row: BlobRow, digest: str = "") -> Iterator[bytes]:
        """`open` for a blob whose row was read. Errors name `digest`."""
        if self._engine.read(lambda tx: tx.blobs.object(row.blob)) is not None:
            blob_objects.bucket(self._engine)
            return self._open_object(digest, row.blob)

        def stream() -> Iterator[bytes]:
            for number in range(row.chunks):
                pos = row.blob << SEQ_BITS | number
                now, body = self._engine.read(partial(_piece, blob=row.blob, pos=pos))
                if now is None:
                    raise NotFound("blob", digest, hint="It was deleted while being read.")
                payload = self._open(now, pos, body)
                if payload is None:
                    raise Corrupted(f"blob {digest}", f"its piece {number} is missing or damaged")
                yield bytes(payload)

        return stream()

    def _open_object(self, digest: str, number: int) -> Iterator[bytes]:
        given, before = 0, None
        while True:
            row, kept = self._engine.read(partial(_row_and_object, blob=number))
            if row is None:
                raise NotFound("blob", digest, hint="It was deleted while being read.")
            if kept is None:
                raise Corrupted(f"blob {digest}", "its location is unknown")
            try:
                for piece in islice(blob_objects.open_pieces(self._engine, row, kept, row.chunks), given, None):
                    given += 1
                    yield piece
                return
            except blob_objects.ObjectLost as lost:
                if before == kept.name:
                    raise Corrupted(f"blob {digest}", lost.why) from None
                before = kept.name  # a key rotation may have replaced the object

    def stat(self, digest: str) -> Blob:
        """Address and size of a blob. NotFound."""
        return Blob(digest, self._row(digest).size)

    def _box(self, row: BlobRow) -> Box:
        return self._engine.seal.box(row.wrapped_key, blob_owner(row.tree, row.blob))

    def _open(self, row: BlobRow, pos: int, body: bytes | None) -> bytes | None:
        """The content of a piece; None if it is missing or damaged."""
        try:
            return None if body is None else self._box(row).open(body, chunk_context(pos))
        except MISTYPED:
            return None

    def _row(self, digest: str) -> BlobRow:
        if not isinstance(digest, str) or not digest.isascii():
            raise Invalid("a blob is identified by its digest", hint="Use the digest that put returned.")
        engine, tree = self._engine, self._tree()
        for _ in range(2):
            row = engine.read(lambda tx: tx.blobs.blob(tree, engine.blob_hash(tree, digest)))
            if row is None:
                raise NotFound("blob", digest)
            if self._is_signed(row):
                return row
            engine.reload()  # another process may have changed the keys
        raise Corrupted(f"blob {digest}")

    def _is_signed(self, row: BlobRow) -> bool:
        try:
            return self._engine.seal.is_signed(blob_fields(row), row.wrapped_key, row.mac)
        except MISTYPED:
            return False

    def _put_in(self, tx: Tx, tree: int, contents: Iterable[tuple[str, bytes]]) -> None:
        self._clear_abandoned(tx, tree)
        now = self._engine.clock()
        for digest, data in contents:
            look = self._engine.blob_hash(tree, digest)
            if tx.blobs.blob(tree, look) is not None:
                continue
            if 0 < len(data) <= CHUNK:
                self._add(tx, BlobRow(0, tree, look, len(data), 1, now, None, b""), data)
            else:
                staged, pieces = self._stage(tx, tree), list(_pieces(data))
                self._fill(tx, staged, 0, pieces)
                self._finish(tx, staged, Blob(digest, len(data)), len(pieces))

    def _add(self, tx: Tx, row: BlobRow, data: bytes) -> None:
        """Adds a complete blob of one piece: four statements with the lookup, instead of eleven by `_stage`."""
        row = row._replace(blob=tx.blobs.add_blob(row))
        box, wrapped = self._engine.seal.new_box(blob_owner(row.tree, row.blob))
        row = row._replace(wrapped_key=wrapped)
        tx.blobs.set_blob(row._replace(mac=self._engine.seal.sign(blob_fields(row), wrapped)))
        pos = row.blob << SEQ_BITS
        tx.blobs.add_chunk(pos, box.close(data, chunk_context(pos)))

    def _clear_abandoned(self, tx: Tx, tree: int) -> None:
        """Removes unfinished blobs that a crash left behind. NotFound if the session was deleted."""
        if tx.tree_workspace(tree) is None:
            raise _deleted()
        now = self._engine.clock()
        for old in tx.blobs.blobs_between(tree, STAGED, STAGED + b"\xff" * 16):
            if len(old.look) == len(STAGED) + 16 and old.created_at < now - STALE:
                tx.blobs.delete_blob(old.blob)

    def _stage(self, tx: Tx, tree: int, name: bytes | None = None) -> BlobRow:
        """Adds an unfinished blob, and its object if `name` is given."""
        self._clear_abandoned(tx, tree)
        now = self._engine.clock()
        row = BlobRow(0, tree, STAGED + self._engine.new_id(), 0, 0, now, None, b"")
        row = row._replace(blob=tx.blobs.add_blob(row))
        _, wrapped = self._engine.seal.new_box(blob_owner(tree, row.blob))
        row = row._replace(wrapped_key=wrapped)
        tx.blobs.set_blob(row)
        if name is not None:
            tx.blobs.leave_unfinished(now - STALE)
            tx.blobs.add_object(ObjectRow(name, row.blob, 0, now))
        return row

    def _fill(self, tx: Tx, row: BlobRow, first: int, batch: list[bytes]) -> None:
        row = _current(tx, row)
        if row.wrapped_key is None and self._engine.keyed:  # sealing of the store has started since
            _, wrapped = self._engine.seal.new_box(blob_owner(row.tree, row.blob))
            row = row._replace(wrapped_key=wrapped)
            tx.blobs.set_blob(row)
        box = self._box(row)
        for number, piece in enumerate(batch, first):
            pos = row.blob << SEQ_BITS | number
            tx.blobs.add_chunk(pos, box.close(piece, chunk_context(pos)))

    def _finish(self, tx: Tx, row: BlobRow, blob: Blob, chunks: int) -> bool:
        """Completes a blob. If the tree already has this content, deletes the blob and returns False."""
        row = _current(tx, row)
        look = self._engine.blob_hash(row.tree, blob.digest)
        if tx.blobs.blob(row.tree, look) is not None:
            tx.blobs.delete_blob(row.blob)
            return False
        row = row._replace(look=look, size=blob.size, chunks=chunks)
        tx.blobs.set_blob(row._replace(mac=self._engine.seal.sign(blob_fields(row), row.wrapped_key)))
        return True

    def _finish_object(self, tx: Tx, row: BlobRow, blob: Blob, sent: Sent) -> BlobRow | None:
        """`_finish`. If the blob's key has changed since the upload, does nothing and returns the current row."""
        now = _current(tx, row)
        if self._box(now).head != sent.box.head:
            return now
        if self._finish(tx, row, blob, sent.pieces) and not tx.blobs.whole_object(sent.name, row.blob, sent.size):
            raise Unavailable("the upload took too long and was abandoned", hint="Make the same call again.")
        return None


def _piece(tx: Tx, blob: int, pos: int) -> tuple[BlobRow | None, bytes | None]:
    """A piece and its blob in one read: the data key may have changed since the previous piece."""
    return tx.blobs.blob_by_number(blob), tx.blobs.chunk(pos)


def _row_and_object(tx: Tx, blob: int) -> tuple[BlobRow | None, ObjectRow | None]:
    return tx.blobs.blob_by_number(blob), tx.blobs.object(blob)


def _current(tx: Tx, row: BlobRow) -> BlobRow:
    """The current row of an unfinished blob. NotFound if its session was deleted."""
    now = tx.blobs.blob(row.tree, row.look)
    if now is None:
        raise _deleted()
    return now


def _discard(tx: Tx, row: BlobRow) -> None:
    """Deletes an unfinished blob. A finished one stays, because messages may refer to it."""
    if tx.blobs.blob(row.tree, row.look) is not None:
        tx.blobs.delete_blob(row.blob)


def _deleted() -> NotFound:
    return NotFound("session", "of this blob", hint="It was deleted while the blob was being stored.")


def _pieces(source: Source) -> Iterator[bytes]:
    """The source in pieces of `CHUNK` bytes, the last one shorter."""
    rest = bytearray()
    for part in _parts(source):
        if not isinstance(part, bytes | bytearray | memoryview):
            raise Invalid(f"a blob must be bytes, not {type(part).__name__}")
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
        raise Invalid(f"a blob must be bytes, not {type(source).__name__}", hint="Encode text first.")
    return source


def put_in(blobs: Blobs, tx: Tx, tree: int, data: bytes) -> Blob:
    """`Blobs.put` for bytes in memory, as a step of the caller's transaction."""
    with loading:
        from hashlib import sha256

    blob = Blob(sha256(data).hexdigest(), len(data))
    put_all_in(blobs, tx, tree, [(blob.digest, data)])
    return blob


def put_all_in(blobs: Blobs, tx: Tx, tree: int, contents: Iterable[tuple[str, bytes]]) -> None:
    """`put_in` for many contents, each with its digest."""
    blobs._put_in(tx, tree, contents)
