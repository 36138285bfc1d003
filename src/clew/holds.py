"""Which refs are held, as the secrets of a sealed store list them.

A ref's row says whether it is held, and an earlier row, put back, would say that it is not. So the secrets list the
held refs too, and every hold and release begins a new epoch: to undo a hold, somebody without the key has to put back
the row, the secrets and the epoch row together, which is a rollback that `verify` shows against a head kept elsewhere.
"""

from __future__ import annotations

import msgspec

from clew import ids
from clew.backends import RefRow, Tx
from clew.engine import Engine
from clew.errors import Conflict
from clew.loading import loading

_BATCH = 1000


def note(engine: Engine, tx: Tx, ref: RefRow) -> None:
    """Brings the list in line with a ref that was held or released. Nothing happens in a plain store.

    A role that may not change the header, such as a tenant's, holds by the row alone. Conflict if it releases what the
    owner of the store has held.
    """
    if tx.state().state == "plain":
        return
    with loading:
        from clew import header

    secrets, name = engine.secrets(tx), _name(engine, ref)
    listed = set(found(engine, tx) if secrets.held is None else secrets.held)
    if (name in listed) == bool(ref.hold) and secrets.held is not None:
        return
    if not tx.owns_store():
        if name in listed:
            hint = "Release it as the owner of the store."
            raise Conflict(f"{ref.kind} {ids.text(ref.key)} is held by the owner of the store", hint=hint)
        return
    now = listed | {name} if ref.hold else listed - {name}
    header.put(tx, engine.store_id, msgspec.structs.replace(secrets, held=sorted(now)))


def listed(engine: Engine, tx: Tx, ref: RefRow) -> bool:
    """True if the secrets list a ref as held."""
    held = engine.held
    if held is None or _name(engine, ref) not in held:
        return False
    # It may have been released in this very transaction.
    return tx.state().state != "plain" and _name(engine, ref) in (engine.secrets(tx).held or ())


def found(engine: Engine, tx: Tx) -> list[bytes]:
    """The list, made from the rows."""
    names, after = [], -1
    while rows := tx.refs_after(after, _BATCH):
        names += [_name(engine, row) for row in rows if row.hold]
        after = rows[-1].ref
    return sorted(names)


def _name(engine: Engine, ref: RefRow) -> bytes:
    return engine.look("hold", f"{ref.workspace}\0{ref.kind}\0".encode() + ref.key)
