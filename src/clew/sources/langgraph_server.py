"""Threads of LangGraph on a PostgreSQL server: the tables of its ``PostgresSaver``, in a read-only transaction.

A checkpoint there has the versions of its channels, and each value is a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from clew.errors import Invalid, MissingPackage, Unavailable
from clew.sources.contract import Part, Skip
from clew.sources.items import Item
from clew.sources.langgraph import MESSAGES, LangGraph, ThreadReader, unpack
from clew.sources.registry import Found

SCHEMES = ("postgresql://", "postgres://")
PAGE = 200
_TABLES = "SELECT to_regclass('checkpoints') IS NOT NULL AND to_regclass('checkpoint_blobs') IS NOT NULL"
_SIZE = "SELECT pg_total_relation_size('checkpoints') + pg_total_relation_size('checkpoint_blobs')"
_CHECKPOINTS = """
SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.checkpoint ->> 'ts', b.type, b.blob
FROM checkpoints c LEFT JOIN checkpoint_blobs b
  ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = %s
  AND b.version = c.checkpoint -> 'channel_versions' ->> %s
ORDER BY c.thread_id, c.checkpoint_ns, c.checkpoint_id
"""


def is_url(path: str) -> bool:
    """True if a path of the command line is the address of a database."""
    return path.startswith(SCHEMES)


def without_password(url: str) -> str:
    """A URL for messages and logs. Invalid."""
    return LangGraphOnServer(url).address


def find_on_server(url: str) -> Found:
    """The database at a URL. Invalid if it has no threads of LangGraph; Unavailable, NotFound."""
    source = LangGraphOnServer(url)
    return Found(source.item(), source, partial=True)


class LangGraphOnServer(LangGraph):
    """The source of one database. Its name does not include the password."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._psycopg = _driver()
        try:
            known = self._psycopg.conninfo.conninfo_to_dict(url)
        except self._psycopg.Error:
            raise Invalid("invalid URL of a PostgreSQL database", hint="Use postgresql://user@host/database.") from None
        user, port = (f"{known['user']}@" if "user" in known else ""), (f":{known['port']}" if "port" in known else "")
        self.address = f"postgresql://{user}{known.get('host', '')}{port}/{known.get('dbname', '')}"

    def item(self) -> Item:
        """The database as an item. Invalid if it has no threads."""
        with self._connected() as connection:
            if not connection.execute(_TABLES).fetchone()[0]:
                raise Invalid(f"{self.address} has no threads of LangGraph", hint="Name the database of PostgresSaver.")
            return Item(self.address, connection.execute(_SIZE).fetchone()[0], 0)

    def read(self, item: Item) -> Iterator[Part]:
        threads: dict[tuple[str, str], ThreadReader] = {}
        with self._connected() as connection, connection.cursor(name="clew") as rows:
            rows.itersize = PAGE
            rows.execute(_CHECKPOINTS, (MESSAGES, MESSAGES))
            for number, (thread, ns, checkpoint, made, kind, blob) in enumerate(rows, 1):
                reader = threads.setdefault((thread, ns), ThreadReader(thread, ns))
                try:
                    values = unpack(bytes(blob)) if kind == "msgpack" else None
                except (msgspec.MsgspecError, RecursionError, TypeError, ValueError) as error:
                    yield Skip(number, f"the checkpoint cannot be read: {type(error).__name__}")
                    continue
                yield from reader.entries(checkpoint, {"channel_values": {MESSAGES: values}, "ts": made})
        for reader in threads.values():
            yield from reader.end()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection that can only read, in one transaction. Unavailable."""
        try:
            with self._psycopg.connect(self._url) as connection:
                connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                yield connection
        except self._psycopg.Error as error:
            why = error.sqlstate or "no connection"
            hint = "Check the address, the user and the password; a password may be in ~/.pgpass."
            raise Unavailable(f"{self.address} cannot be read ({why})", hint=hint) from None


def _driver() -> Any:
    """The module psycopg. MissingPackage."""
    try:
        import psycopg
    except ImportError:
        raise MissingPackage("a database on PostgreSQL needs psycopg", "postgres") from None
    return psycopg
