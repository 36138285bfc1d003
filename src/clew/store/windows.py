"""Windows of a conversation by the number of a message, and the branches that leave its path. For modules of clew.

Messages are numbered from 1 through the whole history, with the messages that compactions replaced, as
`Node.counters.messages` counts them. Reading a window takes as long in a long conversation as in a short one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clew.backends import MAX_POS, MAX_SEQ, POS, SEQ_BITS, NodeLocation, RefRow, RunRow, Tx, creation_counter
from clew.base import ids
from clew.engine import paths
from clew.engine.engine import Engine
from clew.engine.node import Node, node_row, run_info
from clew.engine.refs import BRANCH
from clew.engine.trash import Visibility
from clew.errors import Corrupted, NotFound
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.session_table import SESSION, SUBAGENT

STEP = 500
"""Messages that are read at a time."""
MOST_BRANCHES = 200
"""Branches of a tree that are looked at."""


class Window(NamedTuple):
    """Some messages of a path, in order, and the number of all messages of the path."""

    nodes: list[Node]
    total: int


class Leaving(NamedTuple):
    """A branch or a fork that leaves the path after message number `after`."""

    after: int
    first: Node
    """Its first message of its own."""
    head_id: str
    messages: int
    """How many messages of its own it has."""
    session: Session | None
    """The fork; None for a branch of the same session."""
    place: int
    """Which of the ways after that message it is, oldest first, from 1."""
    ways: int
    """How many ways there are after that message, with the path itself."""


class _Part(NamedTuple):
    run: RunRow
    upto: int
    before: int
    """How many messages of the history come before it."""


_Side = tuple[int, int, int, RefRow]
"""The number of the last common message, the position of the first other one, how many there are, and the ref."""


def window(session: Session, first: int, last: int, *, head: str | None = None) -> Window:
    """Messages number `first` to `last` of a session, or of the path to `head` in its tree. NotFound."""
    engine = Parts.of(session).engine

    def work(tx: Tx) -> Window:
        parts = _parts(engine, tx, _end(session, tx, head))
        total = _total(parts)
        nodes: list[Node] = []
        for part in parts:
            low, high = max(0, first - 1 - part.before), min(part.upto, last - 1 - part.before)
            if low <= high:
                run = engine.verify_run(tx, part.run)
                nodes += paths.piece(engine, tx, run, low, high, high - low + 1)[0]
        return Window(nodes, total)

    return engine.read(work)


def between(session: Session, first: int, last: int | None = None, *, head: str | None = None) -> Iterator[Node]:
    """Messages number `first` to `last`, or to the end, read in small batches. A negative `first` counts from the end.

    NotFound.
    """
    total = window(session, 1, 0, head=head).total
    end = total if last is None else min(last, total)
    for start in range(max(1, first if first >= 0 else total + 1 + first), end + 1, STEP):
        yield from window(session, start, min(start + STEP - 1, end), head=head).nodes


def seams(session: Session, *, head: str | None = None) -> list[int]:
    """The numbers of the messages that are the first after a compaction, in order. NotFound."""
    engine = Parts.of(session).engine

    def work(tx: Tx) -> list[int]:
        found, before = [], 0
        for origin in reversed(paths.origins(engine, tx, _end(session, tx, head))):
            found.append(before + 1)
            before += sum(upto + 1 for _, upto in paths.lineage(tx, origin))
        return found[1:]

    return engine.read(work)


def number_of(session: Session, node_id: str, *, head: str | None = None) -> int | None:
    """The number of a message on the path; None if it is not on it. NotFound if there is no such message."""
    engine = Parts.of(session).engine
    wanted = engine.resolve_node(node_id)

    def work(tx: Tx) -> int | None:
        point = tx.insert_point(wanted)
        if point is None or point.pos is None or point.tree != row_of(session).tree:
            raise NotFound("message", node_id)
        run, seq = point.pos >> SEQ_BITS, point.pos & MAX_SEQ
        for part in _parts(engine, tx, _end(session, tx, head)):
            if part.run.run == run and seq <= part.upto:
                return part.before + seq + 1
        return None

    return engine.read(work)


def message_of(session: Session, node_id: str) -> Node:
    """A message of the session's tree that is not only in the trash. NotFound."""
    engine = Parts.of(session).engine
    wanted = engine.resolve_node(node_id)

    def work(tx: Tx) -> Node:
        place = _visible(engine, tx, wanted, row_of(session).tree)
        if place is None:
            raise NotFound("message", node_id)
        return engine.node(place)

    return engine.read(work)


def end_below(session: Session, node: Node) -> str | None:
    """The last message of a path through `node`: the session's own, else a branch's or a fork's. None without one."""
    engine, pos = Parts.of(session).engine, node_row(node)[POS]

    def work(tx: Tx) -> str | None:
        refs = sorted(_live(tx, run_info(node).tree), key=lambda ref: (ref.ref != row_of(session).ref, -ref.rank))
        for ref in refs[:MOST_BRANCHES]:
            parts = _parts(engine, tx, ref.head)
            if any(part.run.run == pos >> SEQ_BITS and pos & MAX_SEQ <= part.upto for part in parts):
                return None if ref.head_id is None else ids.text(ref.head_id)
        return None

    return engine.read(work)


def leaving(session: Session, *, head: str | None = None) -> list[Leaving]:
    """The branches and forks that leave the path, in the order of the path and then of their creation."""
    own = Parts.of(session)
    engine, mine = own.engine, row_of(session)

    def work(tx: Tx) -> tuple[list[_Part], list[_Side]]:
        end = _end(session, tx, head)
        path = _parts(engine, tx, end)
        found: dict[int, _Side] = {}
        for ref in _live(tx, mine.tree or 0)[:MOST_BRANCHES]:
            if ref.head == end:
                continue
            try:
                common, first, total = _divergence(path, _parts(engine, tx, ref.head))
            except Corrupted:
                continue
            known = found.get(first) if first is not None else None
            if first is not None and common and (known is None or known[2] < total - common):
                found[first] = common, first, total - common, ref
        return path, sorted(found.values(), key=lambda one: (one[0], creation_counter(one[1] >> SEQ_BITS)))

    def described(tx: Tx, path: Sequence[_Part], rows: Sequence[_Side]) -> list[Leaving]:
        done = []
        for common, first, messages, ref in rows:
            location = tx.node_at(first)
            if location is not None and ref.head_id is not None:
                other = Session(own, ref) if ref.kind == SESSION and ref.ref != mine.ref else None
                ways = [one[1] for one in rows if one[0] == common] + _at(path, common)
                ways.sort(key=lambda pos: creation_counter(pos >> SEQ_BITS))
                place = ways.index(first) + 1
                head_id = ids.text(ref.head_id)
                done.append(Leaving(common, engine.node(location), head_id, messages, other, place, len(ways)))
        return done

    return engine.read(lambda tx: described(tx, *work(tx)))


def _live(tx: Tx, tree: int) -> list[RefRow]:
    """Sessions and branches of a tree that are not in the trash."""
    return [
        ref
        for ref in tx.refs_in_tree(tree, 0, MAX_POS)
        if ref.trashed_at is None and ref.head is not None and ref.kind in (SESSION, SUBAGENT, BRANCH)
    ]


def _end(session: Session, tx: Tx, head: str | None) -> int | None:
    """The position of the end of the path. NotFound if `head` is in another tree, or only in the trash."""
    row = Parts.of(session).table.current(tx, row_of(session))
    if head is None:
        return row.head
    engine = Parts.of(session).engine
    place = _visible(engine, tx, engine.resolve_node(head), row.tree)
    if place is None:
        raise NotFound("message", head)
    return place.row[POS]


def _visible(engine: Engine, tx: Tx, wanted: bytes, tree: int | None) -> NodeLocation | None:
    """A message of the tree; None if there is none, or if it is only in the trash."""
    place = tx.node(wanted)
    if place is None or place.tree != tree:
        return None
    sight = Visibility(tx, engine.workspace)
    sight.load_trees([place])
    return place if sight.is_visible(place.tree, place.row[POS]) else None


def _parts(engine: Engine, tx: Tx, end: int | None) -> list[_Part]:
    """The runs of the history that ends at a position, oldest first."""
    found: list[_Part] = []
    before = 0
    for origin in reversed(paths.origins(engine, tx, end)):
        for run, upto in paths.lineage(tx, origin):
            found.append(_Part(run, upto, before))
            before += upto + 1
    return found


def _at(parts: Sequence[_Part], index: int) -> list[int]:
    """The position of the message after `index` messages, in a list; empty if the path ends there."""
    return [
        part.run.run << SEQ_BITS | index - part.before
        for part in parts
        if part.before <= index <= part.before + part.upto
    ]


def _total(parts: Sequence[_Part]) -> int:
    return parts[-1].before + parts[-1].upto + 1 if parts else 0


def _divergence(path: Sequence[_Part], other: Sequence[_Part]) -> tuple[int, int | None, int]:
    """How many messages are common, the position of the first other one if any, and how many the other has."""
    common, first = 0, None
    for at, part in enumerate(other):
        mine = path[at] if at < len(path) else None
        if mine is None or mine.run.run != part.run.run:
            first = part.run.run << SEQ_BITS
            break
        shared = min(mine.upto, part.upto) + 1
        common = part.before + shared
        if mine.upto != part.upto:
            if part.upto > mine.upto:
                first = part.run.run << SEQ_BITS | shared
            elif at + 1 < len(other):
                first = other[at + 1].run.run << SEQ_BITS
            break
    return common, first, _total(other)
