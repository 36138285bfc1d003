"""The message tree: save, read, list and delete messages by id, with or without a session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from clew.backends import ID, MAX_SEQ, POS, SEQ_BITS, InsertPoint, NodeLocation, Tx, creation_counter
from clew.base import ids
from clew.base.messages import AnyMessage, Message, Native
from clew.base.values import Page, whole_number
from clew.engine import paths
from clew.engine.append import append_chain
from clew.engine.engine import Draft
from clew.engine.node import Node, microseconds, node_payload, node_row
from clew.engine.trash import Visibility
from clew.errors import Conflict, Corrupted, Invalid, NotFound

if TYPE_CHECKING:
    from clew.engine.receipts import Receipt
    from clew.store.session_table import SessionParts

STEP = 200
"""The number of nodes to check for visibility at a time."""
CHAIN = "chain"
"""As `NewNode.parent`: the previous message of the same call."""


class NewNode(NamedTuple):
    """A message to save with its own parent, id or time."""

    message: AnyMessage
    parent: str | None = CHAIN
    """The id of its parent; `CHAIN` for the previous message of the call, None for the root of a new tree."""
    id: str | None = None
    """Its id. Saving the same message with the same id again changes nothing."""
    created_at: datetime | None = None


class _Item(NamedTuple):
    draft: Draft
    parent: bytes | None


Ordered = list[tuple[int, NodeLocation]]
NodeList = list[Node]  # inside `Nodes`, list is its method
ItemList = list[_Item]
NewNodes = list[AnyMessage | NewNode]


class Nodes:
    """Messages by id. Messages saved here belong to no session and stay until `delete`."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._refs = parts.refs

    def save(
        self, messages: AnyMessage | NewNode | Sequence[AnyMessage | NewNode], *, parent: str | None = None
    ) -> NodeList:
        """Stores messages in one transaction, each after the one before it, the first after `parent` or as a root.

        A `NewNode` may have another parent and an id. If its id is stored already, that node is returned; Conflict if
        its content or parent differs. NotFound if a parent is missing; then nothing is stored.
        """
        items = self._items(messages, parent)
        return self._engine.write(lambda tx: self._save(tx, items), lambda tx: self._find_saved(tx, items))

    def save_dialog(self, dialog: Sequence[Node | AnyMessage | NewNode]) -> NodeList:
        """Stores a dialog, root first, in one transaction: verifies the nodes in it and saves the messages.

        Conflict if a node is not stored, or if its parent is not the message before it.
        """
        if not isinstance(dialog, Sequence):
            raise Invalid(f"a dialog is a list of messages, not {type(dialog).__name__}")
        saves: NewNodes = []
        before: str | None = None
        for step in dialog:
            if not isinstance(step, Node):
                saves.append(step)
                before = (step.id or "") if isinstance(step, NewNode) else ""
                continue
            if step.parent_id != before:
                raise Conflict(f"node {step.id} does not follow the message before it in the dialog")
            saves.append(NewNode(step.said, before, step.id, step.created_at))
            before = step.id
        items = self._items(saves, None, {step.id for step in dialog if isinstance(step, Node)})
        given = [ids.parse(step.id) for step in dialog if isinstance(step, Node)]

        def work(tx: Tx) -> NodeList:
            for id in given:
                if tx.node(id) is None:
                    raise Conflict(f"node {ids.text(id)} is not stored here", hint="Pass its message to save it.")
            return self._save(tx, items)

        return self._engine.write(work, lambda tx: self._find_saved(tx, items))

    def get(self, ids: Node | str | Iterable[Node | str]) -> NodeList:
        """The nodes with these ids or handles, in the order asked for. NotFound if one is missing."""
        wanted = [self._engine.resolve_node(one) for one in _several(ids)]
        return self._engine.read(lambda tx: [self._node(tx, id) for id in wanted])

    def resolve(self, typed: Node | str) -> str:
        """The id of the node with this id or handle, or a prefix of one. NotFound, Ambiguous."""
        id = self._engine.resolve_node(typed)
        return self._engine.read(lambda tx: self._node(tx, id)).id

    def handles(self, nodes: Iterable[str]) -> list[str]:
        """The handles of nodes given by id."""
        return [self._engine.node_handle(ids.parse(one)) for one in ([nodes] if isinstance(nodes, str) else nodes)]

    def list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        offset: int = 0,
        ascending: bool = False,
        trashed: bool = True,
        order: Literal["stored", "created"] = "stored",
    ) -> Page[Node]:
        """All nodes in the order they were stored, newest first. A page starts at `cursor`, then skips `offset` nodes.

        With ``trashed=False`` omits nodes that only sessions in the trash contain; this reads more of each tree. With
        ``order="created"`` sorts by `created_at`, then as they were stored; each page reads all nodes.
        """
        whole_number("limit", limit, 1)
        whole_number("offset", offset, 0)
        if order == "created":
            return self._list_by_time(limit, cursor, offset, ascending, trashed)
        if order != "stored":
            raise Invalid(f"order must be stored or created, not {order!r}")
        edge = None if cursor is None else read_place(cursor)

        def work(tx: Tx) -> Ordered:
            if trashed:
                return self._by_ord(tx, edge, ascending, limit + 1, offset)
            return self._visible_by_ord(tx, edge, ascending, limit + 1, offset)

        found = self._engine.read(work)
        nodes = [self._engine.node(place) for _, place in found[:limit]]
        return Page(
            nodes,
            write_place(found[limit - 1][0]) if len(found) > limit else None,
            fetch=lambda cursor: self.list(limit=limit, cursor=cursor, ascending=ascending, trashed=trashed),
        )

    def path(self, id: Node | str, *, last: int | None = None) -> NodeList:
        """The nodes from the root down to this one, in order; with `last`, only the last ones. NotFound."""
        if last is not None:
            whole_number("last", last, 0)
        wanted = self._engine.resolve_node(id)

        def work(tx: Tx) -> NodeList:
            pos = node_row(self._node(tx, wanted))[POS]
            return paths.whole(self._engine, tx, pos) if last is None else paths.last(self._engine, tx, pos, last)

        return self._engine.read(work)

    def children(self, id: Node | str) -> NodeList:
        """The children of a node, in the order they were stored. NotFound."""
        wanted = self._engine.resolve_node(id)
        return self._engine.read(lambda tx: self._children(tx, self._node(tx, wanted)))

    def subtree(self, id: Node | str) -> NodeList:
        """A node and all its descendants, each after its parent. NotFound."""
        wanted = self._engine.resolve_node(id)

        def work(tx: Tx) -> NodeList:
            found = [self._node(tx, wanted)]
            for node in found:
                found.extend(self._children(tx, node))
            return found

        return self._engine.read(work)

    def delete(self, ids: Node | str | Iterable[Node | str], *, recursive: bool = False) -> Receipt:
        """Deletes nodes, all or none; ignores unknown ids. The receipt has the number deleted, and what is left.

        Conflict if a node has children that are not deleted with it, or if a snapshot or a hold needs it. A session
        whose head is deleted moves to the nearest remaining message, and loses a title made from deleted messages.
        """
        wanted = []
        for one in _several(ids):
            try:
                wanted.append(self._engine.resolve_node(one))
            except NotFound:
                continue
        return self._parts.purger.delete_nodes(lambda tx: wanted, recursive=recursive)

    # -- saving

    def _items(
        self,
        messages: AnyMessage | NewNode | Sequence[AnyMessage | NewNode],
        parent: str | None,
        stored: Collection[str] = (),
    ) -> Sequence[_Item]:
        many: Any = [messages] if isinstance(messages, Message | Native | NewNode) else messages
        if not isinstance(many, Sequence) or isinstance(many, str | bytes):
            raise Invalid(f"save takes a message or a list of messages, not {type(many).__name__}")
        items: ItemList = []
        before = None if parent is None else self._engine.resolve_node(parent)
        for one in many:
            save = one if isinstance(one, NewNode) else NewNode(one)
            at = None if save.created_at is None else microseconds(save.created_at)
            draft = self._engine.draft(save.message, save.id, at, stored=save.id in stored)
            if save.parent != CHAIN:
                before = None if save.parent is None else self._engine.resolve_node(save.parent)
            items.append(_Item(draft, before))
            before = draft.id
        return items

    def _save(self, tx: Tx, items: Sequence[_Item]) -> NodeList:
        done: dict[bytes, Node] = {}
        for chain in _chains(items):
            new = []
            for item in chain:
                stored = self._find_stored(tx, item)
                if stored is None:
                    new.append(item)
                elif new:
                    raise _id_conflict(stored)
                else:
                    done[item.draft.id] = stored
            for node in self._append(tx, new):
                done[node_row(node)[ID]] = node
        return [done[item.draft.id] for item in items]

    def _append(self, tx: Tx, chain: Sequence[_Item]) -> Sequence[Node]:
        if not chain:
            return ()
        parent = chain[0].parent
        if parent is None:
            point = InsertPoint(tx.add_tree(self._engine.workspace, self._engine.clock()))
        else:
            found = tx.insert_point(parent)
            if found is None or tx.tree_workspace(found.tree) != self._engine.workspace:
                raise NotFound("node", ids.text(parent), hint="Save the parent first, or in the same call.")
            point = found
            assert point.pos is not None
            self._refs.ensure_sound(tx, point.pos)
            above = tx.run(point.pos >> SEQ_BITS)
            if above is None or above.tip != point.pos & MAX_SEQ:
                # Nodes saved here are always the beginning of their run, so that the run's tip alone tells them from a
                # session's own messages: after a node beyond the tip, start a new run.
                point = point._replace(open=0)
        nodes = append_chain(self._engine, tx, point, [item.draft for item in chain])
        pos = node_row(nodes[-1])[POS]
        run = tx.run(pos >> SEQ_BITS)
        assert run is not None
        tx.set_run(self._engine.change_run(tx, run, tip=max(run.tip, pos & MAX_SEQ)))
        return nodes

    def _find_saved(self, tx: Tx, items: Sequence[_Item]) -> NodeList | None:
        """The nodes of a save that may have been committed; None if any is missing. Conflict."""
        nodes = [self._find_stored(tx, item) for item in items]
        return None if None in nodes else [node for node in nodes if node is not None]

    def _find_stored(self, tx: Tx, item: _Item) -> Node | None:
        """The node stored with an item's id; None if there is none. Conflict if its content or parent differs."""
        place = tx.node(item.draft.id)
        if place is None:
            return None
        node = self._engine.node(place)
        if place.parent != item.parent or node_payload(node) != item.draft.encoded.payload:
            raise _id_conflict(node)
        return node

    # -- reading

    def _by_ord(self, tx: Tx, edge: int | None, ascending: bool, limit: int, offset: int = 0) -> Ordered:
        after, before = (edge, None) if ascending else (None, edge)
        workspace = self._engine.workspace
        return tx.by_ord(after, before, newest=not ascending, limit=limit, offset=offset, workspace=workspace)

    def _visible_by_ord(self, tx: Tx, edge: int | None, ascending: bool, limit: int, offset: int) -> Ordered:
        """`_by_ord` without nodes that only the trash still needs."""
        sight = Visibility(tx, self._engine.workspace)
        found: Ordered = []
        while page := self._by_ord(tx, edge, ascending, STEP):
            sight.load_trees(place for _, place in page)
            found += [one for one in page if sight.is_visible(one[1].tree, one[1].row[POS])]
            skipped = min(offset, len(found))
            del found[:skipped]
            offset -= skipped
            if len(found) >= limit:
                break
            edge = page[-1][0]
        return found[:limit]

    def _list_by_time(self, limit: int, cursor: str | None, offset: int, ascending: bool, trashed: bool) -> Page[Node]:
        edge = None if cursor is None else read_moment(cursor)

        def work(tx: Tx) -> list[tuple[int, int, Node]]:
            found = ((_created(node), ord, node) for ord, node in self._every(tx, trashed))
            if edge is not None:
                found = (one for one in found if (one[:2] > edge if ascending else one[:2] < edge))
            return (nsmallest if ascending else nlargest)(offset + limit + 1, found, key=itemgetter(0, 1))[offset:]

        found = self._engine.read(work)
        return Page(
            [node for _, _, node in found[:limit]],
            write_moment(*found[limit - 1][:2]) if len(found) > limit else None,
            fetch=lambda cursor: self._list_by_time(limit, cursor, 0, ascending, trashed),
        )

    def _every(self, tx: Tx, trashed: bool) -> Iterator[tuple[int, Node]]:
        read, edge = self._by_ord if trashed else self._visible_by_ord, None
        while page := read(tx, edge, True, STEP, 0):
            yield from ((ord, self._engine.node(place)) for ord, place in page)
            edge = page[-1][0]

    def _node(self, tx: Tx, id: bytes) -> Node:
        place = tx.node(id)
        if place is None or tx.tree_workspace(place.tree) != self._engine.workspace:
            raise NotFound("node", ids.text(id))
        return self._engine.node(place)

    def _children(self, tx: Tx, node: Node) -> NodeList:
        pos = node_row(node)[POS]
        # In the order they were stored: the first child continues the node's run, each later one starts its own run.
        places = [tx.node_at(pos + 1)] if pos & MAX_SEQ != MAX_SEQ else []
        # A run's parent is in an older run; without this check a damaged row could cause an endless loop.
        here = creation_counter(pos >> SEQ_BITS)
        runs = [run.run for run in tx.runs_from(pos, pos) if run.parent == pos and creation_counter(run.run) > here]
        places += [tx.node_at(run << SEQ_BITS) for run in sorted(runs, key=creation_counter)]
        return [self._engine.node(place) for place in places if place]


def _chains(items: Sequence[_Item]) -> list[list[_Item]]:
    """The items ordered so that each comes after its parent, divided into chains. Invalid if there is a cycle."""
    known = {item.draft.id: item for item in items}
    if len(known) != len(items):
        raise Invalid("two messages of one call have the same id")
    ordered: list[_Item] = []
    state: dict[bytes, bool] = {}  # False while its ancestors are being placed, True once it is placed
    for item in items:
        above: list[_Item] = []
        at: _Item | None = item
        while at is not None and at.draft.id not in state:
            state[at.draft.id] = False
            above.append(at)
            at = None if at.parent is None else known.get(at.parent)
        if at is not None and state[at.draft.id] is False:
            raise Invalid("the parents form a cycle")
        for one in reversed(above):
            state[one.draft.id] = True
            ordered.append(one)
    chains: list[list[_Item]] = []
    for item in ordered:
        if chains and item.parent is not None and item.parent == chains[-1][-1].draft.id:
            chains[-1].append(item)
        else:
            chains.append([item])
    return chains


def _id_conflict(node: Node) -> Conflict:
    return Conflict(f"id {node.id} is taken by another message")


def _several(ids: Node | str | Iterable[Node | str]) -> Iterable[Node | str]:
    """One id, or several, as an iterable."""
    if isinstance(ids, str | Node):
        return (ids,)
    if not isinstance(ids, Iterable):
        raise Invalid(f"ids are text, not {type(ids).__name__}")
    return ids


def _created(node: Node) -> int:
    try:
        return microseconds(node.created_at)
    except Corrupted:
        return 0


MOST_PLACES = 1 << 60
"""The largest cursor: SQLite's integers do not go much further."""


def write_place(ord: int) -> str:
    """The cursor after a node, in the order of storing."""
    return f"n{ord:x}"


def read_place(cursor: str) -> int:
    """The inverse of `write_place`. Raises Invalid."""
    try:
        if cursor != write_place(place := int(cursor[1:], 16)) or not 0 <= place < MOST_PLACES:
            raise ValueError
        return place
    except (ValueError, TypeError):
        raise _wrong() from None


def write_moment(created: int, ord: int) -> str:
    """The cursor after a node, in the order of time."""
    return f"t{created:x}.{ord:x}"


def read_moment(cursor: str) -> tuple[int, int]:
    """The inverse of `write_moment`. Raises Invalid."""
    try:
        created, ord = (int(part, 16) for part in cursor.removeprefix("t").split("."))
        if cursor != write_moment(created, ord):
            raise ValueError
        return created, ord
    except (ValueError, AttributeError):
        raise _wrong() from None


def _wrong() -> Invalid:
    return Invalid("the cursor is not one of this list", hint="Pass next_cursor unchanged.")
