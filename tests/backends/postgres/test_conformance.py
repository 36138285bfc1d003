"""The contract of a backend, kept by PostgreSQL: plain, sealed, and with blobs in a bucket."""

from __future__ import annotations

import psycopg
import pytest

import clew
from clew.store import partitions
from clew.testing import BackendConformance, OpenStore
from clew.testing.backend.writing import Beside, Deleting
from tests.engine.objects.server import NodeLocation

KEY = bytes(range(32))


class TestPlain(BackendConformance):
    """A store on a server."""

    @pytest.fixture
    def open_store(self, url: str) -> OpenStore:
        return lambda **settings: clew.open(url, **settings)


class TestSealed(BackendConformance):
    """A store on a server, with a key."""

    @pytest.fixture
    def open_store(self, url: str) -> OpenStore:
        return lambda **settings: clew.open(url, key=KEY, **settings)


class TestObjects(Deleting, Beside):
    """A store on a server, with a key, and its large blobs in a bucket."""

    @pytest.fixture
    def open_store(self, url: str, place: NodeLocation) -> OpenStore:
        return lambda **settings: clew.open(url, key=KEY, **{"blobs": place.open(), **settings})


class TestDivided(BackendConformance):
    """A store whose large tables are partitioned; its trees are in the last shards and the first."""

    @pytest.fixture
    def open_store(self, url: str) -> OpenStore:
        plain, _, schema = url.partition("schema=")
        with clew.open(url) as store:
            partitions.divide(store, 2)
        with psycopg.connect(plain.rstrip("?&"), autocommit=True, options=f"-csearch_path={schema}") as conn:
            conn.execute("SELECT setval('trees_tree_seq', 253)")
        return lambda **settings: clew.open(url, **settings)
