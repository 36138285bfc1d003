"""The sessions of a store in memory, searched between two keystrokes even if there are 100,000."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple

import clew
from clew.base.visible import plain
from clew.store.origin import origin_of
from clew.store.search.index import Progress

Scope = Literal["directory", "repository", "everything"]
SCOPES: tuple[Scope, ...] = ("directory", "repository", "everything")
PAGE = 1000
SHOWN = 200
"""Maximum rows of a search."""
SHORTEST = 3
"""Minimum length of the last word to search messages; shorter words match nearly everything."""


class CatalogRow(NamedTuple):
    """A session in the list."""

    id: str
    title: str
    cwd: str
    at: datetime
    labels: tuple[str, ...]
    hay: str
    """The text to search: title, labels, directory, tool and branch in lower case."""
    tool: str = ""
    """The tool it was imported from."""
    fork: bool = False


class Matches(NamedTuple):
    """The result of a search: the first rows, and the total number."""

    rows: Sequence[CatalogRow]
    total: int


class Catalog:
    """The sessions, most recently active first. One thread loads them page by page while another searches."""

    def __init__(self, store: clew.Store, cwd: str) -> None:
        self.store = store
        self.cwd = cwd
        self.repository = repository(cwd)
        self.scopes = tuple(scope for scope in SCOPES if scope != "repository" or self.repository is not None)
        """The available scopes, from narrow to wide."""
        self._below = (self.repository or cwd).rstrip(os.sep) + os.sep
        self._rows: list[CatalogRow] = []
        self._places: dict[str, int] = {}
        self._lock = threading.Lock()
        self.loaded = False

    def load(self) -> Iterator[int]:
        """Reads all sessions; yields the number so far after each page."""
        for page in self.store.sessions.list(limit=PAGE).pages():
            rows = [row for session in page.items if (row := _row(session)) is not None]
            with self._lock:
                for row in rows:
                    if row.id not in self._places:  # restored from the trash meanwhile
                        self._places[row.id] = len(self._rows)
                        self._rows.append(row)
            self.loaded = page.next_cursor is None
            yield len(self._rows)

    def find(self, typed: str, scope: Scope) -> Matches:
        """The sessions with all words in title, labels or directory, most recently active first."""
        words = typed.casefold().split()
        rows: Sequence[CatalogRow] = self._rows
        if scope != "everything":
            rows = [row for row in rows if self.within(row, scope)]
        for word in words:
            rows = [row for row in rows if word in row.hay]
        return Matches(rows[:SHOWN], len(rows))

    def contents(
        self, typed: str, scope: Scope, known: set[str], progress: Progress | None = None
    ) -> list[tuple[CatalogRow, str]]:
        """Further sessions with the words in their messages, newest first, each with a snippet.

        `progress` is called while the index is behind.
        """
        query = content_query(typed)
        if query is None:
            return []
        found: dict[str, tuple[CatalogRow, str]] = {}
        with suppress(clew.Unavailable):
            for hit in self.store.search(query, limit=50, newest=True, progress=progress):
                for session in hit.sessions:  # a fork has the message too
                    row = self.row(session.id)
                    if row is not None and row.id not in known and self.within(row, scope):
                        found.setdefault(row.id, (row, hit.snippet))
        return list(found.values())

    def within(self, row: CatalogRow, scope: Scope) -> bool:
        """True if a session is in the scope."""
        if scope == "directory":
            return row.cwd == self.cwd
        return scope == "everything" or f"{row.cwd}{os.sep}".startswith(self._below)

    def row(self, id: str) -> CatalogRow | None:
        """The row of a session; None for subagents."""
        place = self._places.get(id)
        return None if place is None else self._rows[place]

    def change(self, session: clew.Session) -> None:
        """Updates the row of a session."""
        row = _row(session)
        with self._lock:
            place = self._places.get(session.id)
            if row is not None and place is not None:
                self._rows[place] = row

    def add(self, session: clew.Session) -> None:
        """Inserts a session by its last activity."""
        row = _row(session)
        if row is not None:
            with self._lock:
                at = next((at for at, one in enumerate(self._rows) if one.at <= row.at), len(self._rows))
                self._rows.insert(at, row)
                self._index()

    def remove(self, id: str) -> None:
        """Removes a session."""
        with self._lock:
            self._rows = [row for row in self._rows if row.id != id]
            self._index()

    def _index(self) -> None:
        self._places = {row.id: place for place, row in enumerate(self._rows)}


def content_query(typed: str) -> str | None:
    """The words as a search in messages, which completes the last one; None if that is too short."""
    words = typed.split()
    if not words or len(words[-1]) < SHORTEST:
        return None
    return " ".join([*words[:-1], words[-1] + "*"])


def _row(session: clew.Session) -> CatalogRow | None:
    """The row of a session; None if it has no messages, or its data is damaged."""
    if session.head_id is None:
        return None
    try:
        title, cwd, labels = session.title or "", session.cwd or "", session.labels
        origin = origin_of(session)
        marks = " ".join(f"#{label}" for label in labels)
        hay = f"{title} {marks} {cwd} {origin.tool} {origin.branch}".casefold()
        fork = session.forked_from is not None
        return CatalogRow(session.id, title, cwd, session.updated_at, labels, hay, plain(origin.tool), fork)
    except clew.Corrupted:
        return None


def repository(cwd: str) -> str | None:
    """The root of the repository that contains `cwd`; None if there is none."""
    folder = cwd
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in (".git", ".jj", ".hg")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
