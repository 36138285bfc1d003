"""Handles and counters of many sessions, read in one transaction: one by one, each would take several reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from clew.backends import ID, POS, SEQ_BITS, NodeLocation, RefRow, RunRow, Tx
from clew.base.ids import handle_beside
from clew.engine.engine import Engine
from clew.engine.node import Counters
from clew.errors import Corrupted
from clew.store.parts import Parts
from clew.store.session import Session, row_of

_NONE = Counters()


class Brief(NamedTuple):
    """The facts about a session that need a read."""

    handle: str
    counters: Counters


def briefs(sessions: Sequence[Session]) -> list[Brief | None]:
    """One for each session, as it was read. None for a damaged or changed one: ask that session itself."""
    if not sessions:
        return []

    engine, rows = Parts.of(sessions[0]).engine, [row_of(one) for one in sessions]

    def work(tx: Tx) -> list[Brief | None]:
        # A damaged row may hold anything as its head.
        heads = [row.head for row in rows if isinstance(row.head, int)]
        around = Around(tx.nodes_at(heads), tx.runs_at([*{head >> SEQ_BITS for head in heads}]), {})
        for (workspace, kind), keys in _by_kind(rows).items():
            around.beside.update(tx.keys_beside(workspace, kind, keys))
        return [_brief(engine, tx, row, around) for row in rows]

    return engine.read(work)


class Around(NamedTuple):
    """Rows related to the sessions: their last messages, the runs of these, and the neighbours of their keys."""

    places: Mapping[int, NodeLocation]
    runs: Mapping[int, RunRow]
    beside: dict[bytes, list[bytes]]


def _by_kind(rows: Iterable[RefRow]) -> dict[tuple[str, str], list[bytes]]:
    found: dict[tuple[str, str], list[bytes]] = {}
    for row in rows:
        found.setdefault((row.workspace, row.kind), []).append(row.key)
    return found


def _brief(engine: Engine, tx: Tx, row: RefRow, around: Around) -> Brief | None:
    handle = handle_beside(row.key, around.beside[row.key])
    if row.head is None:
        return Brief(handle, _NONE)
    place = around.places.get(row.head)
    run = None if place is None else around.runs.get(place.row[POS] >> SEQ_BITS)
    if place is None or run is None or place.row[ID] != row.head_id:
        return None
    try:
        engine.verify_run(tx, run)
    except Corrupted:
        return None
    return Brief(handle, engine.node(place).counters)
