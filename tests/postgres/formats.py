"""A store as an older clew has made it."""

from __future__ import annotations

from typing import Any

import psycopg

from clew.backends.sql import migrations


def take_back(conn: psycopg.Connection[Any], format: int) -> None:
    """Makes the store in the connection's schema one of format 1 or 2, with the functions that it had then."""
    first = dict(migrations("postgres"))[1]
    conn.execute("DROP FUNCTION extend_all")
    conn.execute("DROP FUNCTION extend")
    conn.execute(first[first.index("CREATE FUNCTION advance(") :].encode())
    if format < 2:
        conn.execute("DROP TABLE objects")
    conn.execute("UPDATE epoch SET format = %s, number = number + 1", (format,))
