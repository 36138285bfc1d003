"""Receipts of deletions, and the log that stores the receipts of purges."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from clew.backends import RefRow, Tx
from clew.engine.engine import Engine
from clew.engine.log import Log, append_in
from clew.engine.mirrors import PENDING
from clew.engine.node import moment
from clew.engine.refs import OWN, Refs
from clew.errors import Corrupted

Reason = Literal[
    "user-requested", "retention-expired", "privacy-policy-change", "workspace-reset", "corruption-detected",
    "session-timeout", "policy-update", "error-recovery",
]  # fmt: skip
"""Why something is purged."""
DELETED = "deleted"
"""Reason in the receipt of a deletion that is no purge."""
TRACES = "traces"
RECEIPTS = "receipts"
"""Kind of the one ref whose log holds the receipts."""


class Failure(NamedTuple):
    """A session that was not purged, or not completely, and why."""

    session: str
    error: str


class Kept(NamedTuple):
    """Messages of a purged session that stay because others share them, including those of branches and traces and
    compacted ones.
    """

    session: str
    messages: int
    needed_by: tuple[str, ...]
    """Ids of the remaining sessions and snapshots of the same trees."""


class Receipt(NamedTuple):
    """What a deletion removed, and what is left. The store keeps the receipts of purges. They hold no content."""

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
    """Stored size of the message bodies."""
    failures: tuple[Failure, ...]
    kept: tuple[Kept, ...]
    pending: tuple[str, ...]
    """Places still to be cleared: ``wal``, ``file``, ``search``, ``objects``; ``rows`` if the cleanup has not started,
    or its result is not noted. ``mirror`` and a folder: files of a mirror that cannot be reached now. ``traces`` for a
    deletion that is no purge: data in the store's files and objects, until it is overwritten or something is purged.
    """
    beyond: tuple[str, ...] = ()
    """Places on a server that may hold copies clew cannot reach: ``pages`` until they are overwritten, ``wal`` and its
    archives, ``replicas``; for objects also ``versions``, if a bucket keeps them.
    """
    outside: int = 0
    """Stored size of the attachments in object storage."""
    redacted: tuple[str, ...] = ()
    """Ids of the sessions that show a new version of the messages: see `clew.store.redact_message`."""


Receipts = list[Receipt]


class ReceiptEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a receipt in the log. Parts with the same id add up; the last one lists what is pending."""

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
    redacted: tuple[str, ...] = ()

    def cleared(self, pending: tuple[str, ...], now: int) -> ReceiptEntry:
        """With these places still to be cleared; finished if there are none."""
        return msgspec.structs.replace(self, pending=pending, finished=None if pending else now)

    def ending(self) -> ReceiptEntry:
        """The part that records only how the purge ended."""
        return ReceiptEntry(self.id, self.reason, self.started, self.finished, pending=self.pending)

    def plus(self, part: ReceiptEntry) -> ReceiptEntry:
        """Two parts of a receipt as one."""
        added = {
            name: getattr(self, name) + getattr(part, name)
            for name in ("sessions", "messages", "blobs", "bytes", "failures", "kept", "outside", "redacted")
        }
        return msgspec.structs.replace(part, **added)

    def receipt(self, engine: Engine) -> Receipt:
        """The public form."""
        finished = None if self.finished is None else moment(self.finished)
        beyond = engine.backend.beyond if self.sessions or self.messages else ()
        if self.outside:
            beyond = tuple(dict.fromkeys((*beyond, "versions", "replicas")))
        return Receipt(
            self.id, self.reason, moment(self.started), finished, self.sessions, self.messages, self.blobs,
            self.bytes, self.failures, self._needed_messages(), self.pending, beyond, self.outside, self.redacted,
        )  # fmt: skip

    def _needed_messages(self) -> tuple[Kept, ...]:
        """`kept`, without sessions that the same purge deleted later."""
        gone = {*self.sessions}
        left = [(one, tuple(other for other in one.needed_by if other not in gone)) for one in self.kept]
        return tuple(one._replace(needed_by=others) for one, others in left if others or not one.needed_by)


class ReceiptLog:
    """The receipts of a store's workspace, in a log of the store's own."""

    def __init__(self, engine: Engine, refs: Refs) -> None:
        self._engine = engine
        self._refs = refs

    def entries(self) -> list[ReceiptEntry]:
        """Every receipt, oldest first."""
        row = self._engine.read(lambda tx: self._refs.own(tx, RECEIPTS))
        return [] if row is None else self._read(row)

    def note(self, tx: Tx, entries: Sequence[ReceiptEntry]) -> None:
        """Writes entries into the log."""
        if entries:
            self.append_to(tx, self._refs.add_own(tx, RECEIPTS), entries)

    def append_to(self, tx: Tx, row: RefRow, entries: Sequence[ReceiptEntry]) -> None:
        """Writes entries into the log of any workspace."""
        new = [(self._engine.new_id(), msgspec.json.encode(entry)) for entry in entries]
        append_in(self._engine, tx, row, new)

    def others(self, pending: tuple[str, ...], known: set[str], now: int) -> list[tuple[RefRow, list[ReceiptEntry]]]:
        """The endings of other receipts in all workspaces: clearing the files clears them for all.

        Their mirrors, and places that are pending here too, stay pending.
        """
        found = []
        shared = tuple(one for one in pending if not one.startswith(PENDING))
        for row in self._engine.read(lambda tx: tx.maintenance.refs_named(RECEIPTS, OWN)):
            own = row.workspace == self._engine.workspace
            with suppress(Corrupted):  # their own workspace reports the damage
                left = []
                for entry in self._read(row):
                    theirs = tuple(one for one in entry.pending if one.startswith(PENDING))
                    end = pending if own else shared + theirs
                    if entry.pending not in ((), end) and entry.id not in known:
                        left.append(entry.cleared(end, now).ending())
                if left:
                    found.append((row, left))
        return found

    def _read(self, row: RefRow) -> list[ReceiptEntry]:
        """The receipts in a log, oldest first, with their parts added up."""
        found: dict[str, ReceiptEntry] = {}
        for stored in Log(self._engine, lambda: row).read():
            entry = msgspec.json.decode(stored.data, type=ReceiptEntry)
            found[entry.id] = found[entry.id].plus(entry) if entry.id in found else entry
        return list(found.values())
