"""The contract of a backend, kept by PostgreSQL: plain and sealed."""

from __future__ import annotations

import pytest

import clew
from clew.testing import BackendConformance, OpenStore

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
