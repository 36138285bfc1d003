"""A PostgreSQL server to measure on, and its floor: psycopg itself, doing as little as can be called the same work.

The server is started for the run, with the settings that it comes with; CLEW_TEST_PG names another. The floor has one
table of bodies whose only index is its primary key, prepares its statements, and reads bytes as bytes.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from tests.backends.postgres.server import Server

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    session text NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY, body bytea NOT NULL, PRIMARY KEY (session, id)
)"""
INSERT = "INSERT INTO messages (session, body) VALUES (%s, %s)"


class Database:
    """Where stores and floors are made, each in a schema of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._made: list[str] = []

    def schema(self) -> str:
        """The name of a new one."""
        self._made.append(f"bench_{uuid.uuid4().hex}")
        return self._made[-1]

    def url(self, schema: str) -> str:
        """Of a clew store."""
        return f"{self.address}{'&' if '?' in self.address else '?'}schema={schema}"

    def conninfo(self, schema: str) -> str:
        """For libpq."""
        return make_conninfo(self.address, options=f"-c search_path={schema}")

    def connect(self, schema: str, **options: Any) -> psycopg.Connection[Any]:
        """A connection of the driver's own."""
        conn = psycopg.connect(self.conninfo(schema), prepare_threshold=0, **options)
        conn.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
        conn.commit()
        return conn

    def analyze(self) -> None:
        """Counts rows now, on every side: the server would do so by itself a minute later."""
        with psycopg.connect(self.address, autocommit=True) as conn:
            conn.execute("ANALYZE")

    def clear(self) -> None:
        """Takes away what was made."""
        with psycopg.connect(self.address, autocommit=True) as conn:
            for schema in self._made:
                conn.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


@contextmanager
def served() -> Iterator[Database]:
    """A server that was just started, or the one that is named."""
    given = os.environ.get("CLEW_TEST_PG")
    server = None if given else Server(fsync=True, settings={})
    try:
        database = Database(given or server.address)  # type: ignore[union-attr]
        yield database
        if given:
            database.clear()
    finally:
        if server is not None:
            server.stop()


class Floor:
    """Bare psycopg on one connection."""

    def __init__(self, database: Database, schema: str) -> None:
        self.conn = database.connect(schema)
        self.conn.execute(SCHEMA.encode())
        self.conn.commit()

    def append(self, session: str, body: bytes) -> None:
        """One message, durable when this returns."""
        self.conn.execute(INSERT, (session, body))
        self.conn.commit()

    def fill(self, session: str, bodies: Iterable[bytes]) -> None:
        """Many messages in one transaction."""
        with self.conn.cursor() as cursor:
            cursor.executemany(INSERT, [(session, body) for body in bodies])
        self.conn.commit()

    def path(self, session: str) -> list[Any]:
        return [json.loads(body) for (body,) in self._read("ORDER BY id", session)]

    def last(self, session: str, count: int) -> list[Any]:
        return [json.loads(body) for (body,) in reversed(self._read("ORDER BY id DESC LIMIT %s", session, count))]

    def _read(self, order: str, *values: object) -> list[tuple[bytes]]:
        self.conn.autocommit = True  # else BEGIN would be a trip of its own
        cursor = self.conn.cursor(binary=True)
        return cursor.execute(f"SELECT body FROM messages WHERE session = %s {order}".encode(), values).fetchall()

    def close(self) -> None:
        self.conn.close()


def durability(conn: psycopg.Connection[Any]) -> str:
    """How durable what this connection commits is, as the server says."""
    shown = [conn.execute(f"SHOW {name}".encode()).fetchone() for name in ("synchronous_commit", "fsync")]
    return "synchronous_commit={} fsync={}".format(*(row[0] for row in shown if row))
