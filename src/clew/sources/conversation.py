"""One conversation of a history on its way into the store: a session, its messages as nodes, the rest in its log.

A batch is made ready by reads alone (`ConversationImport.prepare`), so that the transaction that stores it
(`ConversationImport.store`) has little but inserts. If something else has changed the store between the two, the
transaction raises Conflict, and the batch is made ready again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

import msgspec

from clew.backends import RefRow, Tx
from clew.base import codec, ids
from clew.base.messages import REDACTION
from clew.engine.engine import Draft
from clew.engine.purged import recall
from clew.engine.session_data import AGAIN, SOURCE
from clew.errors import Conflict
from clew.sources.batch import Batch, Ready, StoredBatch, name_records, record_rows
from clew.sources.contract import About, Entry, FileCopies
from clew.sources.drafting import Drafter
from clew.sources.file_copies import merge, store_copies
from clew.sources.identity import Claim, Decided, MessageIds, Placed, claims, file_label, is_held, row_in
from clew.sources.layout import FileName, laid_out, layout_entry, origin_of, record_id
from clew.sources.runs import Change
from clew.sources.titles import from_prompt, prompt_in
from clew.sources.values import storable
from clew.sources.writing import ConversationFacts, SessionWriter, session_id
from clew.store.parts import Parts
from clew.store.session import Session

_SHOWN = ("title", "cwd", "branch", "model", "version", "agent")
_DERIVED = ("title", "prompt", "branch", "labels", "own", "forked_from")
"""Facts that may repeat words of messages."""
_FIRST = 20
"""Messages among which the first prompt is looked for."""


class ConversationImport:
    """A conversation of one file. `fresh` says that the file was never imported as a whole.

    With `session` it is stored in the session with this id, which is the caller's own; otherwise in one that it may
    continue, or in a new one: see `clew.sources.identity`. What was purged is left out, unless `again`.
    """

    def __init__(
        self,
        parts: Parts,
        source: str,
        name: str,
        file: FileName,
        *,
        fresh: bool = True,
        session: str | None = None,
        again: bool = False,
    ) -> None:
        self._parts = parts
        self._source = source
        self._file = file
        self.name = name
        self._given = session
        self._claim: Claim | None = None
        """Where it is stored; None until that was looked up."""
        self._held: frozenset[str] = frozenset()
        """Sessions of the same conversation that are on hold."""
        self.id = session or session_id(source, name)
        self._ids = MessageIds(parts, self.id)
        self.about = About(conversation=name)
        self._described: About | None = None
        self._waiting: list[tuple[int, Entry]] = []
        self._copies: list[FileCopies] = []
        self._batch = Batch([], None, set(), [])
        self._fresh = fresh
        self._drafter = Drafter(parts.engine, self._session, self._has)
        self._looked_at = 0
        """Messages in which the first prompt was looked for."""
        self._laid: set[str] | None = None
        """Ids of the messages whose place is known; None until a message turns up that is stored already."""
        self._made: Change | None = None
        self._being_made = False
        """True if this import has created the session."""
        self._again = again
        self._brought_back = False
        """True if some of it was purged and is stored again."""
        self._is_purged = False
        """True if its session was purged, or messages of it were deleted."""
        self.withheld = False
        """True if some of it was purged: then what its file says of it may repeat purged words, and is not stored."""
        self.purged = 0
        """Entries that were left out because they were purged."""
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
        if self.withheld:
            told = {name: value for name, value in told.items() if name not in _DERIVED}
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
    def begun(self) -> bool:
        """True if its session was stored before its first batch, for an attachment."""
        return self._made is not None

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

    def prepare(self, placed: dict[bytes, Placed]) -> None:
        """Makes the entries that wait ready to be stored, by reads alone; only attachments are stored.

        `placed` has the new messages of the conversations that the same transaction stores before this one.
        """
        entries = [entry for _, entry in self._waiting]
        row = self._find_session(entries)
        if self._in_trash(row):
            self.trashed = True
            return
        self._find_purged(row)
        redacted = row is not None and REDACTION in (self._parts.table.data(row).extra or {})
        self._ids.redacted = self._ids.redacted or redacted
        if self._ids.begin(row, entries, self.about.head) and self._laid is None:
            self._laid = set() if row is None else laid_out(Session(self._parts, row))
        made, notes = self._drafter.drafts(entries)
        gone = self._recall([draft.id for draft in made.values()])
        if gone:
            self._withhold()
        key = ids.parse(self.id)
        ready: list[Ready] = []
        left = 0
        decided = {at: self._ids.decide(entries[at], draft, placed, self._laid or set()) for at, draft in made.items()}
        for at, (number, entry) in enumerate(self._waiting):
            draft = made.get(at)
            if draft is not None:
                one = decided[at]
                if (one.draft.id in gone and not one.known) or (self._is_purged and self._was_in_it(one, draft)):
                    left += not entry.inherited
                    continue
                record = b"" if one.same else record_id(key, entry.key, entry.raw)
                ready.append(Ready(one.entry, one.draft, one.known, one.same, record, number))
            elif self.withheld or self._ids.redacted:
                left += not entry.inherited
            elif not entry.inherited:
                ready.append(Ready(entry, None, record=record_id(key, entry.key, entry.raw), number=number))
        self._find_prompt(one.draft for one in ready if one.draft is not None)
        if self._ids.clashes:
            what = "message has" if self._ids.clashes == 1 else "messages have"
            notes.append(f"{self._ids.clashes:,} {what} the id of another message: stored under a new one")
        if row is None and self._claim is not None and self._claim.note is not None:
            notes.append(self._claim.note)
        now = self._row()
        ready, logged = self._parts.engine.read(lambda tx: name_records(self._parts.engine, tx, self.id, now, ready))
        self._batch = Batch(ready, now, logged, notes, left)

    def _find_session(self, entries: list[Entry]) -> RefRow | None:
        """The session that it is stored in; None for a new one. Once found it stays, unless it is put on hold."""
        engine, before = self._parts.engine, self._claim
        if self._given is not None:
            return self._row()
        if before is not None:
            row = self._row()
            if row is None or not engine.read(lambda tx: is_held(tx, row)):
                return row
        found = engine.read(lambda tx: claims(self._parts, tx, self._source, self.name, self._file))
        self._held = found.held
        self._claim = next(one for one in found.free if one.row is None or not self._contradicts(one, entries))
        if self._claim.id != self._ids.session:
            self.id, self._ids = self._claim.id, MessageIds(self._parts, self._claim.id)
            self._laid, self._made, self._being_made = None, None, False
        self._ids.redacted = self._ids.redacted or found.redacted
        return self._claim.row

    def _contradicts(self, claim: Claim, entries: list[Entry]) -> bool:
        """True if a session has messages under the ids of these, with other words, and is of another file."""
        assert claim.row is not None
        names = MessageIds(self._parts, claim.id)
        if not self._fresh or not names.begin(claim.row, entries, None):
            return False
        session = Session(self._parts, claim.row)
        laid = laid_out(session)
        if not any(names.contradicts(entry, laid) for entry in entries):
            return False
        return self._file not in origin_of(session).files

    def _find_purged(self, row: RefRow | None) -> None:
        """Withholds what the file says of a conversation that was purged, unless `again` has brought it back."""
        origin = {} if row is None else (self._parts.table.data(row).extra or {}).get(SOURCE)
        if not self._again and isinstance(origin, dict) and origin.get(AGAIN):
            self._again = True
        self._is_purged = bool(self._recall([ids.parse(self.id)]))
        if not self.withheld and (self._is_purged or self._recall([ids.parse(one) for one in self._held])):
            self._withhold()

    def _withhold(self) -> None:
        self.withheld, self.stored_before, self.known = True, False, 0
        self.about = msgspec.structs.replace(self.about, **dict.fromkeys(_DERIVED))

    def _recall(self, names: Collection[bytes]) -> set[bytes]:
        """Those of these ids that were purged and are to stay so."""
        found = self._parts.engine.read(lambda tx: recall(self._parts.engine, tx, names))
        if not self._again:
            return found
        self._brought_back |= bool(found)
        return set()

    def _was_in_it(self, one: Decided, given: Draft) -> bool:
        """True if a purged session had a message that is not in it now: a fork has it, or it was under a new id."""
        if one.known:
            return one.entry.id not in (self._laid or ())
        return one.draft.id != given.id and bool(self._recall([one.draft.id]))

    def row_in(self, tx: Tx) -> RefRow | None:
        """Its session; None if there is none, for example because all of it was purged."""
        return row_in(self._parts, tx, self.id)

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
            row = self._parts.engine.read(lambda tx: row_in(self._parts, tx, self._owner(tx) or self.id))
        return row is not None and row.trashed_at is not None

    def _owner(self, tx: Tx) -> str | None:
        """The id of the session that it belongs to."""
        name = self.about.owner
        if name is None or self._given is not None:
            return None if name is None else session_id(self._source, name)
        return claims(self._parts, tx, self._source, name, self._file).free[0].id

    def _facts(self, tx: Tx, row: RefRow | None) -> ConversationFacts:
        head, own = self.about.head, self.id != session_id(self._source, self.name) and self._given is None
        return ConversationFacts(
            self._source,
            self.name,
            self.id,
            msgspec.structs.replace(self.about, head=None if head is None else self._ids.current(head)),
            self._fresh,
            self._being_made,
            self._made,
            self._ids.redacted,
            self._owner(tx) if row is None else None,
            self._held,
            file_label(self._file) if own else None,
            self._brought_back,
        )

    def _row(self) -> RefRow | None:
        return self._parts.engine.read(lambda tx: row_in(self._parts, tx, self.id))

    def _has(self, id: str) -> str | None:
        """The id under which the session has a message already; None if it has not."""
        stored = self._ids.current(id)
        return stored if stored in (self._laid or ()) else None

    def _session(self) -> Session:
        """The session, for an attachment that needs its tree; created if there is none."""
        row = self._row()
        if row is None:
            row = self._parts.refs.write_one(
                lambda tx: SessionWriter(self._parts, self._facts(tx, None), tx, None).create(None, None)
            )
            self._made = Change(self.id, created=True, after=None, version=row.version)
        return Session(self._parts, row)

    # -- storing it

    def store(self, tx: Tx, *, last: bool) -> StoredBatch:
        """Stores the batch as a step of the caller's transaction. Conflict if the store has changed meanwhile."""
        batch, row = self._batch, row_in(self._parts, tx, self.id)
        before = batch.row
        if (row is None) != (before is None) or (row is not None and before is not None and row.ref != before.ref):
            raise Conflict(f"session {self.id} was created or deleted meanwhile")
        if row is not None and self._given is None and is_held(tx, row):
            raise Conflict(f"session {self.id} was put on hold meanwhile")
        writing = SessionWriter(self._parts, self._facts(tx, row), tx, row)
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
                records += record_rows(self._parts.engine, one)
        writing.end_chain()
        names = self._ids.log_entries()
        if order or (names and writing.row is not None):
            layout = layout_entry([id for _, id in order], self._file, [number for number, _ in order])
            writing.log([*names, *records], layout)
        if last:
            writing.finish()
        return StoredBatch(
            writing.row, writing.new, known, len(records), laid, [*batch.notes, *writing.notes], writing.changes()
        )

    def has_copies(self) -> bool:
        """True if there are copies of working files to store."""
        return bool(self._copies) and not self.trashed and not self.withheld

    def store_copies(self) -> None:
        """Stores the copies of working files, once the session is there."""
        row, found = self._row(), [one._replace(message=self._ids.current(one.message)) for one in self._copies]
        self._copies = []
        if row is not None:
            self.notes += [f"{self.name}: {note}" for note in store_copies(Session(self._parts, row), found)]

    def take_over(self, done: StoredBatch, *, last: bool) -> None:
        """Takes over what a transaction has stored, after its commit."""
        self.purged += self._batch.purged
        self._waiting, self._batch = [], Batch([], None, set(), [])
        self.new += done.new
        self.known += done.known
        self.records += done.records
        self._ids.take_over()
        if self._laid is not None:
            self._laid |= done.laid
        self.notes += [f"{self.name}: {note}" for note in done.notes]
        self._described = self.about if last else None
        self._made = None
        self._being_made = self._being_made or any(one.session == self.id and one.created for one in done.changes)
