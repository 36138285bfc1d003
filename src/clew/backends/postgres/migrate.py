"""Migrates a schema to the newest format by numbered scripts, in one transaction under a lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from clew.backends import Tx
from clew.backends.postgres import tenants
from clew.backends.postgres.connection import OLDEST_SERVER, Connection
from clew.backends.postgres.exclusive import run_exclusively
from clew.backends.postgres.tx import PostgresTx
from clew.backends.rows import FORMAT
from clew.backends.sql import migrations, script
from clew.errors import NotFound, SchemaTooNew, Unavailable

FUNCTIONS = 1
"""The number of the functions in functions.postgres.sql, which is also their comment there."""


def read_format(conn: Connection, schema: str, path: str) -> int:
    """The format of the store in the connection's schema; 0 if there is none. SchemaTooNew. Changes nothing."""
    if conn.info.server_version < OLDEST_SERVER:
        raise Unavailable(f"PostgreSQL {conn.info.server_version // 10000} is too old", hint="clew needs 14 or newer.")
    # Queries the catalogue as a table: the server caches a failed name lookup for the whole transaction.
    there = conn.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'epoch'", (schema,)).fetchone()
    row = conn.execute("SELECT format FROM epoch").fetchone() if there else None
    number = int(row[0]) if row else 0
    if number > FORMAT:
        raise SchemaTooNew(path, number, FORMAT)
    return number


def migrate(conn: Connection, schema: str, path: str, check_older: Callable[[Tx], object], *, create: bool) -> None:
    """Creates or migrates the store, and replaces older functions. Only one process does so; the others wait for it."""
    number = read_format(conn, schema, path)
    if number != FORMAT:
        if number:
            check_older(PostgresTx(conn, 0))
        run_exclusively(conn, schema, path, lambda: _migrate(conn, schema, path, create=create))
    elif _functions(conn, schema) < FUNCTIONS:
        run_exclusively(conn, schema, path, lambda: _renew_functions(conn, schema))


def _functions(conn: Connection, schema: str) -> int:
    """The number of the store's functions; 0 for those that have none."""
    about = "SELECT obj_description(p.oid, 'pg_proc') FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace"
    row = conn.execute(f"{about} WHERE p.proname = 'extend' AND s.nspname = %s".encode(), (schema,)).fetchone()
    return int(row[0]) if row and row[0] else 0


def _renew_functions(conn: Connection, schema: str) -> None:
    if _functions(conn, schema) < FUNCTIONS:
        conn.execute(script("functions.postgres.sql").encode(), prepare=False)


def _migrate(conn: Connection, schema: str, path: str, *, create: bool) -> None:
    number = read_format(conn, schema, path)
    if number == 0:
        if not create:
            raise NotFound("store", path, hint="Check the URL and its schema.")
        conn.execute('CREATE SCHEMA IF NOT EXISTS "{}"'.format(schema.replace('"', '""')).encode())
    for leads_to, steps in migrations("postgres"):
        if leads_to > number:
            conn.execute(steps.encode(), prepare=False)
            if leads_to == 1:
                _insert_first_rows(conn)
            conn.execute("UPDATE epoch SET number = number + 1, format = %s", (leads_to,))
    _renew_functions(conn, schema)
    if number:
        tenants.renew(conn, schema)


def _insert_first_rows(conn: Connection) -> None:
    """Inserts the first rows of a new store."""
    now = time.time_ns() // 1000
    values = {"store_id": os.urandom(16), "created_at": now.to_bytes(8, "big"), "lookup_key": os.urandom(32)}
    for item in values.items():
        conn.execute("INSERT INTO header (name, value) VALUES (%s, %s)", item)
    conn.execute("INSERT INTO epoch (one, number, format, state, key_id) VALUES (1, 0, 0, 'plain', NULL)")
