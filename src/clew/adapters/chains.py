"""Moves of a session's head that frameworks ask for: replace the messages, remove some, continue at another one.

Nothing is lost by a move: messages that the head leaves stay as a branch, as after `Session.rewind`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clew.adapters.rows import Keyed
from clew.backends import MAX_SEQ, SEQ_BITS, InsertPoint, RefRow, Tx
from clew.base import ids
from clew.engine import deletion, paths
from clew.engine.engine import Draft
from clew.engine.node import Node, microseconds
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


def replace(keyed: Keyed, tx: Tx, row: RefRow, node: Node, drafts: Sequence[Draft]) -> None:
    """Replaces a message of a session by others, or removes it. It stays as a branch only if the session is on hold.

    The messages after it are stored again, under their ids unless these are still in use.
    """
    state = keyed.refs.head_state(tx, row)
    path = [] if state.pos is None else paths.whole(keyed.engine, tx, state.pos)
    at = next(number for number, one in enumerate(path) if one.id == node.id)
    later = [keyed.engine.draft(one.said, one.id, microseconds(one.created_at)) for one in path[at + 1 :]]
    chain = [*drafts, *later]
    above = None if node.parent_id is None else ids.parse(node.parent_id)
    branches = {one.ref for one in tx.refs_owned(row.ref) if one.kind == BRANCH}
    place(keyed, tx, row, above, [])
    hashes = [keyed.engine.blob_hash(state.tree, digest) for draft in chain for digest in draft.encoded.blobs]
    attached = [blob.blob for hash in hashes if (blob := tx.blobs.blob(state.tree, hash)) is not None]
    tx.blobs.add_uses(_LAST, attached)  # or they would be deleted with the messages
    for one in tx.refs_owned(row.ref):
        if one.kind == BRANCH and one.ref not in branches and not row.hold:
            deletion.delete_ref(keyed.engine, tx, one)
    place(keyed, tx, row, above, [_fresh(keyed, tx, draft) for draft in chain])
    tx.blobs.delete_uses(_LAST, _LAST)


def _fresh(keyed: Keyed, tx: Tx, draft: Draft) -> Draft:
    """A draft, under another id if its own is in use."""
    return draft if tx.node(draft.id) is None else msgspec.structs.replace(draft, id=keyed.engine.new_id())


def _is_above(tx: Tx, pos: int, leaf: int | None) -> bool:
    return leaf is not None and paths.on_path(tx, leaf, pos)


def _leave(keyed: Keyed, tx: Tx, row: RefRow, at: InsertPoint) -> None:
    """Adds a branch at a message, unless the ref has one there, or one after it.

    A message after it that only another session has does not count: that session may be purged.
    """
    assert at.pos is not None
    has_next = tx.last_seq(at.pos >> SEQ_BITS) > at.pos & MAX_SEQ or tx.runs_from(at.pos, at.pos)
    found = tx.refs_in_tree(at.tree, 0, _LAST) if has_next else tx.refs_in_tree(at.tree, at.pos, at.pos)
    for one in found:
        if one.kind == BRANCH and one.owner == row.ref and _is_above(tx, at.pos, one.head):
            return
    keyed.refs.branch(tx, row.ref, at)
