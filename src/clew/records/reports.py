"""What became of a purge, as the schema reports it: what went, and everything that did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clew import ids
from clew.errors import ClewError, Implausible, NotFound, Tampered, clip
from clew.node import microseconds
from clew.receipts import Receipt
from clew.records.shapes import PurgeFailure, PurgeReason, PurgeReport, time_text
from clew.retention import Look

Name = Callable[[str], str]
"""The conversation's id of a session's."""


def of(receipt: Receipt, name: Name, now: int) -> PurgeReport:
    """The report of a purge. A failure is a record that stays, or what is left of one: shared, or not cleared yet."""
    finished = now if receipt.finished_at is None else microseconds(receipt.finished_at)
    return PurgeReport(
        reason=_reason(receipt),
        started_at=time_text(microseconds(receipt.started_at)),
        completed_at=time_text(finished),
        purged_count=len(receipt.sessions),
        failures=tuple(_failures(receipt, name)),
    )


def nothing(reason: PurgeReason, at: int) -> PurgeReport:
    """The report of a purge that had nothing to do."""
    text = time_text(at)
    return PurgeReport(reason=reason, started_at=text, completed_at=text, purged_count=0, failures=())


def held_back(found: Look, error: Implausible, name: Name, at: int) -> PurgeReport:
    """The report of a sweep that stopped before it removed anything: each record that is due, and why it stays."""
    failures = tuple(
        PurgeFailure(conversation_id=name(due.session), error=f"due, but held back: {error.message}")
        for due in found.going
    )
    empty = nothing("retention-expired", at)
    return PurgeReport(
        reason=empty.reason, started_at=empty.started_at, completed_at=empty.completed_at, purged_count=0,
        failures=failures,
    )  # fmt: skip


def _failures(receipt: Receipt, name: Name) -> Iterator[PurgeFailure]:
    for failed in receipt.failures:
        said = failed.error.replace(failed.session, name(failed.session))
        yield PurgeFailure(conversation_id=name(failed.session), error=said)
    for kept in receipt.kept:
        others = ", ".join(name(one) for one in kept.needed_by) or "messages that were saved apart"
        why = f"{kept.messages:,} of its messages stay, because others share them: {others}"
        yield PurgeFailure(conversation_id=name(kept.session), error=why)
    if receipt.pending:
        why = f"traces are still to be cleared: {', '.join(receipt.pending)}"
        yield from (PurgeFailure(conversation_id=name(session), error=why) for session in receipt.sessions)


def _reason(receipt: Receipt) -> PurgeReason:
    reason: PurgeReason = receipt.reason  # type: ignore[assignment] # it was checked when the purge began
    return reason


def renamed(error: ClewError, key: bytes, conversation_id: str) -> ClewError:
    """The error with the id that its caller knows, in place of its session's: that may be a hash."""
    session, shown = ids.text(key), clip(conversation_id)
    if isinstance(error, NotFound) and error.key == session:
        return NotFound("record", conversation_id, hint=error.hint)
    if session not in error.message or session == conversation_id:
        return error
    if isinstance(error, Tampered):
        error.where = error.where.replace(session, shown)
    error.message = error.message.replace(session, shown)
    error.args = (f"{error.message}. {error.hint}" if error.hint else error.message,)
    return error
