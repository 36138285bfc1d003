"""Stores checkpoints: one ref for each, owned by the session, and one blob for each content."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

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
from clew.engine.session_data import moved_path
from clew.errors import Corrupted
from clew.store.session import Session
from clew.store.store import store_of
from clew.store.unit import Document, Unit

CHECKPOINT, WORKTREE, REWIND = "checkpoint", "worktree", "rewind"
"""Kinds of refs: a checkpoint, the last scan of a tree, an unfinished rewind."""
_NAMES = uuid.UUID("1d7f4c52-6f0c-5a0e-9d5b-6a5c1f0c8a11")


class StoredCheckpoint(NamedTuple):
    """A checkpoint as it is stored."""

    document: Document
    manifest: Manifest

    def to_checkpoint(self) -> Checkpoint:
        """The public form of the checkpoint."""
        found = self.manifest
        return Checkpoint(found.message, self.document.created_at, found.files, found.also, found.to, found.heads)


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

    document: Document
    data: Worktree


class CheckpointRepo:
    """The checkpoints of one session and one root. Methods with `unit` are steps of the caller's unit of work.

    If a project has moved, its checkpoints stay under the previous name of the root.
    """

    def __init__(self, session: Session, root: str) -> None:
        self.session = session
        self.root = pack_path(moved_path(session.data, unpack_path(root)))
        self.store = store_of(session)
        self.read, self.write = self.store.read, self.store.write
        self._index: tuple[str, TreeIndex] | None = None

    # -- checkpoints

    def all(self, unit: Unit, since: int = 0) -> list[StoredCheckpoint]:
        """The checkpoints from a given one on, by their creation, oldest first.

        A fork includes those of the messages that it shares with its source.
        """
        found = sorted(self._chain(unit, self.session, None, since), key=lambda stored: stored.document.order)
        return [stored for stored in found if stored.manifest.root == self.root]

    def roots(self, unit: Unit) -> set[str]:
        """The roots that the session has checkpoints of, packed."""
        return {stored.manifest.root for stored in self._chain(unit, self.session, None, 0)}

    def own(self, unit: Unit) -> list[StoredCheckpoint]:
        """The checkpoints that the session took itself, oldest first."""
        found = map(self._read_checkpoint, self.documents(unit))
        return [stored for stored in found if stored.manifest.root == self.root]

    def documents(self, unit: Unit) -> list[Document]:
        """The documents of all checkpoints that the session took itself, of any root."""
        return unit.documents(CHECKPOINT, owner=self.session)

    def _chain(self, unit: Unit, session: Session, until: str | None, since: int) -> Iterator[StoredCheckpoint]:
        for one in unit.documents(CHECKPOINT, owner=session):
            if one.order >= since:
                stored = self._read_checkpoint(one)
                if until is None or (stored.manifest.to is None and unit.is_above(stored.manifest.message, until)):
                    yield stored
        data = session.data
        if data.forked_from is not None and data.forked_at is not None:
            source, shared = unit.session(data.forked_from), data.forked_at
            if source is not None and (until is None or unit.is_above(shared, until)):
                yield from self._chain(unit, source, shared, since)

    def missing_source(self, unit: Unit, message: str) -> str | None:
        """The session whose checkpoints are needed for a message that a fork shares with it, but are not available.

        That session is deleted or in the trash, and its checkpoints with it. None if there is none.
        """
        session = self.session
        while (data := session.data).forked_from is not None and data.forked_at is not None:
            source = unit.session(data.forked_from)
            if source is None:
                node = unit.node(data.forked_at)
                answer = node is not None and node.role != "user"
                before = unit.is_above(message, data.forked_at) and not (answer and message == data.forked_at)
                return data.forked_from if before else None
            session = source
        return None

    def get(self, unit: Unit, message: str) -> StoredCheckpoint | None:
        """The checkpoint of a message, if the session took it itself."""
        found = unit.document(CHECKPOINT, self._key(CHECKPOINT, message))
        return None if found is None else self._read_checkpoint(found)

    def put(
        self, unit: Unit, manifest: Manifest, stored: StoredCheckpoint | None = None, created_at: int | None = None
    ) -> StoredCheckpoint:
        """Stores a new checkpoint, optionally with another time, or a new manifest for a `kept` one."""
        if stored is not None and stored.manifest == manifest:
            return stored
        known = () if stored is None else stored.manifest.files
        before = None if stored is None else stored.document
        done = self._put(unit, CHECKPOINT, manifest.message, manifest, before, created_at)
        unit.use(done, self.session, _blobs(manifest.files) - _blobs(known))
        return StoredCheckpoint(done, manifest)

    def _read_checkpoint(self, document: Document) -> StoredCheckpoint:
        name = f"checkpoint {document.id}"
        manifest: Manifest = read(document.payload, Manifest, name)
        if not all(map(is_inside, manifest.paths())):
            raise Corrupted(name, "it names a path that is not below the root")
        return StoredCheckpoint(document, manifest)

    # -- contents

    def content(self, state: FileState) -> bytes:
        """A file's content, checked against its hash. Raises NotFound, Corrupted."""
        data = unpack(self.session.blobs.get(state.blob), state)
        if data is None:
            raise Corrupted(f"blob {state.blob}", "its content does not match the checkpoint")
        return data

    # -- the tree as it was last seen

    def worktree(self, unit: Unit) -> StoredWorktree | None:
        """The worktree; None if the session has none."""
        found = unit.document(WORKTREE, self._key(WORKTREE, ""))
        return None if found is None else StoredWorktree(found, read(found.payload, Worktree, "a worktree"))

    def index(self, seat: StoredWorktree) -> TreeIndex:
        """The index of the worktree; caches the last one."""
        if self._index is None or self._index[0] != seat.data.blob:
            self._index = seat.data.blob, indexes.unpack(self.session.blobs.get(seat.data.blob))
        return self._index[1]

    def set_worktree(
        self, unit: Unit, seat: StoredWorktree | None, data: Worktree, index: TreeIndex | None, blobs: set[str]
    ) -> None:
        """Stores the worktree with a new index, or with None the current one; `blobs` are those that are new in it."""
        if index is not None:
            blob = unit.blob(self.session, indexes.pack(index))
            data = msgspec.structs.replace(data, blob=blob)
            self._index = blob, index
        if seat is None or seat.data != data:
            done = self._put(unit, WORKTREE, "", data, None if seat is None else seat.document)
            if seat is None or seat.data.blob != data.blob:
                # An index is large, and the previous one is not needed.
                unit.use(done, self.session, [data.blob], only=True)
        if blobs:
            unit.use(self._contents(unit), self.session, blobs)

    def _contents(self, unit: Unit) -> Document:
        """A document that keeps every content that an index has or had, because later checkpoints may refer to it."""
        found = unit.document(WORKTREE, self._key(WORKTREE, "contents"))
        return found or self._put(unit, WORKTREE, "contents", Worktree(self.root, "", ""), None)

    # -- a rewind under way

    def journal(self, unit: Unit) -> Journal | None:
        """The unfinished rewind."""
        found = unit.document(REWIND, self._key(REWIND, ""))
        return None if found is None else read(found.payload, Journal, "a rewind")

    def begin(self, unit: Unit, journal: Journal) -> None:
        """Records a rewind. Raises Conflict if another one is unfinished."""
        done = self._put(unit, REWIND, "", journal, None)
        unit.use(done, self.session, {step.new.blob for step in journal.steps if step.new.blob})

    def clear_journal(self, unit: Unit) -> None:
        """Removes the record of a finished or rolled-back rewind."""
        found = unit.document(REWIND, self._key(REWIND, ""), trashed=True)
        if found is not None:
            unit.discard(found)

    # -- inside

    def _key(self, kind: str, name: str) -> bytes:
        text = f"{kind}\0{self.session.id}\0{self.root.encode('utf-8', 'surrogateescape').hex()}\0{name}"
        return uuid.uuid5(_NAMES, text).bytes[::-1]

    def _put(
        self, unit: Unit, kind: str, name: str, value: Any, before: Document | None, created_at: int | None = None
    ) -> Document:
        payload = write(value)
        return unit.put(
            kind, self._key(kind, name), payload[1:], tag=payload[:1], exact=True,
            owner=self.session, before=before, new=before is None, created_at=created_at,
        )  # fmt: skip


def _blobs(entries: Iterable[PathEntry]) -> set[str]:
    return {entry.state.blob for entry in entries if entry.state.blob}
