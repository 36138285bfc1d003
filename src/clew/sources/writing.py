"""The session of an imported conversation, written in one transaction: created, continued, described."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from clew.backends import ID, MAX_SEQ, POS, SEQ_BITS, HeadState, InsertPoint, Move, RefRow, Tx
from clew.base import ids
from clew.base.messages import REDACTION
from clew.engine import paths
from clew.engine.append import append_chain
from clew.engine.deletion import shown_by
from clew.engine.engine import Draft
from clew.engine.log import add_entries
from clew.engine.node import node_row
from clew.engine.purged import recall
from clew.engine.refs import BRANCH
from clew.engine.session_data import AGAIN, SOURCE, SessionData, directory, label_set
from clew.sources.contract import About, Entry, derived_id, uuid_or_none
from clew.sources.runs import Change
from clew.sources.values import digest, storable
from clew.store.parts import Parts
from clew.store.session_table import SESSION, SUBAGENT


class ConversationFacts(NamedTuple):
    """What is known of a conversation."""

    source: str
    name: str
    id: str
    """The id of its session."""
    about: About
    fresh: bool
    """True if its file was never imported as a whole."""
    being_made: bool = False
    """True if the same import has created its session."""
    made: Change | None = None
    """Set if the session was created for an attachment, before the transaction."""
    redacted: bool = False
    """True if a secret was removed from one of its messages, which the source still has."""
    owner: str | None = None
    """The id of the session that a subagent's trace belongs to, if its session must be created."""
    held: frozenset[str] = frozenset()
    """Sessions of the same conversation that are on hold: a new one continues their messages."""
    file: str | None = None
    """The file that it came from, if its session has not the id that the conversation gives."""
    again: bool = False
    """True if it is stored though some of it was purged."""


def session_id(source: str, conversation: str) -> str:
    """The id of the session that a conversation becomes: its own UUID, or one derived from its names.

    A UUID in another form, such as capital letters, is a name like any other.
    """
    return conversation if uuid_or_none(conversation) == conversation else derived_id(source, conversation)


def describe(facts: ConversationFacts, data: SessionData) -> SessionData:
    """Brings title, directory, model and origin up to date; what a person has changed since stays."""
    about, extra = facts.about, dict(data.extra or {})
    if facts.redacted:
        extra.setdefault(REDACTION, {"containsSecrets": True})
    origin = extra.get(SOURCE)
    before = origin if isinstance(origin, dict) else {}
    given = about.title or (about.prompt or None if before.get("title") is None else None)
    told: dict[str, Any] = {"title": given, "branch": about.branch, "version": about.version}
    if REDACTION in extra:  # the source's own words may repeat the secret
        given, told = None, {}
    title = data.title
    if given is not None and given != before.get("title") and title in (None, before.get("title")):
        title = given
    told["file"] = facts.file
    told[AGAIN] = facts.again or None
    known = {name: value for name, value in told.items() if value is not None}
    if about.own is not None:
        known["own"] = {name: digest(msgspec.json.encode(value)) for name, value in about.own.items()}
        for name, value in about.own.items():  # keeps what an adapter has changed since
            if name not in extra or digest(msgspec.json.encode(extra[name])) == before.get("own", {}).get(name):
                extra[name] = value
    extra[SOURCE] = {**before, "tool": facts.source, "id": storable(facts.name), **known}
    fork = None if about.forked_from is None else session_id(facts.source, about.forked_from)
    return msgspec.structs.replace(
        data,
        title=title,
        cwd=directory(about.cwd) if data.cwd is None else data.cwd,
        model=data.model or about.model,
        labels=label_set([*data.labels, *(about.labels or ())]),
        forked_from=data.forked_from if fork in (None, facts.id) else fork,
        extra=extra,
    )


class SessionWriter:
    """The transaction that stores a batch of a conversation: a step of the caller's."""

    def __init__(self, parts: Parts, facts: ConversationFacts, tx: Tx, row: RefRow | None) -> None:
        self._parts = parts
        self._of = facts
        self._tx = tx
        self.row = row
        self._before = None if row is None else row.head_id
        self._created: list[Change] = [] if facts.made is None else [facts.made]
        self._new_session = facts.being_made or bool(self._created)
        self._head = self._before
        """Where the session stands once the messages that were passed by are counted."""
        self._head_time: int | None = None
        self._chain: list[Draft] = []
        self._first: Entry | None = None
        self._tail: str | None = None
        self.new = 0
        self.notes: list[str] = []

    def changes(self) -> list[Change]:
        """What an undo needs to know."""
        row = self.row
        if row is None:
            return []
        made = [one for one in self._created if one.session != self._of.id]
        before = None if self._before is None else ids.text(self._before)
        after = None if row.head_id is None else ids.text(row.head_id)
        own = Change(self._of.id, self._new_session, before, after, row.version, self.new)
        return [*made, own]

    # -- messages

    def add(self, entry: Entry, draft: Draft) -> None:
        """Adds a new message: to the chain that it continues, or to a new one."""
        if self._chain and entry.parent != self._tail:
            self.end_chain()
        if not self._chain:
            self._first = entry
        self._chain.append(draft)
        self._tail = entry.id

    def pass_by(self, entry: Entry, draft: Draft) -> None:
        """Follows a message that is stored already, while the session is being made."""
        if self._chain:
            if not self._new_session:
                return
            self.end_chain()
        above = entry.parent or entry.derived
        self._rebase(draft.id)
        if self.row is None:
            self.row = self.create(draft.id, draft.created_at)
            self._head = draft.id
        elif self._of.fresh and above is not None and self._head == ids.maybe(above):
            self._head, self._head_time = draft.id, draft.created_at
        elif self._new_session:
            self._go_to(draft)

    def _go_to(self, draft: Draft) -> None:
        """Follows a stored message that does not come after the head: what the head leaves is a branch.

        A line that is there twice is not followed again: its message is on the path, or a branch ends there.
        """
        self._catch_up()
        assert self.row is not None
        state, point = self._parts.refs.head_state(self._tx, self.row), self._tx.insert_point(draft.id)
        if point is None or point.tree != state.tree or _is_above(self._tx, point.pos, state.pos):
            return
        if self._is_branch(point.id):
            return
        if not _is_above(self._tx, state.pos, point.pos):
            self._leave_branch(state)
        self._head, self._head_time = draft.id, draft.created_at

    def _rebase(self, id: bytes) -> None:
        """Makes an empty session again in the tree of a stored message, which it is to have.

        It is empty because only the trace of a subagent of it was imported so far. What it owns stays its own.
        """
        row, tx, refs = self.row, self._tx, self._parts.refs
        if row is None or row.head_id is not None or tx.log_next(row.ref) & MAX_SEQ:
            return
        point = tx.insert_point(id)
        if point is None or point.tree == row.tree or tx.tree_workspace(point.tree) != row.workspace:
            return
        owned = [refs.change(tx, one, refs.data(one), look=one.look, owner=None) for one in tx.refs_owned(row.ref)]
        data, active_at = self._parts.table.data(row), row.active_at
        tx.set_labels(row.ref, ())
        tx.delete_ref(row.ref)
        if row.tree is not None:
            tx.delete_tree_if_empty(row.tree)
        self.row = self._parts.table.add(tx, data, row.key, row.kind, at=id, owner=None, active_at=active_at)
        for one in owned:
            refs.change(tx, one, refs.data(one), look=one.look, owner=self.row.ref)
        self._head = self.row.head_id
        self._new_session = True

    def _is_branch(self, id: bytes | None) -> bool:
        """True if a branch of the session ends at this message."""
        assert self.row is not None
        return any(one.kind == BRANCH and one.head_id == id for one in self._tx.refs_owned(self.row.ref))

    def _leave_branch(self, state: HeadState) -> None:
        """Keeps the path to the head as a branch, unless there is one that ends there."""
        if self.row is not None and state.id is not None and not self._is_branch(state.id):
            self._parts.refs.branch(self._tx, self.row.ref, state.insert_point)

    def end_chain(self) -> None:
        """Stores the messages of the chain, and moves the head of the session to the last one."""
        chain, first = self._chain, self._first
        self._chain, self._first = [], None
        if not chain or first is None:
            self._catch_up()
            return
        refs, tx = self._parts.refs, self._tx
        parent = None if first.parent is None else tx.insert_point(ids.parse(first.parent))
        if parent is not None and not self._is_own(parent):
            parent = None
        if parent is not None and parent.id is not None:
            self._rebase(parent.id)
        if self.row is None:
            self.row = self.create(None if parent is None else parent.id, chain[0].created_at)
        self._catch_up()
        head = refs.head_state(tx, self.row)
        point, derived = self._insertion_point(first, head)
        stays = {point.id, None if derived is None else ids.parse(first.derived or "")}
        if head.id not in stays and not _is_above(tx, head.pos, point.pos):
            self._leave_branch(head)
        nodes = append_chain(self._parts.engine, tx, point, chain, derived=derived)
        end = node_row(nodes[-1])
        self._take_move(refs.move_past(tx, self.row, head, end[POS], end[ID], chain[-1].created_at))
        self.new += len(chain)

    def _catch_up(self) -> None:
        """Moves the head to the last message that was passed by.

        In the tree that message may not come after the head, because those between were deleted once: then what the
        head leaves is a branch, and a message at which a branch ends is not followed.
        """
        if self.row is None or self._head == self.row.head_id or self._head is None or self._head_time is None:
            return
        state, point = self._parts.refs.head_state(self._tx, self.row), self._tx.insert_point(self._head)
        if point is not None and point.tree == state.tree:
            if state.pos is not None and not _is_above(self._tx, state.pos, point.pos):
                if self._is_branch(point.id):
                    self._head = self.row.head_id
                    return
                self._leave_branch(state)
            self._take_move(
                self._parts.refs.move_past(self._tx, self.row, state, point.pos, point.id, self._head_time)
            )  # fmt: skip

    def _take_move(self, move: Move) -> None:
        assert self.row is not None
        self.row = self.row._replace(**move._asdict())
        self._head = move.head_id

    def _insertion_point(self, first: Entry, head: HeadState) -> tuple[InsertPoint, int | None]:
        """Where a chain goes: after its parent, or after the head if that was purged; as a root that stands for a
        message, or as a root.
        """
        tx, tree = self._tx, head.tree
        if first.parent is not None:
            point = tx.insert_point(ids.parse(first.parent))
            if point is not None and point.tree == tree and self._is_own(point):
                self._parts.refs.ensure_sound(tx, point.pos)
                return point, None
            if recall(self._parts.engine, tx, [ids.parse(first.parent)]):
                return head.insert_point, None
            self.notes.append(f"{first.key}: its parent is missing")
        if first.derived is not None:
            point = tx.insert_point(ids.parse(first.derived))
            if point is not None and point.tree == tree and point.pos is not None:
                carried = (point.carried or 0) + (point.run_depth or 0) + (point.pos & ((1 << SEQ_BITS) - 1)) + 1
                root = point._replace(pos=None, id=None, run_depth=0, carried=carried, open=0)
                return root, point.pos
        return InsertPoint(tree), None

    def _is_own(self, point: InsertPoint) -> bool:
        """True if this conversation has a message: a file may name those of any other."""
        if self.row is not None and point.id in (self.row.head_id, self._head):
            return True
        shown = set() if point.pos is None else {*shown_by(self._tx, point.pos)}
        return self._of.id in shown or not shown.isdisjoint(self._of.held)

    # -- records

    def log(self, records: Sequence[tuple[bytes, bytes]], layout: bytes) -> None:
        """Keeps new records that are no messages, and the order of all that is new."""
        engine = self._parts.engine
        row = self.row = self.row or self.create(None, None)
        now = engine.clock()
        entries = [*records, (engine.new_id(), layout)]
        add_entries(engine, self._tx, row, [(id, now, data) for id, data in entries])

    # -- the session

    def create(self, at: bytes | None, active_at: int | None) -> RefRow:
        """Adds the session; for a subagent's trace whose owner is not there yet, an empty one for that too."""
        about, table = self._of.about, self._parts.table
        owner = None
        if about.owner is not None and about.agent is not None:
            name = self._of.owner or session_id(self._of.source, about.owner)
            owner = SESSION, ids.parse(name)
            if self._tx.ref(self._parts.engine.workspace, *owner) is None:
                origin = {SOURCE: {"tool": self._of.source, "id": storable(about.owner)}}
                data = SessionData(cwd=directory(about.cwd), extra=origin)
                made = table.add(self._tx, data, owner[1], SESSION, at=None, owner=None, active_at=active_at)
                self._created.append(Change(name, created=True, version=made.version))
        kind = SESSION if about.agent is None else SUBAGENT
        fork = None if at is None or about.agent is not None else self._first_session_with(at)
        data = describe(self._of, SessionData(agent=about.agent, forked_from=fork))
        self._new_session = True
        return table.add(
            self._tx, data, ids.parse(self._of.id), kind, at=at, owner=owner, active_at=active_at
        )  # fmt: skip

    def _first_session_with(self, id: bytes) -> str | None:
        """The session that had a message first; None if that one is a fork of this session itself."""
        point, parts = self._tx.insert_point(id), self._parts
        found = [] if point is None or point.pos is None else shown_by(self._tx, point.pos)
        row = self._tx.ref(parts.engine.workspace, SESSION, ids.parse(found[0])) if found else None
        return None if row is None or parts.table.data(row).forked_from == self._of.id else found[0]

    def finish(self) -> None:
        """Points the session at the message where its program would continue, and brings its data up to date."""
        if self.row is None:
            return
        table, head = self._parts.table, self._of.about.head
        self.row = table.current(self._tx, self.row)
        if head is not None and ids.parse(head) != self.row.head_id:
            self._continue_at(self.row, ids.parse(head))
        data = table.data(self.row)
        now = describe(self._of, data)
        if now != data:
            self.row = table.change(self._tx, self.row, now)

    def _continue_at(self, row: RefRow, target: bytes) -> None:
        """Points the session at a message of its tree; the path it leaves is a branch."""
        refs, tx = self._parts.refs, self._tx
        state, point = refs.head_state(tx, row), tx.insert_point(target)
        if point is None or point.tree != state.tree or not self._is_own(point):
            return
        if not _is_above(tx, state.pos, point.pos):
            self._leave_branch(state)
        self._take_move(refs.move_past(tx, row, state, point.pos, point.id, state.active_at))


def _is_above(tx: Tx, pos: int | None, leaf: int | None) -> bool:
    """Whether a message is on the path to another."""
    return pos is not None and leaf is not None and paths.on_path(tx, leaf, pos)
