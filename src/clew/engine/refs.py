"""Refs: the only rows that change. A ref names a head in a tree, carries data, and moves by compare-and-swap.

`Session.append` calls `Refs.append`, which stores messages after the head and moves it.

The list of holds is here too. A ref's row says whether it is held, but an attacker could restore an earlier row. So the
secrets of a sealed store list the held refs too, and every hold and release starts a new epoch. To undo a hold without
the key, an attacker has to restore the row, the secrets and the epoch row together: a rollback, which `verify` detects
with a head stored elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from clew.backends import BODY, FACTS, ID, MAX_SEQ, POS, SEQ_BITS, HeadState, InsertPoint, Move, RefRow, Tx
from clew.base import ids
from clew.base.loading import loading
from clew.engine import paths
from clew.engine.append import Appended, RememberedHeads, append_chain, find_existing
from clew.engine.engine import Draft, Engine
from clew.engine.node import node_payload, node_row, run_info
from clew.engine.sealing.envelope import MISTYPED, NO_ID, Box, move_fields, ref_context, ref_fields, ref_owner
from clew.errors import Conflict, Corrupted, NotFound, Unavailable

BRANCH = "branch"
SAME_TIME = 1000
"""Microseconds: refs whose last activities are closer than this are in any order."""
OWN = bytes(16)
"""Key of a ref for the store's own data: one for each kind."""
_LAST = (1 << 63) - 1
ALIKE = 200
"""Refs compared when resolving a handle. If more match, the user has to type more letters."""


class Refs:
    """Makes, reads, moves and signs refs. Methods with `tx` are steps of a transaction that the caller runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._remembered = RememberedHeads(engine)

    # -- reading

    def get(self, tx: Tx, kind: str, key: bytes, *, trashed: bool = False) -> RefRow:
        """The ref, verified. NotFound, also if it is in the trash and `trashed` is False."""
        row = tx.ref(self._engine.workspace, kind, key)
        if row is None or (row.trashed_at is not None and not trashed):
            raise NotFound(kind, ids.text(key))
        return self.verify(row)

    def head_state(self, tx: Tx, row: RefRow, *, trashed: bool = False) -> HeadState:
        """The current head state of a ref, verified. NotFound as in `get`; Corrupted if the head is wrong."""
        state = tx.head_state(row.ref)
        # If the transaction that created this ref was rolled back, another ref may have its number.
        if state is None or (state.trashed_at is not None and not trashed) or state.key != row.key:
            raise NotFound(row.kind, ids.text(row.key))
        try:
            head = -1 if state.pos is None else state.pos
            fields = move_fields(
                row.key, state.tree, head, state.id or NO_ID, state.version, state.active_at, state.rank
            )
        except MISTYPED:
            fields = b""
        if state.id != state.head_id or not self._engine.seal.is_signed(fields, state.ref_key, state.mac):
            raise Corrupted(f"{row.kind} {ids.text(row.key)}", "its head is not where it should be")
        return state

    def verify(self, row: RefRow) -> RefRow:
        """`row`, if its signature is valid. Corrupted."""
        if not self._is_signed(row):
            row = self._reread(row)
            if not self._is_signed(row):
                raise Corrupted(f"{row.kind} {ids.text(row.key)}")
        return row

    def data(self, row: RefRow) -> bytes:
        """The payload of a ref's data. Corrupted."""
        payload = self._payload(row)
        if payload is None:
            payload = self._payload(self._reread(row))
            if payload is None:
                raise Corrupted(f"{row.kind} {ids.text(row.key)}")
        return payload

    def _is_signed(self, row: RefRow) -> bool:
        try:
            return self._engine.seal.is_signed(ref_fields(row), row.wrapped_key, row.mac)
        except MISTYPED:
            return False

    def _payload(self, row: RefRow) -> bytes | None:
        try:
            return self._engine.seal.box(row.wrapped_key, ref_owner(row.key)).open(row.data, ref_context(row))
        except MISTYPED:
            return None

    def _reread(self, row: RefRow) -> RefRow:
        """The current row if its data key changed since it was read; otherwise the same row."""
        self._engine.reload()
        now = self._engine.read(lambda tx: tx.ref_at(row.ref), single=True)
        return row if now is None or now.key != row.key or now.wrapped_key == row.wrapped_key else now

    def box(self, row: RefRow) -> Box:
        """Opens and closes the ref's data and its log."""
        return self._engine.seal.box(row.wrapped_key, ref_owner(row.key))

    def resolve(self, kind: str, typed: str, *, trashed: bool = False) -> bytes:
        """The key for a full id or a handle, among the refs in the trash or outside it. NotFound, Ambiguous."""
        exact = ids.maybe(typed)
        if exact is not None:
            return exact
        workspace = self._engine.workspace

        def keys(tx: Tx, low: bytes, high: bytes) -> list[bytes]:
            rows = [tx.ref(workspace, kind, key) for key in tx.keys_between(workspace, kind, low, high, ALIKE)]
            return [row.key for row in rows if row is not None and (row.trashed_at is not None) == trashed]

        return ids.pick(kind, typed, lambda low, high: self._engine.read(lambda tx: keys(tx, low, high)))

    def own(self, tx: Tx, kind: str) -> RefRow | None:
        """The store's own ref of a kind, if there is one."""
        return tx.ref(self._engine.workspace, kind, OWN)

    def handle(self, row: RefRow) -> str:
        """The shortest handle that is unique among the refs of this kind."""
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
        at: InsertPoint | None,
        owner: int | None = None,
        look: bytes | None = None,
        created_at: int | None = None,
        active_at: int | None = None,
    ) -> RefRow:
        """Adds a signed ref at the top of its kind, even if the clock stepped back. Conflict if the key is taken.

        With `active_at`, the time of its last activity, it is added behind the refs that were active later.
        `created_at` defaults to `active_at` if that is in the past, else to now. NotFound if `at` is not in this
        workspace.
        """
        if at is not None and tx.tree_workspace(at.tree) != self._engine.workspace:
            raise NotFound("node", ids.text(at.id or NO_ID))
        engine = self._engine
        now = engine.clock()
        top = tx.top_rank(engine.workspace, kind)
        if active_at is None or active_at >= now:
            rank = max(now, top + 1)
        else:
            now, rank = active_at, self.past_rank(tx, kind, active_at, top)
        head, head_id = (None, None) if at is None else (at.pos, at.id)
        row = RefRow(
            0, engine.workspace, kind, key, owner, tree, head, head_id, 1,
            now if created_at is None else created_at, now, rank,
            None, None, 0, look, None, b"", b"",
        )  # fmt: skip
        self._remembered.note_rank(kind, rank)
        return self.add_row(tx, row, payload)

    def add_row(self, tx: Tx, row: RefRow, payload: bytes) -> RefRow:
        """Adds a ref with the columns of `row`, under a data key and a signature of its own. Conflict as in `add`."""
        box, wrapped = self._engine.seal.new_box(ref_owner(row.key))
        row = row._replace(wrapped_key=wrapped)
        data = box.close(payload, ref_context(row))
        row = row._replace(mac=self._engine.seal.sign(ref_fields(row), wrapped), data=data)
        row = row._replace(ref=tx.add_ref(row))
        if row.hold:
            note_hold(self._engine, tx, row)
        return row

    def add_own(self, tx: Tx, kind: str) -> RefRow:
        """`own`, created if it does not exist."""
        return self.own(tx, kind) or self.add(tx, kind, OWN, b"\x01{}", tree=None, at=None)

    def move(self, tx: Tx, row: RefRow, state: HeadState, head: int | None, head_id: bytes | None) -> Move:
        """Moves the head of a ref, and the ref to the top of its kind. Conflict if it was changed."""
        now = self._engine.clock()
        up = state.rank < state.top
        return self._move(tx, row, state, head, head_id, now, max(now, state.top + 1) if up else state.rank)

    def move_past(
        self, tx: Tx, row: RefRow, state: HeadState, head: int | None, head_id: bytes | None, active_at: int
    ) -> Move:
        """`move` for an activity in the past: the ref moves only before the refs that were active earlier."""
        if active_at >= self._engine.clock():
            return self.move(tx, row, state, head, head_id)
        later = active_at > state.active_at
        rank = self.past_rank(tx, row.kind, active_at, state.top) if later else state.rank
        return self._move(tx, row, state, head, head_id, max(active_at, state.active_at), rank)

    def _move(
        self, tx: Tx, row: RefRow, state: HeadState, head: int | None, head_id: bytes | None, now: int, rank: int
    ) -> Move:
        version, at = state.version + 1, -1 if head is None else head
        fields = move_fields(state.key, state.tree, at, head_id or NO_ID, version, now, rank)
        mac = self._engine.seal.sign(fields, state.ref_key)
        move = Move(head, head_id, version, now, rank, mac)
        tx.move_ref(row.ref, move, up=rank != state.rank)
        self._remembered.note_rank(row.kind, rank)
        return move

    def past_rank(self, tx: Tx, kind: str, at: int, top: int) -> int:
        """A rank that no other ref of this kind has, for an activity at this time: next to it, if it is taken."""
        rank, window = at, SAME_TIME
        while rank <= top:
            near = tx.refs_recent(self._engine.workspace, kind, before=(at + window, 0), limit=1)
            if not near or near[0].rank < rank:
                break
            rank = near[0].rank + 1
            window *= 2
        return rank

    def change(self, tx: Tx, row: RefRow, payload: bytes, *, look: bytes | None, **columns: Any) -> RefRow:
        """Stores a ref with new data and columns. This is no activity. Conflict if it was changed."""
        row = current_data_key(self._engine, tx, row)
        changed = row._replace(version=row.version + 1, look=look, **columns)
        mac = self._engine.seal.sign(ref_fields(changed), row.wrapped_key)
        changed = changed._replace(mac=mac, data=self.box(row).close(payload, ref_context(changed)))
        tx.set_ref(changed)
        if changed.hold != row.hold:
            note_hold(self._engine, tx, changed)
        return changed

    def write_one(self, work: Callable[[Tx], RefRow]) -> RefRow:
        """Runs `work`, which returns the ref it adds or changes. If the commit fails, checks whether it was stored."""
        return self._engine.write_settled(work, self.is_stored)

    def is_stored(self, tx: Tx, left: RefRow) -> bool:
        """After a commit that may have failed: True if the store has this version of the ref, False if it is older.

        Unavailable if the ref was changed again: then the outcome is unknown.
        """
        now = tx.ref(left.workspace, left.kind, left.key)
        if now is None or now.version < left.version:
            return False
        if (now.version, now.mac, now.data) != (left.version, left.mac, left.data):
            raise Unavailable(f"{left.kind} {ids.text(left.key)} was changed meanwhile", hint="Read it again.")
        return True

    def is_moved(self, tx: Tx, row: RefRow, move: Move) -> bool:
        """`is_stored` for a move."""
        now = tx.ref(row.workspace, row.kind, row.key)
        if now is None or now.version < move.version:
            return False
        if (now.version, now.mac) != (move.version, move.mac):
            raise Unavailable(f"{row.kind} {ids.text(row.key)} was changed meanwhile", hint="Read it again.")
        return True

    def leave(self, tx: Tx, row: RefRow, state: HeadState, to: InsertPoint) -> RefRow | None:
        """Keeps what the head leaves when it goes to another place of its tree; returns the branch that has it.

        If the path to the head does not continue there, its end becomes a branch, unless a branch of the ref ends at or
        after it. One that only another session has does not count: that session may be purged. A branch that ends at
        the new place is the conversation again, and is deleted.
        """
        at, kept = state.insert_point, None
        if at.pos is not None and at.pos != to.pos and not (to.pos is not None and paths.on_path(tx, to.pos, at.pos)):
            has_next = tx.last_seq(at.pos >> SEQ_BITS) > at.pos & MAX_SEQ or tx.runs_from(at.pos, at.pos)
            found = tx.refs_in_tree(at.tree, 0, _LAST) if has_next else tx.refs_in_tree(at.tree, at.pos, at.pos)
            mine = (one for one in found if one.kind == BRANCH and one.owner == row.ref and one.head is not None)
            kept = next((one for one in mine if paths.on_path(tx, one.head or 0, at.pos)), None)
            kept = kept or self.branch(tx, row.ref, at)
        self.end_branches(tx, row, to)
        return kept

    def end_branches(self, tx: Tx, row: RefRow, to: InsertPoint) -> None:
        """Deletes the branches of a ref that end where its head goes."""
        for one in () if to.pos is None else tx.refs_in_tree(to.tree, to.pos, to.pos):
            if one.kind == BRANCH and one.owner == row.ref:
                tx.delete_ref(one.ref)

    def branch(self, tx: Tx, owner: int, at: InsertPoint) -> RefRow:
        """Adds an owned ref at a node, so that messages stay reachable after the owner's head leaves them."""
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

        Corrupted if the head is damaged: see `ensure_sound_head`. If `expect` is given and is not the head: Conflict,
        or with `branch` the drafts become a branch there. If the drafts are already stored, returns their nodes and
        moves nothing.
        """
        engine = self._engine

        if expect is False and len(drafts) == 1:
            done = self._remembered.append_one(row, drafts[0])
            if done is not None:
                return done

        def work(tx: Tx) -> Appended:
            done = self._remembered.append(tx, row, drafts, expect)
            if done is not None:
                return done
            state = self.head_state(tx, row)
            if expect is not False and state.id != expect:
                stored = find_existing(engine, tx, drafts, state.tree)
                if stored is not None:
                    return Appended(stored, None)
                if not branch:
                    raise self.moved_error(row)
                return self._append_branch(tx, row, expect, drafts)
            return self.append_at(tx, row, state, state.insert_point, drafts)

        if row.key not in self._remembered:
            self.ensure_sound_head(row)
        try:
            return engine.write(work, lambda tx: self.find_appended(tx, row, drafts))
        except Conflict:
            # After the rollback: rows of the failed attempt must not count as stored.
            stored = engine.read(lambda tx: find_existing(engine, tx, drafts, row.tree))
            if stored is None:
                raise
            return Appended(stored, None)

    def append_at(self, tx: Tx, row: RefRow, state: HeadState, point: InsertPoint, drafts: Sequence[Draft]) -> Appended:
        """Stores `drafts` after a node of the tree, and moves the head of the ref there, which has this state."""
        nodes = append_chain(self._engine, tx, point, drafts, within=state.tree)
        last = node_row(nodes[-1])
        move = self.move(tx, row, state, last[POS], last[ID])
        self._remembered.remember(row.kind, state, move, run_info(nodes[-1]), last[FACTS])
        return Appended(nodes, move)

    def append_next(
        self, tx: Tx, row: RefRow, after: bytes | Literal[False], drafts: Sequence[Draft]
    ) -> Appended | None:
        """Appends after the node `after`, or the head, if this process has left the head there, and it is still there.

        Otherwise stores nothing and returns None. Of `row`, only number, kind and key are used: it may be an old one.
        """
        return self._remembered.append(tx, row, drafts, after)

    def ensure_sound_head(self, row: RefRow) -> None:
        """Corrupted if the message at the head is damaged, and not in quarantine.

        New messages continue its totals and depth, and would sign the damage as valid.
        """

        def work(tx: Tx) -> None:
            state = tx.head_state(row.ref)
            self.ensure_sound(tx, None if state is None else state.pos)

        self._engine.read(work)

    def ensure_sound(self, tx: Tx, pos: int | None) -> None:
        """`ensure_sound_head` for the message at any position."""
        place = None if pos is None else tx.node_at(pos)
        if place is not None and not (place.row[BODY] == b"" and tx.maintenance.quarantine_row(place.row[POS])):
            node_payload(self._engine.node(place))

    def find_appended(self, tx: Tx, row: RefRow, drafts: Sequence[Draft]) -> Appended | None:
        """After a commit that may have failed: the stored nodes of `drafts`; None if they are not stored."""
        stored = find_existing(self._engine, tx, drafts, row.tree)
        return None if stored is None else Appended(stored, None)

    def moved_error(self, row: RefRow) -> Conflict:
        """The error for a head that another writer has moved."""
        hint = "Read the new messages, then try again."
        return Conflict(f"the head of {row.kind} {ids.text(row.key)} has moved", hint=hint)

    def _append_branch(self, tx: Tx, ref: RefRow, expect: bytes | None, drafts: Sequence[Draft]) -> Appended:
        """Stores the drafts on a new branch after `expect`, which is no longer the head."""
        assert ref.tree is not None
        point = InsertPoint(ref.tree) if expect is None else tx.insert_point(expect)
        if point is None or point.tree != ref.tree:
            raise NotFound("node", ids.text(expect or b""))
        self.ensure_sound(tx, point.pos)
        nodes = append_chain(self._engine, tx, point, drafts, within=ref.tree)
        last = InsertPoint(point.tree, node_row(nodes[-1])[POS], node_row(nodes[-1])[ID])
        self.branch(tx, ref.ref, last)
        return Appended(nodes, None)


def current_data_key(engine: Engine, tx: Tx, row: RefRow) -> RefRow:
    """The ref with the data key that it has now: a caller may have read `row` before a key change replaced its key.

    Data under a replaced key would be lost. If the store has keys and the ref has none yet, it gets one: while a store
    is being sealed, new data is never in clear text. Otherwise an attacker who restores that state with a ref without a
    key could read new data. Conflict if the ref was deleted; Corrupted.
    """
    if row.wrapped_key is None and not engine.keyed:
        return row
    now = tx.ref_at(row.ref)
    if now is None or now.key != row.key:
        raise Conflict(f"{row.kind} {ids.text(row.key)} was deleted meanwhile")
    if now.wrapped_key is None and engine.keyed:
        refs = Refs(engine)
        payload = refs.data(refs.verify(now))
        box, wrapped = engine.seal.new_box(ref_owner(now.key))
        mac = engine.seal.sign(ref_fields(now), wrapped)
        now = now._replace(wrapped_key=wrapped, mac=mac, data=box.close(payload, ref_context(now)))
        tx.maintenance.rekey_ref(now)
    return row._replace(wrapped_key=now.wrapped_key)


def expiry(row: RefRow) -> int | None:
    """When a ref expires by its own retention, which may count from the last activity; None if it has none."""
    at = row.expires_at
    if not isinstance(at, int) or at >= 0:
        return at if isinstance(at, int) else None  # a damaged row is listed, and reading it raises
    return row.active_at - at


_HOLD_BATCH = 1000


def note_hold(engine: Engine, tx: Tx, ref: RefRow) -> None:
    """Updates the list after a hold or release. Does nothing in a plain store.

    A role that may not change the header, such as a tenant's, changes the row alone. Conflict if it releases a hold of
    the store's owner.
    """
    if tx.state().state == "plain":
        return
    with loading:
        from clew.engine.sealing import header

    secrets, name = engine.secrets(tx), _hold_name(engine, ref)
    listed = set(secrets.held)
    if (name in listed) == bool(ref.hold):
        return
    if not tx.owns_store():
        if name in listed:
            hint = "Release it as the owner of the store."
            raise Conflict(f"{ref.kind} {ids.text(ref.key)} is held by the owner of the store", hint=hint)
        return
    now = listed | {name} if ref.hold else listed - {name}
    header.put(tx, engine.store_id, msgspec.structs.replace(secrets, held=sorted(now)))


def is_hold_listed(engine: Engine, tx: Tx, ref: RefRow) -> bool:
    """True if the secrets list a ref as held."""
    if _hold_name(engine, ref) not in engine.held:
        return False
    # This transaction may have released it.
    return tx.state().state != "plain" and _hold_name(engine, ref) in engine.secrets(tx).held


def collect_held(engine: Engine, tx: Tx) -> list[bytes]:
    """The list, built from the rows."""
    names, after = [], -1
    while rows := tx.refs_after(after, _HOLD_BATCH):
        names += [_hold_name(engine, row) for row in rows if row.hold]
        after = rows[-1].ref
    return sorted(names)


def _hold_name(engine: Engine, ref: RefRow) -> bytes:
    return engine.lookup_hash("hold", f"{ref.workspace}\0{ref.kind}\0".encode() + ref.key)
