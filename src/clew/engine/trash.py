"""The trash: refs trashed together are restored together.

A ref in the trash keeps its head, so its messages stay where they are, and forks that share them see no difference.
"""

from __future__ import annotations

from collections.abc import Iterable

from clew.backends import MAX_POS, MAX_SEQ, SEQ_BITS, NodeLocation, RefRow, Tx, creation_counter
from clew.base import ids
from clew.engine.deletion import with_owned
from clew.engine.engine import Engine
from clew.engine.refs import Refs
from clew.errors import Conflict


def put(engine: Engine, refs: Refs, tx: Tx, ref: RefRow) -> RefRow:
    """Puts a ref and the refs it owns in the trash, with the same time. Not an activity. Conflict if one is held."""
    going = with_owned(engine, tx, ref)
    moment = engine.clock()
    while any(one.trashed_at == moment for one in going):  # refs trashed earlier must not be restored with these
        moment += 1
    done = [_set_columns(refs, tx, one, trashed_at=moment) for one in going if one.trashed_at is None]
    return done[0]


def restore(refs: Refs, tx: Tx, ref: RefRow) -> RefRow:
    """Restores a ref, and the refs trashed with it. Conflict while its owner is in the trash."""
    owner = None if ref.owner is None else tx.ref_at(ref.owner)
    if owner is not None and owner.trashed_at is not None:
        about = f"{ref.kind} {ids.text(ref.key)} belongs to {owner.kind} {ids.text(owner.key)}, which is in the trash"
        raise Conflict(about, hint="Restore that one first.")
    coming = [ref]
    for one in coming:
        coming.extend(owned for owned in tx.refs_owned(one.ref) if owned.trashed_at == ref.trashed_at)
    done = [_set_columns(refs, tx, one, trashed_at=None, rank=_rank(tx, one)) for one in coming]
    return done[0]


def _set_columns(refs: Refs, tx: Tx, ref: RefRow, **columns: int | None) -> RefRow:
    """Stores the ref with changed columns, and its data encrypted again, because it is bound to them."""
    return refs.change(tx, refs.verify(ref), refs.data(ref), look=ref.look, **columns)


def _rank(tx: Tx, ref: RefRow) -> int:
    """A free rank for the ref: its own or a lower one, still above refs that were active earlier."""
    rank = ref.rank
    while below := tx.refs_recent(ref.workspace, ref.kind, before=(rank + 1, 0), limit=1):
        if below[0].rank != rank and below[0].active_at <= ref.active_at:
            break
        rank = below[0].rank - 1
    return rank


class Visibility:
    """Decides, within one transaction, which messages are visible: all except those that only the trash needs."""

    def __init__(self, tx: Tx, workspace: str) -> None:
        self._tx = tx
        self._workspace = workspace
        self._states: dict[int, tuple[str, bool]] = {}
        self._heads: dict[int, list[int]] = {}

    def load_trees(self, places: Iterable[NodeLocation]) -> bool:
        """Reads the states of their trees for `is_visible`. True if all messages in them are visible."""
        trees = {place.tree for place in places}
        self._states |= self._tx.tree_states(list(trees - self._states.keys()))
        return all(self._states.get(tree) == (self._workspace, False) for tree in trees)

    def is_visible(self, tree: int, pos: int) -> bool:
        """True if the message belongs to this workspace and is visible. Call `load_trees` for its tree first.

        A message is visible if it was saved without a session, or if a ref outside the trash is at or below it.
        """
        workspace, trashed = self._states.get(tree, (None, False))
        if workspace != self._workspace or not trashed:
            return workspace == self._workspace
        if tree not in self._heads:
            self._heads[tree] = self._live_heads(tree)
        heads = self._heads[tree]
        below = [pos]
        for at in below:
            run, last = self._tx.run(at >> SEQ_BITS), at | MAX_SEQ
            if run is None:
                continue
            if run.tip >= at & MAX_SEQ or any(at <= head <= last for head in heads):
                return True
            # A run starts at an older one. The check stops loops in damaged rows.
            below += [
                grown.run << SEQ_BITS
                for grown in self._tx.runs_from(at, last)
                if creation_counter(grown.run) > creation_counter(run.run)
            ]
        return False

    def _live_heads(self, tree: int) -> list[int]:
        """The heads of the refs of a tree that are not in the trash."""
        refs = self._tx.refs_in_tree(tree, 0, MAX_POS)
        return [ref.head for ref in refs if ref.trashed_at is None and ref.head is not None]
