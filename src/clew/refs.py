"""Refs: the only rows that change. A ref names a head in a tree, carries data, and moves by compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from clew import holds, ids
from clew.backends import BODY, ID, MAX_SEQ, POS, Ground, Move, RefRow, Tip, Tx
from clew.engine import Draft, Engine
from clew.envelope import MISTYPED, NO_ID, Box, move_fields, ref_context, ref_fields, ref_owner
from clew.errors import Conflict, NotFound, Tampered, Unavailable
from clew.node import Node, Stretch

BRANCH = "branch"
REMEMBERED = 1024
"""Refs whose place is remembered, so that appending to them needs no look before."""
OWN = bytes(16)
"""Key of a ref that the store keeps for itself: there is one of its kind."""
ALIKE = 200
"""Refs that are looked at when a handle is typed; to tell more apart, type more letters."""


class Appended(msgspec.Struct, frozen=True):
    """What an append did: the nodes, and where the ref stands now if it moved."""

    nodes: list[Node]
    move: Move | None


class Refs:
    """Makes, reads, moves and signs refs. Methods with `tx` are steps of a transaction that the caller runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[bytes, tuple[Tip, Stretch]] = {}
        """Where refs stood when they were last moved here. Whoever goes on there need not look: see `Tx.advance`."""
        self._tops: dict[str, int] = {}
        """The highest rank of each kind, as it was last seen."""

    # -- reading

    def get(self, tx: Tx, kind: str, key: bytes, *, trashed: bool = False) -> RefRow:
        """The ref, checked. NotFound, also if it is in the trash, unless `trashed` allows that."""
        row = tx.ref(self._engine.workspace, kind, key)
        if row is None or (row.trashed_at is not None and not trashed):
            raise NotFound(kind, ids.text(key))
        return self.checked(row)

    def tip(self, tx: Tx, row: RefRow, *, trashed: bool = False) -> Tip:
        """The ref of `row` as it is now, with its head, checked. NotFound as in `get`; Tampered if it is elsewhere."""
        tip = tx.tip(row.ref)
        # The number may be another's by now, if the transaction that made this ref was undone.
        if tip is None or (tip.trashed_at is not None and not trashed) or tip.key != row.key:
            raise NotFound(row.kind, ids.text(row.key))
        try:
            head = -1 if tip.pos is None else tip.pos
            fields = move_fields(row.key, tip.tree, head, tip.id or NO_ID, tip.version, tip.active_at, tip.rank)
        except MISTYPED:
            fields = b""
        if tip.id != tip.head_id or not self._engine.seal.signed(fields, tip.ref_key, tip.mac):
            raise Tampered(f"{row.kind} {ids.text(row.key)}", "its head is not where it should be")
        return tip

    def checked(self, row: RefRow) -> RefRow:
        """`row`, if its signature is right. Tampered."""
        if not self._signed(row):
            row = self._again(row)
            if not self._signed(row):
                raise Tampered(f"{row.kind} {ids.text(row.key)}")
        return row

    def data(self, row: RefRow) -> bytes:
        """The payload of a ref's data. Tampered."""
        payload = self._payload(row)
        if payload is None:
            payload = self._payload(self._again(row))
            if payload is None:
                raise Tampered(f"{row.kind} {ids.text(row.key)}")
        return payload

    def _signed(self, row: RefRow) -> bool:
        try:
            return self._engine.seal.signed(ref_fields(row), row.wrapped_key, row.mac)
        except MISTYPED:
            return False

    def _payload(self, row: RefRow) -> bytes | None:
        try:
            return self.box(row).open(row.data, ref_context(row))
        except MISTYPED:
            return None

    def _again(self, row: RefRow) -> RefRow:
        """The row as it is now, if the keys were exchanged since it was read; else the same."""
        self._engine.reload()
        now = self._engine.read(lambda tx: tx.ref_at(row.ref), single=True)
        return row if now is None or now.key != row.key or now.wrapped_key == row.wrapped_key else now

    def box(self, row: RefRow) -> Box:
        """Opens and closes the ref's data and its log."""
        return self._engine.seal.box(row.wrapped_key, ref_owner(row.key))

    def resolve(self, kind: str, typed: str, *, trashed: bool = False) -> bytes:
        """The key that a full id or a handle means, among the refs in the trash or the others. NotFound, Ambiguous."""
        exact = ids.maybe(typed)
        if exact is not None:
            return exact
        workspace = self._engine.workspace

        def keys(tx: Tx, low: bytes, high: bytes) -> list[bytes]:
            rows = [tx.ref(workspace, kind, key) for key in tx.keys_between(workspace, kind, low, high, ALIKE)]
            return [row.key for row in rows if row is not None and (row.trashed_at is not None) == trashed]

        return ids.pick(kind, typed, lambda low, high: self._engine.read(lambda tx: keys(tx, low, high)))

    def own(self, tx: Tx, kind: str) -> RefRow | None:
        """The one ref of a kind that the store keeps for itself, if there is one."""
        return tx.ref(self._engine.workspace, kind, OWN)

    def handle(self, row: RefRow) -> str:
        """The shortest handle that means this ref alone among its kind."""
        return ids.handle_beside(row.key, self._engine.read(lambda tx: tx.key_beside(row.workspace, row.kind, row.key)))

    # -- writing

    def add(
        self,
        tx: Tx,
        kind: str,
        key: bytes,
        payload: bytes,
        *,
        tree: int | None,
        at: Ground | None,
        owner: int | None = None,
        look: bytes | None = None,
        created_at: int | None = None,
    ) -> RefRow:
        """A new ref, signed; at the top of its kind even if the clock stepped back. Conflict if the key is taken.

        It was created now, unless another time is given.
        """
        engine = self._engine
        now = engine.clock()
        rank = max(now, tx.top_rank(engine.workspace, kind) + 1)
        head, head_id = (None, None) if at is None else (at.pos, at.id)
        box, wrapped = engine.seal.new_box(ref_owner(key))
        row = RefRow(
            0, engine.workspace, kind, key, owner, tree, head, head_id, 1,
            now if created_at is None else created_at, now, rank,
            None, None, 0, look, wrapped, b"", b"",
        )  # fmt: skip
        data = box.close(payload, ref_context(row))
        row = row._replace(mac=engine.seal.sign(ref_fields(row), wrapped), data=data)
        return row._replace(ref=tx.add_ref(row))

    def add_own(self, tx: Tx, kind: str) -> RefRow:
        """`own`, made if it is not there."""
        return self.own(tx, kind) or self.add(tx, kind, OWN, b"\x01{}", tree=None, at=None)

    def move(self, tx: Tx, ref: int, tip: Tip, head: int | None, head_id: bytes | None) -> Move:
        """Points the ref elsewhere, signed and stored; it goes to the top of its kind. Conflict if it was changed."""
        now = self._engine.clock()
        up = tip.rank < tip.top
        version, rank = tip.version + 1, max(now, tip.top + 1) if up else tip.rank
        at = -1 if head is None else head
        fields = move_fields(tip.key, tip.tree, at, head_id or NO_ID, version, now, rank)
        mac = self._engine.seal.sign(fields, tip.ref_key)
        move = Move(head, head_id, version, now, rank, mac)
        tx.move_ref(ref, move, up=up)
        return move

    def change(self, tx: Tx, row: RefRow, payload: bytes, *, look: bytes | None, **columns: Any) -> RefRow:
        """The ref with other data and columns, signed and stored; not an activity. Conflict if it was changed."""
        row = keyed(self._engine, tx, row)
        changed = row._replace(version=row.version + 1, look=look, **columns)
        mac = self._engine.seal.sign(ref_fields(changed), row.wrapped_key)
        changed = changed._replace(mac=mac, data=self.box(row).close(payload, ref_context(changed)))
        tx.set_ref(changed)
        if changed.hold != row.hold:
            holds.note(self._engine, tx, changed)
        return changed

    def write_one(self, work: Callable[[Tx], RefRow]) -> RefRow:
        """Runs `work`, which adds or changes a ref and returns it. If the commit fails, that tells if it was kept."""
        return self._engine.write_settled(work, self.stands)

    def stands(self, tx: Tx, left: RefRow) -> bool:
        """After a commit that may have failed: True if the ref is as it was left, False if it never came to that.

        Unavailable if it was changed since, by whomever: then nobody can say.
        """
        now = tx.ref(left.workspace, left.kind, left.key)
        if now is None or now.version < left.version:
            return False
        if (now.version, now.mac, now.data) != (left.version, left.mac, left.data):
            raise Unavailable(f"{left.kind} {ids.text(left.key)} was changed meanwhile", hint="Read it again.")
        return True

    def branch(self, tx: Tx, owner: int, at: Ground) -> RefRow:
        """Keeps what a ref leaves behind within reach: an owned ref at the ground's node."""
        return self.add(tx, BRANCH, self._engine.new_id(), b"\x01{}", tree=at.tree, at=at, owner=owner)

    def append(
        self,
        row: RefRow,
        drafts: Sequence[Draft],
        *,
        expect: bytes | Literal[False] | None = False,
        branch: bool = False,
    ) -> Appended:
        """Stores `drafts` after the head and moves it; one transaction, durable when this returns.

        Tampered if the head is damaged: see `ensure_sound_head`. With `expect`, only if that is the head: else
        Conflict, or with `branch` the drafts become a branch there. Drafts that are stored already are returned as
        they are, and nothing moves.
        """
        engine = self._engine

        def work(tx: Tx) -> Appended:
            seen = self._seen.get(row.key)
            if seen is not None and (expect is False or expect == seen[0].id):
                ahead = self._ahead(tx, row, *seen, drafts)
                if ahead is not None:
                    return ahead
            tip = self.tip(tx, row)
            if expect is not False and tip.id != expect:
                stored = engine.known(tx, drafts, tip.tree)
                if stored is not None:
                    return Appended(stored, None)
                if not branch:
                    raise self.moved(row)
                return self._aside(tx, row, expect, drafts)
            nodes = engine.grow(tx, tip.ground, drafts)
            last = nodes[-1]._row
            move = self.move(tx, row.ref, tip, last[POS], last[ID])
            self._remember(row.kind, tip, move, nodes[-1])
            return Appended(nodes, move)

        if row.key not in self._seen:
            self.ensure_sound_head(row)
        try:
            return engine.write(work, lambda tx: self.appended(tx, row, drafts))
        except Conflict:
            # Only now, when what the attempt had begun is undone: it must not count as stored.
            stored = engine.read(lambda tx: engine.known(tx, drafts, row.tree))
            if stored is None:
                raise
            return Appended(stored, None)

    def ensure_sound_head(self, row: RefRow) -> None:
        """Tampered if the message at the head is damaged, and not in quarantine.

        What follows it takes over its totals and its depth: damage there would be signed as sound.
        """

        def work(tx: Tx) -> None:
            tip = tx.tip(row.ref)
            self.ensure_sound(tx, None if tip is None else tip.pos)

        self._engine.read(work)

    def ensure_sound(self, tx: Tx, pos: int | None) -> None:
        """`ensure_sound_head` for the message at a position, wherever something is to follow it."""
        place = None if pos is None else tx.node_at(pos)
        if place is not None and not (place.row[BODY] == b"" and tx.quarantined(place.row[POS])):
            self._engine.node(place)._payload()

    def appended(self, tx: Tx, row: RefRow, drafts: Sequence[Draft]) -> Appended | None:
        """After a commit that may have failed: what became of `drafts`, None if they are not stored."""
        stored = self._engine.known(tx, drafts, row.tree)
        return None if stored is None else Appended(stored, None)

    def _remember(self, kind: str, tip: Tip, move: Move, last: Node) -> None:
        """Takes note that a ref was moved to a node that nothing follows yet: it is at the top of its kind."""
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        pos, facts, id, _ = last._row
        tree, depth, carried, wrapped, _ = stretch = last._stretch
        _, _, version, active_at, rank, mac = move
        now = Tip._make((  # a third of what naming the fields costs, and every append does it
            tip.epoch, tip.key, version, active_at, rank, None, mac, id, tip.ref_key, rank,
            tree, pos, id, depth, carried, facts, 1, wrapped,
        ))  # fmt: skip
        self._seen[tip.key] = now, stretch
        self._tops[kind] = rank

    def _ahead(self, tx: Tx, row: RefRow, seen: Tip, stretch: Stretch, drafts: Sequence[Draft]) -> Appended | None:
        """The append for a ref that still stands where it was left; None, and nothing is done, if it does not."""
        assert seen.pos is not None
        engine, top = self._engine, self._tops[row.kind]
        # The chain must go on in its run: there is room, and the run is kept in the way that new things are.
        if (seen.pos & MAX_SEQ) + len(drafts) > MAX_SEQ or not engine.kept_so(seen.wrapped_key):
            return None
        pos, id, version, now = seen.pos + len(drafts), drafts[-1].id, seen.version + 1, engine.clock()
        rank = seen.rank if seen.rank == top else max(now, top + 1)
        mac = engine.seal.sign(move_fields(seen.key, seen.tree, pos, id, version, now, rank), seen.ref_key)
        move = Move(pos, id, version, now, rank, mac)
        if not tx.advance(row.ref, seen, move, top):
            return None
        nodes = engine.lay(tx, stretch, seen.pos + 1, seen.id, seen.facts, drafts)
        self._remember(row.kind, seen, move, nodes[-1])
        return Appended(nodes, move)

    def moved(self, row: RefRow) -> Conflict:
        """The error that says someone else has moved the head."""
        return Conflict(f"the head of {row.kind} {ids.text(row.key)} has moved", hint="Read what came, then try again.")

    def _aside(self, tx: Tx, ref: RefRow, expect: bytes | None, drafts: Sequence[Draft]) -> Appended:
        """The head had moved: the drafts go where the caller thought it was, with a branch of their own."""
        assert ref.tree is not None
        ground = Ground(ref.tree) if expect is None else tx.ground(expect)
        if ground is None or ground.tree != ref.tree:
            raise NotFound("node", ids.text(expect or b""))
        self.ensure_sound(tx, ground.pos)
        nodes = self._engine.grow(tx, ground, drafts)
        last = Ground(ground.tree, nodes[-1]._row[POS], nodes[-1]._row[ID])
        self.branch(tx, ref.ref, last)
        return Appended(nodes, None)


def keyed(engine: Engine, tx: Tx, row: RefRow) -> RefRow:
    """The ref, to be written to. While a store is being sealed it gets its data key now: nothing new is in clear.

    Else somebody who puts a store back into that state, with a ref that has no key, would read it. Tampered.
    """
    if row.wrapped_key is not None or not engine.keyed:
        return row
    refs = Refs(engine)
    payload = refs.data(refs.checked(row))
    box, wrapped = engine.seal.new_box(ref_owner(row.key))
    mac = engine.seal.sign(ref_fields(row), wrapped)
    row = row._replace(wrapped_key=wrapped, mac=mac, data=box.close(payload, ref_context(row)))
    tx.rekey_ref(row)
    return row


def expiry(row: RefRow) -> int | None:
    """When a ref expires by a retention of its own; None if it has none. It may count from the last activity."""
    at = row.expires_at
    if not isinstance(at, int) or at >= 0:
        return at if isinstance(at, int) else None  # a damaged one is listed: reading it tells
    return row.active_at - at
