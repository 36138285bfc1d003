"""Copying a store to another place, of whatever kind: a file to a server, a server to a file.

Rows are copied as they are, with their ids, numbers and seals: the copy is the same store, and for a sealed one no key
is needed. Everything is read as it is at one moment. At the end each row is read back and compared; only then does the
copy open as a store. Cut short, it goes on where it was, if the source has not changed since; else it begins anew.

Blobs that lie in object storage are copied too: into that of the copy if it has one, else into its rows. Which of them
is no part of what is compared: a piece is the same wherever it lies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import merge
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from clew import objects, outside
from clew.backends import SEQ_BITS, ObjectRow, born
from clew.backends.sql import COLUMNS
from clew.backends.sqlite import SQLiteBackend
from clew.errors import ClewError, Conflict, Invalid, Tampered, Unavailable
from clew.outside import Lost

if TYPE_CHECKING:
    from clew.objects import Bucket

Progress = Callable[[int, int], object]
"""Called with the rows that are copied or compared, and all there are."""

COPYING = "copying"
"""Name of the header that is there until a copy is whole."""
BATCH = 500
FEW = 16
"""Pieces of blobs are large."""


class Copied(NamedTuple):
    """What was copied."""

    source: str
    target: str
    rows: int


class _Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    """The first one, or two, are the key."""
    keys: int = 1


def _columns(mark: str) -> tuple[str, ...]:
    return tuple(column.strip().partition(".")[2] for column in COLUMNS[mark].split(","))


_CHUNKS = _Table("chunks", ("pos", "body"))
_TABLES = (
    _Table("trees", ("tree", "workspace", "created_at")),
    _Table("nodes", (*_columns("{node}"), "ord")),
    _Table("runs", _columns("{run}")),
    _Table("quarantine", ("pos", "created_at", "why", "body")),
    _Table("refs", _columns("{ref}")),
    _Table("labels", ("ref", "look"), 2),
    _Table("log", ("pos", "created_at", "id", "body")),
    _Table("blobs", _columns("{blob}")),
    _CHUNKS,
    _Table("uses", ("blob", '"user"'), 2),
    _Table("forgotten", ("number", "low", "high")),
)
"""In an order in which nothing points to what is not there yet."""


class _Mark(msgspec.Struct):
    """How far a copy has come."""

    source: str
    """What the source was like."""
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
    """Copies a store into a new one, and compares both. Conflict if something else is there already.

    Others may go on using the source; what they write meanwhile is not in the copy. `blobs` is the object storage of
    the source, needed if it has something there; `target_blobs` that of the copy, without which it has everything in
    its rows.
    """
    if os.fspath(source) == os.fspath(target):
        raise Invalid("a store cannot be copied onto itself", hint="Name a new place for the copy.")
    one, other = (None if place is None else objects.bucket(place) for place in (blobs, target_blobs))
    if one is not None and other is not None and one.name.rstrip("/") == other.name.rstrip("/"):
        raise Invalid("the copy's object storage is that of the source", hint="Name another bucket, or another prefix.")
    with _opened(source, create=False) as here, _opened(target, create=True) as there, here.reader() as reader:
        read = _Side(here, reader, one)
        if one is None and read.objects([]):
            raise Unavailable(f"attachments of {here.path} are in object storage", hint="Say where: blobs, or --blobs.")
        mark = _begin(there, f"{read.fingerprint()}{'' if other is None else other.name}")
        total = sum(read.counts())
        done = _Count(progress, 2 * total)
        for number in range(mark.table, len(_TABLES)):
            if _TABLES[number] is _CHUNKS and other is not None:
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
    """One store, as it is at one moment."""

    def __init__(self, backend: Any, reader: Any, where: Bucket | None, store_id: bytes | None = None) -> None:
        self._backend = backend
        self.where = where
        self._execute = reader.execute
        self._stream = getattr(reader, "stream", reader.execute)
        self.sqlite = not hasattr(reader, "stream")
        self.store_id = self._value("store_id") if store_id is None else store_id
        """By which its objects are found; a copy has another one until it is finished."""

    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._execute(sql, values).fetchall()]

    def rows(self, table: _Table, after: list[Any]) -> Iterator[tuple[Any, ...]]:
        keys = ", ".join(table.columns[: table.keys])
        where = f" WHERE ({keys}) > ({', '.join('?' * table.keys)})" if after else ""
        sql = f"SELECT {', '.join(table.columns)} FROM {table.name}{where} ORDER BY {keys}"
        return iter(self._stream(sql, tuple(after)))

    def whole(self, table: _Table, after: list[Any]) -> Iterator[tuple[Any, ...]]:
        """`rows`, and among those of pieces also those in object storage."""
        rows = self.rows(table, after)
        return rows if table is not _CHUNKS or self.where is None else merge(rows, self._pieces(after))

    def objects(self, after: list[Any]) -> list[tuple[ObjectRow, int]]:
        """Objects of blobs from the one on that has the piece at a position, each with its number of pieces."""
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
        """The pieces in an object, as they are. Tampered; Unavailable if it is gone by now."""
        assert self.where is not None
        try:
            yield from outside.envelopes(self.where, self.store_id, kept, count)
        except Lost as lost:
            raise self._missing(kept, lost) from None

    def _missing(self, kept: ObjectRow, lost: Lost) -> ClewError:
        """What it means that an object is not as it should be: all else is one moment, but it may be gone since."""
        if self._backend.read(lambda tx: tx.object(kept.blob)) != kept:
            hint = "Make the copy again."
            return Unavailable("an attachment was deleted, or got another key, before it was copied", hint=hint)
        return Tampered(f"blob {kept.blob}", lost.why)

    def _value(self, name: str) -> bytes:
        """A value of the header."""
        return bytes(self.all("SELECT value FROM header WHERE name = ?", name)[0][0])

    def counts(self) -> list[int]:
        """Rows of each table; of pieces also those in object storage."""
        found = [self.all(f"SELECT count(*) FROM {table.name}")[0][0] for table in _TABLES]
        found[_TABLES.index(_CHUNKS)] += sum(count for _, count in self.objects([]))
        return found

    def header(self) -> list[tuple[str, bytes]]:
        return [row for row in self.all("SELECT name, value FROM header ORDER BY name") if row[0] != COPYING]

    def counters(self) -> dict[str, int]:
        """The highest numbers that were ever given.

        Of what has shards, the highest shard and the highest counter: above it is nothing that a file has numbered, and
        nothing that a server has counted.
        """
        if self.sqlite:
            given = dict(self.all("SELECT name, seq FROM sqlite_sequence"))
            (floor,) = self.all("SELECT ord_floor FROM epoch")[0]
        else:
            given = {"trees": self._last("trees_tree_seq"), "forgotten": self._last("forgotten_number_seq")}
            for table, key in (("runs", "run"), ("refs", "ref"), ("blobs", "blob")):
                (highest,) = self.all(f"SELECT coalesce(max({key}), 0) FROM {table}")[0]
                given[table] = highest - born(highest) + self._last(f"{key}_numbers")
            floor = self._last("ords")
        (ord,) = self.all("SELECT coalesce(max(ord), 0) FROM nodes")[0]
        return {**given, "ords": max(floor, ord)}

    def fingerprint(self) -> str:
        """Another one if anything was changed."""
        versions = self.all("SELECT count(*), coalesce(sum(version), 0) FROM refs")[0]
        epoch = self.all("SELECT number, state FROM epoch")[0]
        parts = (self.header(), self.counts(), sorted(self.counters().items()), [int(one) for one in versions], epoch)
        return msgspec.json.encode(parts).decode()

    def _last(self, sequence: str) -> int:
        return int(self.all("SELECT coalesce(pg_sequence_last_value(to_regclass(?)), 0)", sequence)[0][0])


@contextmanager
def _opened(place: str | os.PathLike[str], *, create: bool) -> Iterator[Any]:
    name = os.fspath(place)
    backend: Any
    if name.startswith(("postgresql://", "postgres://")):
        from clew.backends.postgres import PostgresBackend

        backend = PostgresBackend(name, create=create)
    else:
        backend = SQLiteBackend(name, create=create)
    try:
        yield backend
    finally:
        backend.close()


def _begin(there: Any, fingerprint: str) -> _Mark:
    """Where to go on: at the beginning, unless a copy of the same was cut short."""
    with there.transaction():
        tx = there._here()
        found = tx.header(COPYING)
        if found is None and not tx.empty():
            raise Conflict(f"{there.path} has a store in it", hint="Copy to a new place.")
        mark = None if found is None else msgspec.json.decode(found, type=_Mark)
        if mark is None or mark.source != fingerprint:
            tx.run_sql("DELETE FROM objects")
            for table in reversed(_TABLES):
                tx.run_sql(f"DELETE FROM {table.name}")
            mark = _Mark(fingerprint)
            tx.set_header(COPYING, msgspec.json.encode(mark))
    return mark


def _copy(read: _Side, there: Any, number: int, begun: _Mark, done: _Count, *, inside: bool) -> None:
    """The rows of one table, a batch in a transaction, with the mark of how far it is.

    `inside` if pieces in object storage are copied by themselves.
    """
    table = _TABLES[number]
    after = [_key(value) for value in begun.after] if number == begun.table else []
    rows = read.rows(table, after) if inside else read.whole(table, after)
    owner = table.columns.index("owner") if "owner" in table.columns else None
    limit = FEW if table is _CHUNKS else BATCH
    while batch := list(islice(rows, limit)):
        with there.transaction():
            tx = there._here()
            tx.insert_rows(table.name, table.columns, [_without(row, owner) for row in batch])
            last = [_name(value) for value in batch[-1][: table.keys]]
            tx.set_header(COPYING, msgspec.json.encode(_Mark(begun.source, number, last)))
        done(len(batch))
    if owner is not None:  # which may have a higher number than what it owns
        with there.transaction():
            for row in read.all("SELECT owner, ref FROM refs WHERE owner IS NOT NULL"):
                there._here().run_sql("UPDATE refs SET owner = ? WHERE ref = ?", row)


def _copy_objects(read: _Side, there: Any, where: Bucket) -> None:
    """What is in object storage, each object as it is, under its name; one that was copied before is passed over."""
    for kept, count in read.objects([]):
        with there.transaction():
            if there._here().object_named(kept.name):
                continue
        outside.mark(where, read.store_id)
        where.put(outside.path(read.store_id, kept.name), outside.framed(read.bodies(kept, count)))
        with there.transaction():
            there._here().add_object(kept)


def _without(row: tuple[Any, ...], owner: int | None) -> tuple[Any, ...]:
    return row if owner is None else (*row[:owner], None, *row[owner + 1 :])


def _name(value: Any) -> Any:
    return f"x{value.hex()}" if isinstance(value, bytes) else value


def _key(value: Any) -> Any:
    return bytes.fromhex(value[1:]) if isinstance(value, str) else value


def _compare(read: _Side, again: _Side, done: _Count, path: str) -> None:
    """Reads both, row by row. Tampered if they differ."""
    for table in _TABLES:
        for count, (one, other) in enumerate(zip_longest(read.whole(table, []), again.whole(table, []))):
            if one is None or other is None or tuple(one) != tuple(other):
                raise Tampered(path, f"row {count} of {table.name} is not what was copied")
            if count % BATCH == BATCH - 1:
                done(BATCH)


def _finish(read: _Side, there: Any) -> None:
    """Makes the copy the store that it is a copy of."""
    state, key_id, change = read.all("SELECT state, key_id, number - format FROM epoch")[0]
    with there.transaction():
        tx = there._here()
        tx.run_sql("DELETE FROM header")
        for name, value in read.header():
            tx.set_header(name, value)
        tx.set_counters(read.counters())
        tx.set_state(state, key_id)
        # The secrets are bound to it: see `State.change`. A plain copy begins a new epoch.
        tx.run_sql("UPDATE epoch SET number = ? + format", (change + (state == "plain"),))
