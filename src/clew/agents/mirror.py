"""A live copy of sessions as files for people and other programs. The store remains the source of truth.

::

    ROOT/.clew-mirror.json                      the store of this mirror, and its format
    ROOT/{project}/memory/summary.md            the project's memory
    ROOT/{project}/sessions/{session}/
        metadata.json                           about the session; "mirror" says how far the files are valid
        messages.jsonl                          its messages, from the first to the last
        transcript.jsonl                        its events
        checkpoints/{message}/manifest.json     and files/{sha256}: files in the session's directory before they
                                                were changed; written with the next message or event

Files only grow, and are synced before `metadata.json` records their new length. After a crash the next write completes
a line that was cut short, and removes anything else beyond that length. `messages.jsonl` is replaced when a session has
gone back to an earlier message.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import NamedTuple

import msgspec

from clew.agents import checkpoint_files, metadata, serial
from clew.agents import mirror_files as folder
from clew.agents.memory import LIMIT, Memory, projects
from clew.agents.metadata import SessionMetadata
from clew.agents.mirror_thread import Updates
from clew.agents.transcript import Transcript
from clew.backends import POS
from clew.base import files
from clew.engine import mirrors, paths
from clew.engine.mirrors import CHECKPOINTS, FILES, FORMAT, LOCK, MARKER, MESSAGES, METADATA, PART, SESSIONS, TRANSCRIPT
from clew.engine.node import Node, node_row
from clew.errors import ClewError, Closed, Corrupted, Invalid, NotFound, Unavailable
from clew.store.parts import Parts
from clew.store.session import Session
from clew.store.store import Store

MEMORY, SUMMARY = "memory", "summary.md"
_DIGEST = ".summary.sha256"


class MirrorReport(NamedTuple):
    """The result of a rebuild: the number of sessions and memories written, and of folders removed."""

    sessions: int
    memories: int
    removed: int
    failures: tuple[tuple[str, str], ...] = ()
    """Damaged sessions, each with the reason; their files are unchanged."""


class _Cursor(msgspec.Struct):
    """How far a session's files are valid: sizes, the last message, the next event number, the checkpoints."""

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
    """The mirror of a store in a folder. Several processes may update it."""

    def __init__(
        self,
        store: Store,
        root: str | os.PathLike[str],
        *,
        clear: bool = False,
        patience: float = 60.0,
    ) -> None:
        """Creates the folder if it does not exist. Raises Invalid if it contains anything but this store's mirror.

        The files are clear text, so a sealed store needs `clear=True`. `patience` is how many seconds a write may wait
        for other processes.
        """
        self.root = os.path.abspath(os.fspath(root))
        self._store = store
        self._clear = clear
        self._patience = patience
        self.updates = Updates()
        self._check_allowed()
        self._make()

    def _make(self) -> None:
        with self._translate_errors(self.root):
            folder.make(self.root)
            self._claim()

    # -- keeping up

    @property
    def error(self) -> ClewError | None:
        """Why the mirror is behind the store; None if it is current. Waits for earlier updates."""
        self._wait()
        return self.updates.error

    def soon(self, session_id: str) -> None:
        """Updates a session's files on another thread, after this thread's current transaction if there is one.

        Never raises, because the data is stored. `error` says why the mirror is behind; the next call tries again.
        `flush` waits for the files, and so does the end of the program.
        """
        self._later(self.sync, session_id)

    def remember_soon(self, project: str) -> None:
        """Writes a project's memory, in the same way as `soon`."""
        self._later(self.remember, project)

    def flush(self) -> None:
        """Updates everything that is behind, or the whole mirror if the folder was removed. Raises if it cannot."""
        self._in_transaction()  # Closed in a forked child, which has no thread to wait for
        if not os.path.isdir(self.root):
            self._make()
            self.rebuild()
        self.updates.run()

    def sync(self, session_id: str) -> None:
        """Updates a session's files, or removes them if the session is gone. Durable when this returns."""
        with self._lock():
            self.write_session(session_id)

    def rebuild(self) -> MirrorReport:
        """Rewrites everything from the store, and removes the files of sessions that it no longer has."""
        with self._lock():
            written: set[str] = set()
            failures: list[tuple[str, str]] = []
            for session in self._sessions():
                written.add(session.id)
                try:
                    self.write_session(session.id, rewrite=True)
                except Corrupted as error:
                    failures.append((session.id, error.message))
            gone = [session_id for session_id in mirrors.mirrored(self.root) if session_id not in written]
            for session_id in gone:
                mirrors.remove(self.root, session_id)
            remembered = projects(self._store)
            for project in remembered:
                self._remember(project)
            self.updates.clear()
        return MirrorReport(len(written) - len(failures), len(remembered), len(gone), tuple(failures))

    def size(self, session_ids: Iterable[str]) -> int:
        """Total size of these sessions' files; 0 if the folder cannot be reached."""
        self._wait()
        try:
            projects = [os.path.join(self.root, project, SESSIONS) for project in os.listdir(self.root)]
        except OSError:
            return 0
        return sum(mirrors.size(os.path.join(one, session_id)) for session_id in session_ids for one in projects)

    def remember(self, project: str) -> None:
        """Writes a project's memory. If another program changed the file, moves it aside instead of overwriting it."""
        with self._lock():
            self._remember(project)

    # -- where things are

    def folder(self, about: SessionMetadata) -> str:
        """The folder of a session."""
        return os.path.join(self.root, about.project_hash, SESSIONS, about.id)

    def transcript_path(self, about: SessionMetadata) -> str:
        """The file with a session's events."""
        return os.path.join(self.folder(about), TRANSCRIPT)

    def summary_path(self, project: str) -> str:
        """The file with a project's memory."""
        return os.path.join(self.root, project, MEMORY, SUMMARY)

    # -- inside

    def _later(self, step: Callable[[str], None], name: str) -> None:
        task = step, name
        Parts.of(self._store).engine.rollback_steps.after(task, lambda: self.updates.add(task))

    def _wait(self) -> None:
        with suppress(Closed):
            if not self._in_transaction():  # the thread may be waiting for its end
                self.updates.wait()

    def _in_transaction(self) -> bool:
        return Parts.of(self._store).engine.backend.in_transaction()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self._check_allowed()
        if not self.updates.running.acquire(timeout=self._patience):
            raise Unavailable(
                f"another thread has been updating {self.root} for {self._patience:g} s", hint="Wait for it."
            )
        try:
            with self._translate_errors(self.root), files.lock(os.path.join(self.root, LOCK), self._patience):
                yield
        finally:
            self.updates.running.release()

    @contextmanager
    def _translate_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise files.unwritten(error, error.filename if isinstance(error.filename, str) else path) from error

    def _check_allowed(self) -> None:
        if Parts.of(self._store).engine.keyed and not self._clear:
            hint = "Use no mirror, or create it with clear=True and protect the folder in another way."
            raise Invalid("the store is sealed, but its mirror would be clear text", hint=hint)

    def _claim(self) -> None:
        """Ensures that the folder is this store's mirror, and that the store has recorded it."""
        known = Parts.of(self._store).purger.mirrors
        path = os.path.join(self.root, MARKER)
        if not os.path.lexists(path):
            if any(name != LOCK and not name.startswith(MARKER) for name in os.listdir(self.root)):
                raise Invalid(f"{self.root} is not empty and is not a mirror", hint="Use a new folder.")
            files.make_private(path, msgspec.json.encode(known.marker()))
        known.claim(self.root)
        if known.add(self.root):
            Parts.of(self._store).purger.finish()

    def write_session(self, session_id: str, *, rewrite: bool = False) -> None:
        """Brings the files of a session up to date; with `rewrite`, all of them. Removes those of a purged session."""
        try:
            session = self._store.sessions.get(session_id)
        except NotFound:
            mirrors.remove(self.root, session_id)
            return
        tip = session.path(last=1)
        about = metadata.of(session, tip[0].counters if tip else None)
        place = self.folder(about)
        if not os.path.isdir(place):
            mirrors.remove(self.root, session_id)  # the session may have moved from another directory
        folder.make(place)
        for name in FILES:
            folder.remove(os.path.join(place, name + PART))
        if rewrite:  # the metadata is no longer valid, so readers must not use it
            _tell(place, about, _Cursor())
        cursor = _cursor(place)
        self._messages(session, tip[0] if tip else None, cursor, place, rewrite)
        self._events(session, cursor, place, rewrite)
        _tell(place, about, cursor)
        mark = checkpoint_files.mark(session)
        if mark != cursor.checkpoints:
            if rewrite:
                shutil.rmtree(os.path.join(place, CHECKPOINTS), ignore_errors=True)
            checkpoint_files.write(os.path.join(place, CHECKPOINTS), session)
            cursor.checkpoints = mark
            _tell(place, about, cursor)

    def _messages(self, session: Session, tip: Node | None, cursor: _Cursor, place: str, rewrite: bool) -> None:
        path = os.path.join(place, MESSAGES)
        missing = None if rewrite or folder.size(path) < cursor.messages else _messages_after(session, tip, cursor.head)
        if missing is None:
            cursor.messages = folder.replace(path, _lines(_all(session, tip)))
        elif missing or folder.size(path) != cursor.messages or not os.path.lexists(path):
            cursor.messages = folder.append(path, cursor.messages, _lines(missing))
        cursor.head = None if tip is None else tip.id

    def _events(self, session: Session, cursor: _Cursor, place: str, rewrite: bool) -> None:
        path = os.path.join(place, TRANSCRIPT)
        transcript = Transcript(session)
        end = transcript.count()
        if rewrite or folder.size(path) < cursor.transcript or cursor.events > end:
            cursor.transcript = folder.replace(path, (event.raw + b"\n" for event in transcript.read(0, end)))
        elif cursor.events < end or folder.size(path) != cursor.transcript or not os.path.lexists(path):
            lines = (event.raw + b"\n" for event in transcript.read(cursor.events, end))
            cursor.transcript = folder.append(path, cursor.transcript, lines)
        cursor.events = end

    def _remember(self, project: str) -> None:
        text = Memory(self._store, project).read().encode()
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
            yield from self._store.sessions.list(limit=200, include_expired=True, subagents=subagents).all()


def forget_mirror(store: Store, root: str | os.PathLike[str]) -> bool:
    """Makes the store forget a mirror that no longer exists, so that receipts do not name it.

    Removes no files. Returns True if files were still to be removed. Raises NotFound if the store has no such mirror.
    """
    purger = Parts.of(store).purger
    left = purger.mirrors.forget(os.path.abspath(os.fspath(root)))
    purger.finish()
    return bool(left)


def _messages_after(session: Session, tip: Node | None, head: str | None) -> Iterable[Node] | None:
    """The messages after `head`, the last one in the file; None if it is no longer among the session's messages."""
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
    return () if tip is None else paths.walk(Parts.of(session).engine, node_row(tip)[POS])


def _lines(nodes: Iterable[Node]) -> Iterator[bytes]:
    return (serial.line(node) + b"\n" for node in nodes)


def _cursor(place: str) -> _Cursor:
    """How far a session's files are valid; zero if that is unknown."""
    try:
        found = msgspec.json.decode(folder.read(os.path.join(place, METADATA), 1 << 20) or b"", type=_Mine).mirror
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Cursor()
    sane = found.format == FORMAT and min(found.messages, found.transcript, found.events) >= 0
    return found if sane else _Cursor()


def _tell(place: str, about: SessionMetadata, cursor: _Cursor) -> None:
    path = os.path.join(place, METADATA)
    encoded = msgspec.json.encode(_About(**msgspec.structs.asdict(about), mirror=cursor)) + b"\n"
    if folder.read(path, len(encoded) + 1) != encoded:
        folder.replace(path, [encoded])


def _free(place: str) -> str:
    """A free name for a summary that another program has changed."""
    number = 1
    while os.path.lexists(path := os.path.join(place, f"summary.edited-{number}.md")):
        number += 1
    return path
