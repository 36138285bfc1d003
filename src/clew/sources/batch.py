"""Entries of a conversation, made ready for the transaction that stores them, and what it has stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clew.backends import SEQ_BITS, RefRow, Tx
from clew.base import ids
from clew.engine.engine import Draft, Engine
from clew.sources.contract import Entry
from clew.sources.layout import piece_id, pieces, record_id
from clew.sources.runs import Change


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
    row: RefRow | None
    logged: set[bytes]
    """The ids of the records that the log has already."""
    notes: list[str]
    purged: int = 0
    """Entries that were left out because they were purged."""


class StoredBatch(NamedTuple):
    """What a transaction has stored of a conversation."""

    row: RefRow | None
    new: int
    known: int
    records: int
    laid: set[str]
    notes: list[str]
    changes: list[Change]


def name_records(
    engine: Engine, tx: Tx, session: str, row: RefRow | None, ready: list[Ready]
) -> tuple[list[Ready], set[bytes]]:
    """The entries with the ids of their records, and those of these ids that the log has already.

    A session of another workspace may have the same id, and so the same records: then they get other ids here.
    """
    found = tx.existing_log_ids([one.record for one in ready if one.record])
    others = {id for id in found if not _is_in(tx, row, id)}
    if not others:
        return ready, found
    key = engine.lookup_hash("import-record", ids.parse(session) + engine.workspace.encode())
    ready = [
        one._replace(record=record_id(key, one.entry.key, one.entry.raw)) if one.record in others else one
        for one in ready
    ]
    return ready, tx.existing_log_ids([one.record for one in ready if one.record])


def record_rows(engine: Engine, one: Ready) -> Iterable[tuple[bytes, bytes]]:
    """The entries of the log for a record, redacted: several if it is long."""
    cut = pieces(one.entry.raw, engine.max_body, one.entry.key)
    for number, piece in enumerate(cut[:-1]):
        yield piece_id(one.record, number), engine.redacted(piece)
    yield one.record, engine.redacted(cut[-1])


def _is_in(tx: Tx, row: RefRow | None, id: bytes) -> bool:
    """True if a log entry belongs to this session."""
    entry = tx.log_by_id(id)
    return row is not None and entry is not None and entry.pos >> SEQ_BITS == row.ref
