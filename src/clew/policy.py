"""How long sessions are kept: a pure function of times. What it says is due, `clew.retention` purges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from clew.errors import Invalid
from clew.session_data import LONGEST, SHORTEST, retention_days

_END = datetime.max.replace(tzinfo=UTC)


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How long sessions are kept. A value: it looks at no clock and no store. Invalid if a number is out of range."""

    days: int = 30
    """After the last activity; 7 to 180."""
    trash_days: int = 30
    """After a session was put in the trash; 7 to 180."""
    workspaces: dict[str, int] = {}
    """Days for workspaces that have their own."""
    share: float = 0.5
    """The largest share of the sessions that one sweep may remove without being asked, once there are more than 10."""

    def __post_init__(self) -> None:
        if not isinstance(self.workspaces, dict) or not all(_is_name(name) for name in self.workspaces):
            raise Invalid("days of workspaces come by their names")
        for days in (self.days, self.trash_days, *self.workspaces.values()):
            retention_days(days)
        if not isinstance(self.share, int | float) or not 0 <= self.share <= 1:
            raise Invalid("a share is a number from 0 to 1")

    @classmethod
    def clamped(
        cls,
        days: int = 30,
        trash_days: int = 30,
        workspaces: dict[str, int] | None = None,
        share: float = 0.5,
    ) -> tuple[Policy, tuple[str, ...]]:
        """The nearest policy that is allowed, and a warning for each number that was changed."""
        warnings: list[str] = []

        def near(name: str, value: int) -> int:
            kept = min(max(value, SHORTEST), LONGEST) if isinstance(value, int) else value
            if kept != value:
                warnings.append(f"{name} is {kept}, not {value}: a retention is from {SHORTEST} to {LONGEST} days")
            return kept

        if not isinstance(workspaces, dict | None):
            raise Invalid("days of workspaces come by their names")
        own = {name: near(f"days of {name!r}", value) for name, value in (workspaces or {}).items()}
        return cls(near("days", days), near("trash_days", trash_days), own, share), tuple(warnings)

    def expires_at(
        self,
        last_activity: datetime,
        *,
        workspace: str = "",
        days: int | None = None,
        until: datetime | None = None,
        trashed_at: datetime | None = None,
    ) -> datetime:
        """When a session is due that was last active then.

        `days` or `until` is a retention of its own. In the trash the days there count, and no others; a moment still
        does, if it comes first.
        """
        if trashed_at is not None:
            due = _later(trashed_at, self.trash_days)
            return due if until is None else min(due, until)
        if until is not None:
            return until
        return _later(last_activity, self.workspaces.get(workspace, self.days) if days is None else days)

    def expired(
        self,
        now: datetime,
        last_activity: datetime,
        *,
        workspace: str = "",
        days: int | None = None,
        until: datetime | None = None,
        trashed_at: datetime | None = None,
    ) -> bool:
        """True if it is due by `now`: `expires_at` has come."""
        return now >= self.expires_at(last_activity, workspace=workspace, days=days, until=until, trashed_at=trashed_at)


def _is_name(name: object) -> bool:
    """True for what a workspace can be called: a policy is kept as JSON, which has no lone surrogates."""
    return isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _later(start: datetime, days: int) -> datetime:
    return start + timedelta(days=days) if start < _END - timedelta(days=days) else _END
