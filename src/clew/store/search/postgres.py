"""The search index of a plain store on a server: a table of words next to the messages, updated by each search.

The transaction that deletes a message also deletes its words, and no words are added for a deleted message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clew.backends import ID, POS, NodeLocation, Words
from clew.backends.fts_tables import Mode
from clew.backends.problems import Damage
from clew.base.messages import ROLES
from clew.engine.engine import Engine
from clew.engine.node import microseconds
from clew.errors import Corrupted, Unavailable
from clew.store.search.index import BATCH, Progress, searchable
from clew.store.search.text import grams, vector, words

_Words = tuple[int, bytes, int, int, str]
"""The index row of a message: position, id, role, time and lexemes."""


class ServerIndex:
    """The index of one workspace of one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def _words(self) -> Words:
        found = self._engine.backend.words
        assert found is not None
        return found

    def catch_up(self, mode: Mode, progress: Progress | None = None) -> None:
        """Adds all messages that are not indexed yet."""
        done = self._words.edge(self._engine.workspace, mode)
        try:
            total = self._engine.backend.settled_ord()
        except Unavailable:  # a long write is running: index what is visible, and check the same range next time
            total = done
        at = done
        while found := self._after(at):
            at = found[-1][0]
            rows = [row for row in (self._row(mode, place) for _, place in found) if row is not None]
            edge = min(at, total)  # beyond `total` open transactions may still insert: check that range next time
            self._words.add(self._engine.workspace, mode, rows, edge)
            if progress is not None:
                progress(min(at, total), max(at, total))

    def _after(self, ord: int) -> list[tuple[int, NodeLocation]]:
        workspace = self._engine.workspace
        return self._engine.read(lambda tx: tx.by_ord(ord, None, newest=False, limit=BATCH, workspace=workspace))

    def find(
        self, mode: Mode, query: str, filters: dict[str, Any], *, limit: int, offset: int
    ) -> list[tuple[int, bytes, float]]:
        """Position, id and rank of each match, best first; without a query, newest first."""
        return self._words.find(self._engine.workspace, mode, query, filters, limit, offset)

    def shred(self) -> bool:
        """True: the words were deleted with their messages."""
        return True

    def refill(self) -> None:
        """Does nothing: only the words of deleted messages were removed."""

    def remove(self) -> None:
        """Deletes all words of every workspace that this user can access."""
        self._words.clear()

    def check(self) -> Iterator[Damage]:
        """Reports nothing: a search compares each match with its message."""
        return iter(())

    def close(self) -> None:
        """Does nothing: there is no file."""

    def _row(self, mode: Mode, place: NodeLocation) -> _Words | None:
        node = self._engine.node(place)
        try:
            text = searchable(node.message)
        except Corrupted:
            return None
        lexemes = vector(words(text), places=True) if mode == "words" else vector(grams(text), places=False)
        return place.row[POS], place.row[ID], ROLES.index(node.role), microseconds(node.created_at), lexemes
