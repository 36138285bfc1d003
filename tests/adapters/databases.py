"""Empty databases for `clew.testing.adapters`, on a PostgreSQL server of a test run."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlsplit


class Databases:
    """A new database for each check."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def url(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{uuid.uuid4().hex}"
        with self._server.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://clew@/{name}?host={self._server.folder}&port={self._server.port}"

    def size(self, url: str) -> int:
        """The bytes of a database on disk."""
        with self._server.connect() as connection:
            row = connection.execute("SELECT pg_database_size(%s)", [urlsplit(url).path[1:]]).fetchone()
        return int(row[0])
