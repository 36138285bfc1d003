"""Imports the message trees of a ``.cpeconvo`` file into a store, on disk or in memory."""

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
from typing import TYPE_CHECKING, NamedTuple

from clew.agents.cpe.reader import (
    WAIT,
    CpeRow,
    InlineMedia,
    Part,
    Parts,
    UnreadableRow,
    open_database,
    parts,
    rows,
    to_message,
)
from clew.agents.importer import BATCH, BESIDE
from clew.base.messages import Block, Media, Opaque, Text, Thinking
from clew.engine.engine import wall_clock
from clew.engine.node import microseconds
from clew.errors import ClewError, Invalid, NotFound
from clew.store.origin import CPE_NOTE
from clew.store.session import Session, delete_session
from clew.store.store import Store, trial
from clew.store.store import open as open_store

if TYPE_CHECKING:
    from clew.redaction import Rules

PART = "clew.cpeconvo.part"
"""Key in a session's `extra` data: its tree is not completely stored yet."""
_SPACE = uuid.UUID("5d1c0c5e-0f3b-5a43-9a2f-6d0d3e1f7c11")
_TRACE = re.compile(r"subagent:(.+):[^:]+")


class SkippedMessage(NamedTuple):
    """A skipped message, by its id in the file, and the reason."""

    id: str
    why: str


class ImportedTree(NamedTuple):
    """An imported tree: its session id, how many messages are new, and how many were already stored."""

    id: str
    messages: int
    known: int


class CpeImportReport(NamedTuple):
    """The result of an import."""

    sessions: tuple[ImportedTree, ...]
    skipped: tuple[SkippedMessage, ...]
    purged: int = 0
    """Trees and messages that were purged earlier, and were left out."""


class CpeView(NamedTuple):
    """A file opened for viewing: a store in memory, and the stored ids of its messages."""

    store: Store
    ids: dict[str, str]
    skipped: tuple[SkippedMessage, ...]


def import_file(
    store: Store, path: str | os.PathLike[str], *, dry_run: bool = False, again: bool = False, timeout: float = WAIT
) -> CpeImportReport:
    """Imports every tree of a file as a session of the folder that contains the file.

    Each batch is read outside a transaction and then stored in one. A tree that fits into one batch is imported
    completely or not at all; repeating an interrupted import continues it.

    Messages keep their times and their places in the tree; their ids are derived from those in the file. Messages that
    are already stored do not change, and new ones are appended. What was purged is left out, unless `again`. A message
    that cannot be read is skipped, and its children become separate trees. With `dry_run` nothing is stored and the
    result is the same: see `clew.store.store.trial`. `timeout` is how many seconds to wait for a program that writes to
    the file. Raises NotFound, Invalid, Unavailable.
    """
    place = os.path.abspath(os.fspath(path))
    if not dry_run:
        return _Import(store, place, again=again).run(timeout)
    with trial(store) as copy:
        return _Import(copy, place, again=again).run(timeout)


def view(path: str | os.PathLike[str], *, timeout: float = WAIT, redact: Rules | None = None) -> CpeView:
    """Loads a file into a store in memory. The last activity of a session is the time of its last message."""
    now = [0]
    store = open_store(":memory:", clock=lambda: now[0] or wall_clock(), redact=redact)
    try:
        work = _Import(store, os.path.abspath(os.fspath(path)), now)
        done = work.run(timeout)
        now[0] = 0  # from here on, as a clock does
        return CpeView(store, work.ids, done.skipped)
    except BaseException:
        store.close()
        raise


class _Import:
    """The import of one file. `now`, if given, is set to the time of each message before it is stored."""

    def __init__(self, store: Store, path: str, now: list[int] | None = None, *, again: bool = False) -> None:
        self.store = store
        self.again = again
        self.purged = 0
        self.path = path
        self.now = now
        self.ids: dict[str, str] = {}
        self.skipped: list[SkippedMessage] = []
        self.below: dict[str, list[CpeRow]] = {}
        self._latest: dict[str, datetime] = {}

    def run(self, timeout: float) -> CpeImportReport:
        """Imports the trees, the last active one last."""
        done = []
        with open_database(self.path, timeout=timeout) as conn:
            roots = self._read(conn)
            while roots:
                root = roots.pop(0)
                before = len(self.skipped)
                tree = CpeTree(self, root)
                if self.is_purged(tree.id):
                    self.purged += 1
                    continue
                try:
                    taken = tree.take(conn)
                except ClewError as error:
                    del self.skipped[before:]
                    part = f"; {tree.added:,} of its messages were imported" if tree.added else ""
                    self.skipped.append(SkippedMessage(root.id, error.message + part))
                    continue
                done += [taken] if taken is not None else []
                roots[:0] = tree.orphans
        return CpeImportReport(tuple(done), tuple(self.skipped), self.purged)

    def _read(self, conn: sqlite3.Connection) -> list[CpeRow]:
        """The roots of all trees, by last activity. A message whose parent is missing is a root."""
        known: dict[str, CpeRow] = {}
        for row in rows(conn):
            if isinstance(row, UnreadableRow):
                self.skipped.append(SkippedMessage(row.id, row.why))
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
        for row in known.values():  # a cycle has no root: use the oldest message
            if row.id not in reached:
                self.below[str(row.parent)].remove(row)
                roots.append(row)
                reached |= self._order([row])
        for siblings in (roots, *self.below.values()):
            siblings.sort(key=lambda row: self._latest[row.id])
        return roots

    def _order(self, roots: list[CpeRow]) -> set[str]:
        """Computes the last activity of every message below these, including its descendants. Returns their ids."""
        order = list(roots)
        for row in order:
            order.extend(self.below.get(row.id, ()))
        for row in reversed(order):
            below = (self._latest[child.id] for child in self.below.get(row.id, ()))
            self._latest[row.id] = max((row.created_at, *below))
        return {row.id for row in order}

    def is_purged(self, id: str) -> bool:
        """True if a tree or a message was purged and is to stay so."""
        return not self.again and bool(self.store.read(lambda unit: unit.purged([id])))

    def at(self, row: CpeRow) -> None:
        """Sets the clock of a view to the time of a message."""
        if self.now is not None:
            self.now[0] = max(0, microseconds(row.created_at))


class CpeTree:
    """The import of one tree: reads each batch outside a transaction, then stores it in one."""

    def __init__(self, work: _Import, root: CpeRow) -> None:
        self._work = work
        self._root = root
        self.id = str(uuid.uuid5(_SPACE, f"session {work.ids[root.id]}"))
        self._heads: dict[str | None, Session] = {}
        self._lost: set[str] = set()
        """Messages that are not stored with this tree, including descendants."""
        self._broken: set[str] = set()
        """Messages that cannot be stored."""
        self.orphans: list[CpeRow] = []
        """Children of those; each becomes the root of a separate tree."""
        self.added = 0
        self._known = 0

    def take(self, conn: sqlite3.Connection) -> ImportedTree | None:
        """Stores the tree as a session; None if its root cannot be stored. Raises ClewError; committed batches stay.

        The session is marked incomplete until the last batch is stored, so that a repeated import continues.
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
            delete_session(session)
            return None
        if PART in session.extra:
            session.update(extra={name: value for name, value in session.extra.items() if name != PART})
        return ImportedTree(session.id, self.added, self._known)

    def _batches(
        self, conn: sqlite3.Connection, *, there: bool
    ) -> Iterator[tuple[list[tuple[CpeRow, Parts | None]], bool]]:
        """The messages of the tree with their blocks, parents first; None as blocks of those that are `there`."""
        batch, size, stack = list[tuple[CpeRow, Parts | None]](), 0, [self._root]
        while stack:
            row = stack.pop()
            stack.extend(reversed(self._work.below.get(row.id, [])))
            found = None if there and self._is_stored(row) else _parts(conn, row)
            batch.append((row, found))
            size += BESIDE + sum(_size(part) for _, part in found or ())
            if size >= BATCH and stack:
                yield batch, False
                batch, size = [], 0
        yield batch, True

    def _keep(self, session: Session, row: CpeRow, parts: Parts | None, grows: bool) -> None:
        """Stores a message, unless it or its parent cannot be stored. Does not read one that is already stored."""
        if row is not self._root and row.parent in self._lost:
            self._lost.add(row.id)
            if row.parent in self._broken:
                self.orphans.append(row)
            return
        if parts is None:
            self._known += 1
            return
        if self._work.is_purged(self._work.ids[row.id]):
            self._work.purged += 1
            self._lost.add(row.id)
            return
        self._work.at(row)
        id, parent = self._work.ids[row.id], None if row is self._root else self._work.ids[str(row.parent)]
        place = self._place(session, parent, grows)
        try:
            blocks = [(call, self._block(place, part)) for call, part in parts]
            place.append(to_message(row, blocks), id=id, created_at=row.created_at)
        except ClewError as error:
            self._work.skipped.append(SkippedMessage(row.id, error.message))
            self._lost.add(row.id)
            self._broken.add(row.id)
            return
        self._heads[id] = place
        self.added += 1

    def _find(self) -> Session | None:
        with suppress(NotFound):
            return self._work.store.sessions.get(self.id)
        return None

    def _make(self, whole: bool) -> Session:
        """The session of the tree."""
        root = self._root
        self._work.at(root)
        trace = _TRACE.fullmatch(root.title or "")
        made = self._work.store.sessions.create(
            title=root.title, cwd=os.path.dirname(self._work.path), id=self.id,
            agent=None if trace is None else trace[1], labels=() if trace is None else (trace[0],),
            extra={CPE_NOTE: root.id} | ({} if whole else {PART: True}),
        )  # fmt: skip
        self._heads[None] = made
        return made

    def _place(self, session: Session, parent: str | None, grows: bool) -> Session:
        """The session to append to, with its head at `parent`. A session that was complete is forked, not moved."""
        there = self._heads.pop(parent, None)
        if there is not None and there.head_id == parent:
            return there
        if grows:
            return session.fork(at=parent)
        session.rewind(parent)
        return session

    def _is_stored(self, row: CpeRow) -> bool:
        try:
            return bool(self._work.store.nodes.get(self._work.ids[row.id]))
        except NotFound:
            return False

    def _block(self, session: Session, part: Block | InlineMedia) -> Block:
        """A block. Media bytes are stored as a blob; content that is not valid base 64 is left as it is."""
        if not isinstance(part, InlineMedia):
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
            modality="document" if part.mime_type == "application/pdf" else part.modality,  # CPE marks it as an image
            blob=digest,
            name=name if isinstance(name, str) else None,
            extra=part.extra,
        )


def _parts(conn: sqlite3.Connection, row: CpeRow) -> Parts:
    try:
        return parts(conn, row.id)
    except ValueError as error:  # they were readable before
        raise Invalid(f"message {row.id} changed during the import: {error}", hint="Import it again.") from None


def _size(part: Part) -> int:
    """Approximate size of a block in bytes."""
    if isinstance(part, Text | Thinking):
        return len(part.text)
    return len(part.content) if isinstance(part, InlineMedia) else len(str(part))
