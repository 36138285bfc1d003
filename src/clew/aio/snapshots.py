"""Any store of snapshots, awaited: its calls run on worker threads."""

from __future__ import annotations

from anyio.to_thread import run_sync

from clew.snapshots import Snapshot, SnapshotStore, SnapshotSummary

Summaries = list[SnapshotSummary]  # inside `InThreads`, list is its method


class InThreads:
    """The async face of a `FileStore`, an `ObjectStore` or your own. A call that was begun is finished, also if the
    task is cancelled meanwhile.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store

    async def save(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot, in place of the one with the same id if there is one. Durable when it returns."""
        await run_sync(self._store.save, snapshot)

    async def load(self, id: str) -> Snapshot:
        """The snapshot. NotFound; Corrupted if it is not what was saved, or is another one under this name."""
        return await run_sync(self._store.load, id)

    async def list(self) -> Summaries:
        """All there are, newest first. What is not a snapshot is passed over."""
        return await run_sync(self._store.list)

    async def delete(self, id: str) -> None:
        """Deletes a snapshot, with everything only it needed. NotFound."""
        await run_sync(self._store.delete, id)

    def __repr__(self) -> str:
        return f"<async {self._store!r}>"
