"""Quarantine: messages whose bytes are damaged are taken out of the live store, and kept until they are purged.

Reading a damaged message raises, and changes nothing. A sweep reads every body there is. One that does not open is read
again through a connection of its own, and counts as damaged only if it fails there too; the key is known to be right,
because the store's secrets opened with it. A body alone is taken out: its row stays, so that the tree, the ids and the
totals stay whole. Data of sessions, log entries and pieces of blobs that are damaged are named and stay where they are:
they go with their session. One whose own data is damaged goes when it is purged as such: see `clew.purge.DAMAGED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple

from clew import deletion, ids
from clew.backends import BODY, POS, Place, QuarantineRow, Tx
from clew.bodies import BATCH, Body, Progress, still
from clew.bodies import damaged as damaged_bodies
from clew.engine import Engine
from clew.envelope import MISTYPED, kept_context, kept_parts, kept_payload
from clew.errors import Conflict, Invalid, NotFound, Tampered
from clew.node import Node, moment
from clew.purge import Loss, Purger
from clew.receipts import Failure, Receipt
from clew.search import Search

MOST = 3
"""Bodies that one sweep takes out without being told twice. More point to a cause that is still there."""
SHARE = 100
"""And at most one in so many."""

Kind = Literal["quarantined", "restored", "purged"]


class Event(NamedTuple):
    """Something happened to messages in quarantine. It has no content."""

    kind: Kind
    at: datetime
    nodes: tuple[str, ...]


class Quarantined(NamedTuple):
    """A message that is in quarantine."""

    node: str
    """Its id."""
    session: str | None
    """The id of a session that shows it, if there is one."""
    at: datetime
    """When it was taken out."""
    why: str
    bytes: int
    """Of its body as it was found; 0 once they are purged."""
    kept: bool
    """False once they are purged."""


QuarantinedList = list[Quarantined]


class Left(NamedTuple):
    """Something that is damaged and was not taken out."""

    where: str
    why: str


class Swept(NamedTuple):
    """What a sweep has found and done."""

    bodies: int
    """How many were read."""
    moved: tuple[str, ...]
    """Ids of the messages that are in quarantine now."""
    left: tuple[Left, ...]
    """What is damaged and stays where it is."""
    receipt: Receipt | None
    """Of what was purged at once."""


_Item = tuple[QuarantineRow, Node]
_Items = list[_Item]


class Quarantine:
    """What was taken out of a store because it is damaged."""

    def __init__(self, engine: Engine, search: Search, purger: Callable[[], Purger]) -> None:
        self._engine = engine
        self._search = search
        self._purger = purger
        self._listeners: Sequence[Callable[[Event], object]] = ()

    def sweep(
        self, *, force: bool = False, strict: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> Swept:
        """Reads every body, and puts each message whose body does not open in quarantine: all of them, or none.

        Conflict, and nothing is moved, if more than three bodies or more than one in a hundred are damaged, unless
        `force` says that this is known. An error while reading ends the sweep, and nothing is moved either. With
        `strict` the damaged bytes are not kept but purged at once, with a receipt; those that a hold covers are kept.
        With `dry_run` nothing is moved, and the answer says what would be.
        """
        self._alone()
        engine = self._engine
        engine.read(engine.renew)  # raises unless the key is the store's
        bodies, damaged = damaged_bodies(engine, progress)
        if not force and (len(damaged) > MOST or len(damaged) * SHARE > bodies):
            raise Conflict(
                f"{len(damaged)} of {bodies} stored bodies are damaged; more than {MOST}, or than one in {SHARE}, point"
                " to a cause that may still be there, so nothing was moved",
                hint="Check the disk, and see what a backup has; then sweep with force.",
            )
        left = tuple(dict.fromkeys(Left(one.where, one.why or "") for one in damaged if one.node is None))
        moved = tuple(one.node.id for one in damaged if one.node is not None)
        if dry_run or not moved:
            return Swept(bodies, moved, left, None)

        def take(tx: Tx) -> _Items:
            nonlocal moved
            items = self._take_out(tx, damaged)
            moved = _names(items)
            return items

        receipt, gone = self._destroy(take) if strict else (None, ())
        if not strict:
            engine.write(take)
        self._tell("quarantined", moved)
        self._tell("purged", gone)
        return Swept(bodies, moved, left, receipt)

    def list(self) -> QuarantinedList:
        """What is in quarantine, in the order of the store."""
        found = self._engine.read(self._all)
        return [self._shown(row, node) for row, node in found]

    def restore(self, node: str) -> Node:
        """Puts a message back, if what was kept of it opens now. Tampered, and nothing is changed, if it does not.

        It does once the row around it, and not the body itself, was what was damaged, and has been repaired.
        """
        self._alone()
        wanted = self._engine.resolve_node(node)

        def work(tx: Tx) -> Place:
            row, found = self._find(tx, wanted, node)
            body = _found(row, found)
            if body is None:
                raise Tampered(f"node {found.id}", "what was kept of it is purged, or damaged too")
            if not _opens(found, body):
                raise Tampered(f"node {found.id}", "what was kept of it does not open")
            tx.set_bodies("nodes", [(body, row.pos)])
            tx.drop_quarantined(row.pos, row.pos)
            place = tx.node_at(row.pos)
            assert place is not None
            return place

        back = self._engine.node(self._engine.write(work))
        self._tell("restored", (back.id,))
        return back

    def purge(
        self, nodes: str | Iterable[str] | None = None, *, everything: bool = False, dry_run: bool = False
    ) -> Receipt:
        """Destroys what was kept of messages: of these, or with `everything` of all that are in quarantine.

        The messages stay in the tree, and in quarantine, without their bytes. What a hold covers stays, and is a
        failure in the receipt. With `dry_run` nothing is changed, and the receipt says what would be. NotFound, and
        nothing is purged, if a message is not in quarantine.
        """
        if (nodes is None) != bool(everything):
            raise Invalid("a purge takes ids, or everything", hint="Say which.")
        names = [nodes] if isinstance(nodes, str) else list(dict.fromkeys(nodes or ()))
        wanted = [(self._engine.resolve_node(name), name) for name in names]

        def choose(tx: Tx) -> _Items:
            return self._all(tx) if everything else [self._find(tx, id, name) for id, name in wanted]

        receipt, gone = self._destroy(choose, dry_run=dry_run)
        if not dry_run:
            self._tell("purged", gone)
        return receipt

    def on_event(self, listener: Callable[[Event], object]) -> None:
        """Calls `listener` whenever messages are put in quarantine, brought back or purged through this store.

        It is called after the fact, on the thread that did it. What it raises reaches nobody.
        """
        self._listeners = (*self._listeners, listener)

    def _alone(self) -> None:
        if self._engine.backend.in_transaction():
            raise Invalid("this cannot be part of a transaction", hint="Do it before the transaction, or after it.")

    # -- taking out, and destroying

    def _take_out(self, tx: Tx, damaged: Iterable[Body]) -> _Items:
        """Moves the bodies that still do not open; what was deleted or put right meanwhile is passed over."""
        moved: _Items = []
        now = self._engine.clock()
        for one in damaged:
            node = still(tx, self._engine, one)
            if node is not None:
                row = _closed(QuarantineRow(one.at, now, one.why or "", b""), node, _bytes(node._row[BODY]))
                tx.add_quarantined(row)
                tx.set_bodies("nodes", [(b"", row.pos)])
                moved.append((row, node))
        return moved

    def _destroy(self, choose: Callable[[Tx], _Items], *, dry_run: bool = False) -> tuple[Receipt, tuple[str, ...]]:
        """Purges what is kept of what `choose` returns; returns also the ids of what went."""
        gone: tuple[str, ...] = ()

        def work(tx: Tx) -> Loss:
            nonlocal gone
            loss, gone = self._empty(tx, choose(tx))
            return loss

        receipt = self._purger().destroy(work, reason="corruption-detected", dry_run=dry_run)
        return receipt, gone

    def _empty(self, tx: Tx, items: _Items) -> tuple[Loss, tuple[str, ...]]:
        """Destroys what is kept, but for what a hold covers; returns also the ids of what went."""
        gone, failures = list[_Item](), list[Failure]()
        for row, node in items:
            payload = _opened(row, node)
            if payload is not None and kept_parts(payload)[1] is None:
                continue  # it is gone already
            holder = deletion.held_by(self._engine, tx, row.pos)
            if holder is not None:
                why = "it is held" if holder.hold else "its row does not tell whether it is held"
                failures.append(Failure(ids.text(holder.key), f"{why}, and so is node {node.id}"))
                continue
            body = b""
            with suppress(Tampered, *MISTYPED):  # where nothing can be closed any more, nothing is left
                body = _closed(row, node, None).body
            tx.set_bodies("quarantine", [(body, row.pos)])
            gone.append((row, node))
        shown = {one for row, _ in gone for one in deletion.shown_by(tx, row.pos)}
        loss = Loss(len(gone), sum(len(row.body) for row, _ in gone), tuple(failures), tuple(sorted(shown)))
        return loss, _names(gone)

    # -- what is there

    def _all(self, tx: Tx) -> _Items:
        """Everything in quarantine that belongs to this workspace."""
        found: _Items = []
        after = -1
        while rows := tx.quarantined_after(after, BATCH):
            after = rows[-1].pos
            for row in rows:
                place = tx.node_at(row.pos)
                if place is not None and tx.tree_workspace(place.tree) == self._engine.workspace:
                    found.append((row, self._engine.node(place)))
        return found

    def _find(self, tx: Tx, id: bytes, typed: str) -> _Item:
        """What is in quarantine of a message. NotFound."""
        place = tx.node(id)
        row = None if place is None else tx.quarantined(place.row[POS])
        if place is None or row is None or tx.tree_workspace(place.tree) != self._engine.workspace:
            raise NotFound("message in quarantine", typed)
        return row, self._engine.node(place)

    def _shown(self, row: QuarantineRow, node: Node) -> Quarantined:
        body = _found(row, node)
        session = None
        with suppress(Tampered):  # the list is for people who have to deal with damage
            session = self._search.session_of(node)
        name = None if session is None else session.id
        return Quarantined(node.id, name, moment(row.created_at), row.why, len(body or b""), body is not None)

    def _tell(self, kind: Kind, nodes: tuple[str, ...]) -> None:
        """Sees to it that search knows, and tells whoever listens."""
        if not nodes:
            return
        self._search.forget()
        event = Event(kind, moment(self._engine.clock()), nodes)
        for listener in self._listeners:
            with suppress(Exception):
                listener(event)


def _closed(row: QuarantineRow, node: Node, found: bytes | None) -> QuarantineRow:
    """`row` with what was found in it; with None, only with what its row must say."""
    payload = kept_payload(node._context(), found)
    return row._replace(body=node._stretch.box.close(payload, kept_context(row)))


def _opened(row: QuarantineRow, node: Node) -> bytes | None:
    try:
        return node._stretch.box.open(row.body, kept_context(row))
    except MISTYPED:
        return None


def _found(row: QuarantineRow, node: Node) -> bytes | None:
    """The body as it was found; None if it is purged, or cannot be read."""
    payload = _opened(row, node)
    return None if payload is None else kept_parts(payload)[1]


def _opens(node: Node, body: bytes) -> bool:
    try:
        return node._stretch.box.open(body, node._context()) is not None
    except MISTYPED:
        return False


def _bytes(body: object) -> bytes:
    """A body as bytes, also where damage has made something else of it."""
    return body if isinstance(body, bytes) else str(body).encode(errors="surrogateescape")


def _names(items: _Items) -> tuple[str, ...]:
    return tuple(node.id for _, node in items)
