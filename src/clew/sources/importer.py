"""Stores the records that a source reads: each once, in batches, each batch in one transaction.

A message becomes a node under its own id, in the tree of its conversation; the session points at the message where the
program would continue, and paths that were left are branches. A message that is stored already (the file was imported
before, or it is a copy that a fork has made) is not stored again; where a copy has other bytes, these go to the log of
its session. Every other record goes to the log as it is.

The log also has the order of the records, so that a session can be written out as it was read: see `Layout`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from clew.backends import ID, POS, SEQ_BITS, InsertPoint, Tx
from clew.base import ids
from clew.engine import paths
from clew.engine.append import append_chain
from clew.engine.engine import Draft
from clew.engine.node import microseconds, node_payload, node_row
from clew.errors import Invalid, NotFound
from clew.sources.contract import ENVELOPE, About, Entry, Skip, Source, derived_id, uuid_or_none
from clew.sources.items import Item
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.store import Store

BATCH = 4 * 1024 * 1024
"""Bytes that are stored in one transaction: other writers wait for a fraction of a second."""
MANY = 1000
"""Records that are stored in one transaction at most."""
SOURCE = "source"
"""Where a session's free data keeps where it came from: tool, the tool's own id, branch and version."""
RECORD, LAYOUT = b"\x01", b"\x02"
"""First byte of a log entry: a record of the source, or the order of those before it."""


class Layout(msgspec.Struct, frozen=True):
    """The order of the records of one batch: the id of a message, or None for the next record in the log."""

    order: list[str | None]


class ImportedConversation(NamedTuple):
    """A conversation after an import."""

    session: str
    messages: int
    """Messages that are new in the store."""
    known: int
    """Messages that were stored before."""
    records: int
    """Records that are new in its log."""


class ItemOutcome(NamedTuple):
    """What became of one file."""

    item: Item
    source: str
    conversations: tuple[ImportedConversation, ...]
    skipped: tuple[Skip, ...]
    notes: tuple[str, ...]
    """Messages that were stored, though something is wrong with them."""


def import_item(store: Store, source: Source, item: Item) -> ItemOutcome:
    """Stores what a source reads in one file. Repeated, it stores only what is new.

    An error ends it; every batch that was stored stays.
    """
    found: dict[str, ConversationWriter] = {}
    skipped: list[Skip] = []
    for part in source.read(item):
        if isinstance(part, Skip):
            skipped.append(part)
            continue
        one = found.get(part.conversation)
        if one is None:
            one = found[part.conversation] = ConversationWriter(store, source, part.conversation)
        one.take(part)
    done = []
    for one in found.values():
        one.finish()
        if one.session is not None:
            done.append(ImportedConversation(one.session.id, one.new, one.known, one.records))
    notes = [note for one in found.values() for note in one.notes]
    return ItemOutcome(item, source.name, tuple(done), tuple(skipped), tuple(notes))


def session_id(source: str, conversation: str) -> str:
    """The id of the session that a conversation becomes: its own UUID, or one derived from its names."""
    return uuid_or_none(conversation) or derived_id(source, conversation)


class _Message(NamedTuple):
    entry: Entry
    draft: Draft


class ConversationWriter:
    """Stores the parts of one conversation."""

    def __init__(self, store: Store, source: Source, name: str) -> None:
        self._store = store
        self._parts = Parts.of(store)
        self._source = source
        self._name = name
        self._id = session_id(source.name, name)
        self._about = About(conversation=name)
        self._waiting: list[Entry] = []
        self._size = 0
        self.session: Session | None = None
        self.new = self.known = self.records = 0
        self.notes: list[str] = []
        self._laid: set[str] = set()
        """Ids of the messages whose place among the records is in the log."""
        self.seen = 0
        """The length of the log that is known."""
        self.catch_up()

    def catch_up(self) -> int:
        """Takes note of what is stored: at first, and after other writers. Returns the length of the log before."""
        before = self.seen
        with suppress(NotFound):
            if self.session is None:
                self.session = self._store.sessions.get(self._id)
            for entry in self.session.log.read(before):
                self.seen = entry.number + 1
                if entry.data[:1] == LAYOUT:
                    self._laid.update(id for id in _layout(entry.data).order if id is not None)
        return before

    def take(self, part: About | Entry) -> None:
        """Adds a part; stores the batch once it is large enough."""
        if isinstance(part, About):
            told = {name: value for name in About.__struct_fields__ if (value := getattr(part, name)) is not None}
            self._about = msgspec.structs.replace(self._about, **told)
            return
        self._waiting.append(part)
        self._size += len(part.raw)
        if part.note is not None:
            self.notes.append(f"{self._name}: {part.key}: {part.note}")
        if self._size >= BATCH or len(self._waiting) >= MANY:
            self.flush()

    def finish(self) -> None:
        """Stores the rest, and what is known about the conversation as a whole."""
        self.flush()
        session = self.session
        if session is None:
            return
        if self._about.head is not None and session.head_id != self._about.head:
            self._continue_at(session, self._about.head)
        self._describe(session)

    # -- storing a batch

    def flush(self) -> None:
        """Stores what was taken so far, in one transaction."""
        entries, self._waiting, self._size = self._waiting, [], 0
        if not entries:
            return
        drafts: dict[str, _Message] = {}
        for entry in entries:
            if entry.id is not None and entry.message is not None:
                at = None if entry.created_at is None else microseconds(entry.created_at)
                try:
                    drafts[entry.id] = _Message(entry, self._parts.engine.draft(entry.message, entry.id, at))
                except Invalid as error:
                    self.notes.append(f"{self._name}: {entry.key}: {error.message}")
        with self._store.transaction():
            self._store_batch(entries, drafts)

    def _store_batch(self, entries: Sequence[Entry], drafts: dict[str, _Message]) -> None:
        order: list[str | None] = []
        records: list[tuple[bytes, bytes]] = []
        chain: list[_Message] = []
        for entry in entries:
            message = drafts.get(entry.id or "")
            same = None if message is None else self._stored_alike(message)
            if message is not None and same is None:
                if chain and entry.parent != chain[-1].entry.id:
                    self._store_chain(chain)
                    chain = []
                chain.append(message)
            elif message is not None:
                self.known += 1
                if self.session is None:
                    self._create(at=entry.id)
            if message is not None and same is not False:
                if entry.id not in self._laid:
                    order.append(entry.id)
                    self._laid.add(entry.id or "")
                continue
            digest = sha256(entry.raw).hexdigest()
            name = ids.parse(str(uuid.uuid5(uuid.UUID(self._id), f"{entry.key} {digest}")))
            if self._parts.engine.read(lambda tx, name=name: tx.log_by_id(name)) is None:  # type: ignore[misc]
                order.append(None)
                records.append((name, RECORD + entry.raw))
        self._store_chain(chain)
        if order:
            self._log(records, order)

    def _stored_alike(self, message: _Message) -> bool | None:
        """True if the very message is stored, False if its id has other bytes, None if it is new."""
        engine = self._parts.engine
        location = engine.read(lambda tx: tx.node(message.draft.id))
        if location is None:
            return None
        return node_payload(engine.node(location)) == message.draft.encoded.payload

    def _store_chain(self, chain: Sequence[_Message]) -> None:
        """Stores messages that follow each other, and moves the head of the session to the last one."""
        if not chain:
            return
        first = chain[0].entry
        if self.session is None:
            self._create(at=first.parent if first.parent is not None and self._is_stored(first.parent) else None)
        assert self.session is not None
        row = row_of(self.session.refresh())
        engine, refs = self._parts.engine, self._parts.refs

        def work(tx: Tx) -> None:
            head = refs.head_state(tx, row)
            point, derived = self._insertion_point(tx, first, head.tree)
            stays = {point.id, None if derived is None else ids.parse(first.derived or "")}
            if head.id is not None and head.id not in stays and not self._is_above(tx, head.pos, point.pos):
                refs.branch(tx, row.ref, head.insert_point)
            nodes = append_chain(engine, tx, point, [message.draft for message in chain], derived=derived)
            last = node_row(nodes[-1])
            refs.move(tx, row.ref, head, last[POS], last[ID])

        engine.write(work)
        self.new += len(chain)

    def _insertion_point(self, tx: Tx, first: Entry, tree: int) -> tuple[InsertPoint, int | None]:
        """Where a chain goes: after its parent, as a root that stands for a message, or as a root."""
        if first.parent is not None:
            point = tx.insert_point(ids.parse(first.parent))
            if point is not None and point.tree == tree:
                self._parts.refs.ensure_sound(tx, point.pos)
                return point, None
            self.notes.append(f"{self._name}: {first.key}: its parent is missing")
        if first.derived is not None:
            point = tx.insert_point(ids.parse(first.derived))
            if point is not None and point.tree == tree and point.pos is not None:
                carried = (point.carried or 0) + (point.run_depth or 0) + (point.pos & ((1 << SEQ_BITS) - 1)) + 1
                root = point._replace(pos=None, id=None, run_depth=0, carried=carried, open=0)
                return root, point.pos
        return InsertPoint(tree), None

    def _is_above(self, tx: Tx, pos: int | None, leaf: int | None) -> bool:
        """Whether a message is on the path to another."""
        return pos is not None and leaf is not None and paths.on_path(tx, leaf, pos)

    def _is_stored(self, id: str) -> bool:
        return self._parts.engine.read(lambda tx: tx.node(ids.parse(id))) is not None

    def _log(self, records: Sequence[tuple[bytes, bytes]], order: list[str | None]) -> None:
        """Keeps new records that are no messages, and the order of all that is new."""
        if self.session is None:
            self._create(at=None)
        assert self.session is not None
        log = self.session.log
        if records:
            log.append([data for _, data in records], id=[ids.text(name) for name, _ in records])
            self.records += len(records)
        (last,) = log.append(LAYOUT + msgspec.json.encode(Layout(order)))
        self.seen = last.number + 1

    # -- the session

    def _create(self, at: str | None) -> None:
        about = self._about
        owner = None
        if about.owner is not None:
            with suppress(NotFound):
                owner = self._store.sessions.get(session_id(self._source.name, about.owner))
        self.session = self._store.sessions.create(
            title=about.title,
            cwd=about.cwd,
            model=about.model,
            id=self._id,
            agent=about.agent,
            owner=owner,
            at=at,
            extra=self._extra(),
        )

    def _continue_at(self, session: Session, head: str) -> None:
        """Points the session at a message of its tree; the path it leaves is a branch."""
        target = ids.parse(head)
        row = row_of(session.refresh())
        refs = self._parts.refs

        def work(tx: Tx) -> None:
            state, point = refs.head_state(tx, row), tx.insert_point(target)
            if point is None or point.tree != state.tree or state.id == target:
                return
            if state.pos is not None and not self._is_above(tx, state.pos, point.pos):
                refs.branch(tx, row.ref, state.insert_point)
            refs.move(tx, row.ref, state, point.pos, point.id)

        self._parts.engine.write(work)

    def _describe(self, session: Session) -> None:
        """Brings title, directory, model and origin up to date; what a person has changed since stays."""
        about, now = self._about, session.refresh()
        origin = now.extra.get(SOURCE)
        before = origin if isinstance(origin, dict) else {}
        changes: dict[str, Any] = {}
        if about.title is not None and about.title != before.get("title") and now.title in (None, before.get("title")):
            changes["title"] = about.title
        if self._extra() != {SOURCE: before}:
            changes["extra"] = {**now.extra, **self._extra()}
        if title := changes.pop("title", None):
            now = now.rename(title)
        if about.cwd is not None and now.cwd is None:
            changes["cwd"] = about.cwd
        if about.model is not None and now.model is None:
            changes["model"] = about.model
        if changes:
            now.update(**changes)

    def _extra(self) -> dict[str, Any]:
        about = self._about
        told = {"title": about.title, "branch": about.branch, "version": about.version}
        known = {name: value for name, value in told.items() if value is not None}
        return {SOURCE: {"tool": self._source.name, "id": self._name, **known}}


def records(session: Session, store: Store, start: int = 0) -> Iterator[bytes]:
    """The records of an imported session, as they were read and in their order. Corrupted, NotFound.

    With `start`, the length of the log at some time, those that were stored since.
    """
    waiting: list[bytes] = []
    for entry in session.log.read(start):
        if entry.data[:1] == RECORD:
            waiting.append(entry.data[1:])
        elif entry.data[:1] == LAYOUT:
            spare = iter(waiting)
            for id in _layout(entry.data).order:
                yield next(spare) if id is None else _line(store, id)
            waiting = []


def _layout(data: bytes) -> Layout:
    return msgspec.json.decode(data[1:], type=Layout)


def _line(store: Store, id: str) -> bytes:
    said = store.nodes.get(id)[0].said
    raw = getattr(said, "raw", b"")
    around = (said.extra or {}).get(ENVELOPE)
    return raw if around is None else around[0].encode() + raw + around[1].encode()
