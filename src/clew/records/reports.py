"""Reports of purges in the form of the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clew.engine.node import microseconds
from clew.engine.receipts import Receipt
from clew.errors import ClewError, Corrupted, NotFound, SweepRefused, clip
from clew.records.schema import PurgeFailure, PurgeReason, PurgeReport, time_text
from clew.retention import RetentionScan

Name = Callable[[str], str]
"""Maps a session id to its conversation id."""


def of(receipt: Receipt, name: Name, now: int) -> PurgeReport:
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


def with_caller_id(error: ClewError, session: str, conversation_id: str) -> ClewError:
    """The error with the caller's conversation id in place of the session id, which may be a hash."""
    shown = clip(conversation_id)
    if isinstance(error, NotFound) and error.key == session:
        return NotFound("record", conversation_id, hint=error.hint)
    if session not in error.message or session == conversation_id:
        return error
    if isinstance(error, Corrupted):
        error.where = error.where.replace(session, shown)
    error.message = error.message.replace(session, shown)
    error.args = (f"{error.message}. {error.hint}" if error.hint else error.message,)
    return error
