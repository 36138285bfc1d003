"""An async wrapper for any snapshot store. Calls run on worker threads."""

from __future__ import annotations

from anyio.to_thread import run_sync

from clew.snapshots import Snapshot, SnapshotStore, SnapshotSummary

Summaries = list[SnapshotSummary]  # inside `InThreads`, list is its method


class InThreads:
    """Wraps a `FileStore`, an `ObjectStore` or your own store. A call finishes even if its task is cancelled."""

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store

    async def save(self, snapshot: Snapshot) -> None:
        """Saves a snapshot and replaces the one with the same id, if any. Durable on return."""
        await run_sync(self._store.save, snapshot)

    async def load(self, id: str) -> Snapshot:
        """The snapshot. NotFound; Corrupted if it is not what was saved under this id."""
        return await run_sync(self._store.load, id)

    async def list(self) -> Summaries:
        """All snapshots, newest first. Ignores other data."""
        return await run_sync(self._store.list)

    async def delete(self, id: str) -> None:
        """Deletes a snapshot and the data that only it uses. NotFound."""
        await run_sync(self._store.delete, id)

    def __repr__(self) -> str:
        return f"<async {self._store!r}>"
