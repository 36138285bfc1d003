"""Reads a snapshot of a whole store, for verify and copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from clew.backends.postgres.connection import Connection
from clew.backends.postgres.errors import translate
from clew.backends.postgres.inspect import inspect
from clew.backends.postgres.rows import PostgresTx
from clew.backends.problems import Problem
from clew.backends.rows import creation_counter


class ServerReader:
    """See `clew.backends.Reader`. A read-only transaction."""

    def __init__(self, conn: Connection, tx: PostgresTx, path: str) -> None:
        self.tx = tx
        self._conn = conn
        self._path = path
        self._streams = 0

    def execute(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            return self._conn.cursor(binary=True).execute(_with_placeholders(sql), values)
        except psycopg.Error as error:
            raise translate(error, self._path) from error

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        self._streams += 1
        try:
            with self._conn.cursor(f"scan{self._streams}", binary=True) as cursor:
                cursor.itersize = 500
                yield from cursor.execute(_with_placeholders(sql), values)
        except psycopg.Error as error:
            raise translate(error, self._path) from error

    def inspect(self) -> Iterator[Problem]:
        return inspect(self)

    def counters(self) -> dict[str, int]:
        """Combines the highest shard of a table with the highest counter: no existing number is higher."""
        given = {"trees": self.last_value("trees_tree_seq"), "forgotten": self.last_value("forgotten_number_seq")}
        for table, key in (("runs", "run"), ("refs", "ref"), ("blobs", "blob")):
            highest = self._number(f"SELECT coalesce(max({key}), 0) FROM {table}")
            given[table] = highest - creation_counter(highest) + self.last_value(f"{key}_numbers")
        highest = self._number("SELECT coalesce(max(ord), 0) FROM nodes")
        return {**given, "ords": max(self.last_value("ords"), highest)}

    def last_value(self, sequence: str) -> int:
        """The last number of a sequence; 0 if it was never used."""
        return self._number("SELECT coalesce(pg_sequence_last_value(to_regclass(?)), 0)", sequence)

    def _number(self, sql: str, *values: object) -> int:
        return int((self.execute(sql, values).fetchone() or (0,))[0])


def _with_placeholders(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()
