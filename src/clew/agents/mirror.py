"""A live copy of sessions as files that people and other programs can read. The store stays the truth.

::

    ROOT/.clew-mirror.json                      whose mirror this is, and its format
    ROOT/{project}/memory/summary.md            what the project remembers
    ROOT/{project}/sessions/{session}/
        metadata.json                           about the session; and under "mirror" how far the files are right
        messages.jsonl                          its messages, from the first to the last
        transcript.jsonl                        its events
        checkpoints/{message}/manifest.json     and files/{sha256}: files in the session's directory, before they
                                                were changed; written with what is said or done next

Files only grow, and are synced before `metadata.json` says how far they have grown. A line beyond that, which a crash
has cut short, is finished before the next one is written; whatever else is there goes. `messages.jsonl` is replaced as
a whole when a session went back to an earlier message.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import msgspec

from clew import files, mirrors, paths
from clew.agents import checkpoint_files, folder, metadata, wire
from clew.agents.memory import LIMIT, Memory, projects
from clew.agents.metadata import SessionMetadata
from clew.agents.transcript import Transcript
from clew.backends import POS
from clew.errors import ClewError, Invalid, NotFound, Tampered
from clew.mirrors import CHECKPOINTS, FILES, FORMAT, LOCK, MARKER, MESSAGES, METADATA, PART, SESSIONS, TRANSCRIPT
from clew.node import Node
from clew.paging import every
from clew.session import Session
from clew.store import Store

MEMORY, SUMMARY = "memory", "summary.md"
_DIGEST = ".summary.sha256"


class Rebuilt(NamedTuple):
    """What a mirror was made of: how many sessions and memories it has, and how many folders were taken away."""

    sessions: int
    memories: int
    removed: int
    failures: tuple[tuple[str, str], ...] = ()
    """Sessions that are damaged, each with what is said of that; their files stay as they were found."""


class _Cursor(msgspec.Struct):
    """How far the files of a session are right: bytes of each, the last message, the number of the next event, and
    which checkpoints are there.
    """

    format: int = FORMAT
    messages: int = 0
    head: str | None = None
    transcript: int = 0
    events: int = 0
    checkpoints: str = ""


class _About(SessionMetadata, kw_only=True, omit_defaults=True):
    mirror: _Cursor


class _Mine(msgspec.Struct):
    mirror: _Cursor


class Mirror:
    """The mirror of a store in a folder. Any number of processes may keep it up together."""

    def __init__(
        self,
        store: Store,
        root: str | os.PathLike[str],
        *,
        clear: bool = False,
        patience: float = 60.0,
    ) -> None:
        """The folder is made if it is not there. Invalid if it holds anything else than this store's mirror.

        The files are clear text: a sealed store is mirrored only with `clear=True`. `patience` is how many seconds a
        write may wait for other processes.
        """
        self.root = os.path.abspath(os.fspath(root))
        self.error: ClewError | None = None
        """Why the mirror is behind the store, if it is."""
        self._store = store
        self._clear = clear
        self._patience = patience
        self._behind: dict[tuple[Callable[[str], None], str], None] = {}
        self._guard = threading.Lock()
        self._allowed()
        self._make()

    def _make(self) -> None:
        with self._writing(self.root):
            folder.make(self.root)
            self._claim()

    # -- keeping up

    def soon(self, session_id: str) -> None:
        """Brings a session's files up to date, after the transaction that this thread is in, if it is in one.

        It never raises: what was stored is stored. `error` says why the mirror is behind; the next call tries again.
        """
        self._later(self.sync, session_id)

    def remember_soon(self, project: str) -> None:
        """Writes what a project remembers, as `soon` does."""
        self._later(self.remember, project)

    def flush(self) -> None:
        """Brings up to date whatever is behind, all of it if the folder was removed. Raises what keeps it from that."""
        if not os.path.isdir(self.root):
            self._make()
            self.rebuild()
        with self._guard:
            waiting = list(self._behind)
        for task in waiting:
            step, name = task
            try:
                step(name)
            except ClewError as error:
                self.error = error
                raise
            with self._guard:
                self._behind.pop(task, None)
        self.error = None

    def sync(self, session_id: str) -> None:
        """Brings a session's files up to date; if the store has it no more, they go. Durable when this returns."""
        with self._locked():
            self._sync(session_id)

    def rebuild(self) -> Rebuilt:
        """Writes everything anew from the store, and takes away the files of sessions that it has no more."""
        with self._locked():
            kept: set[str] = set()
            failures: list[tuple[str, str]] = []
            for session in self._sessions():
                kept.add(session.id)
                try:
                    self._sync(session.id, anew=True)
                except Tampered as error:
                    failures.append((session.id, error.message))
            gone = [session_id for session_id in mirrors.mirrored(self.root) if session_id not in kept]
            for session_id in gone:
                mirrors.remove(self.root, session_id)
            remembered = projects(self._store._engine, self._store._refs)
            for project in remembered:
                self._remember(project)
        with self._guard:
            self._behind.clear()
        self.error = None
        return Rebuilt(len(kept) - len(failures), len(remembered), len(gone), tuple(failures))

    def size(self, session_ids: Iterable[str]) -> int:
        """Bytes of the files of these sessions; 0 if the folder cannot be reached."""
        try:
            projects = [os.path.join(self.root, project, SESSIONS) for project in os.listdir(self.root)]
        except OSError:
            return 0
        return sum(mirrors.size(os.path.join(one, session_id)) for session_id in session_ids for one in projects)

    def remember(self, project: str) -> None:
        """Writes what a project remembers. A file that someone else has changed is put aside, not written over."""
        with self._locked():
            self._remember(project)

    # -- where things are

    def folder(self, about: SessionMetadata) -> str:
        """The folder of a session."""
        return os.path.join(self.root, about.project_hash, SESSIONS, about.id)

    def transcript_path(self, about: SessionMetadata) -> str:
        """The file with a session's events."""
        return os.path.join(self.folder(about), TRANSCRIPT)

    def summary_path(self, project: str) -> str:
        """The file with what a project remembers."""
        return os.path.join(self.root, project, MEMORY, SUMMARY)

    # -- inside

    def _later(self, step: Callable[[str], None], name: str) -> None:
        with self._guard:
            self._behind[step, name] = None
        if not self._store._engine.backend.in_transaction():
            with suppress(ClewError):
                self.flush()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._allowed()
        with self._writing(self.root), files.lock(os.path.join(self.root, LOCK), self._patience):
            yield

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise files.unwritten(error, error.filename if isinstance(error.filename, str) else path) from error

    def _allowed(self) -> None:
        if self._store._engine.keyed and not self._clear:
            hint = "Do without a mirror, or make it with clear=True and protect the folder by other means."
            raise Invalid("the store is sealed, and its mirror would be clear text", hint=hint)

    def _claim(self) -> None:
        """Sees to it that the folder is this store's mirror, and that the store knows of it."""
        known = self._store._purger.mirrors
        path = os.path.join(self.root, MARKER)
        if not os.path.lexists(path):
            if any(name != LOCK and not name.startswith(MARKER) for name in os.listdir(self.root)):
                raise Invalid(f"{self.root} is not empty, and no mirror", hint="Name a new folder.")
            files.make_private(path, msgspec.json.encode(known.marker()))
        known.check(self.root)
        if known.add(self.root):
            self._store._finish()

    def _sync(self, session_id: str, *, anew: bool = False) -> None:
        try:
            session = self._store.sessions.get(session_id)
        except NotFound:
            mirrors.remove(self.root, session_id)
            return
        tip = session.path(last=1)
        about = metadata.of(session, tip[0].counters if tip else None)
        place = self.folder(about)
        if not os.path.isdir(place):
            mirrors.remove(self.root, session_id)  # it may have been in another directory
        folder.make(place)
        for name in FILES:
            folder.remove(os.path.join(place, name + PART))
        if anew:  # whatever the metadata says now, nobody is to rely on it any more
            _tell(place, about, _Cursor())
        cursor = _cursor(place)
        self._messages(session, tip[0] if tip else None, cursor, place, anew)
        self._events(session, cursor, place, anew)
        _tell(place, about, cursor)
        mark = checkpoint_files.mark(session)
        if mark != cursor.checkpoints:
            if anew:
                shutil.rmtree(os.path.join(place, CHECKPOINTS), ignore_errors=True)
            checkpoint_files.write(os.path.join(place, CHECKPOINTS), session)
            cursor.checkpoints = mark
            _tell(place, about, cursor)

    def _messages(self, session: Session, tip: Node | None, cursor: _Cursor, place: str, anew: bool) -> None:
        path = os.path.join(place, MESSAGES)
        missing = None if anew or folder.size(path) < cursor.messages else _missing(session, tip, cursor.head)
        if missing is None:
            cursor.messages = folder.replace(path, _lines(_all(session, tip)))
        elif missing or folder.size(path) != cursor.messages or not os.path.lexists(path):
            cursor.messages = folder.append(path, cursor.messages, _lines(missing))
        cursor.head = None if tip is None else tip.id

    def _events(self, session: Session, cursor: _Cursor, place: str, anew: bool) -> None:
        path = os.path.join(place, TRANSCRIPT)
        transcript = Transcript(session)
        end = transcript.count()
        if anew or folder.size(path) < cursor.transcript or cursor.events > end:
            cursor.transcript = folder.replace(path, (event.raw + b"\n" for event in transcript.read(0, end)))
        elif cursor.events < end or folder.size(path) != cursor.transcript or not os.path.lexists(path):
            lines = (event.raw + b"\n" for event in transcript.read(cursor.events, end))
            cursor.transcript = folder.append(path, cursor.transcript, lines)
        cursor.events = end

    def _remember(self, project: str) -> None:
        text = Memory(self._store._engine, self._store._refs, project).read().encode()
        path = self.summary_path(project)
        place = os.path.dirname(path)
        folder.make(place)
        note = os.path.join(place, _DIGEST)
        found = folder.read(path, LIMIT + 1)
        if found is not None and found != text and sha256(found).hexdigest().encode() != folder.read(note, 64):
            os.rename(path, _free(place))
        folder.replace(note, [sha256(text).hexdigest().encode()])
        if found != text:
            folder.replace(path, [text])

    def _sessions(self) -> Iterator[Session]:
        for subagents in (False, True):
            yield from every(partial(self._store.sessions.list, limit=200, include_expired=True, subagents=subagents))


def forget_mirror(store: Store, root: str | os.PathLike[str]) -> bool:
    """Tells the store that a mirror is gone for good, with all its files: receipts name it no more.

    Nothing is removed there. True if something was still to be removed. NotFound if the store has no such mirror.
    """
    left = store._purger.mirrors.forget(os.path.abspath(os.fspath(root)))
    store._finish()
    return bool(left)


def _missing(session: Session, tip: Node | None, head: str | None) -> Iterable[Node] | None:
    """The messages after `head`, which is the last in the file; None if it is not among the session's any more."""
    if tip is None:
        return () if head is None else None
    if head is None:
        return _all(session, tip)
    if head == tip.id:
        return ()
    try:
        (last,) = session.path(until=head, last=1)
        return session.path(until=tip.id, last=tip.depth - last.depth)
    except NotFound:
        return None


def _all(session: Session, tip: Node | None) -> Iterable[Node]:
    return () if tip is None else paths.walk(session._engine, tip._row[POS])


def _lines(nodes: Iterable[Node]) -> Iterator[bytes]:
    return (wire.line(node) + b"\n" for node in nodes)


def _cursor(place: str) -> _Cursor:
    """How far the files of a session are right; not at all, if that cannot be told."""
    try:
        found = msgspec.json.decode(folder.read(os.path.join(place, METADATA), 1 << 20) or b"", type=_Mine).mirror
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Cursor()
    sane = found.format == FORMAT and min(found.messages, found.transcript, found.events) >= 0
    return found if sane else _Cursor()


def _tell(place: str, about: SessionMetadata, cursor: _Cursor) -> None:
    path = os.path.join(place, METADATA)
    told = msgspec.json.encode(_About(**msgspec.structs.asdict(about), mirror=cursor)) + b"\n"
    if folder.read(path, len(told) + 1) != told:
        folder.replace(path, [told])


def _free(place: str) -> str:
    """A name that is free, for a summary that someone has changed."""
    number = 1
    while os.path.lexists(path := os.path.join(place, f"summary.edited-{number}.md")):
        number += 1
    return path
