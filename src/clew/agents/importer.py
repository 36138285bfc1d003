"""Imports a tree of session files into a store: a mirror, or files that another program wrote.

The import takes every line that it can read and reports every other line. It reads files outside transactions, one
batch at a time; a session that fits into one batch is imported completely or not at all. Importing the same tree again
adds only new data, also after an interrupted import.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from clew.agents import checkpoint_files, jsonl, metadata, serial
from clew.agents.discovery import Finder, SessionFolder, SkippedFile, SkippedFiles
from clew.agents.metadata import EXIT, HASH, IMPORTED
from clew.agents.mirror import MEMORY, SUMMARY
from clew.agents.serial import IncomingMessage
from clew.agents.store import SessionStore
from clew.agents.transcript import prepare
from clew.base import ids
from clew.engine.mirrors import CHECKPOINTS, MESSAGES, TRANSCRIPT
from clew.engine.node import Node, microseconds
from clew.errors import ClewError, Conflict, Invalid, NotFound, ReadOnly, StorageFull
from clew.store.session import Session
from clew.store.store import trial

BATCH = 4 * 1024 * 1024
"""Bytes that are read and then stored in one transaction; other writers wait for a second or two."""
BESIDE = 1024
"""Bytes added to the size of each line or message, for its overhead in time and memory."""
_KNOWN = frozenset({*metadata.SessionMetadata.__struct_fields__, "mirror"})


class ImportedSession(NamedTuple):
    """An imported session: counts of new messages and events, of those already stored, and of new checkpoints."""

    id: str
    messages: int
    events: int
    known: int
    checkpoints: int = 0


class ImportReport(NamedTuple):
    """The result of an import."""

    sessions: tuple[ImportedSession, ...]
    memories: tuple[str, ...]
    """Projects whose memory was imported."""
    skipped: tuple[SkippedFile, ...]
    purged: int = 0
    """Sessions and messages that were purged earlier, and were left out."""


class _Item(NamedTuple):
    """A line of the messages file, or of the transcript if it has no message."""

    number: int
    data: bytes
    given: IncomingMessage | None


def import_tree(
    store: SessionStore, root: str | os.PathLike[str], *, dry_run: bool = False, again: bool = False
) -> ImportReport:
    """Imports every session below `root`: a folder of projects, a project, its sessions folder or one session.

    Ids are kept, forks share messages with their parents, subagents stay with their parents, and events go into
    transcripts. Sessions and messages that were purged are left out, unless `again`. With `dry_run` nothing is stored
    and the result is the same: see `clew.store.store.trial`. Raises NotFound if there is nothing to import.
    """
    work = _Import(store, again)
    found, memories = Finder(work.skipped).find(os.path.abspath(os.fspath(root)))
    if not found and not memories and not work.skipped:
        hint = "Pass a folder that contains sessions/, or a session folder with messages.jsonl."
        raise NotFound("session in", os.fspath(root), hint=hint)
    if not dry_run:
        return work.run(found, memories)
    with trial(store._store) as core:
        trying = _Import(store if core is store._store else SessionStore(core), again)
        trying.skipped = work.skipped
        return trying.run(found, memories)


class _Import:
    """The import of one tree."""

    def __init__(self, store: SessionStore, again: bool) -> None:
        self.store = store
        self.core = store._store
        self.again = again
        self.purged = 0
        self.skipped = SkippedFiles()

    def run(self, found: list[SessionFolder], memories: dict[str, str]) -> ImportReport:
        """Imports sessions, and memories of projects that have none."""
        done: list[ImportedSession] = []
        for one in found:
            if self.recall([ids.parse(one.id)]):
                self.purged += 1
                continue
            taking = _Taking(self, one)
            try:
                done.append(taking.run())
            except ClewError as error:
                del self.skipped[taking.skipped :]
                part = f"; {taking.added:,} of its messages were imported" if taking.committed else ""
                if isinstance(error, (StorageFull, ReadOnly)):  # every other session would fail, too
                    count = f"{len(done):,} of {len(found):,} sessions imported, then {one.id} failed{part}."
                    error.hint = f"{count} {error.hint} The same import then continues."
                    raise
                self.skipped.add(one.place, None, error.message + part)
            if taking.committed:
                self.store._update_mirror(one.id)
        taken = [project for project, text in memories.items() if self._remember(project, text)]
        return ImportReport(tuple(done), tuple(taken), tuple(self.skipped), self.purged)

    def recall(self, names: list[bytes]) -> set[bytes]:
        """Those of these ids that were purged and are to stay so."""
        return set() if self.again else self.core.read(lambda unit: unit.purged(names))

    def _remember(self, project: str, text: str) -> bool:
        memory = self.store._memory(project)
        if memory.read() == text:
            return False
        try:
            memory.write(text, expect=0)
        except Conflict:
            self.skipped.add(os.path.join(project, MEMORY, SUMMARY), None, "the store has a different memory")
            return False
        except ClewError as error:
            self.skipped.add(os.path.join(project, MEMORY, SUMMARY), None, error.message)
            return False
        return True


class _Taking:
    """The import of one session."""

    def __init__(self, work: _Import, one: SessionFolder) -> None:
        self._work = work
        self._one = one
        self._core = work.core
        self._there: set[str] = set()
        """Ids of the session's messages."""
        self._shared: list[str] = []
        """Ids of the messages that it shares with its parent, from the first one on."""
        self.added = self._events = self._old = 0
        self.committed = False
        self.skipped = len(work.skipped)
        """Number of skipped items before the uncommitted batch."""

    def run(self) -> ImportedSession:
        """Reads and stores one batch after another. Raises ClewError; committed batches stay."""
        session = self._find()
        before = None if session is None else session.updated_at
        for batch in _batches(self._items()):
            fresh = [item for item in batch if session is None or not self._is_known(item.given)]
            self._old += len(batch) - len(fresh)
            gone = self._work.recall([ids.parse(item.given.id) for item in fresh if item.given and item.given.id])
            self._work.purged += len(gone)
            fresh = [item for item in fresh if not (item.given and item.given.id and ids.parse(item.given.id) in gone)]
            if session is not None and not fresh:
                continue
            counts = self.added, self._events, self._old
            try:
                with self._core.transaction():
                    session = self._make() if session is None else session.refresh()
                    for item in fresh:
                        self._keep(session, item)
                    if (self.added, self._events) != counts[:2]:
                        self._keep_time(session, before)
            except BaseException:
                self.added, self._events, self._old = counts
                raise
            self.committed, self.skipped = True, len(self._work.skipped)
        assert session is not None
        checkpoints = checkpoint_files.take(
            os.path.join(self._one.place, CHECKPOINTS),
            session,
            lambda path, why: self._work.skipped.add(path, None, why),
        )
        self.committed = self.committed or checkpoints > 0
        return ImportedSession(self._one.id, self.added, self._events, self._old, checkpoints)

    # -- reading

    def _find(self) -> Session | None:
        """The session if it exists; otherwise finds the messages that it shares with its parent."""
        with suppress(NotFound):
            session = self._core.sessions.get(self._one.id)
            self._there = {node.id for node in session.iter()}
            return session
        parent = self._parent()
        if parent is not None and _text(self._one.about.get("agent_name")) is None:
            quiet = _Import(self._work.store, self._work.again)  # the second read reports skipped lines
            for node, item in zip(parent.iter(), _Taking(quiet, self._one)._messages(), strict=False):
                if item.given is None or node.id != item.given.id or not _is_same(node, item.given):
                    break
                self._shared.append(node.id)
        self._there = set(self._shared)
        return None

    def _parent(self) -> Session | None:
        with suppress(ClewError):
            return self._core.sessions.get(_text(self._one.about.get("parent_id")) or "")
        return None

    def _items(self) -> Iterator[_Item]:
        yield from self._messages()
        for line in self._work.skipped.lines(os.path.join(self._one.place, TRANSCRIPT)):
            yield _Item(line.number, line.data, None)

    def _messages(self) -> Iterator[_Item]:
        path = os.path.join(self._one.place, MESSAGES)
        for line in self._work.skipped.lines(path):
            try:
                given = serial.parse(line.data)
            except Invalid as error:
                self._work.skipped.add(path, line.number, error.message)
                continue
            name = given.id or f"{line.number} {sha256(line.data).hexdigest()}"
            yield _Item(line.number, line.data, given._replace(id=serial.message_id(self._one.id, name)))

    def _is_known(self, given: IncomingMessage | None) -> bool:
        """True if the session has this message. False for events: their ids are checked when they are stored."""
        if given is None or given.id is None or given.id not in self._there:
            return False
        return _is_same(self._core.nodes.get(given.id)[0], given)

    # -- storing

    def _make(self) -> Session:
        """Creates the session of a folder."""
        sessions, one = self._core.sessions, self._one
        cwd, model, agent = (_text(one.about.get(name)) for name in ("cwd", "model", "agent_name"))
        parent = self._parent()
        if self._shared and parent is not None:
            return sessions.fork(parent, at=self._shared[-1], id=one.id).update(cwd=cwd, model=model, extra=_extra(one))
        owner = None if agent is None else parent
        return sessions.create(cwd=cwd, model=model, id=one.id, agent=agent, owner=owner, extra=_extra(one))

    def _keep_time(self, session: Session, before: datetime | None) -> None:
        """Sets the last activity to that of the files, unless the store has a later one."""
        active = round(self._one.active * 1_000_000)
        last = active if before is None else max(active, microseconds(before))
        self._core.write(lambda unit: unit.save(session, session.data, active_at=last))

    def _keep(self, session: Session, item: _Item) -> None:
        """Stores a message or an event."""
        name = TRANSCRIPT if item.given is None else MESSAGES
        try:
            new = self._event(session, item) if item.given is None else self._message(session, item.given)
        except ClewError as error:
            self._work.skipped.add(os.path.join(self._one.place, name), item.number, error.message)
            return
        self._old += not new
        if item.given is None:
            self._events += new
        else:
            self.added += new

    def _message(self, session: Session, given: IncomingMessage) -> bool:
        """Stores a message, under a new id if another message has its id. False if it was already stored."""
        if self._is_known(given):
            return False
        serial.check_size(given.message)
        try:
            made = session.append(given.message, id=given.id, created_at=given.created_at)
        except Conflict:
            digest = sha256(jsonl.encode(msgspec.to_builtins(given.message))).hexdigest()
            other = serial.derive_id(session.id, f"copy of {given.id} {digest}")
            made = session.append(given.message, id=other, created_at=given.created_at)
        new = made.id not in self._there
        self._there.add(made.id)
        return new

    def _event(self, session: Session, item: _Item) -> bool:
        """Stores an event. False if it was already stored."""
        transcript = self._work.store.transcript(session.id)
        name = serial.derive_id(
            self._one.id, f"{item.number} {sha256(item.data).hexdigest()}"
        )  # the same id at every import
        before = transcript.count()
        transcript.append(prepare(item.data, name)[0])
        return transcript.count() > before


def _is_same(node: Node, given: IncomingMessage) -> bool:
    """True if `node`, which has the id of `given`, is the same message. Redaction may have changed it."""
    return bool(node.redactions) or serial.alike(node.said, given.message)


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Batches of about `BATCH` bytes; one empty batch if there are no items."""
    batch, size = list[_Item](), 0
    for item in items:
        batch.append(item)
        size += len(item.data) + BESIDE
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _extra(one: SessionFolder) -> dict[str, Any]:
    """The `extra` data of an imported session: its project, why it ended, and unknown fields of its metadata."""
    about = one.about
    before = {name: about[name] for name in ("created_at", "updated_at", "parent_id") if name in about}
    extra = {name: value for name, value in about.items() if name not in _KNOWN}
    extra[HASH] = metadata.safe_hash(about.get(HASH) or one.project, _text(about.get("cwd")))
    if _text(about.get(EXIT)):
        extra[EXIT] = about[EXIT]
    if before:
        extra[IMPORTED] = before
    return extra


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
