"""Finds damaged bodies. Quarantine: damaged messages are moved out of the live store, and kept until they are purged.

Reading a damaged message raises, and changes nothing. A sweep reads every body. A body that does not open is read again
through a new connection, and counts as damaged only if it fails there too; the key is right, because it opened the
store's secrets. Only the body moves: its row stays, so that the tree, the ids and the totals stay complete. Damaged
session data, log entries and pieces of blobs are reported and stay until their session is deleted. A session whose own
data is damaged can be purged with a reason that says so: see `clew.upkeep.purge.DAMAGED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple

from clew.backends import BODY, MAX_SEQ, POS, SEQ_BITS, NodeLocation, QuarantineRow, RefRow, Tx
from clew.base import ids
from clew.engine import deletion, paths
from clew.engine.engine import Engine
from clew.engine.node import Node, body_context, moment, node_row, run_info
from clew.engine.receipts import Failure, Receipt
from clew.engine.sealing.envelope import (
    MISTYPED,
    NO_BOX,
    Box,
    blob_owner,
    chunk_context,
    log_context,
    quarantine_context,
    quarantine_parts,
    quarantine_payload,
    ref_context,
    ref_owner,
)
from clew.errors import Conflict, Corrupted, Invalid, NotFound
from clew.upkeep.purge import DestroyedBodies, Purger

BATCH = 200
_FEW = 8  # pieces of blobs are large
_CHECKSUM = "its checksum does not match"
_NO_KEY = "its data key is damaged"
_ODD = "a column of its row has a value of the wrong kind"

Progress = Callable[[int, int], None]
"""Called with the number of bodies read, and the total."""


class Body(NamedTuple):
    """A body that was read."""

    at: int
    """Its number in its table."""
    where: str
    """What it belongs to."""
    why: str | None
    """What is wrong with it; None if it opens."""
    node: Node | None = None
    """Its message, if it has one whose other columns are intact."""


_Walk = Callable[..., list[Body]]


def find_damaged(engine: Engine, progress: Progress | None = None) -> tuple[int, list[Body]]:
    """The number of bodies, and those that did not open twice."""
    sizes = engine.read(lambda tx: tx.maintenance.sizes())
    total = sum(sizes[table] for table in ("nodes", "refs", "log", "chunks"))
    done, found = 0, list[Body]()
    for walk, limit in _WALKS:
        after = -1
        # Not `read`: damage may have turned a body into invalid text.
        while page := engine.backend.read_fresh(partial(walk, engine=engine, after=after, limit=limit)):
            found += [again for one in page if one.why is not None for again in _read_again(engine, walk, one)]
            after, done = page[-1].at, done + len(page)
            if progress is not None:
                progress(min(done, total), total)
    return done, found


def still_damaged(tx: Tx, engine: Engine, one: Body) -> Node | None:
    """The message of a damaged body, if it still does not open and its row is intact."""
    return next((now.node for now in nodes(tx, engine=engine, after=one.at - 1, limit=1) if now.at == one.at), None)


def _read_again(engine: Engine, walk: _Walk, one: Body) -> Sequence[Body]:
    """Reads a body a second time; empty if it opens."""
    look = partial(walk, engine=engine, after=one.at - 1, limit=1)
    return [now for now in engine.backend.read_fresh(look) if now.at == one.at and now.why is not None]


# -- each function reads the bodies of one table after a number, in order


def nodes(tx: Tx, *, engine: Engine, after: int, limit: int) -> list[Body]:
    """Messages. A message in quarantine is not damaged."""
    found = []
    for place in tx.maintenance.places_after(after, limit):
        at, node = place.row[POS], None
        name = f"message {at & MAX_SEQ} of run {at >> SEQ_BITS}"
        try:
            node = engine.node(place)
            name = f"node {node.id}"
            why = _wrong(run_info(node).box, place.row[BODY], body_context(node))
        except (*MISTYPED, AttributeError, ValueError):
            node, why = None, _ODD
        if why is not None and tx.maintenance.quarantine_row(at) is not None:
            node, why = None, None if place.row[BODY] == b"" else "it is in quarantine, and has a body"
        elif why == _NO_KEY:  # the run is damaged, not the body
            node, name = None, f"run {at >> SEQ_BITS}"
        found.append(Body(at, name, why, node if why is not None else None))
    return found


def _refs(tx: Tx, *, engine: Engine, after: int, limit: int) -> list[Body]:
    found = []
    for row in tx.refs_after(after, limit):
        why: str | None = _ODD
        with suppress(*MISTYPED, AttributeError):
            why = _wrong(engine.seal.box(row.wrapped_key, ref_owner(row.key)), row.data, ref_context(row))
        found.append(Body(row.ref, f"the data of {_name(row)}", why))
    return found


def _log(tx: Tx, *, engine: Engine, after: int, limit: int) -> list[Body]:
    found = []
    for row in tx.maintenance.log_after(after, limit):
        ref = tx.ref_at(row.pos >> SEQ_BITS)
        why: str | None = "there is no such ref" if ref is None else _ODD
        if ref is not None:
            with suppress(*MISTYPED):
                box = engine.seal.box(ref.wrapped_key, ref_owner(ref.key))
                why = _wrong(box, row.body, log_context(row.pos, row.created_at, row.id))
        name = f"ref {row.pos >> SEQ_BITS}" if ref is None else _name(ref)
        found.append(Body(row.pos, f"log entry {row.pos & MAX_SEQ} of {name}", why))
    return found


def _chunks(tx: Tx, *, engine: Engine, after: int, limit: int) -> list[Body]:
    found = []
    for pos, body in tx.maintenance.chunks_after(after, limit):
        blob = tx.blobs.blob_by_number(pos >> SEQ_BITS)
        why: str | None = "there is no such blob" if blob is None else _ODD
        if blob is not None:
            with suppress(*MISTYPED):
                box = engine.seal.box(blob.wrapped_key, blob_owner(blob.tree, blob.blob))
                why = _wrong(box, body, chunk_context(pos))
        found.append(Body(pos, f"piece {pos & MAX_SEQ} of blob {pos >> SEQ_BITS}", why))
    return found


_WALKS: tuple[tuple[_Walk, int], ...] = ((nodes, BATCH), (_refs, BATCH), (_log, BATCH), (_chunks, _FEW))


def _wrong(box: Box, body: bytes, context: bytes) -> str | None:
    """Why a body does not open; None if it does."""
    if box is NO_BOX:
        return _NO_KEY
    try:
        return None if box.open(body, context) is not None else _CHECKSUM
    except MISTYPED:
        return _CHECKSUM


def _name(row: RefRow) -> str:
    known = isinstance(row.key, bytes) and len(row.key) == 16
    return f"{row.kind} {ids.text(row.key)}" if known else f"ref {row.ref}"


MOST = 3
"""Bodies that a sweep moves without `force`. More point to a cause that still exists."""
SHARE = 100
"""A sweep without `force` also moves at most one body in this many."""

Kind = Literal["quarantined", "restored", "purged"]


class Event(NamedTuple):
    """A change to messages in quarantine, without content."""

    kind: Kind
    at: datetime
    nodes: tuple[str, ...]


class Quarantined(NamedTuple):
    """A message in quarantine."""

    node: str
    """Its id."""
    session: str | None
    """The id of a session that has it, if there is one."""
    at: datetime
    """When it was moved to quarantine."""
    why: str
    bytes: int
    """Size of the damaged body; 0 once it is purged."""
    kept: bool
    """False once the body is purged."""


QuarantinedList = list[Quarantined]


class Left(NamedTuple):
    """Damage that was not moved to quarantine."""

    where: str
    why: str


class Swept(NamedTuple):
    """The result of a sweep."""

    bodies: int
    """Number of bodies read."""
    moved: tuple[str, ...]
    """Ids of the messages moved to quarantine."""
    left: tuple[Left, ...]
    """Damage that stays in place."""
    receipt: Receipt | None
    """Receipt of the bodies purged at once."""


_Item = tuple[QuarantineRow, Node]
_Items = list[_Item]


class Quarantine:
    """The damaged messages of a store."""

    def __init__(self, engine: Engine, purger: Purger, session_of: Callable[[Node], str | None]) -> None:
        self._engine = engine
        self._purger = purger
        self._session_of = session_of
        self._listeners: Sequence[Callable[[Event], object]] = ()

    def sweep(
        self, *, force: bool = False, strict: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> Swept:
        """Reads every body, and puts each message whose body does not open in quarantine: all of them, or none.

        Conflict, and nothing moves, if more than three bodies or more than one in a hundred are damaged, unless `force`
        is given. An error while reading ends the sweep, and nothing moves. With `strict` the damaged bytes are purged
        at once, with a receipt, unless a hold covers them. With `dry_run` nothing moves, and the result says what
        would.
        """
        self._refuse_transaction()
        engine = self._engine
        engine.read(engine.renew)  # raises unless the key is the store's
        bodies, damaged = find_damaged(engine, progress)
        if not force and (len(damaged) > MOST or len(damaged) * SHARE > bodies):
            raise Conflict(
                f"{len(damaged)} of {bodies} stored bodies are damaged, which suggests a cause that still exists, such"
                " as a failing disk; nothing was moved",
                hint="Check the disk and your backups, then sweep with force.",
            )
        left = tuple(dict.fromkeys(Left(one.where, one.why or "") for one in damaged if one.node is None))
        moved = tuple(one.node.id for one in damaged if one.node is not None)
        if dry_run or not moved:
            return Swept(bodies, moved, left, None)

        def take(tx: Tx) -> _Items:
            nonlocal moved
            items = self._take_out(tx, damaged)
            moved = _node_ids(items)
            return items

        receipt, gone = self._destroy(take) if strict else (None, ())
        if not strict:
            engine.write(take)
        self._notify("quarantined", moved)
        self._notify("purged", gone)
        return Swept(bodies, moved, left, receipt)

    def list(self) -> QuarantinedList:
        """The messages in quarantine, in the order of the store."""
        found = self._engine.read(self._list_rows)
        return [self._describe(row, node) for row, node in found]

    def affects(self, node: str) -> bool:
        """True if a message, or one before it on its path, is in quarantine. NotFound, Ambiguous."""
        wanted = self._engine.resolve_node(node)

        def work(tx: Tx) -> bool:
            if not tx.maintenance.quarantined_after(-1, 1):
                return False
            point = tx.insert_point(wanted)
            if point is None or point.pos is None:
                raise NotFound("node", node)
            runs = ((run.run << SEQ_BITS, upto) for run, upto in paths.lineage(tx, point.pos))
            after = ((tx.maintenance.quarantined_after(low - 1, 1), low | upto) for low, upto in runs)
            return any(found and found[0].pos <= high for found, high in after)

        return self._engine.read(work)

    def restore(self, node: str) -> Node:
        """Restores a message, if its body opens now. Corrupted, and nothing changes, if it does not.

        A body opens again if only other columns of its row were damaged, and have been repaired.
        """
        self._refuse_transaction()
        wanted = self._engine.resolve_node(node)

        def work(tx: Tx) -> NodeLocation:
            row, found = self._find(tx, wanted, node)
            body = _damaged_body(row, found)
            if body is None:
                raise Corrupted(f"node {found.id}", "its quarantined body is purged or damaged")
            if not _opens(found, body):
                raise Corrupted(f"node {found.id}", "its quarantined body does not open")
            tx.maintenance.set_bodies("nodes", [(body, row.pos)])
            tx.maintenance.drop_quarantined(row.pos, row.pos)
            place = tx.node_at(row.pos)
            assert place is not None
            return place

        back = self._engine.node(self._engine.write(work))
        self._notify("restored", (back.id,))
        return back

    def purge(
        self, nodes: str | Iterable[str] | None = None, *, everything: bool = False, dry_run: bool = False
    ) -> Receipt:
        """Destroys the bodies of these messages, or with `everything` of all messages in quarantine.

        The messages stay in the tree, and in quarantine, without their bodies. A body that a hold covers stays, and is
        a failure in the receipt. With `dry_run` nothing changes, and the receipt says what would. NotFound, and nothing
        is purged, if a message is not in quarantine.
        """
        if (nodes is None) != bool(everything):
            raise Invalid("a purge needs either ids or everything=True", hint="Pass one of them.")
        names = [nodes] if isinstance(nodes, str) else list(dict.fromkeys(nodes or ()))
        wanted = [(self._engine.resolve_node(name), name) for name in names]

        def choose(tx: Tx) -> _Items:
            return self._list_rows(tx) if everything else [self._find(tx, id, name) for id, name in wanted]

        receipt, gone = self._destroy(choose, dry_run=dry_run)
        if not dry_run:
            self._notify("purged", gone)
        return receipt

    def on_event(self, listener: Callable[[Event], object]) -> None:
        """Calls `listener` after messages are quarantined, restored or purged through this store.

        The call runs on the thread that made the change. Exceptions of the listener are ignored.
        """
        self._listeners = (*self._listeners, listener)

    def _refuse_transaction(self) -> None:
        if self._engine.backend.in_transaction():
            raise Invalid(
                "the quarantine cannot be changed inside a transaction", hint="Do it before or after the transaction."
            )

    # -- taking out, and destroying

    def _take_out(self, tx: Tx, damaged: Iterable[Body]) -> _Items:
        """Moves the bodies that still do not open; skips those deleted or repaired meanwhile."""
        moved: _Items = []
        now = self._engine.clock()
        for one in damaged:
            node = still_damaged(tx, self._engine, one)
            if node is not None:
                row = _encrypt(QuarantineRow(one.at, now, one.why or "", b""), node, _bytes(node_row(node)[BODY]))
                tx.maintenance.add_quarantined(row)
                tx.maintenance.set_bodies("nodes", [(b"", row.pos)])
                moved.append((row, node))
        return moved

    def _destroy(self, choose: Callable[[Tx], _Items], *, dry_run: bool = False) -> tuple[Receipt, tuple[str, ...]]:
        """Purges the bodies of the messages that `choose` returns. Returns the receipt and the purged ids."""
        gone: tuple[str, ...] = ()

        def work(tx: Tx) -> DestroyedBodies:
            nonlocal gone
            loss, gone = self._empty(tx, choose(tx))
            return loss

        receipt = self._purger.destroy(work, reason="corruption-detected", dry_run=dry_run)
        return receipt, gone

    def _empty(self, tx: Tx, items: _Items) -> tuple[DestroyedBodies, tuple[str, ...]]:
        """Destroys bodies, except held ones. Returns the loss and the ids."""
        gone, failures = list[_Item](), list[Failure]()
        for row, node in items:
            payload = _decrypt(row, node)
            if payload is not None and quarantine_parts(payload)[1] is None:
                continue  # already purged
            holder = deletion.held_by(self._engine, tx, row.pos)
            if holder is not None:
                why = "it is held" if holder.hold else "its row does not show whether it is held"
                failures.append(Failure(ids.text(holder.key), f"{why}, and so is node {node.id}"))
                continue
            body = b""
            with suppress(Corrupted, *MISTYPED):  # if nothing can be encrypted any more, store nothing
                body = _encrypt(row, node, None).body
            tx.maintenance.set_bodies("quarantine", [(body, row.pos)])
            gone.append((row, node))
        shown = {one for row, _ in gone for one in deletion.shown_by(tx, row.pos)}
        loss = DestroyedBodies(len(gone), sum(len(row.body) for row, _ in gone), tuple(failures), tuple(sorted(shown)))
        return loss, _node_ids(gone)

    # -- listing

    def _list_rows(self, tx: Tx) -> _Items:
        """All messages of this workspace in quarantine."""
        found: _Items = []
        after = -1
        while rows := tx.maintenance.quarantined_after(after, BATCH):
            after = rows[-1].pos
            for row in rows:
                place = tx.node_at(row.pos)
                if place is not None and tx.tree_workspace(place.tree) == self._engine.workspace:
                    found.append((row, self._engine.node(place)))
        return found

    def _find(self, tx: Tx, id: bytes, typed: str) -> _Item:
        """A message in quarantine. NotFound."""
        place = tx.node(id)
        row = None if place is None else tx.maintenance.quarantine_row(place.row[POS])
        if place is None or row is None or tx.tree_workspace(place.tree) != self._engine.workspace:
            raise NotFound("message in quarantine", typed)
        return row, self._engine.node(place)

    def _describe(self, row: QuarantineRow, node: Node) -> Quarantined:
        body = _damaged_body(row, node)
        session = None
        with suppress(Corrupted):  # the list must work on damaged stores
            session = self._session_of(node)
        return Quarantined(node.id, session, moment(row.created_at), row.why, len(body or b""), body is not None)

    def _notify(self, kind: Kind, nodes: tuple[str, ...]) -> None:
        """Updates search and calls the listeners."""
        if not nodes:
            return
        if kind == "restored":
            self._purger.index().remove()  # the index does not expect old messages to appear
        else:
            self._purger.index().shred()
        event = Event(kind, moment(self._engine.clock()), nodes)
        for listener in self._listeners:
            with suppress(Exception):
                listener(event)


def _encrypt(row: QuarantineRow, node: Node, found: bytes | None) -> QuarantineRow:
    """`row` with a body that holds the context of the message, and the damaged bytes unless they are None."""
    payload = quarantine_payload(body_context(node), found)
    return row._replace(body=run_info(node).box.close(payload, quarantine_context(row)))


def _decrypt(row: QuarantineRow, node: Node) -> bytes | None:
    try:
        return run_info(node).box.open(row.body, quarantine_context(row))
    except MISTYPED:
        return None


def _damaged_body(row: QuarantineRow, node: Node) -> bytes | None:
    """The damaged body; None if it is purged, or cannot be read."""
    payload = _decrypt(row, node)
    return None if payload is None else quarantine_parts(payload)[1]


def _opens(node: Node, body: bytes) -> bool:
    try:
        return run_info(node).box.open(body, body_context(node)) is not None
    except MISTYPED:
        return False


def _bytes(body: object) -> bytes:
    """A body as bytes, also if damage has changed its type."""
    return body if isinstance(body, bytes) else str(body).encode(errors="surrogateescape")


def _node_ids(items: _Items) -> tuple[str, ...]:
    return tuple(node.id for _, node in items)
