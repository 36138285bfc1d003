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

An append notes that the files are behind. A thread writes them at most once a second, so an append does not wait.
`flush`, `close` and the end of the program write at once what is left.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from time import monotonic
from typing import NamedTuple

import msgspec

from clew.agents import checkpoint_files, metadata, serial
from clew.agents import files as folder
from clew.agents.memory import LIMIT, Memory, projects
from clew.agents.metadata import SessionMetadata
from clew.agents.transcript import Transcript
from clew.base import files
from clew.base.worker import Worker
from clew.engine import mirrors
from clew.engine.mirrors import CHECKPOINTS, FILES, FORMAT, LOCK, MARKER, MESSAGES, METADATA, PART, SESSIONS, TRANSCRIPT
from clew.engine.node import Node
from clew.errors import ClewError, Corrupted, Invalid, NotFound, Unavailable
from clew.store.session import Session
from clew.store.store import Store, after_transaction, before_close, mirrors_of

MEMORY, SUMMARY = "memory", "summary.md"
_DIGEST = ".summary.sha256"
PAUSE = 1.0
"""Seconds between two writes of the thread."""


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


Task = tuple[Callable[[str], None], str]
"""A function, and the name of what it updates."""


class Updates:
    """Updates that are due. Each of them runs once, however often it was added."""

    def __init__(self) -> None:
        self.error: ClewError | None = None
        """Why the last run failed; None if everything is up to date."""
        self.running = threading.RLock()
        """Held while an update runs."""
        self.ended = -PAUSE
        """When the last run ended, as `time.monotonic` tells it."""
        self._due: dict[Task, None] = {}
        self._mutex = threading.Lock()

    def add(self, task: Task) -> None:
        """Adds an update. Outside of transactions: the update reads what is committed."""
        with self._mutex:
            self._due[task] = None

    def run(self) -> None:
        """Runs everything that is due. Raises the first error; the rest stays due."""
        with self.running:
            try:
                while (task := self._take()) is not None:
                    self._run(task)
                self.error = None
            finally:
                self.ended = monotonic()

    def clear(self) -> None:
        """Forgets what is due: everything is up to date."""
        with self._mutex:
            self._due.clear()
            self.error = None

    def _take(self) -> Task | None:
        with self._mutex:
            task = next(iter(self._due), None)
            if task is not None:
                del self._due[task]  # first, because it may be added again meanwhile
            return task

    def _run(self, task: Task) -> None:
        step, name = task
        try:
            step(name)
        except BaseException as error:
            self.add(task)
            why = f"the mirror could not be updated: {type(error).__name__}"
            self.error = error if isinstance(error, ClewError) else Unavailable(why)
            raise


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
        self._worker = Worker("clew-mirror", at_exit=patience)
        self._check_allowed()
        self._make()
        before_close(store, self._try)

    def _make(self) -> None:
        with self._translate_errors(self.root):
            folder.make(self.root)
            self._claim()

    # -- keeping up

    @property
    def error(self) -> ClewError | None:
        """Why the mirror is behind the store; None if it is current. First writes what is left, as `flush` does."""
        self._try()
        return self.updates.error

    def soon(self, session_id: str) -> None:
        """Updates a session's files within a second, after this thread's current transaction if there is one.

        Never raises, because the data is stored. `error` says why the mirror is behind; the next call tries again.
        `flush` writes at once, and so do the end of the program and closing the store.
        """
        self._later(self.sync, session_id)

    def remember_soon(self, project: str) -> None:
        """Writes a project's memory, in the same way as `soon`."""
        self._later(self.remember, project)

    def flush(self) -> None:
        """Updates everything that is behind, or the whole mirror if the folder was removed. Raises if it cannot."""
        _ = self._store.in_transaction  # Closed in a forked child: the files belong to its parent
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
        self._try()
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
        after_transaction(self._store, task, lambda: self._add(task))

    def _add(self, task: Task) -> None:
        self.updates.add(task)
        self._worker.add(self._try, after=self.updates.ended + PAUSE - monotonic())

    def _try(self) -> None:
        """Writes what is due; `error` says why if it cannot. Not in a transaction: it may be undone."""
        with suppress(Exception):
            if not self._store.in_transaction:  # Closed in a forked child
                self.updates.run()

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
        if self._store.sealed and not self._clear:
            hint = "Use no mirror, or create it with clear=True and protect the folder in another way."
            raise Invalid("the store is sealed, but its mirror would be clear text", hint=hint)

    def _claim(self) -> None:
        """Ensures that the folder is this store's mirror, and that the store has recorded it."""
        known = mirrors_of(self._store)
        path = os.path.join(self.root, MARKER)
        if not os.path.lexists(path):
            if any(name != LOCK and not name.startswith(MARKER) for name in os.listdir(self.root)):
                raise Invalid(f"{self.root} is not empty and is not a mirror", hint="Use a new folder.")
            files.make_private(path, msgspec.json.encode(known.marker()))
        known.claim(self.root)
        if known.add(self.root):
            self._store.clear_traces()

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
    left = mirrors_of(store).forget(os.path.abspath(os.fspath(root)))
    store.clear_traces()
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
    return () if tip is None else session.iter(until=tip)


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
