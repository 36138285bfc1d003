"""Large tables in partitions: see `clew.store.partitions`."""

from __future__ import annotations

from clew.backends.postgres.tx import PostgresTx
from clew.backends.sql import script
from clew.errors import Conflict


def divide(tx: PostgresTx, parts: int, path: str) -> None:
    """Partitions the large tables; `tx` has the lock. Conflict if they are not empty, or partitioned already."""
    about = "SELECT relkind = 'p', relrowsecurity FROM pg_class WHERE oid = to_regclass('nodes')"
    cut, ruled = tx.conn.execute(about).fetchone() or (False, False)
    if cut or ruled or not tx.maintenance.empty():
        why = "is already partitioned" if cut else "is isolated for tenants" if ruled else "is not empty"
        raise Conflict(f"{path} {why}", hint="Partition a new store, then copy this one into it.")
    tx.conn.execute("SELECT set_config('clew.partitions', %s, true)", (str(parts),))
    tx.conn.execute(script("partitions.postgres.sql").encode(), prepare=False)
