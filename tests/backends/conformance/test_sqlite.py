"""The contract of a backend, tested with SQLite: in a file, with relaxed durability, sealed, and in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.testing import BackendConformance, OpenStore

KEY = bytes(range(32))


class TestFile(BackendConformance):
    """A store in a file."""

    @pytest.fixture
    def open_store(self, path: Path) -> OpenStore:
        return lambda **settings: clew.open(path, **settings)


class TestRelaxed(BackendConformance):
    """A store with relaxed durability has the same contract, except for power cuts."""

    @pytest.fixture
    def open_store(self, path: Path) -> OpenStore:
        def open_store(**settings: Any) -> clew.Store:
            return clew.open(path, **{**settings, "durability": "relaxed"})

        return open_store


class TestSealed(BackendConformance):
    """A sealed store has the same contract."""

    @pytest.fixture
    def open_store(self, path: Path) -> OpenStore:
        return lambda **settings: clew.open(path, key=KEY, **settings)


class TestSealedMemory(BackendConformance):
    """A sealed store in memory."""

    reopens = False

    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **settings: clew.open(":memory:", key=KEY, **settings)


class TestMemory(BackendConformance):
    """A store in memory."""

    reopens = False

    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **settings: clew.open(":memory:", **settings)
