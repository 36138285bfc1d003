"""The purges of a service: by request, by retention and because of damage.

Each purge emits events and returns a report, which lists every failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from clew.base.values import Clock
from clew.engine.node import microseconds, moment
from clew.engine.receipts import Receipt
from clew.engine.session_data import is_record
from clew.errors import ClewError, Conflict, Corrupted, NotFound, SweepRefused, Unavailable, clip
from clew.records import events
from clew.records.events import Events
from clew.records.repository import Repository
from clew.records.schema import PurgeFailure, PurgeReason, PurgeReport, time_micros, time_text
from clew.records.writes import Writes
from clew.retention import QUIET, RetentionScan, SweepReport, log_swept, needed_policy
from clew.store.listing import independent
from clew.store.session import Session
from clew.store.store import Store

Name = Callable[[str], str]
"""Maps a session id to its conversation id."""


def report_of(receipt: Receipt, name: Name, now: int) -> PurgeReport:
    """The report of a purge. Failures are records that remain, shared messages and uncleared traces."""
    finished = now if receipt.finished_at is None else microseconds(receipt.finished_at)
    return PurgeReport(
        reason=_reason(receipt),
        started_at=time_text(microseconds(receipt.started_at)),
        completed_at=time_text(finished),
        purged_count=len(receipt.sessions),
        failures=tuple(_failures(receipt, name)),
    )


def empty_report(reason: PurgeReason, at: int) -> PurgeReport:
    """The report of a purge that purged nothing."""
    text = time_text(at)
    return PurgeReport(reason=reason, started_at=text, completed_at=text, purged_count=0, failures=())


def held_back(found: RetentionScan, error: SweepRefused, name: Name, at: int) -> PurgeReport:
    """The report of a refused sweep: lists each record that is due, and why it remains."""
    failures = tuple(
        PurgeFailure(conversation_id=name(due.session), error=f"due, but held back: {error.message}")
        for due in found.going
    )
    empty = empty_report("retention-expired", at)
    return PurgeReport(
        reason=empty.reason, started_at=empty.started_at, completed_at=empty.completed_at, purged_count=0,
        failures=failures,
    )  # fmt: skip


def _failures(receipt: Receipt, name: Name) -> Iterator[PurgeFailure]:
    for failed in receipt.failures:
        error = failed.error.replace(failed.session, name(failed.session))
        yield PurgeFailure(conversation_id=name(failed.session), error=error)
    for kept in receipt.kept:
        others = ", ".join(name(one) for one in kept.needed_by) or "messages saved outside a session"
        why = f"{kept.messages:,} of its messages remain because others share them: {others}"
        yield PurgeFailure(conversation_id=name(kept.session), error=why)
    if receipt.pending:
        why = f"traces not cleared yet: {', '.join(receipt.pending)}"
        yield from (PurgeFailure(conversation_id=name(session), error=why) for session in receipt.sessions)


def _reason(receipt: Receipt) -> PurgeReason:
    reason: PurgeReason = receipt.reason  # type: ignore[assignment] # it was checked when the purge began
    return reason


class Purging:
    """Purges records and reports the results."""

    def __init__(self, store: Store, records: Repository, writes: Writes, bus: Events, clock: Clock) -> None:
        self._store = store
        self._records = records
        self._writes = writes
        self._events = bus
        self._clock = clock

    def delete(self, conversation_id: str, reason: PurgeReason) -> PurgeReport:
        """See `RecordService.delete`."""
        session = self._records.key(conversation_id)
        with self._writes.pause():
            try:
                receipt = self._store.sessions.purge([session], reason=reason)
            except NotFound:
                if self._writes.drop(lambda one: session in self._sessions(one)):
                    return empty_report(reason, self._clock())
                raise NotFound("record", conversation_id) from None
            if receipt.sessions:
                self._writes.drop(lambda one: session in self._sessions(one))
        report = self._report_purge(receipt, {session: conversation_id})
        if not receipt.sessions:
            raise self._refusal(conversation_id, receipt.failures[0].error)
        return report

    def purge_all(self, reason: PurgeReason) -> PurgeReport:
        """See `RecordService.purge_all`."""
        names = self._names(independent(self._store))
        with self._writes.pause():
            receipt = self._store.sessions.purge(everything=True, reason=reason)
            stay = {failure.session for failure in receipt.failures} - {*receipt.sessions}
            self._writes.drop(lambda one: stay.isdisjoint(self._sessions(one)))
        return self._report_purge(receipt, names)

    def purge_damaged(self, conversation_id: str, session: str) -> bool:
        """Purges an unreadable record; False if that fails."""
        try:
            receipt = self._store.sessions.purge([session], reason="corruption-detected")
        except ClewError:
            return False
        return self._report_purge(receipt, {session: conversation_id}).purged_count > 0

    # -- what has expired

    def sweep(self, *, force: bool) -> PurgeReport:
        """See `RecordService.sweep`."""
        started = self._clock()
        found = self._look(started)
        names = self._names(found.sessions)
        try:
            swept, report = self._sweep(found, names, force=force)
            log_swept(swept)
        except SweepRefused as error:
            return held_back(found, error, self._name_of(names), started)
        return report or empty_report("retention-expired", started)

    def sweep_again(self) -> SweepReport:
        """One sweep of a sweeper. If the sweep is refused, emits an event and raises SweepRefused."""
        found = self._look(self._clock())
        return self._sweep(found, self._names(found.sessions), force=False)[0]

    def _look(self, now: int) -> RetentionScan:
        talking = [
            key for id in self._writes.conversations for key in self._sessions(id)
        ]  # their messages wait for space
        return RetentionScan(self._store, needed_policy(self._store), moment(now), talking, QUIET, only=is_record)

    def _sweep(
        self, found: RetentionScan, names: dict[str, str], *, force: bool
    ) -> tuple[SweepReport, PurgeReport | None]:
        try:
            swept = found.purge(force=force)
        except SweepRefused as error:
            doubt = events.RetentionInDoubt(due_count=error.going, total_count=error.total, doubts=error.doubts)
            self._events.emit(doubt)
            raise
        return swept, None if swept.receipt is None else self._report_purge(swept.receipt, names)

    # -- inside

    def _report_purge(self, receipt: Receipt, names: dict[str, str]) -> PurgeReport:
        """Emits events for a purge, then uses the freed space."""
        report = report_of(receipt, self._name_of(names), self._clock())
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

    def _refusal(self, conversation_id: str, why: str) -> ClewError:
        """The error for a record that was not purged."""
        found = self._records.find(self._records.key(conversation_id))
        if found is not None and found.session.held:
            return Conflict(f"record {clip(conversation_id)} is held", hint="Release it first.")
        return Unavailable(f"record {clip(conversation_id)} was not purged: {why}", hint="Call delete again.")

    def _sessions(self, conversation_id: str) -> tuple[str, ...]:
        """The ids that a conversation's session may have; after a purge, the store no longer tells which."""
        return self._records.keys(conversation_id)

    def _names(self, sessions: Iterable[Session]) -> dict[str, str]:
        return {one.id: self._name(one) for one in sessions}

    def _name(self, session: Session) -> str:
        """The conversation id, or the session id if the record cannot be read."""
        try:
            return self._records.load(session).conversation_id
        except Corrupted:
            return session.id

    def _name_of(self, names: dict[str, str]) -> Name:
        """A function that maps a session id to its conversation id, from `names` or from the store."""

        def name(session: str) -> str:
            if session not in names:
                found = self._store.read(lambda unit: unit.session(session, trashed=True), single=True)
                names[session] = session if found is None else self._name(found)
            return names[session]

        return name
