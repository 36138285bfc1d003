"""One conversation of a history on its way into the store: a session, its messages as nodes, the rest in its log.

A batch is made ready by reads alone (`ConversationImport.prepare`), so that the transaction that stores it
(`ConversationImport.store`) has little but inserts. If something else has changed the store between the two, the
transaction raises Conflict, and the batch is made ready again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from clew.backends import RefRow, Tx
from clew.base import codec, ids
from clew.base.messages import Native
from clew.engine.engine import Draft
from clew.engine.node import is_clean_version, node_payload
from clew.sources.contract import ENVELOPE, About, Entry, FileCopies
from clew.sources.drafting import Drafter
from clew.sources.file_copies import merge, store_copies
from clew.sources.layout import FileName, laid_out, layout_entry, piece_id, pieces, record_id
from clew.sources.runs import Change
from clew.sources.titles import from_prompt, prompt_in
from clew.sources.values import storable
from clew.sources.writing import ConversationFacts, SessionWriter, session_id
from clew.store.parts import Parts
from clew.store.session import Session
from clew.store.session_table import SESSION, SUBAGENT

_SHOWN = ("title", "cwd", "branch", "model", "version", "agent")
_FIRST = 20
"""Messages among which the first prompt is looked for."""


class _Ready(NamedTuple):
    """An entry, made ready."""

    entry: Entry
    draft: Draft | None
    known: bool = False
    """True for a message that is stored already."""
    same: bool = True
    """True if its bytes are those that are stored."""
    record: bytes = b""
    """The id of the record in the log, for what is kept there."""
    number: int = 0
    """Its number in the file."""


class _Batch(NamedTuple):
    ready: list[_Ready]
    row: RefRow | None
    logged: set[bytes]
    """The ids of the records that the log has already."""
    notes: list[str]


class StoredBatch(NamedTuple):
    """What a transaction has stored of a conversation."""

    row: RefRow | None
    new: int
    known: int
    records: int
    laid: set[str]
    notes: list[str]
    changes: list[Change]


class ConversationImport:
    """A conversation of one file. `fresh` says that the file was never imported as a whole."""

    def __init__(self, parts: Parts, source: str, name: str, file: FileName, *, fresh: bool = True) -> None:
        self._parts = parts
        self._source = source
        self._file = file
        self.name = name
        self.id = session_id(source, name)
        self.about = About(conversation=name)
        self._described: About | None = None
        self._waiting: list[tuple[int, Entry]] = []
        self._copies: list[FileCopies] = []
        self._batch = _Batch([], None, set(), [])
        self._fresh = fresh
        self._drafter = Drafter(parts.engine, self._session)
        self._looked_at = 0
        """Messages in which the first prompt was looked for."""
        self._laid: set[str] | None = None
        """Ids of the messages whose place is known; None until a message turns up that is stored already."""
        self._made: Change | None = None
        self._being_made = False
        """True if this import has created the session."""
        self._redacted = False
        """True if a stored message was redacted and the file still has the secret."""
        self.trashed = False
        self.stored_before = False
        self.new = self.known = self.records = 0
        self.notes: list[str] = []

    # -- reading

    def tell(self, about: About) -> None:
        """Takes facts; a later one wins."""
        told = {name: value for name in About.__struct_fields__ if (value := getattr(about, name)) is not None}
        if about.prompt is not None:  # redacted before it is cut, because the cut may split a secret
            whole = self._parts.engine.redacted(storable(about.prompt).encode()).decode()
            told["prompt"] = from_prompt(whole) or ""
        told |= {name: storable(told[name]) for name in _SHOWN if name in told}
        self.about = msgspec.structs.replace(self.about, **told)

    def take(self, number: int, entry: Entry) -> None:
        """Adds an entry, with its number in the file, to the next batch."""
        self._waiting.append((number, entry))
        if entry.copies is not None:
            merge(self._copies, entry.copies)
        if entry.note is not None:
            self.notes.append(f"{self.name}: {entry.key}: {entry.note}")

    def skip(self, entry: Entry) -> None:
        """Takes an entry that is stored already, as the file has not changed up to there."""
        self.stored_before = True
        self._drafter.note_time(entry)
        if entry.id is not None and entry.message is not None:
            self.known += not entry.inherited

    def resume(self, time: int | None) -> None:
        """Continues after entries that are stored already, and were not read again."""
        self.stored_before = True
        self._drafter.time = time

    @property
    def time(self) -> int | None:
        """The time of its last entry, in microseconds."""
        return self._drafter.time

    def drop(self) -> None:
        """Forgets the entries that wait."""
        self._waiting = []

    def pending(self, *, last: bool) -> bool:
        """True if there is something to store."""
        if self.trashed:
            return False
        changed = last and self.known + self.new + self.records > 0 and self.about != self._described
        return bool(self._waiting) or changed

    # -- making a batch ready

    def prepare(self, placed: dict[bytes, Draft]) -> None:
        """Makes the entries that wait ready to be stored, by reads alone; only attachments are stored.

        `placed` has the new messages of the conversations that the same transaction stores before this one.
        """
        engine, entries = self._parts.engine, [entry for _, entry in self._waiting]
        row = self._row()
        if self._in_trash(row):
            self.trashed = True
            return
        made, notes = self._drafter.drafts(entries)
        self._find_prompt(made.values())
        key = ids.parse(self.id)
        names = [draft.id for draft in made.values()]
        known = engine.read(lambda tx: tx.existing_ids(names)) if names else set[bytes]()
        if known and self._laid is None:
            self._laid = set() if row is None else laid_out(Session(self._parts, row))
        ready: list[_Ready] = []
        for at, (number, entry) in enumerate(self._waiting):
            draft = made.get(at)
            if draft is not None:
                again = placed.get(draft.id)
                if draft.id in known or again is not None:
                    same = self._alike(draft) if again is None else _is_same(again.encoded.payload, draft)
                    record = b"" if same else record_id(key, entry.key, entry.raw)
                    ready.append(_Ready(entry, draft, True, same, record, number))
                else:
                    placed[draft.id] = draft
                    ready.append(_Ready(entry, draft, number=number))
            elif not entry.inherited:
                ready.append(_Ready(entry, None, record=record_id(key, entry.key, entry.raw), number=number))
        kept = [one.record for one in ready if one.record]
        logged = engine.read(lambda tx: tx.existing_log_ids(kept)) if kept else set[bytes]()
        self._batch = _Batch(ready, self._row(), logged, notes)

    def _find_prompt(self, made: Iterable[Draft]) -> None:
        """Takes the first message of the user as the prompt, unless the source gave a title or the prompt."""
        for draft in islice(made, max(0, _FIRST - self._looked_at)):
            if self.about.title is not None or self.about.prompt is not None or self.stored_before:
                return
            self._looked_at += 1
            found = from_prompt(prompt_in(codec.decode(draft.encoded.payload, "")))
            self.about = msgspec.structs.replace(self.about, prompt=found)

    def _in_trash(self, row: RefRow | None) -> bool:
        """True if the session is in the trash, or the one that it belongs to."""
        if row is None and self.about.owner is not None:
            row = self._parts.table.get(SESSION, ids.parse(session_id(self._source, self.about.owner)))
        return row is not None and row.trashed_at is not None

    def _facts(self) -> ConversationFacts:
        return ConversationFacts(
            self._source, self.name, self.id, self.about, self._fresh, self._being_made, self._made, self._redacted
        )

    def _row(self) -> RefRow | None:
        key = ids.parse(self.id)
        return self._parts.table.get(SESSION, key) or self._parts.table.get(SUBAGENT, key)

    def _alike(self, draft: Draft) -> bool:
        """True if this record is stored under its id, or a redacted version of it, which stays."""
        engine = self._parts.engine
        place = engine.read(lambda tx: tx.node(draft.id), single=True)
        if place is None:
            return False
        node = engine.node(place)
        if _is_same(node_payload(node), draft):
            return True
        if not is_clean_version(node, codec.decode(draft.encoded.payload, "a message")):
            return False
        self._redacted = True
        return True

    def _session(self) -> Session:
        """The session, for an attachment that needs its tree; created if there is none."""
        row = self._row()
        if row is None:
            row = self._parts.refs.write_one(
                lambda tx: SessionWriter(self._parts, self._facts(), tx, None).create(None, None)
            )
            self._made = Change(self.id, created=True, after=None, version=row.version)
        return Session(self._parts, row)

    # -- storing it

    def store(self, tx: Tx, *, last: bool) -> StoredBatch:
        """Stores the batch as a step of the caller's transaction. Conflict if the store has changed meanwhile."""
        batch = self._batch
        writing = SessionWriter(self._parts, self._facts(), tx, batch.row)
        laid = set[str]()
        order: list[tuple[int, str | None]] = []
        records: list[tuple[bytes, bytes]] = []
        known = 0
        for one in batch.ready:
            entry = one.entry
            if one.draft is not None and not one.known:
                writing.add(entry, one.draft)
                if not entry.inherited:
                    order.append((one.number, entry.id))
                    laid.add(entry.id or "")
                continue
            if one.draft is not None:
                known += not entry.inherited
                writing.pass_by(entry, one.draft)
                if entry.inherited:
                    continue
                if one.same:
                    if entry.id not in laid and entry.id not in (self._laid or ()):
                        order.append((one.number, entry.id))
                        laid.add(entry.id or "")
                    continue
            if one.record not in batch.logged and all(name != one.record for name, _ in records[-1:]):
                order.append((one.number, None))
                records += self._record(one)
        writing.end_chain()
        if order:
            writing.log(records, layout_entry([id for _, id in order], self._file, [number for number, _ in order]))
        if last:
            writing.finish()
        return StoredBatch(
            writing.row, writing.new, known, len(records), laid, [*batch.notes, *writing.notes], writing.changes()
        )

    def has_copies(self) -> bool:
        """True if there are copies of working files to store."""
        return bool(self._copies) and not self.trashed

    def store_copies(self) -> None:
        """Stores the copies of working files, once the session is there."""
        row, found = self._row(), self._copies
        self._copies = []
        if row is not None:
            self.notes += [f"{self.name}: {note}" for note in store_copies(Session(self._parts, row), found)]

    def take_over(self, done: StoredBatch, *, last: bool) -> None:
        """Takes over what a transaction has stored, after its commit."""
        self._waiting, self._batch = [], _Batch([], None, set(), [])
        self.new += done.new
        self.known += done.known
        self.records += done.records
        if self._laid is not None:
            self._laid |= done.laid
        self.notes += [f"{self.name}: {note}" for note in done.notes]
        self._described = self.about if last else None
        self._made = None
        self._being_made = self._being_made or any(one.session == self.id and one.created for one in done.changes)

    def _record(self, one: _Ready) -> Iterable[tuple[bytes, bytes]]:
        engine = self._parts.engine
        cut = pieces(one.entry.raw, engine.max_body, one.entry.key)
        for number, piece in enumerate(cut[:-1]):
            yield piece_id(one.record, number), engine.redacted(piece)
        yield one.record, engine.redacted(cut[-1])


def _is_same(payload: bytes, draft: Draft) -> bool:
    """True if two messages come from the same record. Token counts, for example, may have been added later."""
    if payload == draft.encoded.payload:
        return True
    where = ids.text(draft.id)
    before, now = codec.decode(payload, where), codec.decode(draft.encoded.payload, where)
    if not isinstance(before, Native) or not isinstance(now, Native):
        return False
    around = [(one.extra or {}).get(ENVELOPE) for one in (before, now)]
    return before.raw == now.raw and around[0] == around[1]
