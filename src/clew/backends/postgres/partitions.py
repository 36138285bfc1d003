"""Large tables in partitions: see `clew.store.partitions`."""

from __future__ import annotations

from clew.backends.postgres.rows import PostgresTx
from clew.backends.sql import script
from clew.errors import Conflict


def divide(tx: PostgresTx, parts: int, path: str) -> None:
    """Cuts the large tables, while nobody writes. Conflict if there is something in them, or they are cut already."""
    about = "SELECT relkind = 'p', relrowsecurity FROM pg_class WHERE oid = to_regclass('nodes')"
    cut, ruled = tx.conn.execute(about).fetchone() or (False, False)
    if cut or ruled or not tx.maintenance.empty():
        why = "is divided already" if cut else "has rules for tenants" if ruled else "is not empty"
        raise Conflict(f"{path} {why}", hint="Divide a new store, then copy this one into it.")
    tx.conn.execute("SELECT set_config('clew.partitions', %s, true)", (str(parts),))
    tx.conn.execute(script("partitions.postgres.sql").encode(), prepare=False)
