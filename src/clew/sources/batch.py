"""Entries of a conversation, made ready for the transaction that stores them, and what it has stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clew.base import ids
from clew.sources.contract import Entry
from clew.sources.layout import piece_id, pieces, record_id
from clew.sources.runs import Change
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
