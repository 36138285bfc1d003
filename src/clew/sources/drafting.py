"""Encodes and redacts entries and stores their attachments, before the transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from clew.base import ids
from clew.base.messages import ATTACHED, Media, Message, Native, Text
from clew.engine.node import microseconds
from clew.errors import ClewError, Invalid
from clew.providers.neutral import neutral
from clew.sources.contract import Entry
from clew.sources.import_log import Change
from clew.sources.layout import WHOLE, piece_id, pieces, record_id
from clew.store.session import Session
from clew.store.store import Store
from clew.store.unit import Draft, Unit


class Ready(NamedTuple):
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


class Batch(NamedTuple):
    """What the next transaction stores of a conversation, made ready."""

    ready: list[Ready]
    session: Session | None
    logged: set[bytes]
    """The ids of the records that the log has already."""
    notes: list[str]
    purged: int = 0
    """Entries that were left out because they were purged."""


class StoredBatch(NamedTuple):
    """What a transaction has stored of a conversation."""

    session: Session | None
    new: int
    known: int
    records: int
    laid: set[str]
    notes: list[str]
    changes: list[Change]


def name_records(
    store: Store, unit: Unit, id: str, session: Session | None, ready: list[Ready]
) -> tuple[list[Ready], set[bytes]]:
    """The entries with the ids of their records, and those of these ids that the log has already.

    A session of another workspace may have the same id, and so the same records: then they get other ids here.
    """
    found = unit.logged(None, [one.record for one in ready if one.record])
    others = found - (unit.logged(session, found) if found and session is not None else set())
    if not others:
        return ready, found
    key = store.lookup_hash("import-record", ids.parse(id) + store.workspace.encode())
    ready = [
        one._replace(record=record_id(key, one.entry.key, one.entry.raw)) if one.record in others else one
        for one in ready
    ]
    return ready, unit.logged(None, [one.record for one in ready if one.record])


def record_rows(store: Store, one: Ready) -> Iterable[tuple[bytes, bytes]]:
    """The entries of the log for a record, redacted: several if it is long."""
    cut = pieces(one.entry.raw, store.max_body, one.entry.key)
    for number, piece in enumerate(cut[:-1]):
        yield piece_id(one.record, number), store.redacted(piece)
    yield one.record, store.redacted(cut[-1])


_BLOCK = 1 << 18


class Drafts(NamedTuple):
    """What became of the messages of a batch."""

    made: dict[int, Draft]
    """By the number of the entry in the batch."""
    notes: list[str]


class Drafter:
    """Makes drafts of the messages of one conversation. `session` is called if an attachment needs one to live in.

    `stored` gives the id under which the conversation has a message already, or None.
    """

    def __init__(self, store: Store, session: Callable[[], Session], stored: Callable[[str], str | None]) -> None:
        self._store = store
        self._max_body = store.max_body
        self._session = session
        self._stored = stored
        self.time: int | None = None
        """The time of the last entry, in microseconds."""

    def note_time(self, entry: Entry) -> None:
        """Notes the time of an entry, which the next one has if it has none of its own."""
        if entry.created_at is not None:
            self.time = microseconds(entry.created_at)

    def drafts(self, entries: Iterable[Entry]) -> Drafts:
        """The drafts of those entries that are messages; one that cannot be stored as a message has none."""
        made: dict[int, Draft] = {}
        notes: list[str] = []
        for number, entry in enumerate(entries):
            try:
                self.note_time(entry)
            except Invalid as error:
                notes.append(f"{entry.key}: {error.message}")
            if entry.id is None or entry.message is None:
                continue
            try:
                made[number] = self._draft(entry, notes)
            except Invalid as error:
                notes.append(f"{entry.key}: {error.message}")
        return Drafts(made, notes)

    def _draft(self, entry: Entry, notes: list[str]) -> Draft:
        assert entry.message is not None
        message = entry.message
        if entry.attachments:
            found = self._attached(entry, notes)
            message = msgspec.structs.replace(message, extra={**(message.extra or {}), ATTACHED: found})
        if isinstance(message, Native) and len(message.raw) > self._max_body:
            return self._large(entry)
        try:
            return self._store.draft(message, id=entry.id, created_at=self.time, seen=entry.seen)
        except Invalid:
            if len(entry.raw) + 4096 < self._max_body:
                raise
            return self._large(entry)

    def _large(self, entry: Entry) -> Draft:
        """A message above the limit: a note in its place, and its record in a blob."""
        assert entry.message is not None
        blob = self._session().blobs.put(entry.raw)
        note = (
            f"This message has {len(entry.raw):,} bytes, more than a message may have. It is stored as an attachment."
        )
        media = Media(mime_type="application/json", modality="document", blob=blob.digest, name=f"{entry.key}.json")
        whole = Message(neutral(entry.message).role, (Text(text=note), media), extra={WHOLE: blob.digest})
        return self._store.draft(whole, id=entry.id, created_at=self.time)

    def _attached(self, entry: Entry, notes: list[str]) -> dict[str, Any]:
        """The attachments of a message, each in a blob. Those it already has in the store are not read again."""
        before = self._attachments_in_store(entry)
        found: dict[str, Any] = {}
        for one in entry.attachments:
            if one.reference in before:
                found[one.reference] = before[one.reference]
                continue
            try:
                with one.open() as file:
                    digest = self._session().blobs.put(iter(lambda file=file: file.read(_BLOCK), b"")).digest  # type: ignore[misc]
            except (OSError, ClewError) as error:
                why = error.message if isinstance(error, ClewError) else error.strerror or type(error).__name__
                notes.append(f"{entry.key}: {one.name or one.reference}: the attachment cannot be read ({why})")
                continue
            told = {"blob": digest, "mime_type": one.mime_type, "name": one.name}
            found[one.reference] = {name: value for name, value in told.items() if value is not None}
        return found

    def _attachments_in_store(self, entry: Entry) -> dict[str, Any]:
        name = None if entry.id is None else self._stored(entry.id)
        if name is None:  # another conversation may have a message under this id, with other attachments
            return {}
        node = self._store.read(lambda unit: unit.node(name), single=True)
        extra = {} if node is None else node.said.extra or {}
        found = extra.get(ATTACHED)
        return found if isinstance(found, dict) else {}
