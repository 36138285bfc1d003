"""Stores checkpoints: one ref for each, owned by the session, and one blob for each content."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from clew.backends import RefRow, Tx, creation_counter
from clew.base import ids
from clew.checkpoints import tree_index as indexes
from clew.checkpoints.filestate import (
    FileState,
    Manifest,
    PathEntry,
    is_inside,
    pack_path,
    read,
    unpack,
    unpack_path,
    write,
)
from clew.checkpoints.results import Checkpoint
from clew.checkpoints.tree_index import TreeIndex
from clew.engine import paths
from clew.engine.blobs import put_all_in, put_in
from clew.engine.node import moment
from clew.engine.session_data import moved_path
from clew.errors import Corrupted, NotFound
from clew.store.parts import Parts
from clew.store.session import Session, row_of

CHECKPOINT, WORKTREE, REWIND = "checkpoint", "worktree", "rewind"
"""Kinds of refs: a checkpoint, the last scan of a tree, an unfinished rewind."""
_NAMES = uuid.UUID("1d7f4c52-6f0c-5a0e-9d5b-6a5c1f0c8a11")


class StoredCheckpoint(NamedTuple):
    """A checkpoint as it is stored."""

    row: RefRow
    manifest: Manifest

    def to_checkpoint(self) -> Checkpoint:
        """The public form of the checkpoint."""
        found = self.manifest
        return Checkpoint(found.message, moment(self.row.created_at), found.files, found.also, found.to, found.heads)


class RewindStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path that a rewind changes, with its state before and after."""

    path: str
    old: FileState
    new: FileState


class Journal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rewind that is about to run; another process can finish it. `key` is part of temporary file names."""

    root: str
    key: str
    undo: str
    steps: tuple[RewindStep, ...]


class Worktree(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last scan of the tree: its message, its index, and whether the work was finished then."""

    root: str
    message: str
    blob: str
    settled: bool = False


class StoredWorktree(NamedTuple):
    """A stored worktree."""

    row: RefRow
    data: Worktree


class CheckpointRepo:
    """The checkpoints of one session and one root. Methods with `tx` run inside the caller's transaction.

    If a project has moved, its checkpoints stay under the previous name of the root.
    """

    def __init__(self, session: Session, root: str) -> None:
        self.session = session
        self.root = pack_path(moved_path(session.data, unpack_path(root)))
        self._parts = Parts.of(session)
        self._engine = self._parts.engine
        self._refs = self._parts.refs
        self.read = self._engine.read
        self.write = self._engine.write
        self.new_id = self._engine.new_id
        self._index: tuple[str, TreeIndex] | None = None

    # -- checkpoints

    def all(self, tx: Tx, since: int = 0) -> list[StoredCheckpoint]:
        """The checkpoints from a given one on, by creation of their refs, oldest first.

        A fork includes those of the messages that it shares with its source.
        """
        found = sorted(self._chain(tx, self.session, None, since), key=lambda stored: creation_counter(stored.row.ref))
        return [stored for stored in found if stored.manifest.root == self.root]

    def roots(self, tx: Tx) -> set[str]:
        """The roots that the session has checkpoints of, packed."""
        return {stored.manifest.root for stored in self._chain(tx, self.session, None, 0)}

    def own(self, tx: Tx) -> list[StoredCheckpoint]:
        """The checkpoints that the session took itself, oldest first."""
        return [stored for stored in map(self._read_checkpoint, self.rows(tx)) if stored.manifest.root == self.root]

    def rows(self, tx: Tx) -> list[RefRow]:
        """The rows of all checkpoints that the session took itself, of any root."""
        owned = tx.refs_owned(self._row(tx, self.session).ref)
        return [row for row in owned if row.kind == CHECKPOINT and row.trashed_at is None]

    def _chain(self, tx: Tx, session: Session, until: str | None, since: int) -> Iterator[StoredCheckpoint]:
        row = self._row(tx, session)
        for owned in tx.refs_owned(row.ref):
            if owned.kind == CHECKPOINT and owned.trashed_at is None and creation_counter(owned.ref) >= since:
                stored = self._read_checkpoint(owned)
                if until is None or (stored.manifest.to is None and above(tx, stored.manifest.message, until)):
                    yield stored
        data = session.data
        if data.forked_from is not None and data.forked_at is not None:
            source = tx.ref(row.workspace, "session", ids.parse(data.forked_from))
            if source is not None and source.trashed_at is None:
                shared = data.forked_at
                if until is None or above(tx, shared, until):
                    yield from self._chain(tx, Session(self._parts, source), shared, since)

    def missing_source(self, tx: Tx, message: str) -> str | None:
        """The session whose checkpoints are needed for a message that a fork shares with it, but are not available.

        That session is deleted or in the trash, and its checkpoints with it. None if there is none.
        """
        session = self.session
        while (data := session.data).forked_from is not None and data.forked_at is not None:
            source = tx.ref(row_of(session).workspace, "session", ids.parse(data.forked_from))
            if source is None or source.trashed_at is not None:
                place = tx.node(ids.parse(data.forked_at))
                answer = place is not None and self._engine.node(place).role != "user"
                before = above(tx, message, data.forked_at) and not (answer and message == data.forked_at)
                return data.forked_from if before else None
            session = Session(self._parts, source)
        return None

    def get(self, tx: Tx, message: str) -> StoredCheckpoint | None:
        """The checkpoint of a message, if the session took it itself."""
        row = tx.ref(self._engine.workspace, CHECKPOINT, self._key(CHECKPOINT, message))
        return None if row is None or row.trashed_at is not None else self._read_checkpoint(row)

    def put(
        self, tx: Tx, manifest: Manifest, stored: StoredCheckpoint | None = None, created_at: int | None = None
    ) -> StoredCheckpoint:
        """Stores a new checkpoint, optionally with another time, or a new manifest for a `kept` one."""
        if stored is not None and stored.manifest == manifest:
            return stored
        known = () if stored is None else stored.manifest.files
        row = self._put(tx, CHECKPOINT, manifest.message, manifest, None if stored is None else stored.row, created_at)
        self._use(tx, row, _blobs(manifest.files) - _blobs(known))
        return StoredCheckpoint(row, manifest)

    def _read_checkpoint(self, row: RefRow) -> StoredCheckpoint:
        name = f"checkpoint {ids.text(row.key)}"
        manifest: Manifest = read(self._refs.data(self._refs.verify(row)), Manifest, name)
        if not all(map(is_inside, manifest.paths())):
            raise Corrupted(name, "it names a path that is not below the root")
        return StoredCheckpoint(row, manifest)

    # -- contents

    def keep(self, tx: Tx, payload: bytes) -> str:
        """Stores a packed content, unless the session has it; returns its blob."""
        return put_in(self.session.blobs, tx, self.tree(tx), payload).digest

    def keep_all(self, tx: Tx, payloads: Iterable[tuple[str, bytes]]) -> None:
        """`keep` for many, each with its blob."""
        put_all_in(self.session.blobs, tx, self.tree(tx), payloads)

    def content(self, state: FileState) -> bytes:
        """A file's content, checked against its hash. Raises NotFound, Corrupted."""
        data = unpack(self.session.blobs.get(state.blob), state)
        if data is None:
            raise Corrupted(f"blob {state.blob}", "its content does not match the checkpoint")
        return data

    def head(self, tx: Tx) -> str | None:
        """The head of the conversation."""
        head = self._row(tx, self.session).head_id
        return None if head is None else ids.text(head)

    def tree(self, tx: Tx) -> int:
        """The number of the session's tree."""
        tree = self._row(tx, self.session).tree
        assert tree is not None
        return tree

    # -- the tree as it was last seen

    def worktree(self, tx: Tx) -> StoredWorktree | None:
        """The worktree; None if the session has none."""
        row = tx.ref(self._engine.workspace, WORKTREE, self._key(WORKTREE, ""))
        if row is None or row.trashed_at is not None:
            return None
        return StoredWorktree(row, read(self._refs.data(self._refs.verify(row)), Worktree, "a worktree"))

    def index(self, seat: StoredWorktree) -> TreeIndex:
        """The index of the worktree; caches the last one."""
        if self._index is None or self._index[0] != seat.data.blob:
            self._index = seat.data.blob, indexes.unpack(self.session.blobs.get(seat.data.blob))
        return self._index[1]

    def set_worktree(
        self, tx: Tx, seat: StoredWorktree | None, data: Worktree, index: TreeIndex | None, blobs: set[str]
    ) -> None:
        """Stores the worktree with a new index, or with None the current one; `blobs` are those that are new in it."""
        if index is not None:
            blob = self.keep(tx, indexes.pack(index))
            data = msgspec.structs.replace(data, blob=blob)
            self._index = blob, index
        if seat is None or seat.data != data:
            row = self._put(tx, WORKTREE, "", data, None if seat is None else seat.row)
            if seat is None or seat.data.blob != data.blob:
                tx.blobs.delete_uses(-row.ref, -row.ref)  # an index is large, and the previous one is not needed
                self._use(tx, row, [data.blob])
        if blobs:
            self._use(tx, self._contents(tx), blobs)

    def _contents(self, tx: Tx) -> RefRow:
        """A ref that keeps every content that an index has or had, because later checkpoints may refer to it."""
        row = tx.ref(self._engine.workspace, WORKTREE, self._key(WORKTREE, "contents"))
        return row if row is not None else self._put(tx, WORKTREE, "contents", Worktree(self.root, "", ""), None)

    # -- a rewind under way

    def journal(self, tx: Tx) -> tuple[RefRow, Journal] | None:
        """The unfinished rewind."""
        row = tx.ref(self._engine.workspace, REWIND, self._key(REWIND, ""))
        if row is None or row.trashed_at is not None:
            return None
        return row, read(self._refs.data(self._refs.verify(row)), Journal, "a rewind")

    def begin(self, tx: Tx, journal: Journal) -> None:
        """Records a rewind. Raises Conflict if another one is unfinished."""
        row = self._put(tx, REWIND, "", journal, None)
        wanted = {step.new.blob for step in journal.steps if step.new.blob}
        self._use(tx, row, wanted)

    def clear_journal(self, tx: Tx) -> None:
        """Removes the record of a finished or rolled-back rewind."""
        row = tx.ref(self._engine.workspace, REWIND, self._key(REWIND, ""))
        if row is not None:
            tx.delete_ref(row.ref)

    # -- inside

    def _key(self, kind: str, name: str) -> bytes:
        text = f"{kind}\0{self.session.id}\0{self.root.encode('utf-8', 'surrogateescape').hex()}\0{name}"
        return uuid.uuid5(_NAMES, text).bytes[::-1]

    def _row(self, tx: Tx, session: Session) -> RefRow:
        return self._refs.get(tx, row_of(session).kind, row_of(session).key)

    def _put(
        self, tx: Tx, kind: str, name: str, value: Any, row: RefRow | None, created_at: int | None = None
    ) -> RefRow:
        if row is not None:
            return self._refs.change(tx, row, write(value), look=row.look)
        owner = self._row(tx, self.session)
        key = self._key(kind, name)
        return self._refs.add(
            tx, kind, key, write(value), tree=owner.tree, at=None, owner=owner.ref, created_at=created_at
        )

    def _use(self, tx: Tx, row: RefRow, digests: Iterable[str]) -> None:
        tree, used = self.tree(tx), []
        for digest in digests:
            blob = tx.blobs.blob(tree, self._engine.blob_hash(tree, digest))
            if blob is None:
                raise NotFound("blob", digest, hint="It was deleted. Try again.")
            used.append(blob.blob)
        if used:
            tx.blobs.add_uses(-row.ref, used)


def above(tx: Tx, message: str, below: str) -> bool:
    """True if a message is on the path to another one, or is the same."""
    one, other = tx.insert_point(ids.parse(message)), tx.insert_point(ids.parse(below))
    if one is None or other is None or one.pos is None or other.pos is None or one.tree != other.tree:
        return False
    return paths.on_path(tx, other.pos, one.pos)


def _blobs(entries: Iterable[PathEntry]) -> set[str]:
    return {entry.state.blob for entry in entries if entry.state.blob}
