"""`ClewSaver`: LangGraph's checkpointer over a store."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.adapters.langgraph.channels import MESSAGES, Channels, StoredValues
from clew.adapters.langgraph.states import ChannelValue, CheckpointThread, Found, Pruning, States, Typed, Write
from clew.adapters.threads import in_thread
from clew.errors import NotFound
from clew.store.unit import Document, Unit

TOOL = "langgraph"
Tuples = Iterator[CheckpointTuple]
try:
    # Graphs that are compiled from now on name the types of their state to their saver. LangGraph has no other switch
    # but a variable of the environment, which it reads when it is imported, and which makes all savers strict.
    from langgraph._internal import _serde
except ImportError:  # without graphs, or another version: `with_allowlist` remains
    pass
else:
    _serde.STRICT_MSGPACK_ENABLED = True


class ClewSaver(Adapter, BaseCheckpointSaver[Any]):
    """Checkpoints in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    A thread is a session, and the messages of its state are the messages of the session. By default only LangGraph's
    safe types and those in the schemas of the graph are deserialized; add others with ``with_allowlist``, or pass
    another `serde`. A graph that was compiled before this module was imported does not name its types.
    """

    def __init__(self, target: Target, *, serde: SerializerProtocol | None = None, **options: Any) -> None:
        check_version("langgraph-checkpoint", "4.1", "5")
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)
        self._states = States(self._keyed)
        self._channels = Channels(self._keyed)
        self._pruning = Pruning(self._keyed, self._states)
        self._last: dict[tuple[str, str], CheckpointThread] = {}
        """For each thread and namespace: the checkpoint that was stored last, which the next one follows."""

    # -- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self._find(config)
        return None if found is None or found.state.checkpoint is None else self._tuple(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Tuples:
        wanted = {} if config is None else config["configurable"]
        if "thread_id" in wanted:
            found = self._states.within(str(wanted["thread_id"]), wanted.get("checkpoint_ns"))
        else:
            found = self._states.everywhere()
        only, edge = wanted.get("checkpoint_id"), get_checkpoint_id(before) if before else None
        left = limit
        for one in found:
            if left is not None and left <= 0:
                return
            if one.state.checkpoint is None or (only and one.state.id != only) or (edge and one.state.id >= edge):
                continue
            if filter:
                metadata = self._load(one.state.metadata)
                if any(name not in metadata or metadata[name] != value for name, value in filter.items()):
                    continue
            left = None if left is None else left - 1
            yield self._tuple(one)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        writes: dict[str, Any] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        found = self._find(config) if channels else None
        while found is not None and found.state.parent is not None and len(seeds) < len(writes):
            found = self._read(found.state.thread, found.state.ns, found.state.parent)
            if found is None:
                break
            for write in reversed(self._states.writes(found.document)):
                if write.channel in writes and write.channel not in seeds:
                    writes[write.channel].append(self._pending(write))
            for channel in writes.keys() - seeds.keys():
                if channel in found.state.values:
                    seeds[channel] = self._value(found.document, found.state.values[channel])
        history: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            history[channel] = {"writes": writes[channel][::-1]}
            if channel in seeds:
                history[channel]["seed"] = seeds[channel]
        return history

    # -- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, ns, parent = _names(config)
        state = self._state(config, checkpoint, metadata)
        try:
            before = {} if parent is None else self._values(thread, ns, parent)
            self._put(state, checkpoint, new_versions, before, share=True)
        except NotFound:  # the checkpoint before it was deleted meanwhile, and values with it
            self._channels.forget([thread])
            self._put(state, checkpoint, new_versions, {}, share=False)
        return _config(state)

    def _put(
        self,
        state: CheckpointThread,
        checkpoint: Checkpoint,
        new: ChannelVersions,
        before: Mapping[str, ChannelValue],
        *,
        share: bool,
    ) -> None:
        """Stores a checkpoint, which may `share` messages with the stored one that it replaces."""
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        names = state.thread, state.ns
        packed = self._channels.pack(self.serde, values, versions, new, before, names)

        def work(unit: Unit) -> tuple[StoredValues, CheckpointThread]:
            place = self._states.place(unit, *names, state.id)
            old = None if place.before is None else self._states.read(place.before)
            replaced = old.values.get(MESSAGES) if old is not None and share else None
            end = None if replaced is None else replaced.node
            stored = self._channels.store(unit, self.serde, packed, names, end)
            done = msgspec.structs.replace(state, values=stored.values)
            if done != old:
                self._states.put(unit, stored.session, done, place)
            return stored, done

        stored, done = self._keyed.write(work)
        self._channels.remember(state.thread, state.ns, stored)
        self._last[state.thread, state.ns] = done
        if len(self._last) > 256:
            self._last.pop(next(iter(self._last)))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread, ns, id = _names(config)
        assert id is not None
        rows = self._writes(writes, task_id, task_path)

        def work(unit: Unit) -> None:
            found = self._states.document(unit, thread, ns, id)
            if found is None:
                found = self._states.put(unit, self._keyed.ensure(unit, thread), CheckpointThread(thread, ns, id))
            self._states.put_writes(unit, found, rows)

        self._keyed.write(work)

    def delete_thread(self, thread_id: str) -> None:
        self._forget([thread_id])
        self._keyed.purge(thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._forget(self._pruning.delete_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._forget([target_thread_id])
        self._pruning.copy(source_thread_id, target_thread_id)

    def copy_from(self, other: BaseCheckpointSaver[Any], thread_ids: Sequence[str] | None = None) -> int:
        """Copies the checkpoints of another saver with their writes, of all threads or of some. Returns how many.

        Called again, it copies what is new since. A checkpoint with an id that exists is copied if it differs. Reads
        one checkpoint at a time. Messages that `clew import` has stored stay as a branch.
        """
        wanted: builtins.list[RunnableConfig | None] = [None]
        if thread_ids is not None:
            wanted = [{"configurable": {"thread_id": thread}} for thread in thread_ids]
        missing = []
        for config in wanted:
            for one in other.list(config):
                if self._has(one):
                    self._copy_writes(one)
                else:
                    thread, ns, id = _names(one.config)
                    missing.append((thread, str(id), ns))
        count = 0
        for thread, id, ns in sorted(missing):  # a checkpoint after those that it follows
            found = other.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}})
            if found is not None:
                self.put(_above(found), found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
                self._copy_writes(found)
                count += 1
        return count

    def _has(self, one: CheckpointTuple) -> bool:
        """True if a checkpoint of another saver is stored, and equal."""
        thread, ns, id = _names(one.config)
        found = self._read(thread, ns, str(id))
        if found is None or found.state.checkpoint is None:
            return False
        new = self._state(_above(one), one.checkpoint, one.metadata)
        return msgspec.structs.replace(found.state, values={}) == new

    def _copy_writes(self, one: CheckpointTuple) -> None:
        """Stores the writes of another saver's checkpoint that are not stored."""
        thread, ns, id = _names(one.config)
        found = self._read(thread, ns, str(id)) if one.pending_writes else None
        stored = {} if found is None else {(at.task, at.index): at for at in self._states.writes(found.document)}
        writes: dict[str, builtins.list[tuple[str, Any]]] = {}
        for task, channel, value in one.pending_writes or ():
            writes.setdefault(task, []).append((channel, value))
        for task, values in writes.items():
            if any(stored.get((task, new.index)) != new for new in self._writes(values, task)):
                self.put_writes(one.config, values, task)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The next version of a channel: a number; for a copied checkpoint, text as LangGraph's own savers write it."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.0"
        return super().get_next_version(current, channel)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._forget(thread_ids)
        for thread in thread_ids:
            if strategy == "delete":
                self._keyed.purge(thread)
            elif strategy == "keep_latest":
                self._pruning.keep_latest(thread, self._delta_channels)
            else:
                raise ValueError(f"unknown strategy {strategy!r}: use 'keep_latest' or 'delete'")

    # -- async

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await in_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await in_thread(next, found, None)) is not None:
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await in_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await in_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await in_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await in_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await in_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await in_thread(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await in_thread(self.get_delta_channel_history, config=config, channels=channels)

    # -- inside

    def _state(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata) -> CheckpointThread:
        """A checkpoint as it is stored, without its values."""
        thread, ns, parent = _names(config)
        about = get_checkpoint_metadata(config, metadata)
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        run = about.get("run_id")
        return CheckpointThread(
            thread, ns, checkpoint["id"], parent, self._dump(rest), self._dump(about), run if run is None else str(run)
        )

    def _writes(self, writes: Sequence[tuple[str, Any]], task: str, path: str = "") -> builtins.list[Write]:
        """The writes of a task as they are stored."""
        return [
            Write(task, path, WRITES_IDX_MAP.get(channel, index), channel, *self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]

    def _dump(self, value: Any) -> Typed:
        return Typed(*self.serde.dumps_typed(value))

    def _load(self, typed: Typed | None) -> Any:
        return None if typed is None else self.serde.loads_typed((typed.type, typed.data))

    def _pending(self, write: Write) -> PendingWrite:
        return write.task, write.channel, self.serde.loads_typed((write.type, write.data))

    def _read(self, thread: str, ns: str, id: str) -> Found | None:
        return self._states.get(thread, ns, id)

    def _find(self, config: RunnableConfig) -> Found | None:
        thread, ns, id = _names(config)
        return self._states.latest(thread, ns) if id is None else self._read(thread, ns, id)

    def _values(self, thread: str, ns: str, id: str) -> Mapping[str, ChannelValue]:
        """The values of a checkpoint, which the next one may share."""
        last = self._last.get((thread, ns))
        if last is None or last.id != id:
            found = self._read(thread, ns, id)
            return {} if found is None else found.state.values
        return last.values

    def _value(self, document: Document, value: ChannelValue) -> Any:
        return self._channels.load(self.serde, document, value)

    def _tuple(self, found: Found) -> CheckpointTuple:
        state = found.state
        checkpoint: Checkpoint = self._load(state.checkpoint)
        checkpoint["channel_values"] = {
            channel: self._value(found.document, value) for channel, value in state.values.items()
        }
        parent = None if state.parent is None else _config(CheckpointThread(state.thread, state.ns, state.parent))
        writes = [self._pending(write) for write in self._states.writes(found.document)]
        return CheckpointTuple(_config(state), checkpoint, self._load(state.metadata), parent, writes)

    def _delta_channels(self, state: CheckpointThread) -> set[str]:
        """The channels whose value is in the writes of earlier checkpoints."""
        counters = (self._load(state.metadata) or {}).get("counters_since_delta_snapshot") or {}
        return {channel for channel in counters if channel not in state.values}

    def _forget(self, threads: Sequence[str]) -> None:
        """Drops what is remembered of threads whose rows change."""
        self._channels.forget(threads)
        self._last = {key: state for key, state in self._last.items() if key[0] not in threads}


def _names(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Thread, namespace and checkpoint id of a config."""
    wanted = config["configurable"]
    return str(wanted["thread_id"]), wanted.get("checkpoint_ns") or "", wanted.get("checkpoint_id") or None


def _config(state: CheckpointThread) -> RunnableConfig:
    return {"configurable": {"thread_id": state.thread, "checkpoint_ns": state.ns, "checkpoint_id": state.id}}


def _above(one: CheckpointTuple) -> RunnableConfig:
    """The config to store a checkpoint of another saver with: its thread, and the checkpoint that it follows."""
    thread, ns, _ = _names(one.config)
    parent = None if one.parent_config is None else _names(one.parent_config)[2]
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": parent}}
