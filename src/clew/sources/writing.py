"""The session of an imported conversation, written in one unit of work: created, continued, described."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from clew.base import ids
from clew.base.messages import REDACTION
from clew.engine.session_data import AGAIN, SOURCE, SessionData, directory, label_set
from clew.engine.titles import says_something
from clew.sources.contract import About, Entry, derived_id, uuid_or_none
from clew.sources.import_log import Change
from clew.sources.values import digest, storable
from clew.store.session import Session
from clew.store.unit import HEAD, Draft, Unit


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
    stored = before.get("title")
    given = about.title or (about.prompt or None if stored is None or not says_something(stored) else None)
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
    """Stores a batch of a conversation, as a step of the caller's unit."""

    def __init__(self, unit: Unit, facts: ConversationFacts, session: Session | None) -> None:
        self._unit = unit
        self._of = facts
        self.session = session
        """As it was read last."""
        self._outdated = False
        self._before = None if session is None else session.head_id
        self._created: list[Change] = [] if facts.made is None else [facts.made]
        self._new_session = facts.being_made or bool(self._created)
        self._stored_head = None if self._before is None else ids.parse(self._before)
        self._head = self._stored_head
        """Where the session stands once the messages that were passed by are counted."""
        self._head_time: int | None = None
        self._chain: list[Draft] = []
        self._first: Entry | None = None
        self._tail: str | None = None
        self.new = 0
        self.notes: list[str] = []

    def changes(self) -> list[Change]:
        """What an undo needs to know."""
        session = self._present()
        if session is None:
            return []
        made = [one for one in self._created if one.session != self._of.id]
        own = Change(self._of.id, self._new_session, self._before, session.head_id, session.version, self.new)
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
        if self.session is None:
            self.session = self.create(draft.id, draft.created_at)
        elif self._of.fresh and above is not None and self._head == ids.maybe(above):
            self._head, self._head_time = draft.id, draft.created_at
        elif self._new_session:
            self._go_to(self.session, draft)

    def _go_to(self, session: Session, draft: Draft) -> None:
        """Follows a stored message that does not come after the head.

        A line that is there twice is not followed again: its message is on the path, or a branch ends there.
        """
        self._catch_up()
        unit, head = self._unit, self._stored_head
        if not unit.shares(session, draft.id) or (head is not None and unit.is_above(draft.id, head)):
            return
        if ids.text(draft.id) not in unit.branches(session):
            self._head, self._head_time = draft.id, draft.created_at

    def _rebase(self, id: bytes) -> None:
        """Moves an empty session to a stored message, which it is to have, also into another tree.

        It is empty because only the trace of a subagent of it was imported so far. What it owns stays its own.
        """
        unit, session = self._unit, self.session
        if session is None or self._stored_head is not None or session.held or len(session.log):
            return
        if unit.node(id) is not None and not unit.shares(session, id):
            self.session = unit.rebase(session, id)
            self._stored_head = self._head = id
            self._new_session = True

    def end_chain(self) -> None:
        """Stores the messages of the chain, and moves the head of the session to the last one."""
        chain, first = self._chain, self._first
        self._chain, self._first = [], None
        if not chain or first is None:
            self._catch_up()
            return
        parent = None if first.parent is None else ids.parse(first.parent)
        own = parent if parent is not None and self._is_own(parent) else None
        if own is not None:
            self._rebase(own)
        if self.session is None:
            self.session = self.create(own, chain[0].created_at)
        self._catch_up()
        after, replaces = self._insertion_point(self.session, first, own)
        self._unit.append(self.session, chain, after=after, replaces=replaces, active_at=chain[-1].created_at)
        self._stored_head = self._head = chain[-1].id
        self._outdated = True
        self.new += len(chain)

    def _catch_up(self) -> None:
        """Moves the head to the last message that was passed by.

        In the tree that message may not come after the head, because those between were deleted once: a message at
        which a branch ends is not followed then.
        """
        session, head, time, stored = self.session, self._head, self._head_time, self._stored_head
        if session is None or head == stored or head is None or time is None or not self._unit.shares(session, head):
            return
        follows = stored is None or self._unit.is_above(stored, head)
        if follows or ids.text(head) not in self._unit.branches(session):
            self._move(session, head, time)
        else:
            self._head = stored

    def _move(self, session: Session, to: bytes, active_at: int) -> None:
        self._unit.move(session, to, active_at=active_at)
        self._stored_head = self._head = to
        self._outdated = True

    def _insertion_point(self, session: Session, first: Entry, own: bytes | None) -> tuple[Any, str | None]:
        """Where a chain goes: after its parent, or after the head if that was purged; as a root that stands for a
        message, or as a root. `own` is the parent if the conversation has it.
        """
        unit = self._unit
        if first.parent is not None:
            if own is not None and (own == self._stored_head or unit.shares(session, own)):
                return own, None
            if unit.purged([first.parent]):
                return HEAD, None
            self.notes.append(f"{first.key}: its parent is missing")
        if first.derived is not None and unit.shares(session, first.derived):
            return None, first.derived
        return None, None

    def _is_own(self, id: bytes) -> bool:
        """True if this conversation has a message: a file may name those of any other."""
        if self.session is not None and id in (self._stored_head, self._head):
            return True
        shown = self._unit.sessions_with(id)
        return self._of.id in shown or not self._of.held.isdisjoint(shown)

    # -- records

    def log(self, entries: Sequence[tuple[bytes | None, bytes]]) -> None:
        """Keeps new records that are no messages, redacted, and the order of all that is new."""
        if self.session is None:
            self.session = self.create(None, None)
        self._unit.log(self.session, entries, exact=True)

    # -- the session

    def create(self, at: bytes | None, active_at: int | None) -> Session:
        """Adds the session; for a subagent's trace whose owner is not there yet, an empty one for that too."""
        about, unit, owner = self._of.about, self._unit, None
        if about.owner is not None and about.agent is not None:
            name = self._of.owner or session_id(self._of.source, about.owner)
            owner = unit.session(name, trashed=True)
            if owner is None:
                origin = {SOURCE: {"tool": self._of.source, "id": storable(about.owner)}}
                owner = unit.create(SessionData(cwd=directory(about.cwd), extra=origin), name, active_at=active_at)
                self._created.append(Change(name, created=True, version=owner.version))
        fork = None if at is None or about.agent is not None else self._first_session_with(at)
        data = describe(self._of, SessionData(agent=about.agent, forked_from=fork))
        self._new_session = True
        self._stored_head = self._head = at
        return unit.create(data, self._of.id, at=at, owner=owner, active_at=active_at)

    def _first_session_with(self, id: bytes) -> str | None:
        """The session that had a message first; None if that one is a fork of this session itself."""
        found = self._unit.sessions_with(id)
        first = self._unit.session(found[0], trashed=True) if found else None
        return None if first is None or first.forked_from == self._of.id else first.id

    def finish(self) -> None:
        """Points the session at the message where its program would continue, and brings its data up to date."""
        if self.session is None:
            return
        head = None if self._of.about.head is None else ids.parse(self._of.about.head)
        moved = head if head != self._stored_head else None
        if moved is not None and self._unit.shares(self.session, moved) and self._is_own(moved):
            self._move(self.session, moved, 0)  # this is no activity
        session = self._present()
        if session is not None and (data := describe(self._of, session.data)) != session.data:
            self.session = self._unit.save(session, data)

    def _present(self) -> Session | None:
        """The session as it is now."""
        if self.session is not None and self._outdated:
            self.session = self._unit.session(self._of.id, subagent=self.session.is_subagent, trashed=True)
            self._outdated = False
        return self.session
