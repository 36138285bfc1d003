"""The policy that is stored for a workspace: read, replaced, or stored if there is none."""

from __future__ import annotations

import msgspec

from clew.errors import Invalid
from clew.retention.policy import Policy
from clew.store import judging
from clew.store.store import Store


def set_policy(store: Store, policy: Policy) -> None:
    """Stores the policy for sweeps of this workspace and records the change in the audit log."""
    _store_policy(store, policy)


def default_policy(store: Store, policy: Policy, reason: str) -> Policy:
    """The store's policy. If there is none, stores `policy` first and records that in the audit log with `reason`."""
    return get_policy(store) or _store_policy(store, policy, reason)


def _store_policy(store: Store, policy: Policy, reason: str | None = None) -> Policy:
    """Stores a policy; with `reason`, only if there is none. Returns the policy that is stored afterwards."""
    if not isinstance(policy, Policy):
        raise Invalid(f"policy must be a clew.retention.Policy, not {type(policy).__name__}")
    days = policy.days_for(store.workspace, record=reason is not None) or 0
    return _decode(judging.replace_policy(store, msgspec.json.encode(policy), days, reason=reason))


def get_policy(store: Store) -> Policy | None:
    """The policy stored for this workspace, or else for the workspace without a name; None if there is neither."""
    found = judging.read_policy(store)
    return None if found is None else _decode(found)


def _decode(policy: bytes) -> Policy:
    try:
        return msgspec.json.decode(policy, type=Policy)
    except msgspec.DecodeError:
        raise Invalid("a newer version of clew wrote the store's policy", hint="Upgrade clew.") from None


def needed_policy(store: Store) -> Policy:
    """The store's policy. Raises Invalid if there is none."""
    policy = get_policy(store)
    if policy is None:
        raise Invalid("no retention is set", hint="Set a policy with set_policy; without one nothing is swept.")
    return policy
