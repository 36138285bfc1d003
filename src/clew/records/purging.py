"""How a service purges: what it is asked to, what has expired by the store's policy, and what is damaged.

Each purge is reported and emitted as events; what it did not reach is a failure in the report.
"""

from __future__ import annotations

from clew import events, ids
from clew.backends import RefRow
from clew.engine import Clock
from clew.errors import ClewError, Conflict, Implausible, NotFound, Tampered, Unavailable, clip
from clew.events import Events
from clew.node import moment
from clew.receipts import Receipt
from clew.records import reports
from clew.records.repository import Repository
from clew.records.shapes import PurgeReason, PurgeReport, time_micros
from clew.records.writes import Writes
from clew.retention import QUIET, Look, Swept
from clew.sessions import SESSION
from clew.store import Store
from clew.stored_policy import needed_policy


class Purging:
    """The purges of a service."""

    def __init__(self, store: Store, records: Repository, writes: Writes, bus: Events, clock: Clock) -> None:
        self._store = store
        self._records = records
        self._writes = writes
        self._events = bus
        self._clock = clock

    def delete(self, conversation_id: str, reason: PurgeReason) -> PurgeReport:
        """See `RecordService.delete`."""
        session = self._session(conversation_id)
        with self._writes.paused():
            try:
                receipt = self._store.sessions.purge([session], reason=reason)
            except NotFound:
                if self._writes.drop(lambda one: self._session(one) == session):
                    return reports.nothing(reason, self._clock())
                raise NotFound("record", conversation_id) from None
            if receipt.sessions:
                self._writes.drop(lambda one: self._session(one) == session)
        report = self._purged(receipt, {session: conversation_id})
        if not receipt.sessions:
            raise self._kept(conversation_id, receipt.failures[0].error)
        return report

    def everything(self, reason: PurgeReason) -> PurgeReport:
        """See `RecordService.purge_all`."""
        sessions = self._store.sessions
        rows = self._store._engine.read(lambda tx: sessions._all(tx, live=True, before=None))
        names = {ids.text(row.key): self._name(row) for row in rows}
        with self._writes.paused():
            receipt = sessions.purge(everything=True, reason=reason)
            stay = {failure.session for failure in receipt.failures} - {*receipt.sessions}
            self._writes.drop(lambda one: self._session(one) not in stay)
        return self._purged(receipt, names)

    def damaged(self, conversation_id: str, key: bytes) -> bool:
        """Purges a record that cannot be read; False if even that is not possible."""
        session = ids.text(key)
        try:
            receipt = self._store.sessions.purge([session], reason="corruption-detected")
        except ClewError:
            return False
        return self._purged(receipt, {session: conversation_id}).purged_count > 0

    # -- what has expired

    def sweep(self, *, force: bool) -> PurgeReport:
        """See `RecordService.sweep`."""
        started = self._clock()
        found = self._look(started)
        names = self._names(found)
        try:
            _, report = self._sweep(found, names, force=force)
        except Implausible as error:
            return reports.held_back(found, error, self._name_of(names), started)
        return report or reports.nothing("retention-expired", started)

    def sweep_again(self) -> Swept:
        """A sweep of a sweeper. Implausible, told as an event, if it would remove more than is likely to be meant."""
        found = self._look(self._clock())
        return self._sweep(found, self._names(found), force=False)[0]

    def _look(self, now: int) -> Look:
        talking = [self._session(id) for id in self._writes.conversations]  # and what was said waits for space
        return Look(self._store, needed_policy(self._store), moment(now), talking, QUIET, records=True)

    def _sweep(self, found: Look, names: dict[str, str], *, force: bool) -> tuple[Swept, PurgeReport | None]:
        try:
            swept = found.purge(force=force)
        except Implausible as error:
            doubt = events.RetentionInDoubt(due_count=error.going, total_count=error.total, doubts=error.doubts)
            self._events.emit(doubt)
            raise
        return swept, None if swept.receipt is None else self._purged(swept.receipt, names)

    # -- inside

    def _purged(self, receipt: Receipt, names: dict[str, str]) -> PurgeReport:
        """Emits what a purge did, and makes use of the space."""
        report = reports.of(receipt, self._name_of(names), self._clock())
        for session in receipt.sessions:
            gone = names.get(session, session)
            self._events.emit(events.ConversationDeleted(conversation_id=gone, reason=report.reason))
        started, completed = time_micros(report.started_at), time_micros(report.completed_at)
        self._events.emit(
            events.PurgeCompleted(
                reason=report.reason, purged_count=report.purged_count, failed_count=len(report.failures),
                started_at=report.started_at, completed_at=report.completed_at,
                duration_ms=(completed - started) / 1000,
            )
        )  # fmt: skip
        if receipt.sessions:
            self._writes.space()
        return report

    def _kept(self, conversation_id: str, why: str) -> ClewError:
        """The error that says why a record was not purged."""
        found = self._records.find(self._records.key(conversation_id))
        if found is not None and found.row.hold:
            return Conflict(f"record {clip(conversation_id)} is held", hint="Release it first.")
        return Unavailable(f"record {clip(conversation_id)} was not purged: {why}", hint="Delete it again.")

    def _session(self, conversation_id: str) -> str:
        return ids.text(self._records.key(conversation_id))

    def _names(self, found: Look) -> dict[str, str]:
        return {ids.text(row.key): self._name(row) for row in found.rows}

    def _name(self, row: RefRow) -> str:
        """A conversation's id, or if that cannot be read its session's."""
        try:
            return self._records.found(row).conversation_id
        except Tampered:
            return ids.text(row.key)

    def _name_of(self, names: dict[str, str]) -> reports.Name:
        """What tells a conversation's id by its session's: from `names`, or as the store has it."""

        def name(session: str) -> str:
            if session not in names:
                row = self._store.sessions._row(SESSION, ids.parse(session))
                names[session] = session if row is None else self._name(row)
            return names[session]

        return name
