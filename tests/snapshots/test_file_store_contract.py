"""The contract, on files: plain, encrypted, as the original writes them, and in memory."""

from pathlib import Path

from clew.snapshots import FileStore, SnapshotStore
from clew.snapshots.file_store import MemoryFiles
from clew.testing.snapshots import SnapshotConformance

KEY = bytes(range(32))


class TestPlain(SnapshotConformance):
    def store(self, tmp_path: Path) -> SnapshotStore:
        return FileStore(tmp_path / "snapshots")


class TestEncrypted(SnapshotConformance):
    def store(self, tmp_path: Path) -> SnapshotStore:
        return FileStore(tmp_path / "snapshots", KEY)


class TestCompatible(SnapshotConformance):
    def store(self, tmp_path: Path) -> SnapshotStore:
        return FileStore(tmp_path / "snapshots", compatible=True)


class TestCompatibleEncrypted(SnapshotConformance):
    def store(self, tmp_path: Path) -> SnapshotStore:
        return FileStore(tmp_path / "snapshots", KEY, compatible=True)


class TestInMemory(SnapshotConformance):
    def store(self, tmp_path: Path) -> SnapshotStore:
        return FileStore("", KEY, fs=MemoryFiles())
