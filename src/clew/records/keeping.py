"""How long a record is kept: as a policy says, or until a moment of its own."""

from __future__ import annotations

from collections.abc import Iterator

from clew.backends import RefRow
from clew.errors import Invalid
from clew.policy import Policy
from clew.records.shapes import RetentionInfo, time_text
from clew.refs import expiry
from clew.session_data import LONGEST, SHORTEST
from clew.sessions import SCAN, SESSION, Sessions

DAY = 86_400_000_000


def expires(policy: Policy, row: RefRow) -> int:
    """When a session expires, if nothing more happens in it."""
    own = expiry(row)
    return row.active_at + _window(policy, row.workspace) if own is None else own


def expired(policy: Policy, row: RefRow, now: int) -> bool:
    """True if its time is over and nobody holds it."""
    return not row.hold and expires(policy, row) <= now


def info(policy: Policy, row: RefRow) -> RetentionInfo:
    """A session's retention as a record says it."""
    return RetentionInfo(
        retention_expires_at=time_text(expires(policy, row)),
        retention_policy="workspace-default" if row.expires_at is None else "custom",
        manual_hold=True if row.hold else None,
    )


def until(row: RefRow, moment: int) -> int:
    """`moment`, if a record may be kept until then. Invalid: the policy's limits hold for each record too."""
    if not row.active_at + SHORTEST * DAY <= moment <= row.active_at + LONGEST * DAY:
        raise Invalid(f"a record is kept from {SHORTEST} to {LONGEST} days after its last interaction")
    return moment


def overdue(sessions: Sessions, policy: Policy, now: int, workspace: str) -> Iterator[RefRow]:
    """Sessions that the policy has expired, of those without a retention of their own."""
    edge: tuple[int, int] | None = now - _window(policy, workspace) + 1, 0
    while edge is not None:
        rows = sessions._recent(SESSION, edge, None, None, SCAN)
        yield from (row for row in rows if row.expires_at is None and expired(policy, row, now))
        edge = (rows[-1].rank, rows[-1].ref) if len(rows) == SCAN else None


def _window(policy: Policy, workspace: str) -> int:
    return policy.workspaces.get(workspace, policy.days) * DAY
