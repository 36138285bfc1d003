"""Changing tables while other programs have the store open."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

from clew.backends.postgres.connection import Connection
from clew.errors import Unavailable

_CLEW = 0x636C6577 << 32  # "clew"
BRIEFLY = 250
"""Milliseconds to wait for a table while others are locked. PostgreSQL looks for a deadlock after a second, and ends
one of those that are in it, perhaps a reader: this gives way before."""
PAUSE = 0.1
"""Seconds until the next try, in which whoever was in the way gets on."""


def run_exclusively(conn: Connection, schema: str, path: str, work: Callable[[], None]) -> None:
    """Runs `work`, which makes or changes the tables in a schema, in a transaction beside which nobody writes there.

    Writers are waited for in turn, by the lock that each takes first. A reader may have read some tables and want
    others, in any order: so each table is waited for briefly, and if that is in vain all locks are given back and
    everything is done again. Unavailable if it does not succeed within the connection's lock timeout; then nothing
    has changed.
    """
    (patience,) = conn.execute("SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'").fetchone() or (0,)
    until = time.monotonic() + patience / 1000
    while True:
        try:
            with conn.transaction():
                _lock(conn, schema)
                work()
                return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            if time.monotonic() > until:
                hint = "Close the programs that read it for long, such as a verify or a backup, then try again."
                raise Unavailable(f"{path} is in use, and its tables cannot be changed now", hint=hint) from error
        time.sleep(PAUSE)


def _lock(conn: Connection, schema: str) -> None:
    """Locks the schema, and the store in it as any writer does; what is waited for after that is tables."""
    # Whoever comes second waits here, and then sees what the first has done.
    conn.execute("SELECT pg_advisory_xact_lock(%s + hashtext(%s))", (_CLEW, schema))
    if conn.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'header'", (schema,)).fetchone():
        (store_id,) = conn.execute("SELECT value FROM header WHERE name = 'store_id'").fetchone() or (b"",)
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(store_id),))
    conn.execute(f"SET LOCAL lock_timeout = {BRIEFLY}".encode())


def lock_number(store_id: bytes) -> int:
    """The number under which a store is locked."""
    return int.from_bytes(store_id[:8], "big", signed=True)
