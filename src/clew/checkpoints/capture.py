"""Captures checkpoints: of named files, and of a whole tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from clew.checkpoints import tree_scan as tree
from clew.checkpoints.filestate import (
    FOLDER,
    MISSING,
    UNSEEN,
    FileState,
    Manifest,
    PathEntry,
    folders_of,
    pack,
    pack_path,
    sha256_hex,
    unpack_path,
)
from clew.checkpoints.repository import CheckpointRepo, StoredCheckpoint, StoredWorktree, Worktree
from clew.checkpoints.root import PathBlocked, RootFolder
from clew.checkpoints.tree_index import TreeIndex
from clew.checkpoints.tree_scan import TreeScan
from clew.errors import Conflict, Invalid, Unavailable, clip
from clew.store.unit import Unit

BATCH = 8 * 1024 * 1024
"""Bytes of content in one transaction; a larger transaction would block other writers for too long."""
MANY = 512
"""Number of contents in one transaction."""
TRIES = 5
"""How often a scan is repeated because another process captured the tree at the same time."""


class Capturing:
    """Stores the state of paths below the root."""

    def __init__(self, root: RootFolder, repo: CheckpointRepo, own: Callable[[str], bool]) -> None:
        self._root = root
        self._repo = repo
        self._own = own

    def files(self, message: str, names: Sequence[str]) -> StoredCheckpoint:
        """Stores the current state of paths, unless the message's checkpoint or a later one has them."""
        entries: dict[str, tuple[PathEntry, bytes]] = {}
        have = self._repo.read(lambda unit: self._have(unit, message))
        # The message's checkpoint has paths in these, so they were folders then, whatever they are now.
        passed = {pack_path(folder) for path in have for folder in folders_of(unpack_path(path))} - have
        for name in names:
            if pack_path(name) not in have:
                for entry, data in self._entries(name):
                    was = (PathEntry(entry.path, FOLDER), b"") if entry.path in passed else (entry, data)
                    entries[entry.path] = was

        seat = self._repo.read(self._repo.worktree)
        missing = [unpack_path(path) for path, (entry, _) in entries.items() if entry.state == MISSING]
        hidden = [] if seat is None else out_of_sight(self._repo.index(seat), missing)

        def work(unit: Unit) -> StoredCheckpoint:
            if seat is not None and seat.data.message != message:
                self._note(unit, seat, hidden)
            stored, known = self._repo.get(unit, message), self._have(unit, message)
            fresh = [self.store_content(unit, *one) for path, one in entries.items() if path not in known]
            manifest = Manifest(message, self._repo.root) if stored is None else stored.manifest
            return self._repo.put(unit, manifest.with_entries(fresh), stored)

        return self._repo.write(work)

    def _note(self, unit: Unit, seat: StoredWorktree, entries: Sequence[PathEntry]) -> None:
        """Adds entries to the checkpoint of the last scan."""
        last = self._repo.get(unit, seat.data.message) if entries else None
        if last is not None:
            self._repo.put(unit, last.manifest.with_walks(entries), last)

    def _have(self, unit: Unit, message: str) -> set[str]:
        """Paths that the message's checkpoint or a later one has; their current state is not the original."""
        stored = self._repo.get(unit, message)
        if stored is None:
            return set()
        later = self._repo.all(unit, stored.document.order)
        return {entry.path for one in later for entry in one.manifest.files if entry.state != UNSEEN}

    def _entries(self, name: str) -> Iterable[tuple[PathEntry, bytes]]:
        """The current state of a path, and the missing folders above it."""
        try:
            seen = self._root.observe(name)
        except PathBlocked as blocked:
            about = f"{clip(name, 4096)} cannot be read: {clip(blocked.at, 4096)} is not a folder"
            raise Unavailable(about, hint="Nothing was checkpointed.") from None
        if seen.state.kind == "dir":
            raise Invalid(f"{clip(name, 4096)} is a folder", hint="Pass the files in it, or capture the tree.")
        if seen.state.kind == "missing":
            for folder in folders_of(name):
                if self._root.observe(folder).state.kind == "missing":
                    yield PathEntry(pack_path(folder), MISSING), b""
        yield PathEntry(pack_path(name), seen.state), seen.data

    def store_content(self, unit: Unit, entry: PathEntry, data: bytes) -> PathEntry:
        """An entry whose content is stored."""
        if entry.state.kind != "file":
            return entry
        state = msgspec.structs.replace(entry.state, blob=unit.blob(self._repo.session, pack(data)))
        return msgspec.structs.replace(entry, state=state)

    # -- the whole tree

    def tree(self, message: str, *, settled: bool = False) -> StoredCheckpoint:
        """Scans the tree and stores changes; `settled` if later changes are not the agent's."""
        for _ in range(TRIES):
            seat, seen = self.scan(keep=True)

            def work(unit: Unit, seat: StoredWorktree | None = seat, seen: TreeScan = seen) -> StoredCheckpoint:
                return self.record(unit, seat, seen, message, settled=settled)

            try:
                return self._repo.write(work)
            except Conflict:
                continue
        raise Unavailable(f"other processes keep capturing {self._root.path}", hint="Try again.")

    def scan(self, *, keep: bool) -> tuple[StoredWorktree | None, TreeScan]:
        """The last scan of the tree, and a new one; with `keep`, stores new contents."""
        seat = self._repo.read(self._repo.worktree)
        before = None if seat is None else self._repo.index(seat)
        if not keep:
            return seat, tree.scan(self._root, before, self._own, lambda data: "")
        keeper = ContentWriter(self._repo)
        found = tree.scan(self._root, before, self._own, keeper)
        keeper.flush()
        return seat, found

    def record(
        self,
        unit: Unit,
        seat: StoredWorktree | None,
        seen: TreeScan,
        message: str,
        *,
        settled: bool,
        coming: Iterable[str] = (),
    ) -> StoredCheckpoint:
        """Stores the result of a scan. Changed paths get their previous state in the checkpoint of the last scan.

        `coming` are missing paths that are about to be created. Raises Conflict if another process has scanned the
        tree at the same time. Returns the message's checkpoint.
        """
        repo = self._repo
        now = repo.worktree(unit)
        if (None if now is None else now.document.version) != (None if seat is None else seat.document.version):
            raise Conflict("another process captured the tree at the same time", hint="Try again.")
        if seat is not None:
            self._note(unit, seat, [*changed(seat, seen), *out_of_sight(seen.now, coming)])
        stored = repo.get(unit, message) or repo.put(unit, Manifest(message, repo.root))
        data = Worktree(repo.root, message, "" if seat is None else seat.data.blob, settled)
        repo.set_worktree(unit, seat, data, seen.now if seen.changed else None, seen.blobs)
        return stored


def changed(seat: StoredWorktree, seen: TreeScan) -> list[PathEntry]:
    """Entries for the changes that a scan found. A `settled` scan is also the state they were left in."""
    return [
        PathEntry(
            pack_path(change.path), change.old, change.old if seat.data.settled and change.old != UNSEEN else None
        )
        for change in seen.changes
        if change.path
    ]


def out_of_sight(index: TreeIndex, paths: Iterable[str]) -> list[PathEntry]:
    """Entries for missing paths that the last scan could not see.

    Earlier checkpoints do not know whether they existed.
    """
    return [PathEntry(pack_path(path), UNSEEN) for path in paths if index.absent(path) == UNSEEN]


def state_at(root: RootFolder, path: str) -> FileState:
    """The state of a path: missing if a link or a file is in the way, unseen if its folder cannot be read.

    Raises Unavailable if the path itself cannot be read.
    """
    try:
        return root.observe(path).state
    except PathBlocked:
        return MISSING
    except Unavailable:
        if all(map(root.readable, folders_of(path))):
            raise
        return UNSEEN


class ContentWriter:
    """Stores contents in batches, and returns the blob of each."""

    def __init__(self, repo: CheckpointRepo) -> None:
        self._repo = repo
        self._held: list[tuple[str, bytes]] = []
        self._size = 0

    def __call__(self, data: bytes) -> str:
        payload = pack(data)
        blob = sha256_hex(payload)
        self._held.append((blob, payload))
        self._size += len(payload)
        if self._size > BATCH or len(self._held) >= MANY:
            self.flush()
        return blob

    def flush(self) -> None:
        """Stores the current batch."""
        held, self._held, self._size = self._held, [], 0
        if held:
            self._repo.write(lambda unit: unit.blobs(self._repo.session, held))
