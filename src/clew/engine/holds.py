"""The list of held refs in the secrets of a sealed store.

A ref's row says whether it is held, but an attacker could restore an earlier row. So the secrets list the held refs
too, and every hold and release starts a new epoch. To undo a hold without the key, an attacker has to restore the row,
the secrets and the epoch row together: a rollback, which `verify` detects with a head stored elsewhere.
"""

from __future__ import annotations

import msgspec

from clew.backends import RefRow, Tx
from clew.base import ids
from clew.base.loading import loading
from clew.engine.engine import Engine
from clew.errors import Conflict

_BATCH = 1000


def note(engine: Engine, tx: Tx, ref: RefRow) -> None:
    """Updates the list after a hold or release. Does nothing in a plain store.

    A role that may not change the header, such as a tenant's, changes the row alone. Conflict if it releases a hold of
    the store's owner.
    """
    if tx.state().state == "plain":
        return
    with loading:
        from clew.engine.sealing import header

    secrets, name = engine.secrets(tx), _name(engine, ref)
    listed = set(secrets.held)
    if (name in listed) == bool(ref.hold):
        return
    if not tx.owns_store():
        if name in listed:
            hint = "Release it as the owner of the store."
            raise Conflict(f"{ref.kind} {ids.text(ref.key)} is held by the owner of the store", hint=hint)
        return
    now = listed | {name} if ref.hold else listed - {name}
    header.put(tx, engine.store_id, msgspec.structs.replace(secrets, held=sorted(now)))


def is_listed(engine: Engine, tx: Tx, ref: RefRow) -> bool:
    """True if the secrets list a ref as held."""
    if _name(engine, ref) not in engine.held:
        return False
    # This transaction may have released it.
    return tx.state().state != "plain" and _name(engine, ref) in engine.secrets(tx).held


def collect_held(engine: Engine, tx: Tx) -> list[bytes]:
    """The list, built from the rows."""
    names, after = [], -1
    while rows := tx.refs_after(after, _BATCH):
        names += [_name(engine, row) for row in rows if row.hold]
        after = rows[-1].ref
    return sorted(names)


def _name(engine: Engine, ref: RefRow) -> bytes:
    return engine.lookup_hash("hold", f"{ref.workspace}\0{ref.kind}\0".encode() + ref.key)
