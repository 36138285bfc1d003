"""The policy of a record service, how many records it has expired, and whether the service can use a store."""

from __future__ import annotations

from clew.errors import Corrupted, Invalid
from clew.records import expiry
from clew.records.expiry import IsRecord
from clew.retention.policy import Policy
from clew.retention.stored_policy import get_policy
from clew.store.parts import Parts
from clew.store.session_table import SESSION
from clew.store.store import Store

DEFAULT = Policy(days=None, trash_days=None, records=30)
"""The policy for a store without one: it applies only to records."""


def check_policy(policy: Policy, store: Store) -> None:
    """Raises Invalid unless this is a policy that sets 7 to 180 days for the store's records."""
    if not isinstance(policy, Policy):
        raise Invalid(f"policy must be a clew.retention.Policy, not {type(policy).__name__}")
    policy.check_records(Parts.of(store).engine.workspace)


def readable_policy(store: Store) -> Policy | None:
    """The store's policy; None if it cannot be read, so that records can still be shown."""
    try:
        return get_policy(store)
    except (Corrupted, Invalid):
        return None


def count(store: Store, policy: Policy | None, now: int, is_record: IsRecord, *, include_expired: bool) -> int:
    """Number of sessions. The table's count ignores the policy, so those that it has expired are subtracted."""
    table, workspace = Parts.of(store).table, Parts.of(store).engine.workspace
    total = table.count(SESSION, None, None, None, include_expired=include_expired, now=now)
    if include_expired:
        return total
    return total - sum(1 for _ in expiry.overdue(table, policy, now, workspace, is_record))


def check_store(store: Store, policy: Policy | None, *, require_sealed: bool) -> None:
    """Raises Invalid if a service cannot use this store with these options."""
    if not isinstance(store, Store):
        raise Invalid(f"store must be a clew.Store, not {type(store).__name__}")
    if require_sealed and not Parts.of(store).engine.keyed:
        raise Invalid("the store is not sealed", hint="Open it with a key, or seal it first.")
    if policy is not None:
        check_policy(policy, store)
