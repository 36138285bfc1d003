"""Deleting and copying checkpoints, with what only they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from clew.adapters.langgraph.states import STATE, CheckpointThread, Found, States
from clew.adapters.rows import Keyed
from clew.backends import POS, InsertPoint, RefRow, Tx
from clew.base import ids
from clew.engine import deletion, paths
from clew.engine.refs import BRANCH


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

        def work(tx: Tx) -> None:
            home = self._keyed.row(tx, source)
            if home is None or home.tree is None:
                return
            head = self._keyed.refs.head_state(tx, home)
            copy = self._keyed.ensure(tx, target, at=head.insert_point)
            for one in found:
                state = msgspec.structs.replace(one.state, thread=target)
                row = self._states.put(tx, copy, state)
                tx.blobs.add_uses(-row.ref, tx.blobs.blobs_used(-one.row.ref, -one.row.ref))
                self._states.put_writes(tx, row, self._states.writes(one.row))
                self._hold_messages(tx, copy, state)

        self._keyed.engine.write(work)

    # -- inside

    def _delete(self, thread: str, found: Iterable[Found]) -> None:
        """Deletes checkpoints, and branches of the thread that none of the others needs."""

        def work(tx: Tx) -> None:
            home = self._keyed.row(tx, thread)
            for one in found:
                if tx.ref_at(one.row.ref) is not None:
                    deletion.delete_ref(self._keyed.engine, tx, one.row)
            if home is not None:
                self._drop_branches(tx, home)

        self._keyed.engine.write(work)

    def _drop_branches(self, tx: Tx, home: RefRow) -> None:
        owned = tx.refs_owned(home.ref)
        needed = [
            location.row[POS]
            for row in owned
            if row.kind == STATE
            for value in self._states.read(row).values.values()
            if value.node is not None and (location := tx.node(ids.parse(value.node))) is not None
        ]
        for row in owned:
            if row.kind != BRANCH or row.head is None:
                continue
            if not any(paths.on_path(tx, row.head, pos) for pos in needed):
                deletion.delete_ref(self._keyed.engine, tx, row)

    def _hold_messages(self, tx: Tx, copy: RefRow, state: CheckpointThread) -> None:
        """Adds a branch to a copied thread for messages that its session does not have on its path."""
        for value in state.values.values():
            point = None if value.node is None else tx.insert_point(ids.parse(value.node))
            if point is not None and point.pos is not None and not self._is_held(tx, copy, point):
                self._keyed.refs.branch(tx, copy.ref, point)

    def _is_held(self, tx: Tx, copy: RefRow, point: InsertPoint) -> bool:
        heads = [copy.head, *(row.head for row in tx.refs_owned(copy.ref) if row.kind == BRANCH)]
        return any(head is not None and paths.on_path(tx, head, point.pos or 0) for head in heads)
