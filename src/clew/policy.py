"""How long sessions are kept: a pure function of times. What it says is due, `clew.retention` purges."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from clew.errors import Invalid
from clew.session_data import LONGEST, SHORTEST, record_days, retention_days

_END = datetime.max.replace(tzinfo=UTC)


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How long sessions are kept. A value: it looks at no clock and no store. Invalid if a number is out of range."""

    days: int | None = 30
    """After the last activity, any number from 1; None keeps sessions until they are deleted."""
    trash_days: int | None = 30
    """After a session was put in the trash; None keeps it there."""
    workspaces: dict[str, int | None] = {}
    """Days for workspaces that have their own."""
    share: float = 0.5
    """The largest share of the sessions that one sweep may remove without being asked, once there are more than 10."""
    records: int | None = None
    """Days for conversation records, 7 to 180. None: as for other sessions, but never fewer than 7 or more than 180."""

    def __post_init__(self) -> None:
        if not isinstance(self.workspaces, dict) or not all(_is_name(name) for name in self.workspaces):
            raise Invalid("days of workspaces come by their names")
        for days in (self.days, self.trash_days, *self.workspaces.values()):
            if days is not None:
                retention_days(days)
        if self.records is not None:
            record_days(self.records)
        if not isinstance(self.share, int | float) or not 0 <= self.share <= 1:
            raise Invalid("a share is a number from 0 to 1")

    def days_for(self, workspace: str = "", *, record: bool = False) -> int | None:
        """Days after the last activity that a session of a workspace, or a record there, is kept; None: no limit."""
        if record and self.records is not None and workspace not in self.workspaces:
            return self.records
        days = self.workspaces.get(workspace, self.days)
        return days if days is None or not record else min(max(days, SHORTEST), LONGEST)

    def check_records(self, workspace: str = "") -> None:
        """Invalid unless the policy says itself, for the records of a workspace, a number of days from 7 to 180."""
        days = self.workspaces.get(workspace, self.days if self.records is None else self.records)
        if days is None:
            raise Invalid("the policy does not say how long records are kept", hint="Set days, or records.")
        record_days(days)

    @classmethod
    def clamped(
        cls,
        days: int = 30,
        trash_days: int = 30,
        workspaces: Mapping[str, int] | None = None,
        share: float = 0.5,
    ) -> tuple[Policy, tuple[str, ...]]:
        """The nearest policy that records may have, and a warning for each number that was changed."""
        warnings: list[str] = []

        def near(name: str, value: int) -> int:
            kept = min(max(value, SHORTEST), LONGEST) if isinstance(value, int) else value
            if kept != value:
                warnings.append(f"{name} is {kept}, not {value}: a record is kept {SHORTEST} to {LONGEST} days")
            return kept

        if not isinstance(workspaces, dict | None):
            raise Invalid("days of workspaces come by their names")
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
        """When a session is due that was last active then; the end of time if never.

        `days` or `until` is a retention of its own. In the trash the days there count, and no others; a moment still
        does, if it comes first. A `record` in the trash never has more days there than records have elsewhere, if
        the trash has no limit.
        """
        usual = self.days_for(workspace, record=record)
        if trashed_at is not None:
            due = _later(trashed_at, usual if record and self.trash_days is None else self.trash_days)
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
        """True if it is due by `now`: `expires_at` has come."""
        due = self.expires_at(
            last_activity, workspace=workspace, record=record, days=days, until=until, trashed_at=trashed_at
        )
        return now >= due


def _is_name(name: object) -> bool:
    """True for what a workspace can be called: a policy is kept as JSON, which has no lone surrogates."""
    return isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _later(start: datetime, days: int | None) -> datetime:
    return start + timedelta(days=days) if days is not None and start < _END - timedelta(days=days) else _END
