"""Remembers imported files, so that an unchanged file is not read again.

Each file has a document of its own kind, under a keyed hash of its path. The document of a file with one conversation
is deleted with that conversation's session. A deletion in the store does not change the files: `originals` finds them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import msgspec

from clew.base import ids
from clew.engine.session_data import SOURCE
from clew.errors import ClewError
from clew.sources.contract import ReadMark
from clew.sources.documents import short_hash
from clew.sources.items import Item
from clew.sources.layout import record_origin
from clew.sources.values import storable
from clew.store.origin import CPE_NOTE
from clew.store.session import Session
from clew.store.store import Store
from clew.store.unit import Document, Unit

CPE_FILE = ".cpeconvo"
"""The file in which CPE keeps the conversations of a directory."""
IMPORTED = "imported"
"""Kind of the documents of imported files."""
MOST_SKIPS = 100
"""Reports of unreadable records that are kept for one file."""
EDGE = 4096
"""Bytes at each edge that are compared to see if a file was replaced."""
MANY = 50
"""Files that are looked up one by one."""


class FileMark(msgspec.Struct, frozen=True):
    """How far a growing file was read, and hashes to check that it has only grown since."""

    mark: ReadMark
    edges: str
    """A hash of the first bytes of the file, and of the last ones before the mark."""
    times: dict[str, int]
    """For each conversation the time of its last record, in microseconds."""


class ImportedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as it was when it was imported."""

    source: str
    path: str
    state: tuple[int, ...]
    """Size, time and inode, and for a database size and time of its log."""
    member: str | None = None
    run: str | None = None
    """The import that read it last."""
    entries: int = 0
    """How many entries its source has read in it."""
    digest: str = ""
    """A hash of these entries."""
    skipped: tuple[str, ...] = ()
    """What could not be read, and why."""
    sessions: int = 0
    """How many conversations it has."""
    mark: FileMark | None = None
    """Set for a large log with one conversation."""


class SeenFile(NamedTuple):
    """An imported file, and when that was."""

    file: ImportedFile
    imported_at: datetime


class ImportedFiles:
    """The imported files of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked = 0

    def find(self, item: Item) -> ImportedFile | None:
        """What is known of a file or a member of an archive; None if it was never imported as a whole."""
        key = self._key(item)
        found = self._store.read(lambda unit: unit.document(IMPORTED, key, trashed=True), single=True)
        return None if found is None else file_of(found)

    def is_unchanged(self, item: Item) -> bool:
        """True if the file was imported, and has neither grown nor changed since."""
        before = self.find(item)
        return before is not None and before.state == state(item)

    def unchanged_source(self, item: Item) -> str | None:
        """The source that has read a file, if it has not changed since; see `clew.sources.registry.find`."""
        if self._looked < MANY:
            self._looked += 1
            before = self.find(item)
        else:  # reading all of them at once costs less than many look-ups
            before = self._all.get(ids.text(self._key(item)))
        return before.source if before is not None and before.state == state(item) else None

    @cached_property
    def _all(self) -> dict[str, ImportedFile]:
        return {one.id: file_of(one) for one in self._documents()}

    def note(self, unit: Unit, item: Item, file: ImportedFile, session: Session | None = None) -> None:
        """Notes that a file was imported as a whole, as a step of a unit.

        With `session`, all that is known of the file is deleted with that session. Nothing is noted for one in the
        trash: it may have been purged before the file is read again.
        """
        key = self._key(item)
        before = unit.document(IMPORTED, key, trashed=True)
        if (before is None or not before.trashed) and (session is None or session.trashed_at is None):
            data = self._store.redacted(msgspec.json.encode(file), own=True)
            unit.put(IMPORTED, key, data, exact=True, owner=session, before=before, new=before is None)

    def files(self) -> Iterator[SeenFile]:
        """All imported files."""
        return (SeenFile(file_of(one), one.created_at) for one in self._documents())

    def forget(self, wanted: Callable[[ImportedFile], bool]) -> int:
        """Forgets files, so that they are read again by the next import; returns how many."""
        found = [one.id for one in self._documents() if wanted(file_of(one))]

        def work(unit: Unit) -> int:
            now = (unit.document(IMPORTED, id, trashed=True) for id in found)
            gone = [one for one in now if one is not None and wanted(file_of(one))]  # it may be noted again
            for one in gone:
                unit.discard(one)
            return len(gone)

        return self._store.write(work) if found else 0

    def _documents(self) -> Iterator[Document]:
        return self._store.documents(IMPORTED)

    def _key(self, item: Item) -> bytes:
        name = "\0".join((item.path, *([] if item.member is None else [item.member])))
        return self._store.lookup_hash("import", name.encode(errors="surrogateescape"))


def file_of(document: Document) -> ImportedFile:
    """What is known of a file, from its document. Corrupted."""
    return msgspec.json.decode(document.data, type=ImportedFile)


def state(item: Item) -> tuple[int, ...]:
    """What tells that a file has changed: size, time and inode; for a database also size and time of its ``-wal``."""
    try:
        inode = os.stat(item.path).st_ino
    except OSError:
        inode = 0
    found = [item.size, item.modified, inode]
    if item.member is None and not item.path.endswith((".jsonl", ".json")):
        try:
            log = os.stat(f"{item.path}-wal")
        except OSError:
            pass
        else:
            found += [log.st_size, log.st_mtime_ns]
    return tuple(found)


def valid_mark(item: Item, before: ImportedFile) -> FileMark | None:
    """How far a file was read, if it has only grown since: it is the same file, with the same bytes at both edges."""
    found = before.mark
    if found is None or item.member is not None or state(item)[2] != before.state[2]:
        return None
    return found if edges(item, found.mark.offset) == found.edges else None


def edges(item: Item, offset: int) -> str:
    """A hash of the first bytes of a file, and of the last ones before `offset`; of the file as it is now."""
    with item.open() as file:
        digest = sha256(file.read(min(EDGE, offset)))
        file.seek(max(0, offset - EDGE))
        digest.update(file.read(min(EDGE, offset)))
    return digest.hexdigest()


def originals(store: Store, sessions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each of these sessions the files that it was imported from, with those of its subagents, if they still exist.

    Sessions without such files are left out, and those that cannot be read.
    """
    finder, found = _Originals(store), {}
    for name in sessions:
        try:
            paths = finder.of(store.sessions.find_anywhere(name))
        except ClewError:  # another process has deleted it, or it is damaged: its deletion says so
            continue
        if existing := tuple(path for path in dict.fromkeys(paths) if os.path.exists(path)):
            found[name] = existing
    return found


class _Originals:
    """The files of sessions; those with several conversations are read once."""

    def __init__(self, store: Store) -> None:
        self._store, self._history = store, ImportedFiles(store)

    def of(self, session: Session) -> list[str]:
        """The paths that a session came from."""
        documents = self._store.read(lambda unit: unit.documents(IMPORTED, owner=session, whole=True))
        return [file_of(one).path for one in documents] or self._of_shared(session)

    def _of_shared(self, session: Session) -> list[str]:
        """The files with several conversations that a session came from."""
        data = session.data
        extra = data.extra or {}
        if CPE_NOTE in extra and data.cwd is not None:
            return [os.path.join(data.cwd, CPE_FILE)]
        if SOURCE not in extra:
            return []
        names = [one for one in record_origin(session).files if one is not None]
        return [path for one in names if (path := self._shared.get((one.folder, one.name))) is not None]

    @cached_property
    def _shared(self) -> dict[tuple[str, str], str]:
        return {_label(seen.file): seen.file.path for seen in self._history.files()}


def _label(file: ImportedFile) -> tuple[str, str]:
    folder, name = os.path.split(file.path if file.member is None else f"{file.path}/{file.member}")
    return short_hash(os.fsencode(folder)), storable(name.removesuffix(".zst"))
