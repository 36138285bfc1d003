"""The checkpoints of LangGraph as rows of a store.

A checkpoint is a ref that the thread's session owns. Its key is a keyed hash of thread, namespace and id, its lookup
hash one of thread and namespace, and its labels those of the thread, of the run, and, if a checkpoint with a higher id
was there before it, of that fact. So every look-up is an index scan, and nothing that a caller passes becomes SQL.

Its data is JSON: the checkpoint without its values, the metadata, and for each channel the value or where it is. The
writes of tasks are entries of its log. They may come before the checkpoint itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec

from clew.adapters.keyed import Keyed
from clew.backends import RefRow, Tx
from clew.engine.log import Log, append_in
from clew.errors import Corrupted

STATE = "state"
"""Kind of the refs that hold a framework's state at one moment."""
PAGE = 100
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

    # -- reading

    def get(self, tx: Tx, thread: str, ns: str, id: str) -> Found | None:
        """A checkpoint, complete or not."""
        row = tx.ref(self._engine.workspace, STATE, self._keyed.key("state", thread, ns, id))
        return None if row is None or row.trashed_at is not None else Found(row, self.read(row))

    def latest(self, thread: str, ns: str) -> Found | None:
        """The complete checkpoint with the highest id."""
        return next((one for one in self.within(thread, ns) if one.state.checkpoint is not None), None)

    def within(self, thread: str, ns: str | None = None) -> Iterator[Found]:
        """The checkpoints of a thread, or of one of its namespaces, highest id first."""
        if ns is None:
            found = self._rows(label=self._thread_key("thread", thread))
        elif self._engine.read(partial(self._page, look=None, label=self._unordered(thread, ns), before=None, limit=1)):
            found = self._rows(look=self._thread_key("ns", thread, ns))
        else:
            yield from self._rows(look=self._thread_key("ns", thread, ns))
            return
        yield from sorted(found, key=lambda one: one.state.id, reverse=True)

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
        row = tx.ref(self._engine.workspace, STATE, key)
        if row is not None:
            row = keyed.refs.change(tx, keyed.refs.verify(row), payload, look=look)
            tx.blobs.delete_uses(-row.ref, -row.ref)
            is_late = self._unordered(state.thread, state.ns) in tx.maintenance.labels(row.ref)
        else:
            newest = self._page(tx, look=look, label=None, before=None, limit=1)
            is_late = bool(newest) and (
                self.read(newest[0]).id > state.id
                or self._unordered(state.thread, state.ns) in tx.maintenance.labels(newest[0].ref)
            )
            row = keyed.refs.add(tx, STATE, key, payload, tree=None, at=None, owner=owner.ref, look=look)
        labels = [self._thread_key("thread", state.thread)]
        if is_late:
            labels.append(self._unordered(state.thread, state.ns))
        if state.run is not None:
            labels.append(keyed.key("run", state.run))
        tx.set_labels(row.ref, labels)
        return row

    def put_writes(self, tx: Tx, found: Found, writes: Sequence[Write]) -> None:
        """Adds writes. One that is there stays, except the special ones, which have a negative index."""
        state, fresh = found.state, []
        for write in writes:
            id = self._keyed.key("write", state.thread, state.ns, state.id, write.task, str(write.index))
            if write.index < 0:
                id = self._engine.new_id()
            elif tx.log_by_id(id) is not None:
                continue
            fresh.append((id, WRITE + msgspec.msgpack.encode(write)))
        if fresh:
            append_in(Log(self._engine, lambda: found.row), tx, found.row, fresh)

    # -- inside

    def _unordered(self, thread: str, ns: str) -> bytes:
        return self._thread_key("unordered", thread, ns)

    def _rows(self, look: bytes | None = None, label: bytes | None = None) -> Iterator[Found]:
        before: tuple[int, int] | None = None
        while rows := self._engine.read(partial(self._page, look=look, label=label, before=before, limit=PAGE)):
            yield from (Found(row, self.read(row)) for row in rows)
            before = rows[-1].rank, rows[-1].ref

    def _page(
        self, tx: Tx, look: bytes | None, label: bytes | None, before: tuple[int, int] | None, limit: int
    ) -> list[RefRow]:
        return tx.refs_recent(self._engine.workspace, STATE, look=look, label=label, before=before, limit=limit)
