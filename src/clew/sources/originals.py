"""The files of other tools that imported sessions came from: a deletion in the store does not change them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from clew.backends import RefRow, Tx
from clew.engine.session_data import SOURCE
from clew.errors import ClewError
from clew.sources.documents import short_hash
from clew.sources.history import IMPORTED, ImportedFile, ImportHistory, file_of
from clew.sources.layout import origin_of
from clew.sources.values import storable
from clew.store.origin import CPE_NOTE
from clew.store.parts import Parts
from clew.store.session import Session
from clew.store.session_table import SUBAGENT
from clew.store.store import Store
from clew.store.unit import Document

CPE_FILE = ".cpeconvo"
"""The file in which CPE keeps the conversations of a directory."""


def originals(store: Store, sessions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each of these sessions the files that it was imported from, with those of its subagents, if they still exist.

    Sessions without such files are left out, and those that cannot be read.
    """
    return _Originals(store).of(sessions)


class _Originals:
    """Looks for files; those with several conversations are read once."""

    def __init__(self, store: Store) -> None:
        self._history, self._parts = ImportHistory(store), Parts.of(store)
        self._shared: dict[tuple[str, str], str] | None = None

    def of(self, sessions: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The files of each session that has some."""
        found = {}
        for name in sessions:
            try:
                paths = self._of_session(self._parts.table.find_anywhere(name))
            except ClewError:  # another process has deleted it, or it is damaged: its deletion says so
                continue
            if existing := tuple(path for path in dict.fromkeys(paths) if os.path.exists(path)):
                found[name] = existing
        return found

    def _of_session(self, row: RefRow) -> list[str]:
        def owned(tx: Tx) -> list[RefRow]:
            below = tx.refs_owned(row.ref)
            return below + [one for trace in below if trace.kind == SUBAGENT for one in tx.refs_owned(trace.ref)]

        rows = self._parts.engine.read(owned)
        paths = [file_of(Document(self._parts, one)).path for one in rows if one.kind == IMPORTED]
        return paths or self._of_shared(row)

    def _of_shared(self, row: RefRow) -> list[str]:
        """The files with several conversations that a session came from."""
        data = self._parts.table.data(row)
        extra = data.extra or {}
        if CPE_NOTE in extra and data.cwd is not None:
            return [os.path.join(data.cwd, CPE_FILE)]
        if SOURCE not in extra:
            return []
        if self._shared is None:
            self._shared = {_label(seen.file): seen.file.path for seen in self._history.files()}
        names = [one for one in origin_of(Session(self._parts, row)).files if one is not None]
        return [path for one in names if (path := self._shared.get((one.folder, one.name))) is not None]


def _label(file: ImportedFile) -> tuple[str, str]:
    folder, name = os.path.split(file.path if file.member is None else f"{file.path}/{file.member}")
    return short_hash(os.fsencode(folder)), storable(name.removesuffix(".zst"))
