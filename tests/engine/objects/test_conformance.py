"""The contract of a backend, as far as it is about blobs and what goes: in a bucket, plain and sealed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.testing import OpenStore
from clew.testing.backend.writing import Beside, Deleting, Lasting
from tests.engine.objects.server import NodeLocation

KEY = bytes(range(32))


class TestPlain(Deleting, Beside, Lasting):
    """A store in a file."""

    key: bytes | None = None

    @pytest.fixture
    def open_store(self, path: Path, place: NodeLocation) -> OpenStore:
        def open_store(**settings: Any) -> clew.Store:
            return clew.open(path, key=self.key, **{"blobs": place.open(), **settings, "durability": "relaxed"})

        return open_store


class TestSealed(TestPlain):
    """A store with a key."""

    key = KEY
