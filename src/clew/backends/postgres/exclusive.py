"""Changes tables while other programs have the store open."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

from clew.backends.postgres.connection import Connection
from clew.errors import Unavailable

_CLEW = 0x636C6577 << 32  # "clew"
BRIEFLY = 250
"""Milliseconds to wait for a table while others are locked. After a second, PostgreSQL would detect a deadlock and
abort one of its transactions, perhaps that of a reader. This gives up before."""
PAUSE = 0.1
"""Seconds until the next attempt, so that other transactions can continue."""


def run_exclusively(conn: Connection, schema: str, path: str, work: Callable[[], None]) -> None:
    """Runs `work`, which creates or changes the tables in a schema, in a transaction that excludes writers.

    The lock that each writer takes first excludes them. Readers lock tables in any order, so this waits only briefly
    for each table; if that fails, it releases all locks and starts again. Unavailable if it does not succeed within the
    connection's lock timeout; then nothing has changed.
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
                hint = "Stop programs that read it for a long time, such as a verify or a backup, then try again."
                raise Unavailable(f"{path} is in use, and its tables cannot be changed now", hint=hint) from error
        time.sleep(PAUSE)


def _lock(conn: Connection, schema: str) -> None:
    """Locks the schema, and the store in it as a writer does. Later statements wait only for tables."""
    # A concurrent process waits here, and then sees the changes.
    conn.execute("SELECT pg_advisory_xact_lock(%s + hashtext(%s))", (_CLEW, schema))
    if conn.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'header'", (schema,)).fetchone():
        (store_id,) = conn.execute("SELECT value FROM header WHERE name = 'store_id'").fetchone() or (b"",)
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(store_id),))
    conn.execute(f"SET LOCAL lock_timeout = {BRIEFLY}".encode())


def lock_number(store_id: bytes) -> int:
    """The number of a store's advisory lock."""
    return int.from_bytes(store_id[:8], "big", signed=True)
