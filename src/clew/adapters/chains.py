"""Moves of a session's head that frameworks ask for: replace the messages, remove some, continue at another one.

Nothing is lost by a move: messages that the head leaves stay as a branch, as after `Session.rewind`.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.adapters.keyed import Keyed
from clew.backends import MAX_SEQ, SEQ_BITS, InsertPoint, RefRow, Tx
from clew.base import ids
from clew.engine import paths
from clew.engine.engine import Draft
from clew.engine.node import Node
from clew.engine.refs import BRANCH
from clew.errors import NotFound

_LAST = (1 << 63) - 1
"""The highest position."""


def place(keyed: Keyed, tx: Tx, row: RefRow, after: bytes | None, drafts: Sequence[Draft]) -> list[Node]:
    """Stores `drafts` after a message of the tree, or as a root, and moves the head of a ref to the last of them.

    Without drafts the head moves to that message, or before the first. NotFound if the message is not in the tree, and
    if the ref was deleted or is in the trash.
    """
    if after is not None and drafts and (done := keyed.refs.append_next(tx, row, after, drafts)) is not None:
        return done.nodes
    state = keyed.refs.head_state(tx, row)
    point = InsertPoint(state.tree) if after is None else tx.insert_point(after)
    if point is None or point.tree != state.tree:
        raise NotFound("message", ids.text(after or b""), hint="It was deleted.")
    nodes: list[Node] = []
    if state.id != point.id and state.pos is not None and not _is_above(tx, state.pos, point.pos):
        _leave(keyed, tx, row, state.insert_point)
    if drafts:
        keyed.refs.ensure_sound(tx, point.pos)
        nodes = keyed.refs.append_at(tx, row, state, point, drafts).nodes
    elif state.id != point.id:
        keyed.refs.move(tx, row.ref, state, point.pos, point.id)
    return nodes


def _is_above(tx: Tx, pos: int, leaf: int | None) -> bool:
    return leaf is not None and paths.on_path(tx, leaf, pos)


def _leave(keyed: Keyed, tx: Tx, row: RefRow, at: InsertPoint) -> None:
    """Adds a branch at a message, unless the ref has one there, or one after it.

    A message after it that only another session has is no reason to add none: that session may be purged.
    """
    assert at.pos is not None
    has_next = tx.last_seq(at.pos >> SEQ_BITS) > at.pos & MAX_SEQ or tx.runs_from(at.pos, at.pos)
    found = tx.refs_in_tree(at.tree, 0, _LAST) if has_next else tx.refs_in_tree(at.tree, at.pos, at.pos)
    for one in found:
        if one.kind == BRANCH and one.owner == row.ref and _is_above(tx, at.pos, one.head):
            return
    keyed.refs.branch(tx, row.ref, at)
