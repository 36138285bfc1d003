"""Where checkpoints lie in the store: a ref for each, owned by the session, and a blob for each content."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from clew import ids, paths
from clew.backends import RefRow, Tx, born
from clew.checkpoints import index as indexes
from clew.checkpoints.index import Index
from clew.checkpoints.states import Entry, Manifest, State, hashed, is_inside, packed, read, unpack, unpacked, write
from clew.checkpoints.values import Checkpoint
from clew.errors import NotFound, Tampered
from clew.node import moment
from clew.session import Session
from clew.session_data import moved_path

CHECKPOINT, WORKTREE, REWIND = "checkpoint", "worktree", "rewind"
"""Kinds of ref: a checkpoint, a tree as it was last seen, a rewind that is under way."""
_NAMES = uuid.UUID("1d7f4c52-6f0c-5a0e-9d5b-6a5c1f0c8a11")


class Kept(NamedTuple):
    """A checkpoint as it is stored."""

    row: RefRow
    manifest: Manifest

    def told(self) -> Checkpoint:
        """As callers see it."""
        found = self.manifest
        return Checkpoint(found.message, moment(self.row.created_at), found.files, found.also, found.to, found.heads)


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path that a rewind changes, from what it is to what it was."""

    path: str
    old: State
    new: State


class Journal(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a rewind is about to do, so that another process can finish it. `key` names the files in the making."""

    root: str
    key: str
    undo: str
    steps: tuple[Step, ...]


class Worktree(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tree as it was last seen: for which message, where its index is, and if that was after all was done."""

    root: str
    message: str
    blob: str
    settled: bool = False


class Seat(NamedTuple):
    """A worktree as it is stored."""

    row: RefRow
    data: Worktree


class Shelf:
    """The checkpoints of one session and one root. Methods with `tx` are steps of the caller's transaction.

    A project that has moved keeps them under the name that its root had before.
    """

    def __init__(self, session: Session, root: str) -> None:
        self.session = session
        self.root = packed(moved_path(session.data, unpacked(root)))
        self._engine = session._engine
        self._refs = session._refs
        self.read = self._engine.read
        self.write = self._engine.write
        self.new_id = self._engine.new_id
        self._index: tuple[str, Index] | None = None

    # -- checkpoints

    def all(self, tx: Tx, since: int = 0) -> list[Kept]:
        """Every checkpoint from one on, by when its ref was `born`, oldest first.

        A fork has those of what it shares with the session it was forked from.
        """
        found = sorted(self._chain(tx, self.session, None, since), key=lambda kept: born(kept.row.ref))
        return [kept for kept in found if kept.manifest.root == self.root]

    def own(self, tx: Tx) -> list[Kept]:
        """Those that the session has taken itself, oldest first."""
        return [kept for kept in map(self._kept, self.rows(tx)) if kept.manifest.root == self.root]

    def rows(self, tx: Tx) -> list[RefRow]:
        """The rows of all that the session has taken itself, of whatever root, as they are stored."""
        owned = tx.refs_owned(self._row(tx, self.session).ref)
        return [row for row in owned if row.kind == CHECKPOINT and row.trashed_at is None]

    def _chain(self, tx: Tx, session: Session, until: str | None, since: int) -> Iterator[Kept]:
        row = self._row(tx, session)
        for owned in tx.refs_owned(row.ref):
            if owned.kind == CHECKPOINT and owned.trashed_at is None and born(owned.ref) >= since:
                kept = self._kept(owned)
                if until is None or (kept.manifest.to is None and above(tx, kept.manifest.message, until)):
                    yield kept
        data = session.data
        if data.forked_from is not None and data.forked_at is not None:
            source = tx.ref(row.workspace, "session", ids.parse(data.forked_from))
            if source is not None and source.trashed_at is None:
                shared = data.forked_at
                if until is None or above(tx, shared, until):
                    yield from self._chain(tx, Session(session._sessions, source), shared, since)

    def lost(self, tx: Tx, message: str) -> str | None:
        """The session whose checkpoints are missing to tell how things were at a message that a fork shares with it.

        It is deleted, or in the trash, and its checkpoints with it. None if there is none.
        """
        session = self.session
        while (data := session.data).forked_from is not None and data.forked_at is not None:
            source = tx.ref(session._row.workspace, "session", ids.parse(data.forked_from))
            if source is None or source.trashed_at is not None:
                place = tx.node(ids.parse(data.forked_at))
                answer = place is not None and self._engine.node(place).role != "user"
                before = above(tx, message, data.forked_at) and not (answer and message == data.forked_at)
                return data.forked_from if before else None
            session = Session(session._sessions, source)
        return None

    def get(self, tx: Tx, message: str) -> Kept | None:
        """The checkpoint of a message, if the session has it itself."""
        row = tx.ref(self._engine.workspace, CHECKPOINT, self._key(CHECKPOINT, message))
        return None if row is None or row.trashed_at is not None else self._kept(row)

    def put(self, tx: Tx, manifest: Manifest, kept: Kept | None = None, created_at: int | None = None) -> Kept:
        """Stores a new checkpoint, of another time than now if one is given, or another manifest for a `kept` one."""
        if kept is not None and kept.manifest == manifest:
            return kept
        known = () if kept is None else kept.manifest.files
        row = self._put(tx, CHECKPOINT, manifest.message, manifest, None if kept is None else kept.row, created_at)
        self._use(tx, row, _blobs(manifest.files) - _blobs(known))
        return Kept(row, manifest)

    def _kept(self, row: RefRow) -> Kept:
        name = f"checkpoint {ids.text(row.key)}"
        manifest: Manifest = read(self._refs.data(self._refs.checked(row)), Manifest, name)
        if not all(map(is_inside, manifest.paths())):
            raise Tampered(name, "it names a path that is not below the root")
        return Kept(row, manifest)

    # -- contents

    def keep(self, tx: Tx, payload: bytes) -> str:
        """Stores a content that was packed, unless the session has it; returns where."""
        return self.session.blobs._keep(tx, self.tree(tx), payload).digest

    def address(self, payload: bytes) -> str:
        """Where `keep` puts a payload."""
        return hashed(payload)

    def content(self, state: State) -> bytes:
        """A file's content, checked against its hash. NotFound, Tampered."""
        data = unpack(self.session.blobs.get(state.blob), state)
        if data is None:
            raise Tampered(f"blob {state.blob}", "it is not the content that the checkpoint names")
        return data

    def head(self, tx: Tx) -> str | None:
        """Where the conversation stands."""
        head = self._row(tx, self.session).head_id
        return None if head is None else ids.text(head)

    def tree(self, tx: Tx) -> int:
        """The number of the session's tree."""
        tree = self._row(tx, self.session).tree
        assert tree is not None
        return tree

    # -- the tree as it was last seen

    def worktree(self, tx: Tx) -> Seat | None:
        """The worktree, if the session has one."""
        row = tx.ref(self._engine.workspace, WORKTREE, self._key(WORKTREE, ""))
        if row is None or row.trashed_at is not None:
            return None
        return Seat(row, read(self._refs.data(self._refs.checked(row)), Worktree, "a worktree"))

    def index(self, seat: Seat) -> Index:
        """Its index; the one that was read last is remembered."""
        if self._index is None or self._index[0] != seat.data.blob:
            self._index = seat.data.blob, indexes.unpack(self.session.blobs.get(seat.data.blob))
        return self._index[1]

    def set_worktree(self, tx: Tx, seat: Seat | None, data: Worktree, index: Index | None, blobs: set[str]) -> None:
        """Stores the worktree with another index, or with None the one it has; `blobs` are those it did not have."""
        if index is not None:
            blob = self.keep(tx, indexes.pack(index))
            data = msgspec.structs.replace(data, blob=blob)
            self._index = blob, index
        if seat is None or seat.data != data:
            row = self._put(tx, WORKTREE, "", data, None if seat is None else seat.row)
            if seat is None or seat.data.blob != data.blob:
                tx.delete_uses(-row.ref, -row.ref)  # an index is large, and the one before is of no use
                self._use(tx, row, [data.blob])
        if blobs:
            self._use(tx, self._contents(tx), blobs)

    def _contents(self, tx: Tx) -> RefRow:
        """A ref that keeps every content which an index names, or once did: checkpoints name them later."""
        row = tx.ref(self._engine.workspace, WORKTREE, self._key(WORKTREE, "contents"))
        return row if row is not None else self._put(tx, WORKTREE, "contents", Worktree(self.root, "", ""), None)

    # -- a rewind under way

    def journal(self, tx: Tx) -> tuple[RefRow, Journal] | None:
        """The rewind that was begun and not finished."""
        row = tx.ref(self._engine.workspace, REWIND, self._key(REWIND, ""))
        if row is None or row.trashed_at is not None:
            return None
        return row, read(self._refs.data(self._refs.checked(row)), Journal, "a rewind")

    def begin(self, tx: Tx, journal: Journal) -> None:
        """Notes a rewind. Conflict if one is under way."""
        row = self._put(tx, REWIND, "", journal, None)
        wanted = {step.new.blob for step in journal.steps if step.new.blob}
        self._use(tx, row, wanted)

    def done(self, tx: Tx) -> None:
        """The rewind is finished, or given up."""
        row = tx.ref(self._engine.workspace, REWIND, self._key(REWIND, ""))
        if row is not None:
            tx.delete_ref(row.ref)

    # -- inside

    def _key(self, kind: str, name: str) -> bytes:
        text = f"{kind}\0{self.session.id}\0{self.root.encode('utf-8', 'surrogateescape').hex()}\0{name}"
        return uuid.uuid5(_NAMES, text).bytes[::-1]

    def _row(self, tx: Tx, session: Session) -> RefRow:
        return self._refs.get(tx, session._row.kind, session._row.key)

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
            blob = tx.blob(tree, self._engine.blob_look(tree, digest))
            if blob is None:
                raise NotFound("blob", digest, hint="It was deleted meanwhile: ask again.")
            used.append(blob.blob)
        if used:
            tx.add_uses(-row.ref, used)


def above(tx: Tx, message: str, below: str) -> bool:
    """Whether a message stands on the path down to another one, or is that one."""
    one, other = tx.ground(ids.parse(message)), tx.ground(ids.parse(below))
    if one is None or other is None or one.pos is None or other.pos is None or one.tree != other.tree:
        return False
    return paths.on_path(tx, other.pos, one.pos)


def _blobs(entries: Iterable[Entry]) -> set[str]:
    return {entry.state.blob for entry in entries if entry.state.blob}
