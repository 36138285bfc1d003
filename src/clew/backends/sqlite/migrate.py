"""Migrates a file to the newest format by numbered scripts, each in one transaction."""

from __future__ import annotations

import os
import sqlite3
import time

from clew.backends.sql import migrations
from clew.backends.sqlite.connection import APPLICATION_ID
from clew.errors import Unavailable


def migrate(conn: sqlite3.Connection, found: int) -> None:
    """Switches to WAL mode and runs the scripts after format `found`.

    The caller holds the turnstile, so no other process does the same.
    """
    if found == 0:
        # Cannot be changed after the first table. INCREMENTAL lets a purge free space without rewriting the file.
        conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
    if conn.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "delete":  # SQLite raises no error
        raise Unavailable("SQLite cannot enable WAL mode", hint="Check the disk, then make the same call again.")
    for number, script in migrations("sqlite"):
        if number <= found:
            continue
        conn.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements(script):
                conn.execute(statement)
            if number == 1:
                _insert_first_rows(conn)
            conn.execute("UPDATE epoch SET number = number + 1, format = ?", (number,))
            conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            conn.execute(f"PRAGMA user_version = {number}")
            conn.execute("COMMIT")
        except BaseException:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            raise


def _insert_first_rows(conn: sqlite3.Connection) -> None:
    """Inserts the first rows of a new store."""
    now = time.time_ns() // 1000
    values = {"store_id": os.urandom(16), "created_at": now.to_bytes(8, "big"), "lookup_key": os.urandom(32)}
    conn.executemany("INSERT INTO header (name, value) VALUES (?, ?)", values.items())
    conn.execute("INSERT INTO epoch (one, number, format, state, key_id, ord_floor) VALUES (1, 0, 0, 'plain', NULL, 0)")


def statements(script: str) -> list[str]:
    """Splits a script into statements. `executescript` would commit the surrounding transaction."""
    found, start = [], 0
    for end, char in enumerate(script):
        if char == ";" and sqlite3.complete_statement(script[start : end + 1]):
            found.append(script[start : end + 1])
            start = end + 1
    return found
