"""The checkpoints of LangGraph as documents of a store.

A checkpoint is a document that the thread's session owns. Its key is a keyed hash of thread, namespace and id, its
index one of thread and namespace. Its labels are those of the run, and, if a checkpoint with a higher id was there
before it, of that fact. So every look-up is an index scan, and nothing that a caller passes becomes SQL.

Its data is JSON: the checkpoint without its values, the metadata, and for each channel the value or where it is. The
writes of tasks are entries of its log. They may come before the checkpoint itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from clew.adapters.keyed import Keyed
from clew.errors import Conflict, Corrupted, NotFound
from clew.store.session import Session
from clew.store.unit import Document, Unit

STATE = "state"
"""Kind of the documents that hold a framework's state at one moment."""
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
    """The checkpoint of a namespace that was added last."""

    stamp: tuple[int, bytes]
    id: str
    unordered: bool
    """True if it, or one before it, was added after one with a higher id."""


class Found(NamedTuple):
    """A stored checkpoint and its document."""

    document: Document
    state: CheckpointThread


class Insertion(NamedTuple):
    """Where a checkpoint goes: the newest one of its namespace, and the stored one with its id."""

    newest: _Newest | None
    before: Document | None


_state = msgspec.json.Decoder(CheckpointThread).decode
_write = msgspec.msgpack.Decoder(Write).decode


class States:
    """The checkpoints of all threads. Methods with `unit` are steps of the caller's unit of work."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._thread_key = lru_cache(1024)(keyed.key)
        """`Keyed.key` for the names of threads and namespaces, which every checkpoint needs again."""
        self._newest: dict[bytes, _Newest] = {}
        """By the index of the namespace. An entry counts while its document is still the newest."""

    # -- reading

    def document(self, unit: Unit, thread: str, ns: str, id: str) -> Document | None:
        """A checkpoint, complete or not; None if it does not exist, or if its thread is in the trash."""
        return unit.document(STATE, self._keyed.key("state", thread, ns, id))

    def get(self, thread: str, ns: str, id: str) -> Found | None:
        """`document` with its data, in a read of its own."""
        found = self._keyed.read(lambda unit: self.document(unit, thread, ns, id), single=True)
        return None if found is None else self._open(found)

    def latest(self, thread: str, ns: str) -> Found | None:
        """The complete checkpoint with the highest id."""
        newest = self._keyed.read(lambda unit: self._find_newest(unit, thread, ns, self._thread_key("ns", thread, ns)))
        if newest is not None and not newest[0].unordered and (found := self._open(newest[1])).state.checkpoint:
            return found
        # Ids are out of order, or only writes of the newest one have arrived.
        return next((one for one in self.within(thread, ns) if one.state.checkpoint is not None), None)

    def within(self, thread: str, ns: str | None = None) -> Iterator[Found]:
        """The checkpoints of a thread, or of one of its namespaces, highest id first."""
        if ns is None:
            owned = map(self._open, self._keyed.read(lambda unit: self._owned(unit, thread)))
            yield from sorted(owned, key=lambda one: one.state.id, reverse=True)
            return
        index = self._thread_key("ns", thread, ns)
        newest = self._keyed.read(lambda unit: self._find_newest(unit, thread, ns, index))
        found = self._all(index=index)
        if newest is not None and newest[0].unordered:
            found = iter(sorted(found, key=lambda one: one.state.id, reverse=True))
        yield from found

    def everywhere(self) -> Iterator[Found]:
        """The checkpoints of all threads, highest id first."""
        yield from sorted(self._all(), key=lambda one: one.state.id, reverse=True)

    def of_run(self, run: str) -> list[Found]:
        """The checkpoints of a run."""
        return list(self._all(label=self._keyed.key("run", run)))

    def read(self, document: Document) -> CheckpointThread:
        """The data of a checkpoint. Corrupted."""
        try:
            return _state(document.data)
        except msgspec.MsgspecError as error:
            raise Corrupted("a LangGraph checkpoint", f"its data does not decode ({type(error).__name__})") from None

    def writes(self, document: Document) -> list[Write]:
        """The writes of a checkpoint's tasks, in the order in which LangGraph applies them."""
        found: dict[tuple[str, int], Write] = {}
        for entry in document.log.read():
            write = _write(entry.data[1:])
            found[write.task, write.index] = write
        return sorted(found.values(), key=lambda one: (one.path, one.task, one.index))

    # -- writing

    def place(self, unit: Unit, thread: str, ns: str, id: str) -> Insertion:
        """Where a checkpoint goes."""
        newest, document = self._find_newest(unit, thread, ns, self._thread_key("ns", thread, ns)) or (None, None)
        if newest is None or (newest.id < id and not newest.unordered):  # its id is higher than all
            return Insertion(newest, None)
        return Insertion(newest, document if newest.id == id else self.document(unit, thread, ns, id))

    def put(self, unit: Unit, owner: Session, state: CheckpointThread, place: Insertion | None = None) -> Document:
        """Stores a checkpoint, or replaces the one with its id; with the blobs that it needs. NotFound."""
        keyed, data = self._keyed, msgspec.json.encode(state)
        key, index = (
            keyed.key("state", state.thread, state.ns, state.id),
            self._thread_key("ns", state.thread, state.ns),
        )
        newest, before = place or self.place(unit, state.thread, state.ns, state.id)
        if before is not None:
            is_late = unit.has_label(before, self._unordered(state.thread, state.ns))
            done = unit.put(STATE, key, data, index=index, before=before, exact=True)
            unit.label(done, self._labels(state, is_late))
        else:
            is_late = newest is not None and (newest.unordered or newest.id > state.id)
            labels = self._labels(state, is_late)
            done = unit.put(STATE, key, data, owner=owner, index=index, labels=labels, new=True, exact=True)
            self._remember(index, _Newest(done.stamp, state.id, is_late))
        blobs = {value.blob for value in state.values.values() if value.blob is not None}
        if blobs or before is not None:
            unit.use(done, owner, blobs, only=before is not None)
        return done

    def put_writes(self, unit: Unit, document: Document, writes: Sequence[Write]) -> None:
        """Adds writes. One that is there stays, except the special ones, which have a negative index."""
        checkpoint = document.id
        named = {
            self._keyed.entry_id(unit, document, "write", checkpoint, one.task, str(one.index)): one
            for one in writes
            if one.index >= 0
        }
        stored = unit.logged(document, named)
        fresh: list[tuple[bytes | None, Write]] = [(id, one) for id, one in named.items() if id not in stored]
        fresh += [(None, one) for one in writes if one.index < 0]
        unit.log(document, [(id, WRITE + msgspec.msgpack.encode(one)) for id, one in fresh], exact=True)

    # -- inside

    def _find_newest(self, unit: Unit, thread: str, ns: str, index: bytes) -> tuple[_Newest, Document] | None:
        """The checkpoint of a namespace that was added last; what is remembered of it, if it is still the same."""
        for one in unit.documents(STATE, index=index, limit=1):
            known = self._newest.get(index)
            if known is None or known.stamp != one.stamp:
                known = _Newest(one.stamp, self.read(one).id, unit.has_label(one, self._unordered(thread, ns)))
                self._remember(index, known)
            return known, one
        return None

    def _open(self, document: Document) -> Found:
        return Found(document, self.read(document))

    def _all(self, **filters: bytes) -> Iterator[Found]:
        return map(self._open, self._keyed.store.documents(STATE, **filters))

    def _labels(self, state: CheckpointThread, is_late: bool) -> list[bytes]:
        labels = [self._unordered(state.thread, state.ns)] if is_late else []
        return labels if state.run is None else [*labels, self._keyed.key("run", state.run)]

    def _remember(self, index: bytes, newest: _Newest) -> None:
        if len(self._newest) >= REMEMBERED:
            self._newest.clear()
        self._newest[index] = newest

    def _owned(self, unit: Unit, thread: str) -> list[Document]:
        """All checkpoints of a thread."""
        home = self._keyed.session(unit, thread)
        return [] if home is None else unit.documents(STATE, owner=home)

    def _unordered(self, thread: str, ns: str) -> bytes:
        return self._thread_key("unordered", thread, ns)


class _Kept(NamedTuple):
    thread: str
    ns: str
    id: str


class Pruning:
    """Deletes and copies checkpoints of threads."""

    def __init__(self, keyed: Keyed, states: States) -> None:
        self._keyed = keyed
        self._states = states

    def delete_runs(self, runs: Sequence[str]) -> list[str]:
        """Deletes the checkpoints of runs. Returns the threads that had some."""
        found = [one for run in runs for one in self._states.of_run(run)]
        threads = list(dict.fromkeys(one.state.thread for one in found))
        for thread in threads:
            self._delete(thread, [one for one in found if one.state.thread == thread])
        return threads

    def keep_latest(self, thread: str, delta_channels: Callable[[CheckpointThread], set[str]]) -> None:
        """Deletes all checkpoints of a thread but the last of each namespace, and those that it depends on.

        The value of a delta channel is in the writes of the checkpoints before it, back to the last one that has the
        whole value: these stay.
        """
        known = {_Kept(thread, one.state.ns, one.state.id): one for one in self._states.within(thread)}
        kept: set[_Kept] = set()
        done: set[str] = set()
        for key, one in known.items():
            if key.ns in done or one.state.checkpoint is None:
                continue
            done.add(key.ns)
            kept.add(key)
            missing, state = delta_channels(one.state), one.state
            while missing and state.parent is not None:
                above = _Kept(thread, key.ns, state.parent)
                if above not in known:
                    break
                kept.add(above)
                state = known[above].state
                missing -= state.values.keys()
        latest = {key.ns: key.id for key in reversed(list(known)) if key in kept}
        gone = [one for key, one in known.items() if key not in kept and key.id <= latest.get(key.ns, key.id)]
        self._delete(thread, gone)

    def copy(self, source: str, target: str) -> None:
        """Copies the checkpoints of a thread to another thread, which shares its messages and values."""
        if source == target:
            return
        found = sorted(self._states.within(source), key=lambda one: one.state.id)

        def work(unit: Unit) -> None:
            home = self._keyed.session(unit, source)
            if home is None:
                return
            is_new = self._keyed.session(unit, target) is None
            copy = self._keyed.ensure(unit, target, at=unit.head(home), beside=home)
            try:
                for one in found:
                    state = msgspec.structs.replace(one.state, thread=target)
                    stored = self._states.put(unit, copy, state)
                    self._states.put_writes(unit, stored, self._states.writes(one.document))
                    for value in state.values.values():
                        if value.node is not None:
                            unit.branch(copy, value.node)
            except NotFound as error:
                if is_new:
                    raise
                raise Conflict(
                    f"thread {target!r} exists, and does not share messages with thread {source!r}",
                    hint="Copy to a new thread, or delete it first.",
                ) from error

        self._keyed.write(work)

    # -- inside

    def _delete(self, thread: str, found: Iterable[Found]) -> None:
        """Deletes checkpoints, and branches of the thread that none of the others needs."""

        def work(unit: Unit) -> None:
            home = self._keyed.session(unit, thread)
            for one in found:
                unit.delete(one.document)
            if home is not None:
                left = [self._states.read(one) for one in unit.documents(STATE, owner=home)]
                needed = {value.node for one in left for value in one.values.values() if value.node is not None}
                ends = unit.branches(home)
                unit.drop_branches(home, {end for end in ends if not any(unit.is_above(node, end) for node in needed)})

        self._keyed.write(work)
