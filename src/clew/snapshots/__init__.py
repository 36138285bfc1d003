"""Snapshots: a conversation with a provider, saved whole, to be restored in another process.

>>> from clew.snapshots import new_snapshot
>>> snapshot = new_snapshot(provider="claude", model="a-model", messages=b'[{"role":"user","content":"Hello"}]')
>>> snapshot.message_count
1
"""

from clew.snapshots.errors import InvalidSnapshotID
from clew.snapshots.file_store import Files, FileStore, MemoryFiles
from clew.snapshots.object_store import ObjectStore
from clew.snapshots.types import (
    SNAPSHOT_VERSION,
    Messages,
    Snapshot,
    SnapshotStore,
    SnapshotSummary,
    ToolSnapshot,
    generate_key,
    new_snapshot,
    validate_snapshot_id,
)

__all__ = [
    "SNAPSHOT_VERSION",
    "FileStore",
    "Files",
    "InvalidSnapshotID",
    "MemoryFiles",
    "Messages",
    "ObjectStore",
    "Snapshot",
    "SnapshotStore",
    "SnapshotSummary",
    "ToolSnapshot",
    "generate_key",
    "new_snapshot",
    "validate_snapshot_id",
]
