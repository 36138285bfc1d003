"""Stores one sealed retention policy for each workspace, as bytes: `clew.retention` reads them. Changes are audited."""

from __future__ import annotations

from clew.backends import RefRow, Tx
from clew.engine import audit
from clew.engine.refs import OWN, Refs
from clew.store.parts import Parts
from clew.store.store import Store

RETENTION = "retention"
"""Kind of the ref that holds a store's policy."""


def replace(store: Store, policy: bytes, days: int, *, reason: str | None = None) -> bytes:
    """Stores a policy, and records its `days` in the audit log; with `reason`, only if there is none.

    Returns the policy that is stored afterwards.
    """
    parts = Parts.of(store)
    engine, refs = parts.engine, parts.refs
    payload = b"\x01" + policy

    def work(tx: Tx) -> bytes:
        found = None if reason is None else _row(refs, tx)
        if found is not None:
            return _data(refs, found)  # another writer stored one first
        own = refs.own(tx, RETENTION)
        if own is None or refs.data(refs.verify(own)) != payload:
            refs.change(tx, refs.add_own(tx, RETENTION), payload, look=None)
            audit.note(engine, refs, tx, "retention", "policy", reason=reason, amount=days)
        return policy

    return engine.write(work)


def read(store: Store) -> bytes | None:
    """The policy stored for this workspace, or else for the workspace without a name; None if there is neither."""
    parts = Parts.of(store)
    row = parts.engine.read(lambda tx: _row(parts.refs, tx))
    return None if row is None else _data(parts.refs, row)


def _row(refs: Refs, tx: Tx) -> RefRow | None:
    return refs.own(tx, RETENTION) or tx.ref("", RETENTION, OWN)


def _data(refs: Refs, row: RefRow) -> bytes:
    return refs.data(refs.verify(row))[1:]
