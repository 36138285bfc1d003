"""Reading a tree of session files into a store: a mirror's, or one that another program has written.

Whatever can be read is taken, and every line that cannot is named. Each session is imported as a whole or not at all;
importing the same tree again adds what is new.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from clew import ids
from clew.agents import checkpoint_files, folder, lines, metadata, wire
from clew.agents.memory import LIMIT
from clew.agents.metadata import EXIT, HASH, IMPORTED
from clew.agents.mirror import CHECKPOINTS, MEMORY, MESSAGES, METADATA, SESSIONS, SUMMARY, TRANSCRIPT
from clew.agents.store import SessionStore
from clew.agents.transcript import prepare
from clew.agents.wire import Given
from clew.backends import RefRow, Tx
from clew.errors import ClewError, Conflict, Invalid, NotFound
from clew.node import Node, microseconds
from clew.session import Session

_HASH = re.compile(r"[0-9a-f]{16}")
_KNOWN = frozenset({*metadata.SessionMetadata.__struct_fields__, "mirror"})


class Skipped(NamedTuple):
    """Something that was not imported: the file, the number of the line, from 1 on, if it is one, and why."""

    path: str
    line: int | None
    why: str


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


class _Found(NamedTuple):
    """A session's folder, and what its metadata says."""

    place: str
    id: str
    project: str | None
    about: dict[str, Any]
    active: float


class _Undo(Exception):
    """Takes back what a dry run did."""


def import_tree(store: SessionStore, root: str | os.PathLike[str], *, dry_run: bool = False) -> Imported:
    """Imports every session below `root`: a folder of projects, a project's, its sessions', or one session's.

    Ids are kept, forks share what they have in common, subagents stay with their parents, and events go into the
    transcripts. With `dry_run` nothing is stored, and the answer is the same. NotFound if there is nothing to import.
    """
    work = _Import(store)
    found, memories = work.look(os.path.abspath(os.fspath(root)))
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
    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._core = store._store
        self.skipped: list[Skipped] = []

    # -- what is there

    def look(self, root: str) -> tuple[list[_Found], dict[str, str]]:
        """The sessions below a folder, parents before those that go back to them; and memories, by project."""
        found: list[_Found] = []
        memories: dict[str, str] = {}
        if any(os.path.lexists(os.path.join(root, name)) for name in (METADATA, MESSAGES, TRANSCRIPT)):
            found += self._session(root, None)
        elif os.path.isdir(os.path.join(root, SESSIONS)) or os.path.isdir(os.path.join(root, MEMORY)):
            self._project(root, os.path.basename(root), found, memories)
        elif os.path.basename(root) == SESSIONS:
            for place in _folders(root):
                found += self._session(place, None)
        else:
            for place in _folders(root):
                self._project(place, os.path.basename(place), found, memories)
        return _parents_first(found), memories

    def _project(self, place: str, name: str, found: list[_Found], memories: dict[str, str]) -> None:
        mine = [one for session in _folders(os.path.join(place, SESSIONS)) for one in self._session(session, name)]
        found += mine
        summary = os.path.join(place, MEMORY, SUMMARY)
        try:
            text = folder.read(summary, LIMIT + 1)
            if text is not None and text.strip():
                memories[_project_of(name, mine)] = text.decode()
        except UnicodeDecodeError:
            self._skip(summary, None, "it is not UTF-8")
        except ClewError as error:
            self._skip(summary, None, error.message)

    def _session(self, place: str, project: str | None) -> Iterator[_Found]:
        name = os.path.basename(place)
        try:
            id = ids.text(ids.parse(name))
        except Invalid:
            self._skip(place, None, "its name is not the id of a session")
            return
        about = self._about(os.path.join(place, METADATA), id)
        active = metadata._moment(about.get("updated_at"))
        yield _Found(place, id, project, about, _touched(place) if active is None else active.timestamp())

    def _about(self, path: str, id: str) -> dict[str, Any]:
        """What is said about a session; nothing, if that cannot be read."""
        try:
            raw = folder.read(path, lines.LINE_LIMIT)
            if raw is None:
                self._skip(path, None, "there is none")
                return {}
            found: dict[str, Any] = lines.decode(lines.compact(raw))
        except ClewError as error:
            self._skip(path, None, error.message)
            return {}
        if found.get("id") != id:
            self._skip(path, None, "its id is not the name of its folder, which is taken instead")
        return found

    # -- taking it

    def run(self, found: list[_Found], memories: dict[str, str]) -> Imported:
        """Imports sessions, each in one transaction, and memories where there is none yet."""
        done: list[ImportedSession] = []
        for one in found:
            before = len(self.skipped)
            try:
                with self._core.transaction():
                    done.append(self._take(one))
            except ClewError as error:
                del self.skipped[before:]
                self._skip(one.place, None, error.message)
                continue
            self._store._wrote(one.id)
        taken = [project for project, text in memories.items() if self._remember(project, text)]
        return Imported(tuple(done), tuple(taken), tuple(self.skipped))

    def _remember(self, project: str, text: str) -> bool:
        memory = self._store._memory(project)
        if memory.read() == text:
            return False
        try:
            memory.write(text, expect=0)
        except Conflict:
            self._skip(os.path.join(project, MEMORY, SUMMARY), None, "the store remembers something else")
            return False
        except ClewError as error:
            self._skip(os.path.join(project, MEMORY, SUMMARY), None, error.message)
            return False
        return True

    def _take(self, one: _Found) -> ImportedSession:
        session, shared = self._open(one)
        before = session.updated_at if session.head_id is not None and not shared else None
        there = {node.id: node for node in session.iter()}
        added = known = 0
        for number, given in self._messages(one):
            assert given.id is not None
            node = there.get(given.id)
            if node is not None and (given.id in shared or wire.alike(node.said, given.said)):
                known += 1
                continue
            try:
                made = self._append(session, given)
            except ClewError as error:
                self._skip(os.path.join(one.place, MESSAGES), number, error.message)
                continue
            added, known = (added, known + 1) if made.id in there else (added + 1, known)
            there[made.id] = made
        events, old = self._events(one, session)
        kept = checkpoint_files.take(
            os.path.join(one.place, CHECKPOINTS), session, lambda path, why: self._skip(path, None, why)
        )
        if added:
            self._keep_time(session, one, before)
        return ImportedSession(one.id, added, events, known + old, kept)

    def _keep_time(self, session: Session, one: _Found, before: datetime | None) -> None:
        """A session was last active when its files say so, or later if it was in the store."""
        engine, refs = self._core._engine, self._core._refs
        active = min(round(one.active * 1_000_000), engine.clock())
        last = active if before is None else max(active, microseconds(before))

        def work(tx: Tx) -> RefRow:
            row = refs.checked(refs.get(tx, session._row.kind, session._row.key))
            return refs.change(tx, row, refs.data(row), look=row.look, active_at=last)

        refs.write_one(work)

    def _append(self, session: Session, given: Given) -> Node:
        """Stores a message; under an id of its own if another message of the store has its id."""
        wire.check_size(given.said)
        try:
            return session.append(given.said, id=given.id, created_at=given.created_at)
        except Conflict:
            digest = sha256(lines.encode(msgspec.to_builtins(given.said))).hexdigest()
            other = wire.derived(session.id, f"copy of {given.id} {digest}")
            return session.append(given.said, id=other, created_at=given.created_at)

    def _open(self, one: _Found) -> tuple[Session, set[str]]:
        """The session that a folder is about, made if it is not there; and the messages it shares with its parent."""
        sessions, about = self._core.sessions, one.about
        with suppress(NotFound):
            return sessions.get(one.id), set()
        cwd, model, agent = (_text(about.get(name)) for name in ("cwd", "model", "agent_name"))
        parent = None
        with suppress(ClewError):
            parent = sessions.get(_text(about.get("parent_id")) or "")
        shared = [] if parent is None or agent is not None else self._shared(one, parent)
        if shared and parent is not None:
            made = sessions.fork(parent, at=shared[-1], id=one.id).update(cwd=cwd, model=model, extra=_extra(one))
            return made, set(shared)
        owner = None if agent is None else parent
        return sessions.create(cwd=cwd, model=model, id=one.id, agent=agent, owner=owner, extra=_extra(one)), set()

    def _shared(self, one: _Found, parent: Session) -> list[str]:
        """The messages with which a session and its parent both begin."""
        found: list[str] = []
        quiet = _Import(self._store)  # its lines are read again, and told then
        for node, (_, given) in zip(parent.iter(), quiet._messages(one), strict=False):
            if node.id != given.id or not wire.alike(node.said, given.said):
                break
            found.append(node.id)
        return found

    def _messages(self, one: _Found) -> Iterator[tuple[int, Given]]:
        path = os.path.join(one.place, MESSAGES)
        for line in self._lines(path):
            try:
                given = wire.parse(line.data)
            except Invalid as error:
                self._skip(path, line.number, error.message)
                continue
            name = given.id or f"{line.number} {sha256(line.data).hexdigest()}"
            yield line.number, given._replace(id=wire.message_id(one.id, name))

    def _events(self, one: _Found, session: Session) -> tuple[int, int]:
        """Imports a transcript; how many events are new, and how many were there."""
        path = os.path.join(one.place, TRANSCRIPT)
        transcript = self._store.transcript(session.id)
        added = known = 0
        for line in self._lines(path):
            name = wire.derived(one.id, f"{line.number} {sha256(line.data).hexdigest()}")  # the same at every import
            before = transcript.count()
            try:
                transcript.append(prepare(line.data, name)[0])
            except ClewError as error:
                self._skip(path, line.number, error.message)
                continue
            added, known = (added + 1, known) if transcript.count() > before else (added, known + 1)
        return added, known

    def _lines(self, path: str) -> Iterator[lines.Line]:
        """The lines of a file that can be used; of the others it is said why not."""
        try:
            for line in lines.read(path):
                if line.why:
                    self._skip(path, line.number, line.why)
                else:
                    yield line
        except ClewError as error:
            self._skip(path, None, error.message)

    def _skip(self, path: str, line: int | None, why: str) -> None:
        self.skipped.append(Skipped(path, line, why))


def _extra(one: _Found) -> dict[str, Any]:
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


def _project_of(name: str, sessions: list[_Found]) -> str:
    """The hash of the project that a folder is about: its name, or that of the one directory its sessions were in.

    Invalid if neither tells: nobody could read its memory.
    """
    hashes = {metadata.project_hash(cwd) for one in sessions if (cwd := _text(one.about.get("cwd"))) is not None}
    if name in hashes or _HASH.fullmatch(name):
        return name
    if len(hashes) != 1:
        raise Invalid("neither the folder's name nor its sessions say which directory it is about")
    return hashes.pop()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _folders(path: str) -> list[str]:
    """The folders in a folder, by name; none if it is none. Links are not followed."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _touched(place: str) -> float:
    """When the files of a session were last written."""
    times = []
    for name in (MESSAGES, TRANSCRIPT, METADATA):
        with suppress(OSError):
            times.append(os.lstat(os.path.join(place, name)).st_mtime)
    return max(times, default=0.0)


def _parents_first(found: list[_Found]) -> list[_Found]:
    """Sessions in the order of their last activity, but each after its parent."""
    by_id = {one.id: one for one in found}
    ordered: dict[str, _Found] = {}
    for one in sorted(found, key=lambda one: one.active):
        line = [one]
        while (above := by_id.get(str(line[-1].about.get("parent_id")))) is not None and above not in line:
            line.append(above)
        for each in reversed(line):
            ordered.setdefault(each.id, each)
    return list(ordered.values())
