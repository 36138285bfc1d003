"""Reading a tree of session files into a store: a mirror's, or one that another program has written.

Whatever can be read is taken, and every line that cannot is named. Files are read while no transaction is open, a batch
at a time; a session that fits in one batch is imported as a whole or not at all. Importing the same tree again adds
what is new, also after an import that was interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from clew.agents import checkpoint_files, lines, metadata, wire
from clew.agents.finding import Finder, Found, Skipped, Skips
from clew.agents.metadata import EXIT, HASH, IMPORTED
from clew.agents.mirror import MEMORY, SUMMARY
from clew.agents.store import SessionStore
from clew.agents.transcript import prepare
from clew.agents.wire import Given
from clew.backends import RefRow, Tx
from clew.errors import ClewError, Conflict, Invalid, NotFound
from clew.mirrors import CHECKPOINTS, MESSAGES, TRANSCRIPT
from clew.node import Node, microseconds
from clew.session import Session

BATCH = 4 * 1024 * 1024
"""Bytes of files that are read, and then stored in one transaction: other writers wait for a second or two."""
_BESIDE = 1024
"""Bytes that a line counts beside its own, for the time and the memory that each takes."""
_KNOWN = frozenset({*metadata.SessionMetadata.__struct_fields__, "mirror"})


class ImportedSession(NamedTuple):
    """A session that was imported: how many messages and events are new in the store, and how many were there; and
    how many checkpoints are new.
    """

    id: str
    messages: int
    events: int
    known: int
    checkpoints: int = 0


class Imported(NamedTuple):
    """What became of a tree."""

    sessions: tuple[ImportedSession, ...]
    memories: tuple[str, ...]
    """Projects whose memory was taken."""
    skipped: tuple[Skipped, ...]


class _Item(NamedTuple):
    """A line that was read: of messages, or of the transcript if it has no message."""

    number: int
    data: bytes
    given: Given | None


class _Undo(Exception):
    """Takes back what a dry run did."""


def import_tree(store: SessionStore, root: str | os.PathLike[str], *, dry_run: bool = False) -> Imported:
    """Imports every session below `root`: a folder of projects, a project's, its sessions', or one session's.

    Ids are kept, forks share what they have in common, subagents stay with their parents, and events go into the
    transcripts. With `dry_run` nothing is stored, and the answer is the same; other writers wait until it is done.
    NotFound if there is nothing to import.
    """
    work = _Import(store)
    found, memories = Finder(work.skipped).look(os.path.abspath(os.fspath(root)))
    if not found and not memories and not work.skipped:
        hint = "Name a folder that holds sessions/, or one session with messages.jsonl."
        raise NotFound("session in", os.fspath(root), hint=hint)
    if not dry_run:
        return work.run(found, memories)
    done = None
    with suppress(_Undo), store._store.transaction():
        done = work.run(found, memories)
        raise _Undo
    assert done is not None
    return done


class _Import:
    """A tree on its way into a store."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.core = store._store
        self.skipped = Skips()

    def run(self, found: list[Found], memories: dict[str, str]) -> Imported:
        """Imports sessions, and memories where there is none yet."""
        done: list[ImportedSession] = []
        for one in found:
            taking = _Taking(self, one)
            try:
                done.append(taking.run())
            except ClewError as error:
                del self.skipped[taking.skipped :]
                part = f"; {taking.added:,} messages of it are imported" if taking.committed else ""
                self.skipped.add(one.place, None, error.message + part)
            if taking.committed:
                self.store._wrote(one.id)
        taken = [project for project, text in memories.items() if self._remember(project, text)]
        return Imported(tuple(done), tuple(taken), tuple(self.skipped))

    def _remember(self, project: str, text: str) -> bool:
        memory = self.store._memory(project)
        if memory.read() == text:
            return False
        try:
            memory.write(text, expect=0)
        except Conflict:
            self.skipped.add(os.path.join(project, MEMORY, SUMMARY), None, "the store remembers something else")
            return False
        except ClewError as error:
            self.skipped.add(os.path.join(project, MEMORY, SUMMARY), None, error.message)
            return False
        return True


class _Taking:
    """One session on its way into the store."""

    def __init__(self, work: _Import, one: Found) -> None:
        self._work = work
        self._one = one
        self._core = work.core
        self._there: set[str] = set()
        """Ids of the messages that the session has."""
        self._shared: list[str] = []
        """Ids of those that it has in common with its parent, from the first one on."""
        self.added = self._events = self._old = 0
        self.committed = False
        self.skipped = len(work.skipped)
        """How much was skipped before what is not committed."""

    def run(self) -> ImportedSession:
        """Reads a batch, then stores it, until all is stored. ClewError; what was committed stays."""
        session = self._find()
        before = None if session is None else session.updated_at
        for batch in _batches(self._items()):
            fresh = [item for item in batch if session is None or not self._is_known(item.given)]
            self._old += len(batch) - len(fresh)
            if session is not None and not fresh:
                continue
            counts = self.added, self._events, self._old
            try:
                with self._core.transaction():
                    session = self._make() if session is None else session.refresh()
                    for item in fresh:
                        self._keep(session, item)
                    if self.added > counts[0]:
                        self._keep_time(session, before)
            except BaseException:
                self.added, self._events, self._old = counts
                raise
            self.committed, self.skipped = True, len(self._work.skipped)
        assert session is not None
        kept = checkpoint_files.take(
            os.path.join(self._one.place, CHECKPOINTS),
            session,
            lambda path, why: self._work.skipped.add(path, None, why),
        )
        self.committed = self.committed or kept > 0
        return ImportedSession(self._one.id, self.added, self._events, self._old, kept)

    # -- reading

    def _find(self) -> Session | None:
        """The session, if it is there; else it is noted what it shares with its parent."""
        with suppress(NotFound):
            session = self._core.sessions.get(self._one.id)
            self._there = {node.id for node in session.iter()}
            return session
        parent = self._parent()
        if parent is not None and _text(self._one.about.get("agent_name")) is None:
            quiet = _Import(self._work.store)  # its lines are read again, and named then
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
                given = wire.parse(line.data)
            except Invalid as error:
                self._work.skipped.add(path, line.number, error.message)
                continue
            name = given.id or f"{line.number} {sha256(line.data).hexdigest()}"
            yield _Item(line.number, line.data, given._replace(id=wire.message_id(self._one.id, name)))

    def _is_known(self, given: Given | None) -> bool:
        """Whether the session has this very message. Not of an event: its id tells when it is stored."""
        if given is None or given.id is None or given.id not in self._there:
            return False
        return _is_same(self._core.nodes.get(given.id)[0], given)

    # -- storing

    def _make(self) -> Session:
        """The session that a folder is about, made now."""
        sessions, one = self._core.sessions, self._one
        cwd, model, agent = (_text(one.about.get(name)) for name in ("cwd", "model", "agent_name"))
        parent = self._parent()
        if self._shared and parent is not None:
            return sessions.fork(parent, at=self._shared[-1], id=one.id).update(cwd=cwd, model=model, extra=_extra(one))
        owner = None if agent is None else parent
        return sessions.create(cwd=cwd, model=model, id=one.id, agent=agent, owner=owner, extra=_extra(one))

    def _keep_time(self, session: Session, before: datetime | None) -> None:
        """A session was last active when its files say so, or later if it was in the store."""
        engine, refs = self._core._engine, self._core._refs
        active = min(round(self._one.active * 1_000_000), engine.clock())
        last = active if before is None else max(active, microseconds(before))

        def work(tx: Tx) -> RefRow:
            row = refs.checked(refs.get(tx, session._row.kind, session._row.key))
            return refs.change(tx, row, refs.data(row), look=row.look, active_at=last)

        refs.write_one(work)

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

    def _message(self, session: Session, given: Given) -> bool:
        """Stores a message; under an id of its own if another one of the store has its id. False if it was there."""
        if self._is_known(given):
            return False
        wire.check_size(given.said)
        try:
            made = session.append(given.said, id=given.id, created_at=given.created_at)
        except Conflict:
            digest = sha256(lines.encode(msgspec.to_builtins(given.said))).hexdigest()
            other = wire.derived(session.id, f"copy of {given.id} {digest}")
            made = session.append(given.said, id=other, created_at=given.created_at)
        new = made.id not in self._there
        self._there.add(made.id)
        return new

    def _event(self, session: Session, item: _Item) -> bool:
        """Stores an event. False if it was there."""
        transcript = self._work.store.transcript(session.id)
        name = wire.derived(self._one.id, f"{item.number} {sha256(item.data).hexdigest()}")  # the same at every import
        before = transcript.count()
        transcript.append(prepare(item.data, name)[0])
        return transcript.count() > before


def _is_same(node: Node, given: Given) -> bool:
    """True if `node`, which has the id of `given`, is that message. Redaction may have changed what was stored."""
    return bool(node.redactions) or wire.alike(node.said, given.said)


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Items in batches of about `BATCH` bytes; a first one even if there are none."""
    batch, size = list[_Item](), 0
    for item in items:
        batch.append(item)
        size += len(item.data) + _BESIDE
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _extra(one: Found) -> dict[str, Any]:
    """The free data of an imported session: its project, why it ended, and what else its metadata said."""
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
