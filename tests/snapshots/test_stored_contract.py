"""The contract, on a store: plain and sealed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.snapshots import SnapshotStore
from clew.testing.snapshots import SnapshotConformance


class _OnAStore(SnapshotConformance):
    key: bytes | None = None

    @pytest.fixture(autouse=True)
    def opened(self, tmp_path: Path) -> Iterator[None]:
        with clew.open(tmp_path / "chats.db", key=self.key) as self.clew_store:
            yield
            assert not self.clew_store.verify().damage

    def store(self, tmp_path: Path) -> SnapshotStore:
        return self.clew_store.snapshots


class TestPlain(_OnAStore):
    pass


class TestSealed(_OnAStore):
    key = bytes(range(32))
