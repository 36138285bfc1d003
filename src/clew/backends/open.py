"""Opens a backend by the path of a file or the URL of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from clew.backends import Backend, BackendOptions, Tx
from clew.base.loading import loading
from clew.errors import Invalid

if TYPE_CHECKING:
    from clew.backends.sqlite.fts import FtsIndex
    from clew.backends.sqlite.images import FtsImages

SERVERS = ("postgresql://", "postgres://")


def open_backend(name: str, options: BackendOptions, check_older: Callable[[Tx], object] = lambda tx: None) -> Backend:
    """Opens a store in a file, in memory (``:memory:``), or on a server.

    Calls `check_older`, which may raise, before it migrates a store of an older format.
    """
    durability, timeout, create, network, pool_size, read_only, immutable = options
    if name.startswith(SERVERS):
        if read_only:
            raise Invalid("read_only is for files", hint="Open the server with a role that may only read.")
        with loading:
            from clew.backends.postgres import PostgresBackend

        return PostgresBackend(
            name, durability=durability, timeout=timeout, create=create, pool_size=pool_size, check_older=check_older
        )
    with loading:
        from clew.backends.sqlite import SQLiteBackend

    return SQLiteBackend(
        name, durability=durability, timeout=timeout, create=create, network=network, check_older=check_older,
        read_only=read_only, immutable=immutable,
    )  # fmt: skip


def open_search_index(file: str | None, store_id: bytes, in_memory: Callable[[], bool]) -> FtsIndex:
    """The search index next to a store's file; in memory if there is no file, or while `in_memory` returns True."""
    with loading:
        from clew.backends.sqlite.fts import FtsIndex

    return FtsIndex(file, store_id, in_memory)


def open_search_images(file: str, store_id: bytes) -> FtsImages:
    """The encrypted images of the search index next to the file of a sealed store."""
    with loading:
        from clew.backends.sqlite.images import FtsImages

    return FtsImages(file, store_id)
