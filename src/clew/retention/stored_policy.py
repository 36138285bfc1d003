"""Stores one sealed retention policy for each workspace. The audit log records every change."""

from __future__ import annotations

import msgspec

from clew.backends import RefRow, Tx
from clew.engine import audit
from clew.engine.refs import OWN, Refs
from clew.errors import Invalid
from clew.retention.policy import Policy
from clew.store.parts import Parts
from clew.store.store import Store

RETENTION = "retention"
"""Kind of the ref that holds a store's policy."""


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
    parts = Parts.of(store)
    engine, refs = parts.engine, parts.refs
    payload = b"\x01" + msgspec.json.encode(policy)

    def work(tx: Tx) -> Policy:
        found = None if reason is None else _policy_row(refs, tx)
        if found is not None:
            return _read_policy(refs, found)  # another writer stored one first
        own = refs.own(tx, RETENTION)
        if own is None or refs.data(refs.verify(own)) != payload:
            refs.change(tx, refs.add_own(tx, RETENTION), payload, look=None)
            days = policy.days_for(engine.workspace, record=reason is not None)
            audit.note(engine, refs, tx, "retention", "policy", reason=reason, amount=days or 0)
        return policy

    return engine.write(work)


def get_policy(store: Store) -> Policy | None:
    """The policy stored for this workspace, or else for the workspace without a name; None if there is neither."""
    parts = Parts.of(store)
    refs = parts.refs
    row = parts.engine.read(lambda tx: _policy_row(refs, tx))
    return None if row is None else _read_policy(refs, row)


def _policy_row(refs: Refs, tx: Tx) -> RefRow | None:
    return refs.own(tx, RETENTION) or tx.ref("", RETENTION, OWN)


def _read_policy(refs: Refs, row: RefRow) -> Policy:
    try:
        return msgspec.json.decode(refs.data(refs.verify(row))[1:], type=Policy)
    except msgspec.DecodeError:
        raise Invalid("a newer version of clew wrote the store's policy", hint="Upgrade clew.") from None


def needed_policy(store: Store) -> Policy:
    """The store's policy. Raises Invalid if there is none."""
    policy = get_policy(store)
    if policy is None:
        raise Invalid("no retention is set", hint="Set a policy with set_policy; without one nothing is swept.")
    return policy
