"""Receipts: what a deletion did, what it did not reach, and the log in which those of purges are kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from clew.backends import RefRow, Tx
from clew.engine import Engine
from clew.errors import Tampered
from clew.log import Log
from clew.mirrors import PENDING
from clew.node import moment
from clew.refs import OWN, Refs

Reason = Literal[
    "user-requested", "retention-expired", "privacy-policy-change", "workspace-reset", "corruption-detected",
    "session-timeout", "policy-update", "error-recovery",
]  # fmt: skip
"""Why something is purged."""
DELETED = "deleted"
"""What the receipt of a deletion that is no purge has as its reason."""
TRACES = "traces"
RECEIPTS = "receipts"
"""Kind of the one ref whose log holds the receipts."""


class Failure(NamedTuple):
    """A session that was not purged, or of which something stays, and why."""

    session: str
    error: str


class Kept(NamedTuple):
    """Messages of a purged session that stay, because others have them too; those of its branches and traces, and what
    it has compacted, among them.
    """

    session: str
    messages: int
    needed_by: tuple[str, ...]
    """Ids of the sessions and snapshots of the same trees that are left."""


class Receipt(NamedTuple):
    """What a deletion did, and what it did not reach. That of a purge is kept in the store. It has no content."""

    id: str
    """Empty for a deletion that is no purge: its receipt is not kept."""
    reason: str
    """Why; ``deleted`` for a deletion that is no purge."""
    started_at: datetime
    finished_at: datetime | None
    """None while something is pending."""
    sessions: tuple[str, ...]
    """Ids of the sessions, or of the snapshot, that are gone."""
    messages: int
    blobs: int
    bytes: int
    """Of message bodies, as they were stored."""
    failures: tuple[Failure, ...]
    kept: tuple[Kept, ...]
    pending: tuple[str, ...]
    """What is still to be cleared: ``wal``, ``file``, ``search``, ``objects``; ``rows`` if that was not even begun, or
    not noted. ``mirror`` and a folder: files of a mirror that cannot be reached now. ``traces`` for a deletion that is
    no purge: what the store's own files and objects may still have, until they are overwritten or something is purged.
    """
    beyond: tuple[str, ...] = ()
    """Where a server may still hold copies that clew cannot reach: ``pages`` until they are written over, ``wal`` and
    its archives, ``replicas``; of objects ``versions`` too, where a bucket keeps them.
    """
    outside: int = 0
    """Bytes of attachments in object storage, as they were stored."""


Receipts = list[Receipt]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a receipt as its log keeps it: those with the same id add up, and the last says what is pending."""

    id: str
    reason: str
    started: int
    finished: int | None = None
    sessions: tuple[str, ...] = ()
    messages: int = 0
    blobs: int = 0
    bytes: int = 0
    failures: tuple[Failure, ...] = ()
    kept: tuple[Kept, ...] = ()
    pending: tuple[str, ...] = ()
    outside: int = 0

    def cleared(self, pending: tuple[str, ...], now: int) -> Entry:
        """With this left to be cleared; finished if nothing is."""
        return msgspec.structs.replace(self, pending=pending, finished=None if pending else now)

    def ending(self) -> Entry:
        """The part that says how it ended, and nothing of what went."""
        return Entry(self.id, self.reason, self.started, self.finished, pending=self.pending)

    def plus(self, part: Entry) -> Entry:
        """Two parts of a receipt as one."""
        added = {
            name: getattr(self, name) + getattr(part, name)
            for name in ("sessions", "messages", "blobs", "bytes", "failures", "kept", "outside")
        }
        return msgspec.structs.replace(part, **added)

    def receipt(self, engine: Engine) -> Receipt:
        """As people see it."""
        finished = None if self.finished is None else moment(self.finished)
        beyond = engine.backend.beyond if self.sessions or self.messages else ()
        if self.outside:
            beyond = tuple(dict.fromkeys((*beyond, "versions", "replicas")))
        return Receipt(
            self.id, self.reason, moment(self.started), finished, self.sessions, self.messages, self.blobs,
            self.bytes, self.failures, self._still(), self.pending, beyond, self.outside,
        )  # fmt: skip

    def _still(self) -> tuple[Kept, ...]:
        """What was kept of sessions for others that have not gone in the same purge, after them."""
        gone = {*self.sessions}
        left = [(one, tuple(other for other in one.needed_by if other not in gone)) for one in self.kept]
        return tuple(one._replace(needed_by=others) for one, others in left if others or not one.needed_by)


class ReceiptLog:
    """The receipts of a store's workspace, as a log that it keeps for itself."""

    def __init__(self, engine: Engine, refs: Refs) -> None:
        self._engine = engine
        self._refs = refs

    def entries(self) -> list[Entry]:
        """Every receipt, oldest first."""
        row = self._engine.read(lambda tx: self._refs.own(tx, RECEIPTS))
        return [] if row is None else self._read(row)

    def note(self, tx: Tx, entries: Sequence[Entry]) -> None:
        """Writes entries into the log."""
        if entries:
            self.write_down(tx, self._refs.add_own(tx, RECEIPTS), entries)

    def write_down(self, tx: Tx, row: RefRow, entries: Sequence[Entry]) -> None:
        """Writes entries into the log of a workspace, whichever it is."""
        new = [(self._engine.new_id(), msgspec.json.encode(entry)) for entry in entries]
        Log(self._engine, lambda: row)._append(tx, row, new)

    def others(self, pending: tuple[str, ...], known: set[str], now: int) -> list[tuple[RefRow, list[Entry]]]:
        """How other receipts, of whatever workspace, end now: who clears the files clears them for all, but for what
        is pending here too. The mirrors of another workspace are its own.
        """
        found = []
        shared = tuple(one for one in pending if not one.startswith(PENDING))
        for row in self._engine.read(lambda tx: tx.refs_named(RECEIPTS, OWN)):
            own = row.workspace == self._engine.workspace
            with suppress(Tampered):  # those whose they are are told
                left = []
                for entry in self._read(row):
                    theirs = tuple(one for one in entry.pending if one.startswith(PENDING))
                    end = pending if own else shared + theirs
                    if entry.pending not in ((), end) and entry.id not in known:
                        left.append(entry.cleared(end, now).ending())
                if left:
                    found.append((row, left))
        return found

    def _read(self, row: RefRow) -> list[Entry]:
        """The receipts in a log, oldest first, each the sum of its parts."""
        found: dict[str, Entry] = {}
        for stored in Log(self._engine, lambda: row).read():
            entry = msgspec.json.decode(stored.data, type=Entry)
            found[entry.id] = found[entry.id].plus(entry) if entry.id in found else entry
        return list(found.values())
