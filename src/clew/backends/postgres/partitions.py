"""Large tables in several pieces: see `clew.partitions`."""

from __future__ import annotations

from clew.backends.postgres.rows import PostgresTx
from clew.backends.sql import script
from clew.errors import Conflict


def divide(tx: PostgresTx, parts: int, path: str) -> None:
    """Cuts the large tables, while nobody writes. Conflict if there is something in them, or they are cut already."""
    (cut,) = tx.conn.execute("SELECT count(*) FROM pg_partitioned_table WHERE partrelid = to_regclass('nodes')").fetchone() or (0,)
    (ruled,) = tx.conn.execute("SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('nodes')").fetchone() or (False,)
    if cut or ruled or not tx.empty():
        why = "is divided already" if cut else "has rules for tenants" if ruled else "is not empty"
        raise Conflict(f"{path} {why}", hint="Divide a new store, then copy this one into it.")
    tx.conn.execute("SELECT set_config('clew.partitions', %s, true)", (str(parts),))
    tx.conn.execute(script("partitions.postgres.sql").encode(), prepare=False)
