"""The contract of a backend, kept by SQLite: in a file, with relaxed durability, sealed, and in memory."""

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
    """A store that does not wait for the disk keeps the same contract but for power cuts."""

    @pytest.fixture
    def open_store(self, path: Path) -> OpenStore:
        def open_store(**settings: Any) -> clew.Store:
            return clew.open(path, **{**settings, "durability": "relaxed"})

        return open_store


class TestSealed(BackendConformance):
    """A store with a key keeps the same contract."""

    @pytest.fixture
    def open_store(self, path: Path) -> OpenStore:
        return lambda **settings: clew.open(path, key=KEY, **settings)


class TestSealedMemory(BackendConformance):
    """A store with a key that is never written to a file."""

    reopens = False

    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **settings: clew.open(":memory:", key=KEY, **settings)


class TestMemory(BackendConformance):
    """A store that is never written to a file."""

    reopens = False

    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **settings: clew.open(":memory:", **settings)
