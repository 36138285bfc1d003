"""Reading a path from a root to a node: one range scan for each run on it."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from functools import partial
from itertools import repeat
from operator import itemgetter

from clew.backends import BODY, ID, MAX_SEQ, POS, SEQ_BITS, NodeRow, RunRow, Tx, creation_counter
from clew.base.messages import Message
from clew.engine.engine import Engine
from clew.engine.node import Node, read_bodies
from clew.errors import Corrupted, NotFound

PAGE_BYTES = 4 << 20
"""Approximate bytes of bodies that `walk` holds at a time."""
FIRST_PAGE, _LARGEST_PAGE = 8, 512


def whole(engine: Engine, tx: Tx, pos: int) -> list[Node]:
    """Every node from the root to the one at `pos`."""
    nodes: list[Node] = []
    parent: bytes | None = None
    for run, upto in _runs(engine, tx, pos):
        rows = tx.nodes_between(run.run << SEQ_BITS, run.run << SEQ_BITS | upto)
        parent = _add(engine, run, rows, 0, upto, parent, nodes)
    return nodes


def messages(engine: Engine, tx: Tx, pos: int) -> list[Message]:
    """The messages of `whole`, without nodes and without holding all rows at once."""
    found: list[Message] = []
    above: int | None = None
    try:
        for run, upto in _runs(engine, tx, pos):
            place = None if above is None else tx.node_at(above)
            first, above = run.run << SEQ_BITS, run.run << SEQ_BITS | upto
            parent = None if place is None else place.row[ID]
            some = tx.scan_bodies(
                first, above, partial(read_bodies, engine.node_handle, engine.run_info(run), parent, first)
            )
            _ensure_complete(run, some, 0, upto)
            found += some
    except Corrupted:  # reports the same damage as `path`
        return [node.message for node in whole(engine, tx, pos)]
    return found


def last(engine: Engine, tx: Tx, pos: int, count: int) -> list[Node]:
    """The last `count` nodes of the path to `pos`, root first. Reads one more row, for the parent of the first."""
    parts: list[tuple[RunRow, list[NodeRow], int]] = []
    wanted, at = count + 1, pos
    while wanted > 0:
        run, seq = run_of(engine, tx, at), at & MAX_SEQ
        first = max(0, seq - wanted + 1)
        parts.append((run, tx.nodes_between(run.run << SEQ_BITS | first, at), seq))
        wanted -= seq - first + 1
        if run.parent is None:
            break
        at = run.parent
    nodes: list[Node] = []
    parent: bytes | None = None
    for run, rows, upto in reversed(parts):
        first = rows[0][POS] & MAX_SEQ if rows else upto
        parent = _add(engine, run, rows, first, upto, parent, nodes)
    return nodes[-count:] if count else []


def walk(engine: Engine, pos: int) -> Iterator[Node]:
    """`whole`, a page at a time: bounded memory, and no transaction is held while the caller works."""
    parent: bytes | None = None
    limit = FIRST_PAGE
    for run, upto in engine.read(lambda tx: _runs(engine, tx, pos)):
        low, high = run.run << SEQ_BITS, run.run << SEQ_BITS | upto
        while low <= high:
            stop = min(high, low + limit - 1)
            now, rows = engine.read(partial(_page, engine, run, low, stop))
            nodes: list[Node] = []
            try:
                parent = _add(engine, now or run, rows, low & MAX_SEQ, stop & MAX_SEQ, parent, nodes)
            except Corrupted:
                if now is None or now.closed:
                    raise NotFound("message", "of this session", hint="It was deleted while being read.") from None
                raise
            yield from nodes
            limit = _fitting(rows)
            low = stop + 1


def piece(engine: Engine, tx: Tx, run: RunRow, low: int, upto: int, limit: int) -> tuple[list[Node], int]:
    """Nodes of a run from seq `low` up to `upto`, `limit` at most; and how many the next piece should have."""
    upto = min(upto, low + limit - 1)
    first = run.run << SEQ_BITS
    above = run.parent if low == 0 else first | low - 1
    place = None if above is None else tx.node_at(above)
    nodes: list[Node] = []
    rows = tx.nodes_between(first | low, first | upto)
    _add(engine, run, rows, low, upto, None if place is None else place.row[ID], nodes)
    return nodes, _fitting(rows)


def lineage(tx: Tx, pos: int) -> list[tuple[RunRow, int]]:
    """The runs of the path to `pos`, root first, each with its highest seq on the path. Corrupted if one is missing."""
    runs = tx.lineage(pos)
    if not runs or runs[0][0].parent is not None:
        raise Corrupted(f"the path to position {pos >> SEQ_BITS}:{pos & MAX_SEQ}", "a run of it is missing")
    return runs


def origins(engine: Engine, tx: Tx, head: int | None) -> list[int]:
    """`head` and the earlier heads that compactions replaced, the newest first."""
    found: list[int] = []
    while head is not None:
        found.append(head)
        root = engine.verify_run(tx, lineage(tx, head)[0][0])
        head = root.derived
        # The check stops loops in damaged rows.
        if head is not None and creation_counter(head >> SEQ_BITS) >= creation_counter(root.run):
            raise Corrupted(f"run {root.run}", "it replaces a newer run")
    return found


def on_path(tx: Tx, pos: int, ancestor: int) -> bool:
    """True if the node at `ancestor` is on the path to the one at `pos`."""
    return any(run.run == ancestor >> SEQ_BITS and upto >= ancestor & MAX_SEQ for run, upto in lineage(tx, pos))


def _add(
    engine: Engine, run: RunRow, rows: list[NodeRow], first: int, upto: int, parent: bytes | None, nodes: list[Node]
) -> bytes | None:
    """Adds nodes for a run's rows after the id `parent`; returns the last id. Corrupted if one is missing."""
    _ensure_complete(run, rows, first, upto)
    known: list[bytes | None] = [parent, *map(itemgetter(ID), rows)]
    nodes += map(Node, repeat(engine.node_handle), repeat(engine.run_info(run)), known, rows)
    return known[-1]


def _ensure_complete(run: RunRow, rows: Sized, first: int, upto: int) -> None:
    """Corrupted if a row of a run between two seqs is missing."""
    if len(rows) != upto - first + 1:
        raise Corrupted(f"run {run.run}", f"{upto - first + 1 - len(rows)} of its messages are missing")


def _fitting(rows: list[NodeRow]) -> int:
    """How many nodes of this size fit on a page."""
    try:
        size = sum(len(row[BODY]) for row in rows) // len(rows) + 1
    except TypeError:  # a damaged row raises when it is read
        size = PAGE_BYTES
    return max(1, min(_LARGEST_PAGE, PAGE_BYTES // size))


def _page(engine: Engine, run: RunRow, low: int, high: int, tx: Tx) -> tuple[RunRow | None, list[NodeRow]]:
    """Some nodes of a run and the run in one read: its data key may have changed."""
    now = tx.run(run.run)
    return now if now is None or now == run else engine.verify_run(tx, now), tx.nodes_between(low, high)


def _runs(engine: Engine, tx: Tx, pos: int) -> list[tuple[RunRow, int]]:
    """`lineage`, each run verified."""
    return [(engine.verify_run(tx, run), upto) for run, upto in lineage(tx, pos)]


def run_of(engine: Engine, tx: Tx, pos: int) -> RunRow:
    """The run of a position, verified. Corrupted."""
    run = tx.run(pos >> SEQ_BITS)
    if run is None:
        raise Corrupted(f"run {pos >> SEQ_BITS}", "it is missing")
    return engine.verify_run(tx, run)
