"""The retention policy: pure functions of times that say when a session is due, and whether a sweep is plausible.

`clew.retention` does the purge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from clew.engine.session_data import LONGEST, SHORTEST, record_days, retention_days
from clew.errors import Invalid

if TYPE_CHECKING:
    from clew.store.evaluate import Due

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
_END = datetime.max.replace(tzinfo=UTC)


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How long sessions are kept. Reads no clock and no store. Raises Invalid if a number is out of range."""

    days: int | None = 30
    """Days after the last activity, at least 1; None keeps sessions until they are deleted."""
    trash_days: int | None = 30
    """Days in the trash; None keeps sessions there."""
    workspaces: dict[str, int | None] = {}
    """Days for workspaces that have their own."""
    share: float = 0.5
    """Without `force`, one sweep may remove at most this share of the sessions, if there are more than 10."""
    records: int | None = None
    """Days for conversation records, 7 to 180. None applies `days`, limited to 7 to 180; without limit, 180."""

    def __post_init__(self) -> None:
        if not isinstance(self.workspaces, dict) or not all(_is_name(name) for name in self.workspaces):
            raise Invalid("workspaces must map workspace names to days")
        for days in (self.days, self.trash_days, *self.workspaces.values()):
            if days is not None:
                retention_days(days)
        if self.records is not None:
            record_days(self.records)
        if not isinstance(self.share, int | float) or not 0 <= self.share <= 1:
            raise Invalid("share must be a number from 0 to 1")

    def days_for(self, workspace: str = "", *, record: bool = False) -> int | None:
        """Days that a session or a record of this workspace is kept after its last activity; None means no limit.

        A record always has a limit.
        """
        if record and self.records is not None and workspace not in self.workspaces:
            return self.records
        days = self.workspaces.get(workspace, self.days)
        return _near_record(days) if record else days

    def check_records(self, workspace: str = "") -> None:
        """Raises Invalid unless the policy sets 7 to 180 days for the records of this workspace."""
        days = self.workspaces.get(workspace, self.days if self.records is None else self.records)
        if days is None:
            raise Invalid("the policy sets no number of days for records", hint="Set days or records.")
        record_days(days)

    @classmethod
    def clamped(
        cls,
        days: int = 30,
        trash_days: int = 30,
        workspaces: Mapping[str, int] | None = None,
        share: float = 0.5,
    ) -> tuple[Policy, tuple[str, ...]]:
        """The nearest policy that is valid for records, and a warning for each number that was changed."""
        warnings: list[str] = []

        def near(name: str, value: int) -> int:
            kept = _near_record(value) if isinstance(value, int) else value
            if kept != value:
                warnings.append(f"{name} is {kept}, not {value}: a record is kept {SHORTEST} to {LONGEST} days")
            return kept

        if not isinstance(workspaces, dict | None):
            raise Invalid("workspaces must map workspace names to days")
        own: dict[str, int | None] = {
            name: near(f"days of {name!r}", value) for name, value in (workspaces or {}).items()
        }
        return cls(near("days", days), near("trash_days", trash_days), own, share), tuple(warnings)

    def expires_at(
        self,
        last_activity: datetime,
        *,
        workspace: str = "",
        record: bool = False,
        days: int | None = None,
        until: datetime | None = None,
        trashed_at: datetime | None = None,
    ) -> datetime:
        """When a session with this last activity is due; the maximum datetime if it never is.

        `days` or `until` is the session's own retention. In the trash only `trash_days` counts, except that an earlier
        `until` still applies. A `record` stays in the trash for at most 180 days; if the trash has no limit, no longer
        than records are kept elsewhere.
        """
        usual = self.days_for(workspace, record=record)
        if trashed_at is not None:
            limit = self.trash_days
            if record:
                limit = usual if limit is None else min(limit, LONGEST)
            due = _later(trashed_at, limit)
            return due if until is None else min(due, until)
        if until is not None:
            return until
        return _later(last_activity, usual if days is None else days)

    def expired(
        self,
        now: datetime,
        last_activity: datetime,
        *,
        workspace: str = "",
        record: bool = False,
        days: int | None = None,
        until: datetime | None = None,
        trashed_at: datetime | None = None,
    ) -> bool:
        """True if `expires_at` is not after `now`."""
        due = self.expires_at(
            last_activity, workspace=workspace, record=record, days=days, until=until, trashed_at=trashed_at
        )
        return now >= due


def _is_name(name: object) -> bool:
    """True if this can be a workspace name. A policy is stored as JSON, so lone surrogates are not allowed."""
    return isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _near_record(days: int | None) -> int:
    """The nearest number of days that a record may be kept."""
    return LONGEST if days is None else min(max(days, SHORTEST), LONGEST)


def _later(start: datetime, days: int | None) -> datetime:
    return start + timedelta(days=days) if days is not None and start < _END - timedelta(days=days) else _END


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
