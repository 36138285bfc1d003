"""Deletions that decide in their own transaction what goes. For modules of clew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from clew.backends import RefRow, Tx
from clew.base import ids
from clew.engine import deletion
from clew.engine.receipts import Receipt
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.store import Store
from clew.store.unit import Unit, step

T = TypeVar("T")


def purge_if(
    store: Store,
    sessions: Sequence[Session],
    check: Callable[[Unit, Session], object],
    *,
    remember: bool = True,
    dry_run: bool = False,
) -> Receipt:
    """Purges sessions as `Sessions.purge`, each unless `check` raises.

    `check` gets the session as it is in the transaction that deletes it; its ClewError is a failure in the receipt. A
    session that was deleted meanwhile is no failure. Imports leave out what was purged, unless `remember` is False.
    """
    parts = Parts.of(store)

    def still(tx: Tx, row: RefRow) -> None:
        step(parts, tx, lambda unit: check(unit, Session(parts, row)))

    rows = [row_of(one) for one in sessions]
    return parts.purger.purge(rows, reason="user-requested", dry_run=dry_run, check=still, remember=remember)


def delete_if(
    store: Store, choose: Callable[[Unit], Collection[str]], *, remember: bool = True, dry_run: bool = False
) -> int:
    """Deletes messages as `Nodes.delete`; returns how many. Conflict.

    `choose` gives their ids in the transaction that deletes them, and may raise. `remember` as in `purge_if`.
    """
    parts = Parts.of(store)

    def going(tx: Tx) -> list[bytes]:
        return [ids.parse(one) for one in step(parts, tx, choose)]

    def plan(tx: Tx) -> int:
        chosen = going(tx)
        deletion.plan_nodes(parts.engine, tx, chosen, recursive=False)
        return len(chosen)

    if dry_run:
        return parts.engine.read(plan)
    return parts.purger.delete_nodes(going, recursive=False, remember=remember).messages
