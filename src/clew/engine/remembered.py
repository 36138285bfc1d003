"""Head states that this process remembers, and appends that continue from them without a read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from clew.backends import FACTS, MAX_SEQ, HeadState, Move, RefRow, Tx
from clew.engine.append import insert_chain, pack_node
from clew.engine.engine import Draft, Engine
from clew.engine.node import Node, RunInfo, node_row
from clew.engine.sealing.envelope import move_fields

REMEMBERED = 1024
"""Refs whose head state is cached."""


class Appended(msgspec.Struct, frozen=True):
    """The result of an append: the nodes, and the move of the ref if it moved."""

    nodes: list[Node]
    move: Move | None


class RememberedHeads:
    """Head states after the last moves by this process. Each append from one checks that it is still valid."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[bytes, tuple[HeadState, RunInfo]] = {}
        self._tops: dict[str, int] = {}
        """The highest known rank of each kind."""

    def __contains__(self, key: bytes) -> bool:
        return key in self._seen

    def remember(self, kind: str, state: HeadState, move: Move, info: RunInfo, facts: bytes) -> None:
        """Caches the head state of a ref that has moved to a new node, and so to the top of its kind."""
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        pos, id, version, active_at, rank, mac = move
        tree, depth, carried, wrapped, _ = info
        now = HeadState._make((  # a third of what naming the fields costs, and every append does it
            state.epoch, state.key, version, active_at, rank, None, mac, id, state.ref_key, rank,
            tree, pos, id, depth, carried, facts, 1, wrapped,
        ))  # fmt: skip
        self._seen[state.key] = now, info
        self._tops[kind] = rank

    def append_one(self, row: RefRow, draft: Draft) -> Appended | None:
        """`append` for one message, in a transaction of its own. None if only `append` can do it.

        Nearly every append is one message to the session that was last written to. It is prepared before the lock is
        taken, and `Backend.extend` knows without a read that nothing has changed: 49 µs instead of 58 where syncing is
        free, 219 instead of 291 on a disk.
        """
        engine, known = self._engine, self._seen.get(row.key)
        if known is None or engine.backend.extendable != row.ref or draft.encoded.blobs:
            return None
        seen, info = known
        _, key, version, _, rank, _, _, _, ref_key, _, tree, pos, parent, _, _, facts, _, wrapped = seen
        assert pos is not None
        if rank != self._tops[row.kind] or pos & MAX_SEQ == MAX_SEQ or (wrapped is not None) != engine.seal.keyed:
            return None
        pos, version, id, now = pos + 1, version + 1, draft.id, engine.clock()
        mac = engine.seal.sign(move_fields(key, tree, pos, id, version, now, rank), ref_key)
        move, one = Move(pos, id, version, now, rank, mac), pack_node(info, pos, parent, facts, draft)
        if not engine.backend.extend(row.ref, seen, move, one):
            return None
        self.remember(row.kind, seen, move, info, one[FACTS])
        engine.cleanup.after_write()
        return Appended([Node(engine, info, parent, one)], move)

    def append(
        self, tx: Tx, row: RefRow, drafts: Sequence[Draft], expect: bytes | Literal[False] | None
    ) -> Appended | None:
        """Appends if the ref is unchanged since its state was cached. Otherwise does nothing and returns None."""
        known = self._seen.get(row.key)
        if known is None or expect not in (False, known[0].id) or not self._has_room(known[0], len(drafts)):
            return None
        (seen, info), top, now = known, self._tops[row.kind], self._engine.clock()
        rank = seen.rank if seen.rank == top else max(now, top + 1)
        move = self._next_move(seen, len(drafts), drafts[-1].id, rank, now)
        if not tx.advance(row.ref, seen, move, top):
            return None
        assert seen.pos is not None
        nodes = insert_chain(self._engine, tx, info, seen.pos + 1, seen.id, seen.facts, drafts)
        self.remember(row.kind, seen, move, info, node_row(nodes[-1])[FACTS])
        return Appended(nodes, move)

    def _has_room(self, seen: HeadState, count: int) -> bool:
        """True if so many nodes can continue the run: there is room, and the run is keyed like new runs."""
        assert seen.pos is not None
        return (seen.pos & MAX_SEQ) + count <= MAX_SEQ and self._engine.matches_seal(seen.wrapped_key)

    def _next_move(self, seen: HeadState, count: int, id: bytes, rank: int, now: int) -> Move:
        """The signed move of a ref to a node `count` positions after its head."""
        assert seen.pos is not None
        pos, version = seen.pos + count, seen.version + 1
        fields = move_fields(seen.key, seen.tree, pos, id, version, now, rank)
        return Move(pos, id, version, now, rank, self._engine.seal.sign(fields, seen.ref_key))
