"""Taking checkpoints: of files that are named, and of a whole tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from clew.backends import Tx, born
from clew.checkpoints import tree
from clew.checkpoints.root import Blocked, Root
from clew.checkpoints.shelf import Kept, Seat, Shelf, Worktree
from clew.checkpoints.states import MISSING, UNSEEN, Entry, Manifest, State, folders_of, pack, packed
from clew.checkpoints.tree import Scan
from clew.errors import Conflict, Invalid, Unavailable, clip

BATCH = 8 * 1024 * 1024
"""Bytes of content in one transaction, so that other writers need not wait for a whole tree."""
MANY = 512
"""Contents in one transaction."""
TRIES = 5
"""How often a tree is looked at again because another process did so meanwhile."""


class Capturing:
    """Brings what is below the root into the store."""

    def __init__(self, root: Root, shelf: Shelf, own: Callable[[str], bool]) -> None:
        self._root = root
        self._shelf = shelf
        self._own = own

    def files(self, message: str, names: Sequence[str]) -> Kept:
        """Keeps paths as they are now, unless the message's checkpoint has them, or one after it."""
        entries: dict[str, tuple[Entry, bytes]] = {}
        have = self._shelf.read(lambda tx: self._have(tx, message))
        for name in names:
            if packed(name) not in have:
                entries.update({entry.path: (entry, data) for entry, data in self._entries(name)})

        def work(tx: Tx) -> Kept:
            kept, known = self._shelf.get(tx, message), self._have(tx, message)
            fresh = [self.stored(tx, *one) for path, one in entries.items() if path not in known]
            manifest = Manifest(message, self._shelf.root) if kept is None else kept.manifest
            return self._shelf.put(tx, manifest.having(fresh), kept)

        return self._shelf.write(work)

    def _have(self, tx: Tx, message: str) -> set[str]:
        """Paths that the message's checkpoint has, or one after it: what is there now is not how they were."""
        kept = self._shelf.get(tx, message)
        if kept is None:
            return set()
        later = self._shelf.all(tx, born(kept.row.ref))
        return {entry.path for one in later for entry in one.manifest.files if entry.state != UNSEEN}

    def _entries(self, name: str) -> Iterable[tuple[Entry, bytes]]:
        """A path as it is now, and the folders above it that are missing."""
        try:
            seen = self._root.look(name)
        except Blocked as blocked:
            about = f"{clip(name, 4096)} cannot be read: {clip(blocked.at, 4096)} is not a folder"
            raise Unavailable(about, hint="Nothing was checkpointed.") from None
        if seen.state.kind == "dir":
            raise Invalid(f"{clip(name, 4096)} is a folder", hint="Name the files in it, or capture the tree.")
        if seen.state.kind == "missing":
            for folder in folders_of(name):
                if self._root.look(folder).state.kind == "missing":
                    yield Entry(packed(folder), MISSING), b""
        yield Entry(packed(name), seen.state), seen.data

    def stored(self, tx: Tx, entry: Entry, data: bytes) -> Entry:
        """An entry whose content is in the store."""
        if entry.state.kind != "file":
            return entry
        state = msgspec.structs.replace(entry.state, blob=self._shelf.keep(tx, pack(data)))
        return msgspec.structs.replace(entry, state=state)

    # -- the whole tree

    def tree(self, message: str, *, settled: bool = False) -> Kept:
        """Looks at the tree and stores what has changed; `settled` if what changes from now on is not the agent's."""
        for _ in range(TRIES):
            seat, seen = self.scan(keep=True)

            def work(tx: Tx, seat: Seat | None = seat, seen: Scan = seen) -> Kept:
                return self.record(tx, seat, seen, message, settled=settled)

            try:
                return self._shelf.write(work)
            except Conflict:
                continue
        raise Unavailable(f"others capture {self._root.path} all the time", hint="Ask again.")

    def scan(self, *, keep: bool) -> tuple[Seat | None, Scan]:
        """The tree as it was last seen, and as it is; with `keep`, contents that are new are stored."""
        seat = self._shelf.read(self._shelf.worktree)
        before = None if seat is None else self._shelf.index(seat)
        if not keep:
            return seat, tree.scan(self._root, before, self._own, lambda data: "")
        keeper = Keeper(self._shelf)
        found = tree.scan(self._root, before, self._own, keeper)
        keeper.flush()
        return seat, found

    def record(self, tx: Tx, seat: Seat | None, seen: Scan, message: str, *, settled: bool) -> Kept:
        """Stores what a scan found: changes, as they were before, with the checkpoint that the tree was last seen for.

        Conflict if the tree was seen by another meanwhile. Returns the message's checkpoint.
        """
        shelf = self._shelf
        now = shelf.worktree(tx)
        if (None if now is None else now.row.version) != (None if seat is None else seat.row.version):
            raise Conflict("the tree was captured by another process meanwhile", hint="Ask again.")
        if seat is not None:
            last = shelf.get(tx, seat.data.message)
            if last is not None:
                shelf.put(tx, last.manifest.having(changed(seat, seen)), last)
        kept = shelf.get(tx, message) or shelf.put(tx, Manifest(message, shelf.root))
        data = Worktree(shelf.root, message, "" if seat is None else seat.data.blob, settled)
        shelf.set_worktree(tx, seat, data, seen.now if seen.changed else None, seen.blobs)
        return kept


def changed(seat: Seat, seen: Scan) -> list[Entry]:
    """Entries for what a scan found changed. If all was done when the tree was last seen, that is how it was left."""
    return [
        Entry(packed(change.path), change.old, change.old if seat.data.settled and change.old != UNSEEN else None)
        for change in seen.changes
        if change.path
    ]


def state_at(root: Root, path: str) -> State:
    """What is at a path; nothing if a link or a file is in the way, unseen if it is in a folder that cannot be read.

    Unavailable if it cannot be read itself.
    """
    try:
        return root.look(path).state
    except Blocked:
        return MISSING
    except Unavailable:
        if all(map(root.readable, folders_of(path))):
            raise
        return UNSEEN


class Keeper:
    """Stores contents some at a time, and returns for each where it will be."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._held: list[bytes] = []
        self._size = 0

    def __call__(self, data: bytes) -> str:
        payload = pack(data)
        self._held.append(payload)
        self._size += len(payload)
        if self._size > BATCH or len(self._held) >= MANY:
            self.flush()
        return self._shelf.address(payload)

    def flush(self) -> None:
        """Stores what is held."""
        held, self._held, self._size = self._held, [], 0
        if held:
            self._shelf.write(lambda tx: [self._shelf.keep(tx, payload) for payload in held])
