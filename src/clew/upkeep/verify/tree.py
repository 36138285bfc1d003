"""Checks trees, runs and nodes: signatures, positions, and that each continues its parent."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from clew.backends import BODY, FACTS, ID, MAX_SEQ, POS, SEQ_BITS, QuarantineRow, RunRow, creation_counter
from clew.backends.problems import BROKEN
from clew.backends.tables import FORGOTTEN, NODES, QUARANTINE, RUNS, TREES
from clew.base import codec, ids
from clew.base.messages import ROLES, AnyMessage, Message
from clew.engine.node import body_context, run_info
from clew.engine.sealing.envelope import (
    MISTYPED,
    NO_ID,
    facts,
    node_place,
    quarantine_context,
    quarantine_parts,
    run_fields,
    totals,
)
from clew.errors import ClewError
from clew.providers.neutral import neutral
from clew.upkeep.verify.findings import Findings, place

CHECKSUM = "its checksum does not match"
NO_END = "no session ends there: a session was removed, or restored to an earlier state"
_Row = tuple[int, bytes, bytes, bytes, int]
"""A node as the scan reads it: a `NodeRow`, and its number in order of commit."""
_ORD: Final = 4
# Raised by code that reads damaged values. An error of clew means damage too.
ODD = (*BROKEN, struct.error, ValueError, TypeError, LookupError, AttributeError, msgspec.MsgspecError, ClewError)


def check_trees(found: Findings) -> None:
    """A tree has a run or a ref: it is deleted with the last of them."""
    used = "SELECT EXISTS (SELECT 1 FROM runs WHERE tree = ?) OR EXISTS (SELECT 1 FROM refs WHERE tree = ?)"
    for tree, row in found.scan(TREES):
        if row is not None and not found.one(used, tree, tree)[0]:
            found.add("tree", f"tree {tree}", "it is empty: its messages were removed without a deletion")


def check_runs(found: Findings) -> None:
    """A run is signed, starts at an existing node, and something needs its last node."""
    heads = _Heads(found.stream)
    for number, row in found.scan(RUNS):
        if row is None:
            continue
        run = RunRow._make(row)
        try:
            problems = list(_run_problems(found, run))
            last = found.tx.last_seq(number)
            if last < 0:
                problems.append("its messages are missing")
            elif not _end_is_needed(found, run, last, heads):
                at = number << SEQ_BITS | last
                found.add("run", place(at), NO_END, pos=at)
        except ODD as error:
            problems = [f"it cannot be checked ({type(error).__name__})"]
        for problem in problems:
            found.add("run", f"run {number}", problem, pos=number << SEQ_BITS)


def check_nodes(found: Findings) -> None:
    """A node's body opens with its row as context, and the node continues its parent without a gap."""
    run: RunRow | None = None
    number, expected = -1, 0
    above: _Parent | None = None
    for pos, row in found.scan(NODES):
        if pos >> SEQ_BITS != number:
            if row is None:
                continue  # already reported; its position may be damaged too
            number, expected = pos >> SEQ_BITS, 0
            try:
                run = found.tx.run(number)
                above = None if run is None else _parent_of(found, run)
            except ODD:
                run = above = None
            if run is None:
                found.add("run", f"run {number}", "it is missing, but its messages exist", pos=pos)
        if run is not None and pos & MAX_SEQ > expected:
            missing = (pos & MAX_SEQ) - expected
            at = number << SEQ_BITS | expected
            gone = "it is missing" if missing == 1 else f"{missing} are missing from it on"
            found.add("node", place(at), gone, pos=at)
            above = None
        expected = (pos & MAX_SEQ) + 1
        above = None if row is None or run is None else _check_node(found, run, row, above)


def check_quarantine(found: Findings) -> None:
    """A row in quarantine belongs to a message without a body, whose row has not changed since."""
    for pos, row in found.scan(QUARANTINE):
        if row is None:
            continue
        try:
            problem = _quarantine_problem(found, QuarantineRow._make(row))
        except ODD as error:
            problem = f"it cannot be checked ({type(error).__name__})"
        if problem is not None:
            found.add("quarantine", place(pos), problem, pos=pos)
    found.counts["quarantined"] = found.counts.pop("quarantine")


def check_forgotten(found: Findings) -> None:
    """Positions of deleted nodes are not used again. An empty range comes from a redaction, not a deletion."""
    for number, row in found.scan(FORGOTTEN):
        if row is None:
            continue
        _, low, high = row
        if low > high + 1 or low >> SEQ_BITS != high >> SEQ_BITS:
            found.add("forgotten", f"deletion {number}", "its range is empty, or in more than one run")
        elif found.one("SELECT 1 FROM nodes WHERE pos BETWEEN ? AND ?", low, high) is not None:
            found.add("forgotten", f"deletion {number}", "the messages it lists as deleted exist")


# -- runs


def _run_problems(found: Findings, run: RunRow) -> Iterator[str]:
    tip = found.one("SELECT id FROM nodes WHERE pos = ?", run.run << SEQ_BITS | run.tip) if run.tip >= 0 else None
    if run.tip >= 0 and tip is None:
        yield f"its message {run.tip} is missing"
    if not found.engine.seal.is_signed(run_fields(run, tip[0] if tip else None), run.wrapped_key, run.mac):
        yield CHECKSUM
    if found.one("SELECT 1 FROM trees WHERE tree = ?", run.tree) is None:
        yield f"its tree {run.tree} is missing"
    for name, at in (("parent", run.parent), ("origin", run.derived)):
        if at is None:
            continue
        above = found.tx.run(at >> SEQ_BITS)
        if above is None or found.one("SELECT 1 FROM nodes WHERE pos = ?", at) is None:
            yield f"its {name}, {place(at)}, is missing"
            continue
        depth = above.depth + (at & MAX_SEQ) + 1
        if name == "parent":
            fits = (run.depth, run.carried) == (depth, above.carried)
        else:  # the last messages that it replaced may have been deleted since
            fits = run.depth == 0 and run.carried >= above.carried + depth
        if creation_counter(above.run) >= creation_counter(run.run) or above.tree != run.tree or not fits:
            yield f"it does not match its {name}, {place(at)}"
    if run.parent is None and run.depth:
        yield "it is a root, but its depth is not 0"


def _end_is_needed(found: Findings, run: RunRow, last: int, heads: _Heads) -> bool:
    """True if something needs a run's last node: a ref, a save without a ref, or a run that starts there."""
    at = run.run << SEQ_BITS | last
    return (
        heads.has(at)
        or run.tip >= last
        or found.one("SELECT 1 FROM runs WHERE parent = ?", at) is not None
        or found.one("SELECT 1 FROM runs WHERE derived = ?", at) is not None
    )


class _Heads:
    """The heads of refs, for queries in ascending order: one pass, without keeping them in memory."""

    def __init__(self, stream: Callable[..., Iterator[Any]]) -> None:
        self._rows = stream("SELECT head FROM refs WHERE head IS NOT NULL ORDER BY head")
        self._at = -1
        self._blind = False

    def has(self, pos: int) -> bool:
        """True also if the heads cannot be read: check_refs reports that once, instead of every run."""
        try:
            while self._at < pos and not self._blind:
                (at,) = next(self._rows, (None,))
                self._at = at if isinstance(at, int) else 1 << 63  # damaged values sort last
        except BROKEN:
            self._blind = True
        return self._blind or self._at == pos


# -- nodes


def _quarantine_problem(found: Findings, row: QuarantineRow) -> str | None:
    at = found.tx.node_at(row.pos)
    if at is None:
        return "its message is missing"
    if at.row[BODY] != b"":
        return "its message has a body"
    node = found.engine.node(at)
    payload = run_info(node).box.open(row.body, quarantine_context(row))
    if payload is None:
        return CHECKSUM
    return None if quarantine_parts(payload)[0] == body_context(node) else "the row of its message was changed since"


_Totals = tuple[int, int, int, int, int]
"""Turns, tokens in and out, cost, gaps."""


class _Parent(NamedTuple):
    """The parent of a node. `totals` is None if they are unknown or damaged."""

    id: bytes | None
    ord: int
    totals: _Totals | None


_ROOT = _Parent(None, 0, (0, 0, 0, 0, 0))


def _parent_of(found: Findings, run: RunRow) -> _Parent | None:
    """The parent of a run's first node; None if it is missing."""
    origin = run.derived if run.parent is None else run.parent
    if origin is None:
        return (
            _Parent(None, 0, None) if run.carried else _ROOT
        )  # the messages it replaced may be deleted; the totals stay
    row = found.one("SELECT id, ord, facts FROM nodes WHERE pos = ?", origin)
    if row is None or not isinstance(row[1], int):
        return None if run.parent is not None else _Parent(None, 0, None)
    if run.parent is not None:
        return _Parent(row[0], row[1], _totals(row[2]))
    above = found.tx.run(origin >> SEQ_BITS)
    whole = above is not None and run.carried == above.carried + above.depth + (origin & MAX_SEQ) + 1
    return _Parent(None, row[1], _totals(row[2]) if whole else None)


def _totals(stored: bytes) -> _Totals | None:
    """The totals in a node's facts; None if they are damaged, which the check of that node reports."""
    try:
        return totals(stored)
    except MISTYPED:
        return None


def _check_node(found: Findings, run: RunRow, row: _Row, above: _Parent | None) -> _Parent:
    """Adds the problems of a node, and returns it as the parent of the next one."""
    problems: list[str] = []
    counted: _Totals | None = None
    if row[BODY] == b"" and found.tx.maintenance.quarantine_row(row[POS]) is not None:
        return _Parent(row[ID], row[_ORD], None)
    try:
        if len(row[ID]) != 16:
            problems.append("its id has the wrong length")
        payload = _open(found, run, row, above)
        if payload is None:
            if above is not None:
                problems.append(CHECKSUM)
        else:
            said = codec.decode(payload, "")
            message = neutral(said)
            stated = facts(row[FACTS])
            if stated.kind != payload[0] or stated.role != ROLES.index(message.role):
                problems.append("its row does not match its body")
            if above is not None:
                counted = _totals(row[FACTS])
                if above.totals is not None and counted != _add(above.totals, message):
                    problems.append("its totals do not continue those of its parent")
            problems += _blob_problems(found, run, row, said)
    except ODD as error:
        problems.append(f"its body does not decode ({type(error).__name__})")
    if above is not None and row[_ORD] <= above.ord:
        problems.append("its order is not after that of its parent")
    if found.indexes_doubted:
        problems += _index_problems(found, row)
    for problem in problems:
        found.add("node", f"node {ids.text(row[ID])}", problem, pos=row[POS])
    return _Parent(row[ID], row[_ORD], counted)


def _open(found: Findings, run: RunRow, row: _Row, above: _Parent | None) -> bytes | None:
    """The body's payload; None if it does not open. After a gap the context is unknown."""
    pos, facts, id, body, _ = row
    if above is None:
        return body[5:] if run.wrapped_key is None else None
    context = node_place(run.tree, id, above.id or NO_ID, run.depth + (pos & MAX_SEQ)) + facts
    return found.engine.run_info(run).box.open(body, context)


def _add(totals: _Totals, message: Message) -> _Totals:
    """Totals with one more message."""
    turns, tokens_in, tokens_out, cost, gaps = totals
    used = message.usage
    counts = (None, None, None) if used is None else (used.input, used.output, used.cost)
    if message.role == "assistant":
        gaps |= (counts[0] is None or counts[1] is None) | (counts[2] is None) << 1
    return (
        turns + (message.role == "user"),
        tokens_in + (counts[0] or 0),
        tokens_out + (counts[1] or 0),
        cost + (counts[2] or 0),
        gaps,
    )


def _blob_problems(found: Findings, run: RunRow, row: _Row, said: AnyMessage) -> Iterator[str]:
    """Problems of the blobs that a message uses: missing, or without a row for this use."""
    for digest in codec.blobs_of(said):
        blob = found.tx.blobs.blob(run.tree, found.engine.blob_hash(run.tree, digest))
        if blob is None:
            yield f"the blob {digest[:12]}… that it uses is missing"
        elif found.one('SELECT 1 FROM uses WHERE blob = ? AND "user" = ?', blob.blob, row[POS]) is None:
            yield f"the blob {digest[:12]}… has no record of this use"


def _index_problems(found: Findings, row: _Row) -> Iterator[str]:
    for name, column, value in (("nodes_id", "id", row[ID]), ("nodes_ord", "ord", row[_ORD])):
        try:
            at = found.one(f"SELECT pos FROM nodes INDEXED BY {name} WHERE {column} = ?", value)
        except BROKEN:
            continue  # SQLite's own check reported the index
        if at is None or at[0] != row[POS]:
            yield f"it is not found by its {column}"
