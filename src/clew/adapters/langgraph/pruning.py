"""Deleting and copying checkpoints, with what only they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from clew.adapters.keyed import Keyed
from clew.adapters.langgraph.states import STATE, CheckpointThread, Found, States
from clew.errors import Conflict, NotFound
from clew.store.unit import Unit


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
