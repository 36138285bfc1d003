"""The retention policy that a store keeps for each workspace, sealed with the rest. Every change is in the audit."""

from __future__ import annotations

import msgspec

from clew import audit
from clew.backends import RefRow, Tx
from clew.errors import Invalid
from clew.policy import Policy
from clew.refs import OWN, Refs
from clew.store import Store

RETENTION = "retention"
"""Kind of the one ref that holds a store's policy."""


def set_policy(store: Store, policy: Policy) -> None:
    """Stores the policy that sweeps of its workspace obey, and notes the change in the audit."""
    _store_policy(store, policy)


def default_policy(store: Store, policy: Policy, reason: str) -> Policy:
    """The store's policy; `policy` is stored first, and noted in the audit with `reason`, if the store has none."""
    return get_policy(store) or _store_policy(store, policy, reason)


def _store_policy(store: Store, policy: Policy, reason: str | None = None) -> Policy:
    """Stores a policy; with `reason` only if there is none. Returns the one that is stored then."""
    if not isinstance(policy, Policy):
        raise Invalid(f"a policy is a clew.retention.Policy, not {type(policy).__name__}")
    engine, refs = store._engine, store._refs
    payload = b"\x01" + msgspec.json.encode(policy)

    def work(tx: Tx) -> Policy:
        found = None if reason is None else _policy_row(refs, tx)
        if found is not None:
            return _read_policy(refs, found)  # someone else was first
        own = refs.own(tx, RETENTION)
        if own is None or refs.data(refs.checked(own)) != payload:
            refs.change(tx, refs.add_own(tx, RETENTION), payload, look=None)
            days = policy.days_for(engine.workspace, record=reason is not None)
            audit.note(engine, refs, tx, "retention", "policy", reason=reason, amount=days or 0)
        return policy

    return engine.write(work)


def get_policy(store: Store) -> Policy | None:
    """The policy that the store keeps for its workspace, or else for the one without a name; None if for neither."""
    refs = store._refs
    row = store._engine.read(lambda tx: _policy_row(refs, tx))
    return None if row is None else _read_policy(refs, row)


def _policy_row(refs: Refs, tx: Tx) -> RefRow | None:
    return refs.own(tx, RETENTION) or tx.ref("", RETENTION, OWN)


def _read_policy(refs: Refs, row: RefRow) -> Policy:
    try:
        return msgspec.json.decode(refs.data(refs.checked(row))[1:], type=Policy)
    except msgspec.DecodeError:
        raise Invalid("the store's policy was written by a newer clew", hint="Upgrade clew, or set it again.") from None


def needed_policy(store: Store) -> Policy:
    """The store's policy. Invalid if there is none."""
    policy = get_policy(store)
    if policy is None:
        raise Invalid("no retention is set", hint="Store one with set_policy; without it nothing is swept.")
    return policy
