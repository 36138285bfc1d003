"""One conversation of a history on its way into the store: a session, its messages as nodes, the rest in its log.

A batch is made ready by reads alone (`ConversationImport.prepare`), so that the transaction that stores it
(`ConversationImport.store`) has little but inserts. If something else has changed the store between the two, it raises
Conflict, and the batch is made ready again.

Copies of working files that the program kept are stored as checkpoints: `clew checkpoint` and `clew rewind` know them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO

import msgspec

from clew.base import codec, ids
from clew.base.messages import REDACTION, AnyMessage
from clew.checkpoints.filestate import (
    MISSING,
    UNSEEN,
    FileState,
    Manifest,
    PathEntry,
    is_inside,
    is_reserved,
    pack_path,
    sha256_hex,
)
from clew.checkpoints.transfer import CheckpointImport, add, carry_out, place
from clew.engine.session_data import AGAIN, SOURCE
from clew.engine.titles import prompt_title, says_something, typed_words
from clew.errors import ClewError, Conflict, Invalid
from clew.providers.neutral import neutral
from clew.sources.contract import About, Entry, FileCopies
from clew.sources.drafting import Batch, Drafter, Ready, StoredBatch, name_records, record_rows
from clew.sources.identity import Claim, Decided, MessageIds, Placed, claims, file_label, find_session, is_held
from clew.sources.import_log import Change
from clew.sources.layout import FileName, laid_out, layout_entry, record_id, record_origin
from clew.sources.registry import rules_named
from clew.sources.values import storable
from clew.sources.writing import ConversationFacts, SessionWriter, session_id
from clew.store.session import Session, is_same
from clew.store.store import Store
from clew.store.unit import Draft, Unit
from clew.turns import derive

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
        store: Store,
        source: str,
        name: str,
        file: FileName,
        *,
        fresh: bool = True,
        session: str | None = None,
        again: bool = False,
    ) -> None:
        self._store = store
        self._source = source
        self._file = file
        self.name = name
        self._given = session
        self._claim: Claim | None = None
        """Where it is stored; None until that was looked up."""
        self._held: frozenset[str] = frozenset()
        """Sessions of the same conversation that are on hold."""
        self.id = session or session_id(source, name)
        self._ids = MessageIds(store, self.id)
        self.about = About(conversation=name)
        self._described: About | None = None
        self._waiting: list[tuple[int, Entry]] = []
        self._copies: list[FileCopies] = []
        self._batch = Batch([], None, set(), [])
        self._fresh = fresh
        self._drafter = Drafter(store, self._ensure_session, self._has)
        self._looked_at = 0
        """Messages in which the first prompt was looked for."""
        self._is_prompted = False
        """True if the source gives the prompt."""
        self._laid: set[str] | None = None
        """Ids of the messages whose place is known; None until a message turns up that is stored already."""
        self._made: Change | None = None
        """The session, if it was created before its first batch, for an attachment."""
        self._created = False
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
        self.inherits = False
        """True if it begins with messages of another conversation."""
        self.notes: list[str] = []

    # -- reading

    def _typed_words(self, text: str) -> str:
        """The words of a prompt without what the source's program wrote in it."""
        return derive.typed_words(typed_words(text), rules_named(self._source))

    def tell(self, about: About) -> None:
        """Takes facts; a later one wins."""
        told = {name: value for name in About.__struct_fields__ if (value := getattr(about, name)) is not None}
        if about.prompt is not None:  # redacted before it is cut, because the cut may split a secret
            whole = self._store.redacted(storable(about.prompt).encode()).decode()
            told["prompt"] = prompt_title([self.about.prompt or "", whole], typed=self._typed_words) or ""
            self._is_prompted = True
        told |= {name: storable(told[name]) for name in _SHOWN if name in told}
        if self.withheld:
            told = {name: value for name, value in told.items() if name not in _DERIVED}
        self.about = msgspec.structs.replace(self.about, **told)

    def take(self, number: int, entry: Entry) -> None:
        """Adds an entry, with its number in the file, to the next batch."""
        self._waiting.append((number, entry))
        self.inherits = self.inherits or entry.inherited
        if entry.copies is not None:
            merge(self._copies, entry.copies)
        if entry.note is not None:
            self.notes.append(f"{self.name}: {entry.key}: {entry.note}")

    def skip(self, entry: Entry) -> None:
        """Takes an entry that is stored already, as the file has not changed up to there."""
        self.stored_before = True
        self._drafter.note_time(entry)
        self.inherits = self.inherits or entry.inherited
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
        session = self._find_session(entries)
        if self._in_trash(session):
            self.trashed = True
            return
        self._find_purged(session)
        redacted = session is not None and REDACTION in (session.data.extra or {})
        self._ids.redacted = self._ids.redacted or redacted
        if self._ids.begin(session, entries, self.about.head) and self._laid is None:
            self._laid = set() if session is None else laid_out(session)
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
            what, new = ("message has", "a new id") if self._ids.clashes == 1 else ("messages have", "new ids")
            notes.append(f"{self._ids.clashes:,} {what} the id of another message: stored under {new}")
        if session is None and self._claim is not None and self._claim.note is not None:
            notes.append(self._claim.note)
        now = self._session()
        ready, logged = self._store.read(lambda unit: name_records(self._store, unit, self.id, now, ready))
        self._batch = Batch(ready, now, logged, notes, left)

    def _find_session(self, entries: list[Entry]) -> Session | None:
        """The session that it is stored in; None for a new one. Once found it stays, unless it is put on hold."""
        store, before = self._store, self._claim
        if self._given is not None:
            return self._session()
        if before is not None:
            session = self._session()
            if session is None or not store.read(lambda unit: is_held(unit, session)):
                return session
        found = store.read(lambda unit: claims(unit, self._source, self.name, self._file))
        self._held = found.held
        self._claim = next(one for one in found.free if one.session is None or not self._contradicts(one, entries))
        if self._claim.id != self._ids.session:
            self.id, self._ids = self._claim.id, MessageIds(store, self._claim.id)
            self._laid, self._made, self._created = None, None, False
        self._ids.redacted = self._ids.redacted or found.redacted
        return self._claim.session

    def _contradicts(self, claim: Claim, entries: list[Entry]) -> bool:
        """True if a session has messages under the ids of these, with other words, and is of another file."""
        assert claim.session is not None
        names = MessageIds(self._store, claim.id)
        if not self._fresh or not names.begin(claim.session, entries, None):
            return False
        laid = laid_out(claim.session)
        if not any(names.contradicts(entry, laid) for entry in entries):
            return False
        return self._file not in record_origin(claim.session).files

    def _find_purged(self, session: Session | None) -> None:
        """Withholds what the file says of a conversation that was purged, unless `again` has brought it back."""
        origin = {} if session is None else (session.data.extra or {}).get(SOURCE)
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
        found = self._store.read(lambda unit: unit.purged(names))
        if not self._again:
            return found
        self._brought_back |= bool(found)
        return set()

    def _was_in_it(self, one: Decided, given: Draft) -> bool:
        """True if a purged session had a message that is not in it now: a fork has it, or it was under a new id."""
        if one.known:
            return one.entry.id not in (self._laid or ())
        return one.draft.id != given.id and bool(self._recall([one.draft.id]))

    def session_in(self, unit: Unit) -> Session | None:
        """Its session; None if there is none, for example because all of it was purged."""
        return find_session(unit, self.id)

    def _find_prompt(self, made: Iterable[Draft]) -> None:
        """Takes a message of the user as the prompt, unless the source gave a title or the prompt."""
        for draft in islice(made, max(0, _FIRST - self._looked_at)):
            before = self.about.prompt or ""
            if self.about.title is not None or self._is_prompted or self.stored_before or says_something(before):
                return
            self._looked_at += 1
            prompts = [before, _prompt_in(codec.decode(draft.encoded.payload, "")) or ""]
            found = prompt_title(prompts, typed=self._typed_words)
            self.about = msgspec.structs.replace(self.about, prompt=found)

    def _in_trash(self, session: Session | None) -> bool:
        """True if the session is in the trash, or the one that it belongs to."""
        if session is None and self.about.owner is not None:
            session = self._store.read(lambda unit: find_session(unit, self._owner(unit) or self.id))
        return session is not None and session.trashed_at is not None

    @property
    def is_trace(self) -> bool:
        """True for the trace of a subagent."""
        return self.about.owner is not None or self.about.agent is not None

    def _owner(self, unit: Unit) -> str | None:
        """The id of the session that it belongs to."""
        name = self.about.owner
        if name is None or self._given is not None:
            return None if name is None else session_id(self._source, name)
        return claims(unit, self._source, name, self._file).free[0].id

    def _facts(self, unit: Unit, session: Session | None) -> ConversationFacts:
        head, own = self.about.head, self.id != session_id(self._source, self.name) and self._given is None
        return ConversationFacts(
            self._source,
            self.name,
            self.id,
            msgspec.structs.replace(self.about, head=None if head is None else self._ids.current(head)),
            self._fresh,
            self._created,
            self._made,
            self._ids.redacted,
            self._owner(unit) if session is None else None,
            self._held,
            file_label(self._file) if own else None,
            self._brought_back,
        )

    def _session(self) -> Session | None:
        return self._store.read(self.session_in)

    def _has(self, id: str) -> str | None:
        """The id under which the session has a message already; None if it has not."""
        stored = self._ids.current(id)
        return stored if stored in (self._laid or ()) else None

    def _ensure_session(self) -> Session:
        """The session, for an attachment that needs its tree; created if there is none."""
        session = self._session()
        if session is None:
            session = self._store.write(
                lambda unit: SessionWriter(unit, self._facts(unit, None), None).create(None, None)
            )
            self._made = Change(self.id, created=True, after=None, version=session.version)
        return session

    # -- storing it

    def store(self, unit: Unit, *, last: bool) -> StoredBatch:
        """Stores the batch as a step of the caller's unit. Conflict if the store has changed meanwhile."""
        batch, session = self._batch, find_session(unit, self.id)
        before = batch.session
        if session is None or before is None:
            changed = session is not before
        else:
            changed = not is_same(session, before) or session.trashed_at is not None
        if changed:
            raise Conflict(f"session {self.id} was created or deleted meanwhile")
        if session is not None and self._given is None and is_held(unit, session):
            raise Conflict(f"session {self.id} was put on hold meanwhile")
        writing = SessionWriter(unit, self._facts(unit, session), session)
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
                records += record_rows(self._store, one)
        writing.end_chain()
        names = self._ids.log_entries()
        if order or (names and writing.session is not None):
            layout = layout_entry([id for _, id in order], self._file, [number for number, _ in order])
            writing.log([*names, *records, (None, layout)])
        if last:
            writing.finish()
        changes, notes = writing.changes(), [*batch.notes, *writing.notes]
        return StoredBatch(writing.session, writing.new, known, len(records), laid, notes, changes)

    def has_copies(self) -> bool:
        """True if there are copies of working files to store."""
        return bool(self._copies) and not self.trashed and not self.withheld

    def store_copies(self) -> None:
        """Stores the copies of working files, once the session is there."""
        session, found = self._session(), [one._replace(message=self._ids.current(one.message)) for one in self._copies]
        self._copies = []
        if session is not None:
            self.notes += [f"{self.name}: {note}" for note in store_copies(session, found)]

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
        self._created = self._created or any(one.session == self.id and one.created for one in done.changes)


def _prompt_in(message: AnyMessage) -> str | None:
    """The text of a message, if it is a prompt of the user; None if it is not, or cannot be read."""
    try:
        seen = neutral(message)
    except (msgspec.MsgspecError, Invalid, RecursionError):
        return None
    return seen.text if seen.role == "user" and seen.text.strip() else None


LARGEST = 16 * 1024 * 1024
"""Bytes of a copy that is stored at most, as for checkpoints that clew takes itself."""


def store_copies(session: Session, found: Sequence[FileCopies]) -> list[str]:
    """Stores copies as checkpoints of the session, oldest first, each in a transaction. Returns notes on the others.

    The state at a message comes from its checkpoint and all later ones, so none is inserted before one that the session
    has: such copies are left out, unless the session has that checkpoint itself.
    """
    root = place(session)
    if root is None:
        return [f"{len(found)} copies of files: the conversation has no directory"] if found else []
    has = {checkpoint.message for checkpoint, _ in carry_out(session)}
    late = max((number for number, one in enumerate(found) if one.message in has), default=-1)
    reader = _Reader(root, session.cwd or root)
    for number, one in enumerate(found):
        if number > late or one.message in has:
            add(session, reader.checkpoint(one))
    return list(dict.fromkeys(reader.notes))  # a copy is named by each later snapshot, too


class _Reader:
    """Reads copies. Contents are in memory while their checkpoint is stored."""

    def __init__(self, root: str, cwd: str) -> None:
        self._root = root
        self._prefixes = tuple({f"{folder.rstrip('/')}/" for folder in (root, cwd)})
        self.notes: list[str] = []

    def checkpoint(self, one: FileCopies) -> CheckpointImport:
        contents: dict[str, bytes] = {}
        files = tuple(self._entries(one, contents))
        manifest = Manifest(one.message, pack_path(self._root), files, imported=True)
        return CheckpointImport(one.created_at, manifest, lambda state: contents[state.digest])

    def _entries(self, copies: FileCopies, contents: dict[str, bytes]) -> Iterator[PathEntry]:
        for path, opener in copies.files.items():
            name = self._below(path)
            if name is None:
                self.notes.append(f"{path}: the copy is not stored: it is not a file of the project")
                continue
            yield PathEntry(pack_path(name), self._state(path, opener, contents))

    def _below(self, path: str) -> str | None:
        for prefix in self._prefixes:
            path = path.removeprefix(prefix)
        return None if not is_inside(path) or any(map(is_reserved, path.split("/"))) else path

    def _state(self, path: str, opener: Callable[[], IO[bytes]] | None, contents: dict[str, bytes]) -> FileState:
        if opener is None:
            return MISSING
        try:
            with opener() as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                data = file.read(LARGEST + 1)
        except (OSError, ClewError) as error:
            why = error.message if isinstance(error, ClewError) else error.strerror or type(error).__name__
            self.notes.append(f"{path}: the copy cannot be read ({why})")
            return UNSEEN
        if len(data) > LARGEST:
            self.notes.append(f"{path}: the copy has more than {LARGEST:,} bytes")
            return UNSEEN
        digest = sha256_hex(data)
        contents[digest] = data
        return FileState("file", mode, len(data), digest)


def merge(found: list[FileCopies], one: FileCopies) -> None:
    """Adds copies to those found so far: later copies for the same message add files that are missing."""
    if found and found[-1].message == one.message:
        found[-1] = found[-1]._replace(files={**one.files, **found[-1].files})
    else:
        found.append(one)
