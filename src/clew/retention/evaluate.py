"""Whether a whole deletion is plausible, or a wrong clock or policy asks for it. A pure function of what is due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from clew.store.judging import Due

FEW = 10
"""With this many sessions or fewer, a sweep may remove any share of them."""
OVERDUE = timedelta(days=365)
"""A session overdue by more than this suggests a wrong clock or a store that was not used for long. Clocks are often
wrong by whole years."""
RECORD_OVERDUE = timedelta(days=180)
"""The same for a record: no change of policy makes one overdue by more than 173 days."""
AHEAD = timedelta(days=1)
"""Activity further in the future than this suggests a wrong clock."""

_DAY = timedelta(days=1)


def doubts(
    going: Sequence[Due], total: int, newest: tuple[datetime, str] | None, now: datetime, share: float
) -> tuple[str, ...]:
    """Reasons to refuse a sweep: it would remove too large a share, or the clock looks wrong.

    `total` is the number of sessions that are not records. Records count for the clock only: that all of them expire
    is what their policy says.
    """
    found: list[str] = []
    if not going or newest is None:
        return ()
    if total > FEW and sum(not due.record for due in going) > total * share:
        found.append(f"that is more than {share:.0%}")
    late, first = max((now - due.expires_at - (RECORD_OVERDUE if due.record else OVERDUE), due) for due in going)
    if late > timedelta(0):
        found.append(f"session {first.session} was due {(now - first.expires_at) / _DAY:,.0f} days ago")
    if newest[0] - now > AHEAD:
        found.append(f"session {newest[1]} was last active {(newest[0] - now) // _DAY:,} days from now")
    return tuple(found)
