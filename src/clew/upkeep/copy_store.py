"""Copying a store between any two backends, for example from a file to a server.

Rows are copied unchanged, with their ids, numbers and seals: the copy is the same store, and a sealed store needs no
key. The source is read in one consistent snapshot. At the end each row is read back and compared; only then does the
copy open as a store. An interrupted copy resumes if the source has not changed, and otherwise starts over.

Blobs in object storage are copied too: into the object storage of the copy if it has one, otherwise into its rows. The
comparison treats both alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import merge
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from clew.backends import SEQ_BITS, Backend, BackendOptions, ObjectRow, Reader, State
from clew.backends.open import open_backend
from clew.backends.rows import CHUNKS, COPIED, REFS, Table
from clew.base import buckets as objects
from clew.engine import blob_objects
from clew.engine.blob_objects import ObjectLost
from clew.errors import ClewError, Conflict, Corrupted, Invalid, Unavailable

if TYPE_CHECKING:
    from clew.base.buckets import Bucket

Progress = Callable[[int, int], object]
"""Called with the number of rows copied or compared, and the total."""

COPYING = "copying"
"""Header that exists until a copy is complete."""
BATCH = 500
FEW = 16
"""Batch size for pieces of blobs, which are large."""


class Copied(NamedTuple):
    """What was copied."""

    source: str
    target: str
    rows: int


class _Mark(msgspec.Struct):
    """How far a copy has come."""

    source: str
    """Fingerprint of the source."""
    table: int = 0
    after: list[Any] = []


def copy(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    blobs: str | Bucket | None = None,
    target_blobs: str | Bucket | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Copies a store into a new one, and compares both. Conflict if the target has other data.

    Other processes may use the source; the copy does not include what they write after it starts. `blobs` is the object
    storage of the source, required if the source uses one. `target_blobs` is that of the copy; without it, the copy
    stores everything in rows.
    """
    if os.fspath(source) == os.fspath(target):
        raise Invalid("a store cannot be copied onto itself", hint="Name a new place for the copy.")
    one, other = (None if place is None else objects.bucket(place) for place in (blobs, target_blobs))
    if one is not None and other is not None and one.name.rstrip("/") == other.name.rstrip("/"):
        raise Invalid(
            "the source and the copy have the same object storage", hint="Name another bucket, or another prefix."
        )
    with _open(source, create=False) as here, _open(target, create=True) as there, here.reader() as reader:
        read = _Side(here, reader, one)
        if one is None and read.objects([]):
            raise Unavailable(f"attachments of {here.path} are in object storage", hint="Pass blobs, or --blobs.")
        mark = _begin(there, f"{read.fingerprint()}{'' if other is None else other.name}")
        total = sum(read.counts())
        done = _Count(progress, 2 * total)
        for number in range(mark.table, len(COPIED)):
            if COPIED[number] is CHUNKS and other is not None:
                _copy_objects(read, there, other)
            _copy(read, there, number, mark, done, inside=other is not None)
        with there.reader() as again:
            _compare(read, _Side(there, again, other, read.store_id), done, there.path)
        _finish(read, there)
        return Copied(here.path, there.path, total)


class _Count:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


class _Side:
    """One store, read in one snapshot."""

    def __init__(self, backend: Backend, reader: Reader, where: Bucket | None, store_id: bytes | None = None) -> None:
        self._backend = backend
        self._reader = reader
        self.where = where
        self.store_id = self._value("store_id") if store_id is None else store_id
        """The store id in object paths; a copy has another id until it is finished."""

    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._reader.execute(sql, values)]

    def rows(self, table: Table, after: list[Any]) -> Iterator[tuple[Any, ...]]:
        keys = ", ".join(list(table.columns)[: table.keys])
        where = f" WHERE ({keys}) > ({', '.join('?' * table.keys)})" if after else ""
        sql = f"SELECT {', '.join(table.columns)} FROM {table.name}{where} ORDER BY {keys}"
        return iter(self._reader.stream(sql, tuple(after)))

    def whole(self, table: Table, after: list[Any]) -> Iterator[tuple[Any, ...]]:
        """`rows`, including pieces in object storage."""
        rows = self.rows(table, after)
        return rows if table is not CHUNKS or self.where is None else merge(rows, self._pieces(after))

    def objects(self, after: list[Any]) -> list[tuple[ObjectRow, int]]:
        """Objects of blobs, starting with the blob of the piece at a position, each with its number of pieces."""
        found = self.all(
            "SELECT o.name, o.blob, o.size, o.created_at, b.chunks FROM objects o JOIN blobs b ON b.blob = o.blob"
            " WHERE o.size > 0 AND o.blob >= ? ORDER BY o.blob", after[0] >> SEQ_BITS if after else 0,
        )  # fmt: skip
        return [(ObjectRow._make(row[:4]), row[4]) for row in found]

    def _pieces(self, after: list[Any]) -> Iterator[tuple[Any, ...]]:
        for kept, count in self.objects(after):
            assert kept.blob is not None
            for number, body in enumerate(self.bodies(kept, count)):
                pos = kept.blob << SEQ_BITS | number
                if not after or pos > after[0]:
                    yield pos, body

    def bodies(self, kept: ObjectRow, count: int) -> Iterator[bytes]:
        """The pieces in an object, not opened. Corrupted; Unavailable if it was deleted during the copy."""
        assert self.where is not None
        try:
            yield from blob_objects.envelopes(self.where, self.store_id, kept, count)
        except ObjectLost as lost:
            raise self._missing(kept, lost) from None

    def _missing(self, kept: ObjectRow, lost: ObjectLost) -> ClewError:
        """The error for a lost object. Objects are not part of the snapshot, so it may have been deleted since."""
        blob = kept.blob
        if blob is None or self._backend.read(lambda tx: tx.blobs.object(blob)) != kept:
            hint = "Make the copy again."
            return Unavailable("an attachment was deleted, or got another key, before it was copied", hint=hint)
        return Corrupted(f"blob {kept.blob}", lost.why)

    def _value(self, name: str) -> bytes:
        """A value of the header."""
        return bytes(self.all("SELECT value FROM header WHERE name = ?", name)[0][0])

    def counts(self) -> list[int]:
        """Rows of each table, including pieces in object storage."""
        found = [self.all(f"SELECT count(*) FROM {table.name}")[0][0] for table in COPIED]
        found[COPIED.index(CHUNKS)] += sum(count for _, count in self.objects([]))
        return found

    def header(self) -> list[tuple[str, bytes]]:
        return [row for row in self.all("SELECT name, value FROM header ORDER BY name") if row[0] != COPYING]

    def counters(self) -> dict[str, int]:
        return self._reader.counters()

    def state(self) -> State:
        return self._reader.tx.state()

    def fingerprint(self) -> str:
        """Changes with any change of the store."""
        versions = self.all("SELECT count(*), coalesce(sum(version), 0) FROM refs")[0]
        epoch = self.all("SELECT number, state FROM epoch")[0]
        parts = (self.header(), self.counts(), sorted(self.counters().items()), [int(one) for one in versions], epoch)
        return msgspec.json.encode(parts).decode()


@contextmanager
def _open(place: str | os.PathLike[str], *, create: bool) -> Iterator[Backend]:
    backend = open_backend(os.fspath(place), BackendOptions(create=create))
    try:
        yield backend
    finally:
        backend.close()


def _begin(there: Backend, fingerprint: str) -> _Mark:
    """Where to resume: at the start, unless a copy of the same source was interrupted."""
    with there.load() as tx:
        found = tx.header(COPYING)
        if found is None and not tx.maintenance.empty():
            raise Conflict(f"{there.path} already contains a store", hint="Copy to a new place.")
        mark = None if found is None else msgspec.json.decode(found, type=_Mark)
        if mark is None or mark.source != fingerprint:
            tx.clear()
            mark = _Mark(fingerprint)
            tx.set_header(COPYING, msgspec.json.encode(mark))
    return mark


def _copy(read: _Side, there: Backend, number: int, begun: _Mark, done: _Count, *, inside: bool) -> None:
    """Copies the rows of one table; each batch and its mark are one transaction.

    `inside` if pieces in object storage are copied separately.
    """
    table = COPIED[number]
    after = [_decode_key(value) for value in begun.after] if number == begun.table else []
    rows = read.rows(table, after) if inside else read.whole(table, after)
    owner = list(REFS.columns).index("owner") if table is REFS else None
    limit = FEW if table is CHUNKS else BATCH
    while batch := list(islice(rows, limit)):
        with there.load() as tx:
            tx.insert_rows(table, [_without_owner(row, owner) for row in batch])
            last = [_encode_key(value) for value in batch[-1][: table.keys]]
            tx.set_header(COPYING, msgspec.json.encode(_Mark(begun.source, number, last)))
        done(len(batch))
    if owner is not None:  # an owner may have a higher number than the refs it owns
        with there.load() as tx:
            tx.set_owners(read.all("SELECT owner, ref FROM refs WHERE owner IS NOT NULL"))


def _copy_objects(read: _Side, there: Backend, where: Bucket) -> None:
    """Copies objects unchanged, under the same names; skips objects that are already copied."""
    for kept, count in read.objects([]):
        with there.load() as tx:
            if tx.blobs.object_named(kept.name):
                continue
        blob_objects.mark(where, read.store_id)
        where.put(blob_objects.path(read.store_id, kept.name), blob_objects.framed(read.bodies(kept, count)))
        with there.load() as tx:
            tx.blobs.add_object(kept)


def _without_owner(row: tuple[Any, ...], owner: int | None) -> tuple[Any, ...]:
    return row if owner is None else (*row[:owner], None, *row[owner + 1 :])


def _encode_key(value: Any) -> Any:
    return f"x{value.hex()}" if isinstance(value, bytes) else value


def _decode_key(value: Any) -> Any:
    return bytes.fromhex(value[1:]) if isinstance(value, str) else value


def _compare(read: _Side, again: _Side, done: _Count, path: str) -> None:
    """Reads both, row by row. Corrupted if they differ."""
    for table in COPIED:
        for count, (one, other) in enumerate(zip_longest(read.whole(table, []), again.whole(table, []))):
            if one is None or other is None or tuple(one) != tuple(other):
                raise Corrupted(path, f"row {count} of {table.name} is not what was copied")
            if count % BATCH == BATCH - 1:
                done(BATCH)


def _finish(read: _Side, there: Backend) -> None:
    """Gives the copy the identity of the source."""
    with there.load() as tx:
        tx.become(dict(read.header()), read.counters(), read.state())
