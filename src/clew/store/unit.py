"""A unit of work: one transaction, as verbs over sessions, messages and documents. No row, position or box is visible.

``store.write(work)`` calls ``work(unit)`` in one transaction, which is durable when it returns: all or nothing. It may
run on another thread, share a commit with other writers, and run again. So `work` does nothing but compute and call
verbs; an exception that it raises undoes everything and reaches the caller unchanged. Reads through `Session`, `Node`
and `Document` see the state of the unit while it runs. `Session` and `Document` are as of their last read: a verb takes
one as a name and never changes it.

Verbs redact, sign and seal, and note audit events. Those that delete refuse what is held. If the answer to a commit is
lost, the last thing that the unit changed decides: it is stored, or `work` runs again, or it was changed since, which
is Unavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, cast

from clew.backends import ID, MAX_SEQ, POS, SEQ_BITS, HeadState, InsertPoint, Move, RefRow, Tx
from clew.backends.problems import ODD
from clew.base import ids
from clew.base.loading import loading
from clew.base.messages import Message, Native
from clew.engine import deletion, paths
from clew.engine.append import append_chain, find_existing
from clew.engine.blobs import Blobs, put_all_in, put_in
from clew.engine.engine import Draft, OwnError
from clew.engine.log import add_entries, find_entry
from clew.engine.node import Node, microseconds, node_row, run_info
from clew.engine.refs import BRANCH, Refs
from clew.engine.session_data import SessionData
from clew.errors import Conflict, Corrupted, Invalid, NotFound
from clew.store.document import Document
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.session_table import SESSION, SUBAGENT

__all__ = ["HEAD", "Document", "Draft", "Unit"]

T = TypeVar("T")
P = ParamSpec("P")
HEAD: Final[Any] = object()
"""As a place: the present last message of the session."""
_LAST = (1 << 63) - 1
_PAGE = 100
_READS, _SNAPSHOT, _WRITES, _ENDED = range(4)
"""States of a unit. Inside a transaction a unit that only reads has no snapshot of its own: its thread can write."""


Target = Session | Document
"""What owns documents and has a log."""


def _verb(writes: bool) -> Callable[[Callable[Concatenate[Unit, P], T]], Callable[Concatenate[Unit, P], T]]:
    def mark(method: Callable[Concatenate[Unit, P], T]) -> Callable[Concatenate[Unit, P], T]:
        @wraps(method)
        def verb(unit: Unit, *args: P.args, **kwargs: P.kwargs) -> T:
            if unit._state != _WRITES and (writes or unit._state == _ENDED):
                why = "this unit of work has ended" if unit._state == _ENDED else "store.read cannot write"
                raise Invalid(why, hint="Call the verb inside the function that you pass to store.write.")
            try:
                return method(unit, *args, **kwargs)
            except ODD as error:  # an error of `work` itself reaches the caller unchanged
                raise Corrupted(unit._engine.backend.path, "a value in it has a wrong type") from error

        return cast("Callable[Concatenate[Unit, P], T]", verb)

    return mark


_reads, _writes = _verb(writes=False), _verb(writes=True)


class Unit:
    """One transaction. Reads see a snapshot of the store and the unit's own writes."""

    __slots__ = ("_engine", "_parts", "_present", "_proof", "_read", "_refs", "_state", "_table", "_trees", "_tx")

    def __init__(self, parts: Parts, tx: Tx, state: int) -> None:
        self._parts, self._tx, self._state = parts, tx, state
        self._engine, self._refs, self._table = parts.engine, parts.refs, parts.table
        self._proof: Callable[[Tx], bool] | None = None
        """Whether the store has the last change: True, False, or Unavailable if it was changed again."""
        self._trees: set[int] = set()
        """Trees that are known to be of this workspace."""
        self._present: set[int] = set()
        """Numbers of the sessions and documents that this unit has found, and that it need not look up again."""
        self._read: RefRow | None = None
        """The session that a unit with a snapshot of its own has read last: the row stays current."""

    # -- sessions

    @_reads
    def session(self, id: str | bytes, *, subagent: bool | None = False, trashed: bool = False) -> Session | None:
        """A session by id, or a subagent's trace, or with None either; None if there is none, or if it is in the trash
        and `trashed` is False.
        """
        row = None if subagent else self._tx.ref(self._engine.workspace, SESSION, _key(id))
        if row is None and subagent is not False:
            row = self._tx.ref(self._engine.workspace, SUBAGENT, _key(id))
        if row is None or (row.trashed_at is not None and not trashed):
            return None
        self._note_present(row)
        self._read = row if self._state == _SNAPSHOT else None
        return Session(self._parts, row)

    @_reads
    def sessions_at(self, message: str | bytes) -> list[Session]:
        """The sessions whose last message this is, the most recently active first."""
        point = self._found(message)
        found = [] if point is None or point.pos is None else self._tx.refs_in_tree(point.tree, point.pos, point.pos)
        rows = [row for row in found if row.kind == SESSION and row.trashed_at is None]
        return [Session(self._parts, row) for row in sorted(rows, key=lambda row: -row.rank)]

    @_reads
    def labelled(self, label: str, *, after: Session | None = None, limit: int = _PAGE) -> list[Session]:
        """A page of the sessions with a label that are not in the trash, the last active first."""
        look, edge = self._table.label_hash(label), None if after is None else (row_of(after).rank, row_of(after).ref)
        rows = self._tx.refs_recent(self._engine.workspace, SESSION, label=look, before=edge, limit=limit)
        return [Session(self._parts, row) for row in rows]

    @_writes
    def create(
        self,
        data: SessionData,
        id: str | bytes,
        *,
        at: str | bytes | None = None,
        beside: Session | None = None,
        owner: Session | None = None,
        active_at: int | None = None,
    ) -> Session:
        """Adds a session: empty, at a message, or `beside` another one, whose messages and blobs it can use.

        With `data.agent` it is a subagent's. Conflict if the id is taken, also in the trash; NotFound.
        """
        point = None if at is None else self._point(at)
        if beside is not None and point is None:
            point = InsertPoint(self._tree(beside))
        above = None if owner is None else self._found_row(owner).ref
        kind = SESSION if data.agent is None else SUBAGENT
        row = self._table.add_at(self._tx, data, _key(id), kind, at=point, owner=above, active_at=active_at)
        return Session(self._parts, self._changed(row))

    @_writes
    def save(
        self,
        session: Session,
        data: SessionData,
        *,
        hold: bool | None = None,
        expires_at: int | Literal[False] | None = False,
        active_at: int | None = None,
    ) -> Session:
        """Replaces the data of a session, its hold and its own retention (microseconds, or negative: after its last
        activity); None ends that. `active_at` sets its last activity, not later than now, and its place among the
        others. Writes nothing if they are equal. Conflict if it is in the trash; NotFound.
        """
        row = self._row(session)
        columns: dict[str, int | None] = {}
        if hold is not None and bool(row.hold) != hold:
            columns["hold"] = int(hold)
        if expires_at is not False and row.expires_at != expires_at:
            columns["expires_at"] = expires_at
        events = list(columns)
        if active_at is not None and (last := min(active_at, self._engine.clock())) != row.active_at:
            top = self._tx.top_rank(row.workspace, row.kind)
            columns |= {"active_at": last, "rank": self._refs.past_rank(self._tx, row.kind, last, top)}
        if not columns and self._table.data(row) == data:
            return session
        changed = self._changed(self._table.change(self._tx, row, data, **columns))
        for column in events:
            self._note("retain" if column == "expires_at" else "hold" if hold else "release", session)
        return Session(self._parts, changed)

    @_writes
    def trash(self, session: Session) -> Session:
        """Moves a session to the trash, with all it owns. Idempotent. Conflict if it is held; NotFound."""
        with loading:
            from clew.engine import audit, trash

        row = row_of(session)
        now = self._refs.get(self._tx, row.kind, row.key, trashed=True)
        self._present.clear()
        if now.trashed_at is None:
            audit.note_if_enabled(self._engine, self._refs, self._tx, "trash", session.id)
            now = self._changed(trash.put(self._engine, self._refs, self._tx, now))
        return Session(self._parts, now)

    # -- messages

    @_reads
    def node(self, id: str | bytes) -> Node | None:
        """A message of this workspace by id; None for any other."""
        place = self._tx.node(_key(id))
        if place is None or not self._is_here(place.tree):
            return None
        return self._engine.node(place)

    @_reads
    def known(self, some: Iterable[str | bytes]) -> set[str]:
        """Those of these ids that messages have, in any workspace: no new message can have them."""
        return {ids.text(one) for one in self._tx.existing_ids([_key(one) for one in some])}

    @_reads
    def purged(self, some: Collection[str | bytes]) -> set[bytes]:
        """Those of these ids of sessions and messages that were purged: no import stores them again."""
        with loading:
            from clew.engine.deletion import recall_purged

        return recall_purged(self._engine, self._tx, [_key(one) for one in some])

    @_reads
    def stored(self, draft: Draft, session: Session | None = None) -> Node | None:
        """The stored message of a draft; None if there is none. Conflict if its id has other content, or if it is not
        in the tree of `session`.
        """
        tree = None if session is None else row_of(session).tree
        found = find_existing(self._engine, self._tx, [draft], tree)
        if found is None or self._is_here(run_info(found[0]).tree):
            return None if found is None else found[0]
        raise Conflict(f"id {ids.text(draft.id)} is taken by another message", hint="Use a new id.")

    @_reads
    def head(self, session: Session) -> str | None:
        """The id of the present last message. NotFound, Corrupted."""
        head = self._refs.head_state(self._tx, row_of(session)).id
        return None if head is None else ids.text(head)

    @_reads
    def path(self, end: Session | Node | str | bytes, *, last: int | None = None) -> list[Node]:
        """The messages down to a message or to the head of a session, root first: all, or the `last` ones. NotFound."""
        if isinstance(end, Session):
            row = row_of(end)
            current = row is self._read and row.trashed_at is None
            pos = self._refs.verify(row).head if current else self._refs.head_state(self._tx, row).pos
        elif isinstance(end, Node):
            pos = node_row(end)[POS]
        else:
            pos = self._point(end).pos
        if pos is None:
            return []
        return (
            paths.whole(self._engine, self._tx, pos) if last is None else paths.last(self._engine, self._tx, pos, last)
        )

    @_reads
    def is_above(self, message: str | bytes, below: str | bytes, *, compacted: bool = False) -> bool:
        """True if a message is on the path to another one, or is the same.

        With `compacted`, also if it is on a path that a compaction replaced.
        """
        one, other, tx = self._tx.insert_point(_key(message)), self._found(below), self._tx
        if one is None or other is None or one.tree != other.tree:
            return False
        if _above(tx, one.pos, other.pos):
            return True
        ends = paths.origins(self._engine, tx, other.pos)[1:] if compacted else []
        return any(_above(tx, one.pos, end) for end in ends)

    @_reads
    def size(self, session: Session) -> int:
        """Stored bytes of the messages down to the head of a session. NotFound, Corrupted."""
        pos, tx = self._refs.head_state(self._tx, row_of(session)).pos, self._tx
        runs = [] if pos is None else paths.lineage(tx, pos)
        return sum(tx.body_bytes(run.run << SEQ_BITS, run.run << SEQ_BITS | upto) for run, upto in runs)

    @_writes
    def append(
        self,
        session: Session,
        messages: Sequence[Draft | Message | Native],
        *,
        after: str | bytes | None = HEAD,
        replaces: str | bytes | None = None,
        active_at: int | None = None,
    ) -> list[Node]:
        """Stores messages after the head, after a message of the tree, or (None) as a root, and moves the head there.

        The head leaves no message unreachable: if its path does not continue, it stays as a branch, unless a branch of
        this session has it already. A root that `replaces` a message continues its totals, as after a compaction. With
        `active_at` the activity is in the past, as in an import. NotFound if the session or the message was deleted;
        Conflict if an id is taken; Corrupted if the message to continue is damaged.
        """
        drafts = [one if isinstance(one, Draft) else self._engine.draft(one) for one in messages]
        row, tx = row_of(session), self._tx
        if after is not None and drafts and active_at is None:
            done = self._refs.append_next(tx, row, False if after is HEAD else _key(after), drafts)
            if done is not None:
                self._proof = partial(_has_node, id=drafts[-1].id)
                self._present.add(row.ref)
                return done.nodes
        state, derived = self._refs.head_state(tx, row), None
        self._present.add(row.ref)
        if after is HEAD:
            point = state.insert_point
        else:
            point = InsertPoint(state.tree) if after is None else self._point(after, state.tree)
            origin = None if replaces is None else self._point(replaces, state.tree)
            if origin is None or origin.id != state.id:
                self._refs.leave(tx, row, state, point)
            if origin is not None and origin.pos is not None:
                carried = (origin.carried or 0) + (origin.run_depth or 0) + (origin.pos & MAX_SEQ) + 1
                point = origin._replace(pos=None, id=None, run_depth=0, carried=carried, open=0)
                derived = origin.pos
        if not drafts:
            if state.id != point.id:
                move = self._move(row, state, point.pos, point.id, active_at)
                self._proof = partial(self._refs.is_moved, row=row, move=move)
            return []
        self._refs.ensure_sound(tx, point.pos)
        if derived is None and active_at is None:
            nodes = self._refs.append_at(tx, row, state, point, drafts).nodes
        else:
            nodes = append_chain(self._engine, tx, point, drafts, derived=derived, within=state.tree)
            last = node_row(nodes[-1])
            self._move(row, state, last[POS], last[ID], active_at)
        self._proof = partial(_has_node, id=drafts[-1].id)
        return nodes

    def move(self, session: Session, to: str | bytes | None, *, active_at: int | None = None) -> None:
        """Moves the head to a message of the tree, or before the first. What it leaves stays, as in `append`.

        A branch that ends there is the conversation again, and no branch.
        """
        self.append(session, (), after=to, active_at=active_at)

    @_writes
    def rebase(self, session: Session, to: str | bytes | None) -> Session:
        """`move`, also to a message of another tree, with which the session then shares messages.

        Conflict if it would go to another tree and is held or has a log; NotFound.
        """
        tx, refs, row = self._tx, self._refs, self._row(session)
        point = None if to is None else self._point(to)
        if point is None or point.tree == row.tree:
            self.move(session, to)
            return session
        if row.hold or tx.log_next(row.ref) & MAX_SEQ:
            raise Conflict(f"session {session.id} cannot continue at a message of another conversation")
        # A ref cannot change its tree, so it is made again, with what it owns.
        left = refs.head_state(tx, row).insert_point
        owned = [refs.change(tx, one, refs.data(one), look=one.look, owner=None) for one in tx.refs_owned(row.ref)]
        data = self._table.data(row)
        self._present.clear()
        tx.set_labels(row.ref, ())
        tx.delete_ref(row.ref)
        new = self._table.add_at(tx, data, row.key, row.kind, at=point, owner=row.owner, active_at=row.active_at)
        for one in owned:
            refs.change(tx, one, refs.data(one), look=one.look, owner=new.ref)
        refs.end_branches(tx, new, point)
        if left.pos is not None:
            refs.branch(tx, new.ref, left)
        elif row.tree is not None:
            tx.delete_tree_if_empty(row.tree)
        moved = Session(self._parts, self._changed(new))
        self._proof = partial(_is_remade, refs=refs, row=new, before=row.ref)
        return moved

    @_writes
    def replace(self, session: Session, node: Node, messages: Sequence[Draft]) -> None:
        """Replaces a message by others, or removes it. It stays as a branch only if the session is on hold.

        The messages after it are stored again, under their ids unless these are still in use. NotFound if it is not a
        message of the session.
        """
        tx, row, tree = self._tx, self._row(session), self._tree(session)
        path = self.path(session)
        at = next((number for number, one in enumerate(path) if one.id == node.id), None)
        if at is None:
            raise NotFound("message", node.id, hint=f"It is not a message of session {session.id}.")
        later = [self._engine.draft(one.said, one.id, microseconds(one.created_at)) for one in path[at + 1 :]]
        chain = [*messages, *later]
        branches = {one.ref for one in tx.refs_owned(row.ref) if one.kind == BRANCH}
        self.move(session, node.parent_id)
        hashes = [self._engine.blob_hash(tree, digest) for draft in chain for digest in draft.encoded.blobs]
        attached = [blob.blob for hash in hashes if (blob := tx.blobs.blob(tree, hash)) is not None]
        tx.blobs.add_uses(_LAST, attached)  # or they would be deleted with the messages
        for one in tx.refs_owned(row.ref):
            if one.kind == BRANCH and one.ref not in branches and not row.hold:
                deletion.delete_ref(self._engine, tx, one)
        self.append(session, [self.fresh(draft) for draft in chain], after=node.parent_id)
        tx.blobs.delete_uses(_LAST, _LAST)

    @_reads
    def fresh(self, draft: Draft) -> Draft:
        """A draft, under another id if its own is in use."""
        return (
            draft if self._tx.node(draft.id) is None else Draft(self._engine.new_id(), draft.encoded, draft.created_at)
        )

    @_reads
    def branches(self, session: Session) -> set[str]:
        """The last messages of its branches."""
        owned = self._tx.refs_owned(row_of(session).ref)
        return {ids.text(one.head_id) for one in owned if one.kind == BRANCH and one.head_id is not None}

    @_writes
    def branch(self, session: Session, at: str | bytes) -> None:
        """Keeps the path to a message as a branch of a session, unless the session has it already."""
        row = self._row(session)
        point = self._point(at, row.tree)
        heads = [row.head, *(one.head for one in self._tx.refs_owned(row.ref) if one.kind == BRANCH)]
        if not any(_above(self._tx, point.pos, head) for head in heads):
            self._changed(self._refs.branch(self._tx, row.ref, point))

    @_writes
    def drop_branches(self, session: Session, ends: Collection[str]) -> None:
        """Deletes the branches that end at these messages. Conflict if the session is held."""
        for one in self._tx.refs_owned(self._row(session).ref):
            if one.kind == BRANCH and one.head_id is not None and ids.text(one.head_id) in ends:
                deletion.delete_ref(self._engine, self._tx, one)
                self._proof = partial(_is_gone, row=one)

    @_reads
    def shares(self, session: Session, message: str | bytes) -> bool:
        """True if a message is in the tree of a session, so that its head can go there."""
        point = self._found(message)
        return point is not None and point.tree == row_of(session).tree

    @_reads
    def sessions_with(self, message: str | bytes) -> list[str]:
        """The ids of the sessions and traces that have a message on their path, in a branch or behind a compaction, in
        the trash or not. The first one had it first.
        """
        point = self._found(message)
        return [] if point is None or point.pos is None else deletion.shown_by(self._tx, point.pos)

    @_reads
    def sharing(self, session: Session) -> list[tuple[str, str]]:
        """Kind and id of the other sessions, traces and snapshots whose last message is in the tree of a session."""
        own = row_of(session)
        rows = self._tx.refs_in_tree(self._tree(session), 0, _LAST)
        return [(one.kind, ids.text(one.key)) for one in rows if one.kind in _SHARING and one.ref != own.ref]

    # -- documents

    @_reads
    def document(self, kind: str, id: str | bytes, *, trashed: bool = False) -> Document | None:
        """A document by key; None if there is none, or if its session is in the trash and `trashed` is False."""
        row = self._tx.ref(self._engine.workspace, kind, _key(id))
        if row is None or (row.trashed_at is not None and not trashed):
            return None
        self._note_present(row)
        return Document(self._parts, row)

    @_reads
    def documents(
        self,
        kind: str | None,
        *,
        owner: Session | None = None,
        index: bytes | None = None,
        label: bytes | None = None,
        after: Document | None = None,
        limit: int = _PAGE,
        whole: bool = False,
    ) -> list[Document]:
        """The documents of an owner, oldest first; or a page of all, or those with an index or a label, newest first.

        For an owner, None as `kind` means every kind. NotFound if the owner was deleted. With `whole` also those of its
        subagents, and none of them is left out because it is in the trash. `Store.documents` reads page after page.
        """
        if owner is not None and whole:
            owned = self._tx.refs_owned(owner._row.ref)
            owned += [row for one in owned if one.kind == SUBAGENT for row in self._tx.refs_owned(one.ref)]
            return [Document(self._parts, row) for row in owned if row.kind == kind]
        if owner is not None:
            owned = self._tx.refs_owned(self._found_row(owner).ref)
            wanted = (one for one in owned if (one.kind not in _NO_DOCUMENT if kind is None else one.kind == kind))
            return [Document(self._parts, row) for row in wanted if row.trashed_at is None]
        if kind is None:
            raise Invalid("documents of every kind are listed for an owner alone")
        edge, space = None if after is None else (after._row.rank, after._row.ref), self._engine.workspace
        found: list[Document] = []
        while len(found) < limit:
            rows = self._tx.refs_recent(space, kind, look=index, label=label, before=edge, limit=limit - len(found))
            if not rows:
                break
            found += [Document(self._parts, row) for row in rows if row.trashed_at is None]
            edge = rows[-1].rank, rows[-1].ref
        return found

    @_writes
    def put(
        self,
        kind: str,
        id: str | bytes,
        data: bytes,
        *,
        exact: bool = False,
        tag: bytes = b"\x01",
        owner: Target | None = None,
        index: bytes | None = None,
        labels: Sequence[str | bytes] = (),
        at: str | bytes | None = None,
        before: Document | None = None,
        new: bool = False,
        created_at: int | None = None,
    ) -> Document:
        """Stores a value, or replaces the one under this key. Message and labels are those of the first value, and the
        owner, unless another is given. A label as text is like one of a session: `Sessions.purge` finds it.

        The value, JSON or text, is redacted unless it is `exact`. `before` is the stored document, if the caller has
        read it: Conflict if it was changed. With `new` nothing is looked up: Conflict if the key is taken. Conflict
        also if the document's session is in the trash.
        """
        tx, payload = self._tx, tag + (data if exact else self._engine.redacted(data))
        row = before._row if before is not None else None if new else tx.ref(self._engine.workspace, kind, _key(id))
        if row is not None:
            if row.trashed_at is not None:
                raise Conflict("the session of this document is in the trash", hint="Restore it or purge it.")
            given = {} if owner is None or owner._row.ref == row.owner else {"owner": self._found_row(owner).ref}
            look = row.look if index is None else index
            row = self._refs.change(tx, self._refs.verify(row), payload, look=look, **given)
        else:
            above = None if owner is None else self._found_row(owner)
            tree = above.tree if above is not None and (at is not None or kind in _IN_TREE) else None
            point = None if at is None else self._point(at, tree)
            row = self._refs.add(
                tx, kind, _key(id), payload, tree=tree, at=point, owner=None if above is None else above.ref,
                look=index, created_at=created_at,
            )  # fmt: skip
            if labels:
                tx.set_labels(row.ref, self._label_hashes(labels))
        return Document(self._parts, self._changed(row))

    @_writes
    def label(self, document: Document, labels: Sequence[str | bytes]) -> None:
        """Replaces the labels of a document. Writes nothing if they are equal."""
        ref, hashes = document._row.ref, set(self._label_hashes(labels))
        if not _has_labels(self._tx, ref, hashes):
            self._tx.set_labels(ref, hashes)
            self._proof = partial(_has_labels, ref=ref, labels=hashes)

    @_reads
    def has_label(self, document: Document, label: bytes) -> bool:
        """True if a document has a label."""
        return label in self._tx.maintenance.labels(document._row.ref)

    @_writes
    def delete(self, what: Target) -> None:
        """Deletes a document or a session, what it owns, and the messages that only they need. Idempotent.

        Clears no traces: `purge` does. Conflict if it is held.
        """
        row = self._same(what)
        self._present.clear()
        if row is not None:
            deletion.delete_ref(self._engine, self._tx, row)
            self._proof = partial(_is_gone, row=row)

    @_writes
    def discard(self, document: Document) -> None:
        """Deletes a document that is only bookkeeping, such as a mark: also of a held session. Idempotent."""
        row = self._same(document)
        self._present.clear()
        if row is not None:
            self._tx.delete_ref(row.ref)
            self._proof = partial(_is_gone, row=row)

    # -- logs and blobs

    @_writes
    def log(self, of: Target, entries: Sequence[tuple[str | bytes | None, bytes]], *, exact: bool = False) -> None:
        """Adds entries to a log, each with an id or None; redacted unless they are `exact`. Conflict if an id is taken;
        NotFound if the owner of the log was deleted.
        """
        engine, row = self._engine, of._row
        now = engine.clock()
        rows = [
            (engine.new_id() if id is None else _key(id), now, data if exact else engine.redacted(data))
            for id, data in entries
        ]
        if rows:
            if row.ref not in self._present and self._same(of) is None:
                raise NotFound(row.kind, ids.text(row.key), hint="It was deleted.")
            add_entries(engine, self._tx, row, rows)
            self._proof = partial(_has_entry, id=rows[-1][0])

    @_reads
    def logged(self, of: Target | None, some: Iterable[str | bytes]) -> set[bytes]:
        """Those of these ids that entries of a log have; with None, of any log in any workspace: `log` refuses them."""
        found = self._tx.existing_log_ids([_key(one) for one in some])
        if of is None or not found:
            return found
        rows = ((id, self._tx.log_by_id(id)) for id in found)
        return {id for id, row in rows if row is not None and row.pos >> SEQ_BITS == of._row.ref}

    @_reads
    def entry(self, of: Target, id: str | bytes) -> bytes | None:
        """The data of an entry of a log by its id; None if the log has none. Corrupted."""
        return find_entry(self._engine, self._tx, of._row, _key(id))

    @_writes
    def blob(self, session: Session, data: bytes) -> str:
        """Stores bytes as a blob of a session, once; returns its digest. Something must `use` it, or it is deleted.

        NotFound if the session was deleted or is in the trash.
        """
        tree = self._found_row(session).tree or 0
        digest = put_in(Blobs(self._engine, lambda: tree), self._tx, tree, data).digest
        self._has_stored(tree, [digest])
        return digest

    @_writes
    def blobs(self, session: Session, contents: Sequence[tuple[str, bytes]]) -> None:
        """`blob` for many, each with its digest."""
        tree = self._found_row(session).tree or 0
        if contents:
            put_all_in(Blobs(self._engine, lambda: tree), self._tx, tree, contents)
            self._has_stored(tree, [digest for digest, _ in contents])

    @_writes
    def use(self, document: Document, session: Session, digests: Iterable[str], *, only: bool = False) -> None:
        """Notes that a document needs blobs of a session; with `only`, no others. NotFound if one was deleted.

        Part of the unit that stores the document.
        """
        tx, row, tree, used = self._tx, document._row, self._tree(session), []
        for digest in digests:
            blob = tx.blobs.blob(tree, self._engine.blob_hash(tree, digest))
            if blob is None:
                raise NotFound("blob", digest, hint="It was deleted. Try again.")
            used.append(blob.blob)
        if only:
            tx.blobs.add_uses(_LAST, used)  # or they would be deleted with their last use
            tx.blobs.delete_uses(-row.ref, -row.ref)
        tx.blobs.add_uses(-row.ref, used)
        if only:
            tx.blobs.delete_uses(_LAST, _LAST)

    # -- inside

    def _label_hashes(self, labels: Iterable[str | bytes]) -> list[bytes]:
        return [one if isinstance(one, bytes) else self._table.label_hash(one) for one in labels]

    def _row(self, of: Target) -> RefRow:
        """The present row. NotFound if it was deleted or is in the trash."""
        row = of._row
        return self._refs.get(self._tx, row.kind, row.key)

    def _found_row(self, of: Target) -> RefRow:
        """A row of which number, kind, key and tree are present: `_row`, unless this unit has found it before."""
        return of._row if of._row.ref in self._present else self._row(of)

    def _note_present(self, row: RefRow) -> None:
        if row.trashed_at is None:
            self._present.add(row.ref)

    def _same(self, of: Target) -> RefRow | None:
        """The present row, in the trash or not; None if it was deleted, also if another has its key now."""
        row = self._tx.ref(self._engine.workspace, of._row.kind, of._row.key)
        return None if row is None or row.ref != of._row.ref else row

    def _tree(self, session: Session) -> int:
        tree = row_of(session).tree
        assert tree is not None  # all sessions have one
        return tree

    def _found(self, message: str | bytes) -> InsertPoint | None:
        """The place after a message of this workspace; None for any other."""
        point = self._tx.insert_point(_key(message))
        return point if point is not None and self._is_here(point.tree) else None

    def _is_here(self, tree: int) -> bool:
        """True if a tree is of this workspace."""
        if tree not in self._trees and self._tx.tree_workspace(tree) == self._engine.workspace:
            self._trees.add(tree)
        return tree in self._trees

    def _point(self, message: str | bytes, tree: int | None = None) -> InsertPoint:
        """`_found`; with `tree`, which is one of this workspace, in that tree. NotFound."""
        point = self._found(message) if tree is None else self._tx.insert_point(_key(message))
        if point is None or tree not in (None, point.tree):
            raise NotFound("message", ids.text(_key(message)))
        return point

    def _move(self, row: RefRow, state: HeadState, pos: int | None, id: bytes | None, at: int | None) -> Move:
        if at is None:
            return self._refs.move(self._tx, row, state, pos, id)
        return self._refs.move_past(self._tx, row, state, pos, id, at)

    def _note(self, event: str, session: Session) -> None:
        with loading:
            from clew.engine import audit

        audit.note(self._engine, self._refs, self._tx, event, session.id)

    def _has_stored(self, tree: int, digests: Iterable[str]) -> None:
        """Adds blobs to the proof: alone they prove nothing, as the store may have had them before."""
        now, looks = self._proof, [(tree, self._engine.blob_hash(tree, digest)) for digest in digests]
        if isinstance(now, partial) and now.func is _has_blobs:
            now.keywords["blobs"].extend(looks)
        else:
            self._proof = partial(_has_blobs, blobs=looks, proof=now)

    def _changed(self, row: RefRow) -> RefRow:
        self._note_present(row)
        self._proof = partial(self._refs.is_stored, left=row)
        return row


_IN_TREE = ("checkpoint", "worktree", "rewind", "recovery")
"""Kinds of documents that are stored with the tree of their session, also without a message."""


_SHARING = (*deletion.SESSION_KINDS, "snapshot")
"""Kinds of refs that have messages of their own."""
_NO_DOCUMENT = (*deletion.SESSION_KINDS, BRANCH)
"""Kinds of refs that a session can own, and that are no documents."""


def write(parts: Parts, work: Callable[[Unit], T]) -> T:
    """See `Store.write`."""
    done: list[tuple[Unit, tuple[T]]] = []

    def step(tx: Tx) -> tuple[T]:
        done.clear()
        unit = Unit(parts, tx, _WRITES)
        result = (_run(unit, tx, work),)
        done.append((unit, result))
        return result

    def settle(tx: Tx) -> tuple[T] | None:
        return next((result for unit, result in done if unit._proof is None or unit._proof(tx)), None)

    try:
        return parts.engine.write(step, settle)[0]
    except OwnError as own:
        raise own.error from own.error.__cause__


def read(parts: Parts, work: Callable[[Unit], T], *, single: bool = False) -> T:
    """See `Store.read`."""
    engine = parts.engine
    state = _READS if engine.current.tx is not None or engine.backend.in_transaction() else _SNAPSHOT
    try:
        return engine.read(lambda tx: _run(Unit(parts, tx, state), tx, work), single=single)
    except OwnError as own:
        raise own.error from own.error.__cause__


def _run(unit: Unit, tx: Tx, work: Callable[[Unit], T]) -> T:
    try:
        return unit._engine.run_in(tx, partial(work, unit))
    finally:
        unit._state = _ENDED


def documents(parts: Parts, kind: str, *, index: bytes | None = None, label: bytes | None = None) -> Iterator[Document]:
    """See `Store.documents`."""
    after, limit = None, 1  # most callers want the first
    while True:
        page = partial(Unit.documents, kind=kind, index=index, label=label, after=after, limit=limit)
        found = read(parts, page, single=True)
        yield from found
        if not found:
            return
        after, limit = found[-1], _PAGE


def _key(id: str | bytes) -> bytes:
    return id if isinstance(id, bytes) else ids.parse(id)


def _above(tx: Tx, pos: int | None, leaf: int | None) -> bool:
    return pos is not None and leaf is not None and paths.on_path(tx, leaf, pos)


# -- proofs


def _is_remade(tx: Tx, refs: Refs, row: RefRow, before: int) -> bool:
    """A row that was made again has new versions, which cannot be compared with those of the row before."""
    now = tx.ref(row.workspace, row.kind, row.key)
    return (now is None or now.ref != before) and refs.is_stored(tx, row)


def _is_gone(tx: Tx, row: RefRow) -> bool:
    now = tx.ref_at(row.ref)
    return now is None or now.key != row.key


def _has_node(tx: Tx, id: bytes) -> bool:
    return tx.node(id) is not None


def _has_blobs(tx: Tx, blobs: list[tuple[int, bytes]], proof: Callable[[Tx], bool] | None) -> bool:
    return (proof is None or proof(tx)) and all(tx.blobs.blob(tree, look) is not None for tree, look in blobs)


def _has_entry(tx: Tx, id: bytes) -> bool:
    return tx.log_by_id(id) is not None


def _has_labels(tx: Tx, ref: int, labels: set[bytes]) -> bool:
    return set(tx.maintenance.labels(ref)) == labels
