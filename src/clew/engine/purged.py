"""What was purged, as keyed hashes of ids: no import stores it again.

A purge remembers each session and each message that it removes. The hashes are ids of empty entries in a log of the
workspace's own, so they are found by an index, and reveal neither ids nor content.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from clew.backends import Tx
from clew.engine.engine import Engine
from clew.engine.log import add_entries
from clew.engine.refs import OWN, Refs

PURGED = "purged"
"""Kind of the ref that has the hashes of a workspace."""


def remember(engine: Engine, refs: Refs, tx: Tx, names: Iterable[bytes]) -> None:
    """Notes ids of sessions and messages, in the transaction that removes them."""
    hashes = list(dict.fromkeys(_hash(engine, name) for name in names))
    before = tx.existing_log_ids(hashes)
    new = [one for one in hashes if one not in before]
    if new:
        row, now = refs.add_own(tx, PURGED), engine.clock()
        add_entries(engine, tx, row, [(one, now, b"") for one in new])


def recall(engine: Engine, tx: Tx, names: Collection[bytes]) -> set[bytes]:
    """Those of these ids that were purged."""
    if tx.ref(engine.workspace, PURGED, OWN) is None:
        return set()
    hashes = {_hash(engine, name): name for name in names}
    return {hashes[one] for one in tx.existing_log_ids(list(hashes))}


def _hash(engine: Engine, name: bytes) -> bytes:
    return engine.lookup_hash(PURGED, engine.workspace.encode() + b"\0" + name)
