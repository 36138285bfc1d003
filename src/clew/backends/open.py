"""Opens a backend by its name: the path of a file, or the URL of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from clew.backends import Backend, BackendOptions, Tx
from clew.base.loading import loading

if TYPE_CHECKING:
    from clew.backends.sqlite.fts import FtsIndex

SERVERS = ("postgresql://", "postgres://")


def open_backend(name: str, options: BackendOptions, check_older: Callable[[Tx], object] = lambda tx: None) -> Backend:
    """Opens the store in a file, in memory for ``:memory:``, or on a server.

    `check_older` is called with a store of an older format before it is migrated, and may raise.
    """
    durability, timeout, create, network, pool_size = options
    if name.startswith(SERVERS):
        with loading:
            from clew.backends.postgres import PostgresBackend

        return PostgresBackend(
            name, durability=durability, timeout=timeout, create=create, pool_size=pool_size, check_older=check_older
        )
    with loading:
        from clew.backends.sqlite import SQLiteBackend

    return SQLiteBackend(
        name, durability=durability, timeout=timeout, create=create, network=network, check_older=check_older
    )


def open_search_index(file: str | None, store_id: bytes, in_memory: Callable[[], bool]) -> FtsIndex:
    """The search index beside a store's file; in memory without a file, or while `in_memory` says so."""
    with loading:
        from clew.backends.sqlite.fts import FtsIndex

    return FtsIndex(file, store_id, in_memory)
