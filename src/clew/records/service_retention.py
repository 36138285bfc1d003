"""The policy of a record service, how many records it has expired, and whether the service can use a store."""

from __future__ import annotations

from clew.errors import Corrupted, Invalid
from clew.records.expiry import Expiry, IsRecord
from clew.retention import get_policy
from clew.retention.policy import Policy
from clew.store import listing
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
