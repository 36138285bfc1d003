"""Brings the trees of a ``.cpeconvo`` file into a store: one on disk, or one in memory to look at them."""

from __future__ import annotations

import base64
import binascii
import os
import re
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from clew.cpeconvo.reading import NOTE, Bytes, Part, Parts, Row, Strange, opened, parts, rows, said
from clew.errors import ClewError, Invalid, NotFound
from clew.model import Block, Media, Opaque, Text, Thinking
from clew.node import microseconds
from clew.session import Session
from clew.store import Store
from clew.store import open as open_store

PART = "clew.cpeconvo.part"
"""Under this name a session says that not all of its tree is stored yet."""
BATCH = 4 * 1024 * 1024
"""Bytes that are read, and then stored in one transaction: other writers wait for a second or two."""
_BESIDE = 1024
"""Bytes that a message counts beside its own, for the time and the memory that each takes."""
_SPACE = uuid.UUID("5d1c0c5e-0f3b-5a43-9a2f-6d0d3e1f7c11")
_TRACE = re.compile(r"subagent:(.+):[^:]+")


class Skipped(NamedTuple):
    """A message that was not taken, by its id in the file, and why."""

    id: str
    why: str


class ImportedTree(NamedTuple):
    """A tree that is a session now: its id, how many of its messages are new, and how many were there."""

    id: str
    messages: int
    known: int


class Imported(NamedTuple):
    """What became of a file."""

    sessions: tuple[ImportedTree, ...]
    skipped: tuple[Skipped, ...]


class View(NamedTuple):
    """A file to look at: a store in memory that has what it has, and the ids under which its messages are there."""

    store: Store
    ids: dict[str, str]
    skipped: tuple[Skipped, ...]


class _Undo(Exception):
    """Takes back what a dry run did."""


def import_file(store: Store, path: str | os.PathLike[str], *, dry_run: bool = False) -> Imported:
    """Imports every tree of a file as a session of the folder that the file is in.

    A batch is read while no transaction is open, and then stored in one; a tree that fits in one batch is imported
    whole or not at all, and an import that was interrupted continues when it is repeated.

    Messages keep their times and places, and their ids are made of those in the file: what is stored already stays as
    it is, and what came since goes after it. A message that cannot be read is skipped, and what follows it is a tree of
    its own. With `dry_run` nothing is stored, and the answer is the same; other writers wait until it is done.
    NotFound, Invalid, Unavailable.
    """
    work = _Import(store, os.path.abspath(os.fspath(path)))
    if not dry_run:
        return work.run()
    done = None
    with suppress(_Undo), store.transaction():
        done = work.run()
        raise _Undo
    assert done is not None
    return done


def view(path: str | os.PathLike[str]) -> View:
    """What a file has, in a store in memory. Sessions were last active when their last message was written."""
    now = [0]
    store = open_store(":memory:", clock=lambda: now[0])
    try:
        work = _Import(store, os.path.abspath(os.fspath(path)), now)
        done = work.run()
        return View(store, work.ids, done.skipped)
    except BaseException:
        store.close()
        raise


class _Import:
    """One file on its way. `now`, if given, is set to the time of each message before it is stored."""

    def __init__(self, store: Store, path: str, now: list[int] | None = None) -> None:
        self.store = store
        self.path = path
        self.now = now
        self.ids: dict[str, str] = {}
        self.skipped: list[Skipped] = []
        self.below: dict[str, list[Row]] = {}
        self._latest: dict[str, datetime] = {}

    def run(self) -> Imported:
        """Takes tree after tree, those last active last."""
        done = []
        with opened(self.path) as conn:
            roots = self._read(conn)
            while roots:
                root = roots.pop(0)
                before = len(self.skipped)
                tree = Tree(self, root)
                try:
                    taken = tree.take(conn)
                except ClewError as error:
                    del self.skipped[before:]
                    part = f"; {tree.added:,} messages of it are imported" if tree.added else ""
                    self.skipped.append(Skipped(root.id, error.message + part))
                    continue
                done += [taken] if taken is not None else []
                roots[:0] = tree.orphans
        return Imported(tuple(done), tuple(self.skipped))

    def _read(self, conn: sqlite3.Connection) -> list[Row]:
        """The roots of all trees, in the order of their last activity; a message without its parent is one."""
        known: dict[str, Row] = {}
        for row in rows(conn):
            if isinstance(row, Strange):
                self.skipped.append(Skipped(row.id, row.why))
            else:
                known[row.id] = row
        roots = []
        for row in known.values():
            self.ids[row.id] = str(uuid.uuid5(_SPACE, f"{row.id} {row.created_at.astimezone(UTC).isoformat()}"))
            if row.parent is None or row.parent not in known:
                roots.append(row)
            else:
                self.below.setdefault(row.parent, []).append(row)
        reached = self._order(roots)
        for row in known.values():  # messages that follow each other in a circle have no root: the oldest is it
            if row.id not in reached:
                self.below[str(row.parent)].remove(row)
                roots.append(row)
                reached |= self._order([row])
        for siblings in (roots, *self.below.values()):
            siblings.sort(key=lambda row: self._latest[row.id])
        return roots

    def _order(self, roots: list[Row]) -> set[str]:
        """Notes for every message below these when it, or what follows it, was last active. Returns their ids."""
        order = list(roots)
        for row in order:
            order.extend(self.below.get(row.id, ()))
        for row in reversed(order):
            below = (self._latest[child.id] for child in self.below.get(row.id, ()))
            self._latest[row.id] = max((row.created_at, *below))
        return {row.id for row in order}

    def at(self, row: Row) -> None:
        """Sets the clock of a view to the time of a message."""
        if self.now is not None:
            self.now[0] = max(0, microseconds(row.created_at))


class Tree:
    """One tree on its way: a batch is read while no transaction is open, and then stored in one."""

    def __init__(self, work: _Import, root: Row) -> None:
        self._work = work
        self._root = root
        self._id = str(uuid.uuid5(_SPACE, f"session {work.ids[root.id]}"))
        self._heads: dict[str | None, Session] = {}
        self._lost: set[str] = set()
        """Messages that are not stored with this tree: what follows them is not, either."""
        self._broken: set[str] = set()
        """Those of them that cannot be stored."""
        self.orphans: list[Row] = []
        """What follows those: each the root of a tree of its own."""
        self.added = 0
        self._known = 0

    def take(self, conn: sqlite3.Connection) -> ImportedTree | None:
        """Stores the tree as a session; None if its root cannot be. ClewError; what was committed stays.

        Until the last batch is stored, the session says that it is not whole: a repeated import then continues.
        """
        session = self._find()
        grows = session is not None and PART not in session.extra
        if session is not None:
            self._heads[session.head_id] = session
        for batch, last in self._batches(conn, there=session is not None):
            if session is not None and all(parts is None for _, parts in batch):
                self._known += len(batch)
                continue
            before = self.added, self._known
            try:
                with self._work.store.transaction():
                    session = self._make(last) if session is None else session.refresh()
                    for row, parts in batch:
                        self._keep(session, row, parts, grows)
            except BaseException:
                self.added, self._known = before
                raise
        assert session is not None
        session.refresh()
        if not self.added and not self._known:
            session.delete()
            return None
        if PART in session.extra:
            session.update(extra={name: value for name, value in session.extra.items() if name != PART})
        return ImportedTree(session.id, self.added, self._known)

    def _batches(
        self, conn: sqlite3.Connection, *, there: bool
    ) -> Iterator[tuple[list[tuple[Row, Parts | None]], bool]]:
        """The messages of the tree, each after what it follows, with their blocks; None for those that are `there`."""
        batch, size, stack = list[tuple[Row, Parts | None]](), 0, [self._root]
        while stack:
            row = stack.pop()
            stack.extend(reversed(self._work.below.get(row.id, [])))
            found = None if there and self._is_stored(row) else _parts(conn, row)
            batch.append((row, found))
            size += _BESIDE + sum(_size(part) for _, part in found or ())
            if size >= BATCH and stack:
                yield batch, False
                batch, size = [], 0
        yield batch, True

    def _keep(self, session: Session, row: Row, parts: Parts | None, grows: bool) -> None:
        """Stores a message, unless it or what it follows cannot be. One that is there already is not read."""
        if row is not self._root and row.parent in self._lost:
            self._lost.add(row.id)
            if row.parent in self._broken:
                self.orphans.append(row)
            return
        if parts is None:
            self._known += 1
            return
        self._work.at(row)
        id, parent = self._work.ids[row.id], None if row is self._root else self._work.ids[str(row.parent)]
        place = self._place(session, parent, grows)
        try:
            blocks = [(call, self._block(place, part)) for call, part in parts]
            place.append(said(row, blocks), id=id, created_at=row.created_at)
        except ClewError as error:
            self._work.skipped.append(Skipped(row.id, error.message))
            self._lost.add(row.id)
            self._broken.add(row.id)
            return
        self._heads[id] = place
        self.added += 1

    def _find(self) -> Session | None:
        with suppress(NotFound):
            return self._work.store.sessions.get(self._id)
        return None

    def _make(self, whole: bool) -> Session:
        """The session of the tree."""
        root = self._root
        self._work.at(root)
        trace = _TRACE.fullmatch(root.title or "")
        made = self._work.store.sessions.create(
            title=root.title, cwd=os.path.dirname(self._work.path), id=self._id,
            agent=None if trace is None else trace[1], extra={NOTE: root.id} if whole else {NOTE: root.id, PART: True},
        )  # fmt: skip
        self._heads[None] = made
        return made

    def _place(self, session: Session, parent: str | None, grows: bool) -> Session:
        """The session to append to, its head at `parent`. One that was whole before is forked, not moved."""
        there = self._heads.pop(parent, None)
        if there is not None and there.head_id == parent:
            return there
        if grows:
            return session.fork(at=parent)
        session.rewind(parent)
        return session

    def _is_stored(self, row: Row) -> bool:
        try:
            return bool(self._work.store.nodes.get(self._work.ids[row.id]))
        except NotFound:
            return False

    def _block(self, session: Session, part: Block | Bytes) -> Block:
        """A block; bytes are stored as a blob, and what is no base 64 stays as it is."""
        if not isinstance(part, Bytes):
            return part
        try:
            content = base64.b64decode(part.content, validate=True)
        except (binascii.Error, ValueError):
            data = {"mime_type": part.mime_type, "modality": part.modality, "content": part.content}
            return Opaque(kind="content", data=data, extra=part.extra)
        digest = session.blobs.put(content).digest
        name = (part.extra or {}).get("filename")
        return Media(
            mime_type=part.mime_type,
            modality="document" if part.mime_type == "application/pdf" else part.modality,  # CPE calls it an image
            blob=digest,
            name=name if isinstance(name, str) else None,
            extra=part.extra,
        )


def _parts(conn: sqlite3.Connection, row: Row) -> Parts:
    try:
        return parts(conn, row.id)
    except ValueError as error:  # they could be read before
        raise Invalid(f"message {row.id} was changed meanwhile: {error}", hint="Import it again.") from None


def _size(part: Part) -> int:
    """About how many bytes a block has."""
    if isinstance(part, Text | Thinking):
        return len(part.text)
    return len(part.content) if isinstance(part, Bytes) else len(str(part))
