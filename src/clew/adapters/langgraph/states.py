"""The checkpoints of LangGraph as rows of a store.

A checkpoint is a ref that the thread's session owns. Its key is a keyed hash of thread, namespace and id, its lookup
hash one of thread and namespace. Its labels are those of the run, and, if a checkpoint with a higher id was there
before it, of that fact. So every look-up is an index scan, and nothing that a caller passes becomes SQL.

Its data is JSON: the checkpoint without its values, the metadata, and for each channel the value or where it is. The
writes of tasks are entries of its log. They may come before the checkpoint itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec

from clew.adapters.rows import Keyed
from clew.backends import RefRow, Tx
from clew.base import ids
from clew.engine.log import Log, add_entries
from clew.errors import Corrupted

STATE = "state"
"""Kind of the refs that hold a framework's state at one moment."""
PAGE = 100
REMEMBERED = 1024
"""Namespaces whose newest checkpoint is cached, so that the next one need not read it."""
WRITE = b"\x01"
"""First byte of a log entry that is a write of a task."""


class Typed(msgspec.Struct, frozen=True, array_like=True):
    """A value as the saver's serializer wrote it."""

    type: str
    data: bytes


class ChannelValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a channel: here, in a blob, or the messages down to a node."""

    version: str | int | float | None
    type: str = ""
    data: bytes | None = None
    blob: str | None = None
    node: str | None = None


class CheckpointThread(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint. Without `checkpoint`, only writes have arrived so far."""

    thread: str
    ns: str
    id: str
    parent: str | None = None
    checkpoint: Typed | None = None
    metadata: Typed | None = None
    run: str | None = None
    values: dict[str, ChannelValue] = {}


class Write(msgspec.Struct, frozen=True, array_like=True):
    """One write of a task."""

    task: str
    path: str
    index: int
    channel: str
    type: str
    data: bytes


class _Newest(NamedTuple):
    """The checkpoint of a namespace that was added last, and its row."""

    ref: int
    mac: bytes
    id: str
    unordered: bool
    """True if it, or one before it, was added after one with a higher id."""


class Found(NamedTuple):
    """A stored checkpoint and its row."""

    row: RefRow
    state: CheckpointThread


_state = msgspec.json.Decoder(CheckpointThread).decode
_write = msgspec.msgpack.Decoder(Write).decode


class States:
    """The checkpoints of all threads. Methods with `tx` are steps of the caller's transaction."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._engine = keyed.engine
        self._thread_key = lru_cache(1024)(keyed.key)
        """`Keyed.key` for the names of threads and namespaces, which every checkpoint needs again."""
        self._newest: dict[bytes, _Newest] = {}
        """By the lookup hash of the namespace. An entry counts while its row is still the newest."""

    # -- reading

    def row(self, tx: Tx, thread: str, ns: str, id: str) -> RefRow | None:
        """The row of a checkpoint, complete or not; None if it does not exist, or if its thread is in the trash."""
        row = tx.ref(self._engine.workspace, STATE, self._keyed.key("state", thread, ns, id))
        return None if row is None or row.trashed_at is not None else row

    def get(self, tx: Tx, thread: str, ns: str, id: str) -> Found | None:
        """`row` with its data."""
        row = self.row(tx, thread, ns, id)
        return None if row is None else Found(row, self.read(row))

    def latest(self, thread: str, ns: str) -> Found | None:
        """The complete checkpoint with the highest id."""

        def work(tx: Tx) -> RefRow | None:
            newest = self._find_newest(tx, thread, ns, self._thread_key("ns", thread, ns))
            return None if newest is None or newest.unordered else tx.ref_at(newest.ref)

        row = self._engine.read(work)
        if row is not None and (state := self.read(row)).checkpoint is not None:
            return Found(row, state)
        # Ids are out of order, or only writes of the newest one have arrived.
        return next((one for one in self.within(thread, ns) if one.state.checkpoint is not None), None)

    def within(self, thread: str, ns: str | None = None) -> Iterator[Found]:
        """The checkpoints of a thread, or of one of its namespaces, highest id first."""
        if ns is None:
            rows = self._engine.read(partial(self._owned, thread=thread))
            yield from sorted((Found(row, self.read(row)) for row in rows), key=lambda one: one.state.id, reverse=True)
            return
        look = self._thread_key("ns", thread, ns)
        newest = self._engine.read(lambda tx: self._find_newest(tx, thread, ns, look))
        found = self._rows(look=look)
        if newest is not None and newest.unordered:
            found = iter(sorted(found, key=lambda one: one.state.id, reverse=True))
        yield from found

    def everywhere(self) -> Iterator[Found]:
        """The checkpoints of all threads, highest id first."""
        yield from sorted(self._rows(), key=lambda one: one.state.id, reverse=True)

    def of_run(self, run: str) -> list[Found]:
        """The checkpoints of a run."""
        return list(self._rows(label=self._keyed.key("run", run)))

    def read(self, row: RefRow) -> CheckpointThread:
        """The data of a row. Corrupted."""
        try:
            return _state(self._keyed.refs.data(row)[1:])
        except msgspec.MsgspecError as error:
            raise Corrupted("a LangGraph checkpoint", f"its data does not decode ({type(error).__name__})") from None

    def writes(self, row: RefRow) -> list[Write]:
        """The writes of a checkpoint's tasks, in the order in which LangGraph applies them."""
        found: dict[tuple[str, int], Write] = {}
        for entry in Log(self._engine, lambda: row).read():
            write = _write(entry.data[1:])
            found[write.task, write.index] = write
        return sorted(found.values(), key=lambda one: (one.path, one.task, one.index))

    # -- writing

    def put(self, tx: Tx, owner: RefRow, state: CheckpointThread) -> RefRow:
        """Stores a checkpoint, or replaces the one with its id."""
        keyed, payload = self._keyed, b"\x01" + msgspec.json.encode(state)
        key, look = keyed.key("state", state.thread, state.ns, state.id), self._thread_key("ns", state.thread, state.ns)
        newest = self._find_newest(tx, state.thread, state.ns, look)
        row = None
        is_late = newest is not None and (newest.unordered or newest.id > state.id)
        if newest is not None and (is_late or newest.id == state.id):  # otherwise its id is higher than all
            row = tx.ref(self._engine.workspace, STATE, key)
        if row is not None:
            row = keyed.refs.change(tx, keyed.refs.verify(row), payload, look=look)
            tx.blobs.delete_uses(-row.ref, -row.ref)
            is_late = self._unordered(state.thread, state.ns) in tx.maintenance.labels(row.ref)
            tx.set_labels(row.ref, self._labels(state, is_late))
            return row
        row = keyed.refs.add(tx, STATE, key, payload, tree=None, at=None, owner=owner.ref, look=look)
        if labels := self._labels(state, is_late):
            tx.set_labels(row.ref, labels)
        self._remember(look, _Newest(row.ref, row.mac, state.id, is_late))
        return row

    def put_writes(self, tx: Tx, row: RefRow, writes: Sequence[Write]) -> None:
        """Adds writes. One that is there stays, except the special ones, which have a negative index."""
        checkpoint, now = ids.text(row.key), self._engine.clock()
        named = {
            self._keyed.entry_id(tx, row, "write", checkpoint, one.task, str(one.index)): one
            for one in writes
            if one.index >= 0
        }
        stored = tx.existing_log_ids(list(named))
        fresh = [(id, one) for id, one in named.items() if id not in stored]
        fresh += [(self._engine.new_id(), one) for one in writes if one.index < 0]
        entries = [(id, now, WRITE + msgspec.msgpack.encode(one)) for id, one in fresh]
        if entries:
            add_entries(self._engine, tx, row, entries)

    # -- inside

    def _find_newest(self, tx: Tx, thread: str, ns: str, look: bytes) -> _Newest | None:
        """The checkpoint of a namespace that was added last, from the cache if it is still the same."""
        rows = self._page(tx, look=look, label=None, before=None, limit=1)
        if not rows:
            return None
        (row,), known = rows, self._newest.get(look)
        if known is None or (known.ref, known.mac) != (row.ref, row.mac):
            unordered = self._unordered(thread, ns) in tx.maintenance.labels(row.ref)
            known = _Newest(row.ref, row.mac, self.read(row).id, unordered)
            self._remember(look, known)
        return known

    def _labels(self, state: CheckpointThread, is_late: bool) -> list[bytes]:
        labels = [self._unordered(state.thread, state.ns)] if is_late else []
        return labels if state.run is None else [*labels, self._keyed.key("run", state.run)]

    def _remember(self, look: bytes, newest: _Newest) -> None:
        if len(self._newest) >= REMEMBERED:
            self._newest.clear()
        self._newest[look] = newest

    def _owned(self, tx: Tx, thread: str) -> list[RefRow]:
        """The rows of all checkpoints of a thread."""
        home = self._keyed.row(tx, thread)
        return [] if home is None else [row for row in tx.refs_owned(home.ref) if row.kind == STATE]

    def _unordered(self, thread: str, ns: str) -> bytes:
        return self._thread_key("unordered", thread, ns)

    def _rows(self, look: bytes | None = None, label: bytes | None = None) -> Iterator[Found]:
        before: tuple[int, int] | None = None
        limit = 1  # most callers want the first
        while rows := self._engine.read(partial(self._page, look=look, label=label, before=before, limit=limit)):
            yield from (Found(row, self.read(row)) for row in rows)
            before = rows[-1].rank, rows[-1].ref
            limit = PAGE

    def _page(
        self, tx: Tx, look: bytes | None, label: bytes | None, before: tuple[int, int] | None, limit: int
    ) -> list[RefRow]:
        return tx.refs_recent(self._engine.workspace, STATE, look=look, label=label, before=before, limit=limit)
