"""When a record expires, by the store's policy or by its own retention; and whether a service can use a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from clew.engine.node import microseconds
from clew.engine.session_data import DAY
from clew.errors import Corrupted, Invalid
from clew.records.schema import RetentionInfo, time_text
from clew.retention import get_policy
from clew.retention.policy import Policy
from clew.store import listing
from clew.store.listing import Lifetime, lifetime, recent
from clew.store.session import Session
from clew.store.store import Store

DEFAULT = Policy(days=None, trash_days=None, records=30)
"""The policy for a store without one: it applies only to records."""


def check_policy(policy: Policy, store: Store) -> None:
    """Raises Invalid unless this is a policy that sets 7 to 180 days for the store's records."""
    if not isinstance(policy, Policy):
        raise Invalid(f"policy must be a clew.retention.Policy, not {type(policy).__name__}")
    policy.check_records(store.workspace)


def readable_expiry(store: Store) -> Expiry:
    """When sessions expire under the store's policy. If it cannot be read, there is none, so that records are shown."""
    try:
        return Expiry(store, get_policy(store))
    except (Corrupted, Invalid):
        return Expiry(store, None)


def count(store: Store, expiry: Expiry, now: int, is_record: IsRecord, *, include_expired: bool) -> int:
    """Number of sessions. The store's count ignores the policy, so those that it has expired are subtracted."""
    total = listing.count(store, now=now, include_expired=include_expired)
    if include_expired:
        return total
    return total - sum(1 for _ in expiry.overdue(now, is_record))


def check_store(store: Store, policy: Policy | None, *, require_sealed: bool) -> None:
    """Raises Invalid if a service cannot use this store with these options."""
    if not isinstance(store, Store):
        raise Invalid(f"store must be a clew.Store, not {type(store).__name__}")
    if require_sealed and not store.sealed:
        raise Invalid("the store is not sealed", hint="Open it with a key, or seal it first.")
    if policy is not None:
        check_policy(policy, store)


NEVER = microseconds(datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))
"""The expiry time of a record that never expires: the schema requires a time."""

IsRecord = Callable[[Session], bool]
"""True for a record, False for a session that only other programs wrote to."""


class Expiry:
    """When the sessions of a store expire under its policy; without one, only by their own retention."""

    def __init__(self, store: Store, policy: Policy | None) -> None:
        self._store = store
        days = None if policy is None else policy.days_for(store.workspace)
        record_days = None if policy is None else policy.days_for(store.workspace, record=True)
        self._days = days, record_days
        """Days for a session of other programs, and for a record; None for no limit."""

    def is_expired(self, session: Session, now: int, is_record: IsRecord) -> bool:
        """True if the session has expired and is not held. Allows for a clock that was behind."""
        life = lifetime(session, now)
        if life.held:
            return False
        end = self._end(life, False)
        if self._days[0] != self._days[1] and (end <= now) != (self._end(life, True) <= now):
            return self._end(life, is_record(session)) <= now
        return end <= now

    def info(self, session: Session, record: bool) -> RetentionInfo:
        """The session's retention in the form of the schema."""
        life = lifetime(session)
        return RetentionInfo(
            retention_expires_at=time_text(self._end(life, record)),
            retention_policy="workspace-default" if life.ends_at is None else "custom",
            manual_hold=True if life.held else None,
        )

    def overdue(self, now: int, is_record: IsRecord) -> Iterator[Session]:
        """Sessions without their own retention that have expired under the policy."""
        days = [one for one in self._days if one is not None]
        if not days:
            return
        for session in recent(self._store, before=now - min(days) * DAY + 1):
            if lifetime(session).ends_at is None and self.is_expired(session, now, is_record):
                yield session

    def _end(self, life: Lifetime, record: bool) -> int:
        """When a session expires, if it has no further activity."""
        if life.ends_at is not None:
            return life.ends_at
        days = self._days[record]
        return NEVER if days is None else life.active_at + days * DAY
