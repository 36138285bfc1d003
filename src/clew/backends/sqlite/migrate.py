"""Bringing a file to the newest format: numbered scripts, each in one transaction with the number it leads to."""

from __future__ import annotations

import os
import sqlite3
import time

from clew.backends.sql import migrations
from clew.backends.sqlite.connection import APPLICATION_ID
from clew.errors import Unavailable


def migrate(conn: sqlite3.Connection, found: int) -> None:
    """Runs the scripts above format `found`, with the write-ahead log switched on.

    The caller holds the turnstile, so nobody else does the same.
    """
    if found == 0:
        # These are fixed by the first table. INCREMENTAL lets a purge give space back without rewriting the file.
        conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
    if conn.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "delete":  # SQLite does not raise what went wrong
        hint = "Check the disk, then make the same call again."
        raise Unavailable("the write-ahead log cannot be switched on", hint=hint)
    for number, script in migrations("sqlite"):
        if number <= found:
            continue
        conn.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements(script):
                conn.execute(statement)
            if number == 1:
                _first(conn)
            conn.execute("UPDATE epoch SET number = number + 1, format = ?", (number,))
            conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            conn.execute(f"PRAGMA user_version = {number}")
            conn.execute("COMMIT")
        except BaseException:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            raise


def _first(conn: sqlite3.Connection) -> None:
    """The rows a new store begins with."""
    now = time.time_ns() // 1000
    values = {"store_id": os.urandom(16), "created_at": now.to_bytes(8, "big"), "lookup_key": os.urandom(32)}
    conn.executemany("INSERT INTO header (name, value) VALUES (?, ?)", values.items())
    conn.execute("INSERT INTO epoch (one, number, format, state, key_id, ord_floor) VALUES (1, 0, 0, 'plain', NULL, 0)")


def statements(script: str) -> list[str]:
    """The statements of a script, one by one: `executescript` would commit the transaction around them."""
    found, start = [], 0
    for end, char in enumerate(script):
        if char == ";" and sqlite3.complete_statement(script[start : end + 1]):
            found.append(script[start : end + 1])
            start = end + 1
    return found
