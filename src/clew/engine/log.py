"""The log of a ref: append-only entries outside the tree, for transcripts, audit and receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from clew.backends import MAX_SEQ, SEQ_BITS, LogRow, RefRow, Tx
from clew.base import ids
from clew.base.values import whole_number
from clew.engine.engine import Engine
from clew.engine.node import moment
from clew.engine.refs import current_data_key
from clew.engine.sealing.envelope import MISTYPED, Box, log_context, ref_owner
from clew.errors import Conflict, Corrupted, Invalid, NotFound

PAGE = 256


class Entry(NamedTuple):
    """One entry: its number in the log, its id, when it was written, and its bytes."""

    number: int
    id: str
    created_at: datetime
    data: bytes


class Log:
    """The log of one ref. It is deleted only with the ref."""

    def __init__(self, engine: Engine, ref: Callable[[], RefRow]) -> None:
        self._engine = engine
        self._ref = ref

    def append(self, data: bytes | Sequence[bytes], *, id: str | Sequence[str] | None = None) -> list[Entry]:
        """Adds entries, all or none, durable when this returns. Stored entries (same id and bytes) are skipped."""
        for given in (data, () if id is None else id):
            if not isinstance(given, Sequence):
                raise Invalid(f"entries and their ids must be lists, not {type(given).__name__}")
        many = [data] if isinstance(data, bytes) else list(data)
        names = [id] if isinstance(id, str) else [None] * len(many) if id is None else list(id)
        if len(names) != len(many):
            raise Invalid(f"{len(many)} entries need {len(many)} ids, not {len(names)}")
        for one in many:
            if not isinstance(one, bytes):
                raise Invalid(f"a log entry must be bytes, not {type(one).__name__}")
            if len(one) > self._engine.max_body:
                raise Invalid(f"the entry has {len(one):,} bytes, the limit is {self._engine.max_body:,}")
        many = [self._engine.redacted(one) for one in many]
        fresh = [self._engine.fresh_id(name) for name in names]
        ref = self._ref()
        return self._engine.write(
            lambda tx: self._append(tx, ref, list(zip(fresh, many, strict=True))),
            lambda tx: self._find_existing(tx, ref, list(zip(fresh, many, strict=True))),
        )

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Entries from number `start` to before `stop`, in order, without a transaction between pages."""
        given = self._ref()
        ref = given.ref
        for name, number in (("start", start), ("stop", stop)):
            if number is not None:
                whole_number(name, number, 0)
        low = ref << SEQ_BITS | min(start, MAX_SEQ)  # the log of another ref follows
        high = ref << SEQ_BITS | (MAX_SEQ if stop is None else min(stop - 1, MAX_SEQ))

        def stream(low: int) -> Iterator[Entry]:
            while low <= high:
                now, rows = self._engine.read(partial(_page, ref=ref, low=low, high=high))
                if now is None:  # the part read so far must not look complete
                    raise NotFound(given.kind, ids.text(given.key), hint="It was deleted while being read.")
                box = self._box(now)
                for row in rows:
                    if row.pos != low:
                        raise Corrupted(f"log entry {low & MAX_SEQ}", "it is missing")
                    low += 1
                    yield self._entry(row, box)
                if len(rows) < PAGE:
                    return

        return stream(low)

    def __len__(self) -> int:
        ref = self._ref().ref
        return self._engine.read(lambda tx: tx.log_next(ref)) & MAX_SEQ

    def _append(self, tx: Tx, ref: RefRow, entries: list[tuple[bytes, bytes]]) -> list[Entry]:
        here = tx.ref(ref.workspace, ref.kind, ref.key)
        if here is None or here.ref != ref.ref or here.trashed_at is not None:  # deleted while this call waited
            raise NotFound(ref.kind, ids.text(ref.key))
        stored = self._find_existing(tx, here, entries)
        if stored is not None:
            return stored
        now = self._engine.clock()
        first = self._add(tx, here, [(id, now, data) for id, data in entries])
        at = moment(now)
        return [Entry(number, ids.text(id), at, data) for number, (id, data) in enumerate(entries, first)]

    def _add(self, tx: Tx, ref: RefRow, entries: Sequence[tuple[bytes, int, bytes]]) -> int:
        """Adds entries, and returns the number of the first."""
        pos, box = tx.log_next(ref.ref), self._box(current_data_key(self._engine, tx, ref))
        if (pos & MAX_SEQ) + len(entries) > MAX_SEQ:
            raise Invalid(f"the log is full: it holds at most {MAX_SEQ:,} entries")
        rows = [
            LogRow(at, time, id, box.close(data, log_context(at, time, id)))
            for at, (id, time, data) in enumerate(entries, pos)
        ]
        tx.add_log(rows)
        return pos & MAX_SEQ

    def _find_existing(self, tx: Tx, ref: RefRow, entries: list[tuple[bytes, bytes]]) -> list[Entry] | None:
        rows = [tx.log_by_id(id) for id, _ in entries]
        if not any(rows):
            return None
        box = self._box(ref)
        found = [self._entry(row, box) for row in rows if row is not None and row.pos >> SEQ_BITS == ref.ref]
        if [one.data for one in found] != [data for _, data in entries]:
            raise Conflict("an id is taken by another log entry", hint="Append with new ids.")
        return found

    def _box(self, ref: RefRow) -> Box:
        return self._engine.seal.box(ref.wrapped_key, ref_owner(ref.key))

    def _entry(self, row: LogRow, box: Box) -> Entry:
        try:
            payload = box.open(row.body, log_context(row.pos, row.created_at, row.id))
        except MISTYPED:
            payload = None
        if payload is None:
            raise Corrupted(f"log entry {row.pos & MAX_SEQ}")
        return Entry(row.pos & MAX_SEQ, ids.text(row.id), moment(row.created_at), bytes(payload))


def _page(tx: Tx, ref: int, low: int, high: int) -> tuple[RefRow | None, list[LogRow]]:
    """Entries and their ref in one read: the data key may have changed since the previous page."""
    return tx.ref_at(ref), tx.log_range(low, high, PAGE)


def append_in(engine: Engine, tx: Tx, ref: RefRow, entries: list[tuple[bytes, bytes]]) -> list[Entry]:
    """`Log.append` as a step of the caller's transaction: ids and data, at the end of the log of `ref`."""
    return Log(engine, lambda: ref)._append(tx, ref, entries)


def add_entries(engine: Engine, tx: Tx, ref: RefRow, entries: Sequence[tuple[bytes, int, bytes]]) -> None:
    """Adds entries with new ids as a step of the caller's transaction: ids, times and data."""
    Log(engine, lambda: ref)._add(tx, ref, entries)


def find_entry(engine: Engine, tx: Tx, ref: RefRow, id: bytes) -> bytes | None:
    """The data of an entry by its id, as a step of the caller's transaction; None if the log has none. Corrupted."""
    row, now = tx.log_by_id(id), tx.ref_at(ref.ref)
    if row is None or now is None or row.pos >> SEQ_BITS != ref.ref:
        return None
    log = Log(engine, lambda: now)
    return log._entry(row, log._box(now)).data
