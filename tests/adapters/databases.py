"""Empty databases for `clew.testing.adapters`, on a PostgreSQL server of a test run."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlsplit

from clew.testing.adapters import Server


def databases(server: Any) -> Server:
    """Makes a new database for each check."""

    def url() -> str:
        name = f"t{uuid.uuid4().hex}"
        with server.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://clew@/{name}?host={server.folder}&port={server.port}"

    def size(url: str) -> int:
        with server.connect() as connection:
            row = connection.execute("SELECT pg_database_size(%s)", [urlsplit(url).path[1:]]).fetchone()
        return int(row[0])

    return Server(url, size)
