"""Brings the trees of a ``.cpeconvo`` file into a store: one on disk, or one in memory to look at them."""

from __future__ import annotations

import base64
import binascii
import os
import re
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from clew.cpeconvo.reading import NOTE, Bytes, Row, Strange, opened, rows, said
from clew.errors import ClewError, NotFound
from clew.model import Block, Media, Opaque
from clew.node import microseconds
from clew.session import Session
from clew.store import Store
from clew.store import open as open_store

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
    """Imports every tree of a file as a session of the folder that the file is in, each whole or not at all.

    Messages keep their times and places, and their ids are made of those in the file: what is stored already stays as
    it is, and what came since goes after it. A message that cannot be read is skipped, and what follows it is a tree of
    its own. With `dry_run` nothing is stored, and the answer is the same. NotFound, Invalid, Unavailable.
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
        self._store = store
        self._path = path
        self._now = now
        self.ids: dict[str, str] = {}
        self._skipped: list[Skipped] = []
        self._below: dict[str, list[Row]] = {}
        self._latest: dict[str, datetime] = {}

    def run(self) -> Imported:
        """Takes tree after tree, those last active last."""
        roots = self._read()
        done = []
        while roots:
            root = roots.pop(0)
            before = len(self._skipped)
            orphans: list[Row] = []
            try:
                with self._store.transaction():
                    taken = self._take(root, orphans)
            except ClewError as error:
                del self._skipped[before:]
                self._skipped.append(Skipped(root.id, error.message))
                continue
            done += [taken] if taken is not None else []
            roots[:0] = orphans
        return Imported(tuple(done), tuple(self._skipped))

    def _read(self) -> list[Row]:
        """The roots of all trees, in the order of their last activity; a message without its parent is one."""
        known: dict[str, Row] = {}
        with opened(self._path) as conn:
            for row in rows(conn):
                if isinstance(row, Strange):
                    self._skipped.append(Skipped(row.id, row.why))
                else:
                    known[row.id] = row
        roots = []
        for row in known.values():
            self.ids[row.id] = str(uuid.uuid5(_SPACE, f"{row.id} {row.created_at.astimezone(UTC).isoformat()}"))
            if row.parent is None or row.parent not in known:
                roots.append(row)
            else:
                self._below.setdefault(row.parent, []).append(row)
        reached = self._order(roots)
        for row in known.values():  # messages that follow each other in a circle have no root: the oldest is it
            if row.id not in reached:
                self._below[str(row.parent)].remove(row)
                roots.append(row)
                reached |= self._order([row])
        for siblings in (roots, *self._below.values()):
            siblings.sort(key=lambda row: self._latest[row.id])
        return roots

    def _order(self, roots: list[Row]) -> set[str]:
        """Notes for every message below these when it, or what follows it, was last active. Returns their ids."""
        order = list(roots)
        for row in order:
            order.extend(self._below.get(row.id, ()))
        for row in reversed(order):
            below = (self._latest[child.id] for child in self._below.get(row.id, ()))
            self._latest[row.id] = max((row.created_at, *below))
        return {row.id for row in order}

    def _take(self, root: Row, orphans: list[Row]) -> ImportedTree | None:
        """Stores a tree as a session; None if its root cannot be. `orphans` gets what follows what cannot be stored."""
        session, fresh = self._session(root)
        heads = {session.head_id: session}
        added = known = 0
        stack = [root]
        while stack:
            row = stack.pop()
            id, parent = self.ids[row.id], None if row is root else self.ids[str(row.parent)]
            below = self._below.get(row.id, [])
            if not fresh and self._there(id):
                known += 1
            else:
                if self._now is not None:
                    self._now[0] = max(0, microseconds(row.created_at))
                place = self._place(session, heads, parent, fresh)
                try:
                    blocks = [(call, self._block(place, part)) for call, part in row.parts]
                    place.append(said(row, blocks), id=id, created_at=row.created_at)
                except ClewError as error:
                    self._skipped.append(Skipped(row.id, error.message))
                    orphans += below
                    continue
                heads[id] = place
                added += 1
            stack.extend(reversed(below))
        if fresh and not added:
            session.delete()
            return None
        return ImportedTree(session.id, added, known)

    def _session(self, root: Row) -> tuple[Session, bool]:
        """The session of a tree, and whether it was made now."""
        sessions, id = self._store.sessions, str(uuid.uuid5(_SPACE, f"session {self.ids[root.id]}"))
        with suppress(NotFound):
            return sessions.get(id), False
        if self._now is not None:
            self._now[0] = max(0, microseconds(root.created_at))
        trace = _TRACE.fullmatch(root.title or "")
        agent = None if trace is None else trace[1]
        folder = os.path.dirname(self._path)
        return sessions.create(title=root.title, cwd=folder, id=id, agent=agent, extra={NOTE: root.id}), True

    def _place(self, session: Session, heads: dict[str | None, Session], parent: str | None, fresh: bool) -> Session:
        """The session to append to, its head at `parent`. One that was there before is forked, not moved."""
        there = heads.pop(parent, None)
        if there is not None and there.head_id == parent:
            return there
        if not fresh:
            return session.fork(at=parent)
        session.rewind(parent)
        return session

    def _there(self, id: str) -> bool:
        try:
            return bool(self._store.nodes.get(id))
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
