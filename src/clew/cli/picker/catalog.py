"""The sessions of a store in memory: what is typed is looked for in a hundred thousand of them between two keys."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple

import clew
from clew.paging import pages

Scope = Literal["directory", "repository", "everything"]
SCOPES: tuple[Scope, ...] = ("directory", "repository", "everything")
PAGE = 1000
SHOWN = 200
"""Rows that a search gives at most."""
SHORTEST = 3
"""Letters of the last word before contents are searched: fewer are in nearly everything."""


class Row(NamedTuple):
    """A session in the list."""

    id: str
    title: str
    cwd: str
    at: datetime
    labels: tuple[str, ...]
    hay: str
    """What is searched: title, labels and directory in small letters."""


class Found(NamedTuple):
    """What a search gives: the first rows, and how many there are in all."""

    rows: Sequence[Row]
    total: int


class Catalog:
    """The sessions, last active first. Loaded page by page by one thread, while another asks."""

    def __init__(self, store: clew.Store, cwd: str) -> None:
        self.store = store
        self.cwd = cwd
        self.repository = repository(cwd)
        self.scopes = tuple(scope for scope in SCOPES if scope != "repository" or self.repository is not None)
        """What can be looked at from here, from narrow to wide."""
        self._below = (self.repository or cwd).rstrip(os.sep) + os.sep
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}
        self._lock = threading.Lock()
        self.loaded = False

    def load(self) -> Iterator[int]:
        """Reads all sessions; yields how many there are so far, after each page."""
        for page in pages(partial(self.store.sessions.list, limit=PAGE)):
            rows = [row for session in page.items if (row := _row(session)) is not None]
            with self._lock:
                for row in rows:
                    if row.id not in self._places:  # brought back from the trash meanwhile
                        self._places[row.id] = len(self._rows)
                        self._rows.append(row)
            self.loaded = page.next_cursor is None
            yield len(self._rows)

    def find(self, typed: str, scope: Scope) -> Found:
        """The sessions whose title, labels or directory have every word that was typed, last active first."""
        words = typed.casefold().split()
        rows: Sequence[Row] = self._rows
        if scope != "everything":
            rows = [row for row in rows if self.within(row, scope)]
        for word in words:
            rows = [row for row in rows if word in row.hay]
        return Found(rows[:SHOWN], len(rows))

    def contents(self, typed: str, scope: Scope, known: set[str]) -> list[tuple[Row, str]]:
        """Further sessions in which the words were said, newest first, each with the words around the match."""
        words = typed.split()
        if not words or len(words[-1]) < SHORTEST:
            return []
        query = " ".join([*words[:-1], words[-1] + "*"])
        found: dict[str, tuple[Row, str]] = {}
        with suppress(clew.Unavailable):
            for hit in self.store._search(query, limit=50, newest=True):
                session = hit.session
                row = None if session is None else self.row(session.id)
                if row is not None and row.id not in known and self.within(row, scope):
                    found.setdefault(row.id, (row, hit.snippet))
        return list(found.values())

    def within(self, row: Row, scope: Scope) -> bool:
        """True if a session belongs to what is looked at."""
        if scope == "directory":
            return row.cwd == self.cwd
        return scope == "everything" or f"{row.cwd}{os.sep}".startswith(self._below)

    def row(self, id: str) -> Row | None:
        """The row of a session; None if it is not there, as a subagent's is not."""
        place = self._places.get(id)
        return None if place is None else self._rows[place]

    def change(self, session: clew.Session) -> None:
        """Takes over what a session says of itself now."""
        row = _row(session)
        with self._lock:
            place = self._places.get(session.id)
            if row is not None and place is not None:
                self._rows[place] = row

    def add(self, session: clew.Session) -> None:
        """Puts a session in its place: before those that were last active earlier."""
        row = _row(session)
        if row is not None:
            with self._lock:
                at = next((at for at, one in enumerate(self._rows) if one.at <= row.at), len(self._rows))
                self._rows.insert(at, row)
                self._index()

    def remove(self, id: str) -> None:
        """Takes a session out."""
        with self._lock:
            self._rows = [row for row in self._rows if row.id != id]
            self._index()

    def _index(self) -> None:
        self._places = {row.id: place for place, row in enumerate(self._rows)}


def _row(session: clew.Session) -> Row | None:
    """A session's row; None if its data is damaged: 'clew verify' names it."""
    try:
        title, cwd, labels = session.title or "", session.cwd or "", session.labels
        hay = f"{title} {' '.join(f'#{label}' for label in labels)} {cwd}".casefold()
        return Row(session.id, title, cwd, session.updated_at, labels, hay)
    except clew.Tampered:
        return None


def repository(cwd: str) -> str | None:
    """The folder that a version control has its own in, at or above `cwd`; None if there is none."""
    folder = cwd
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in (".git", ".jj", ".hg")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
