"""Reading a whole store as it is at one moment, for verify: any statement, and tables row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from clew.backends.postgres.connection import Connection
from clew.backends.postgres.errors import translate
from clew.backends.postgres.rows import PostgresTx


class Reader:
    """A transaction that cannot write. Its statements are those of queries.sql: a parameter is a question mark."""

    def __init__(self, conn: Connection, tx: PostgresTx, path: str) -> None:
        self.tx = tx
        self._conn = conn
        self._path = path
        self._streams = 0

    def execute(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        """Runs a statement whose rows are few."""
        try:
            return self._conn.cursor(binary=True).execute(_translated(sql), values)
        except psycopg.Error as error:
            raise translate(error, self._path) from error

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Runs a statement whose rows are many; they are fetched as they are asked for."""
        self._streams += 1
        try:
            with self._conn.cursor(f"scan{self._streams}", binary=True) as cursor:
                cursor.itersize = 500
                yield from cursor.execute(_translated(sql), values)
        except psycopg.Error as error:
            raise translate(error, self._path) from error


def _translated(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()
