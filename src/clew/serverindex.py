"""The search index of a plain store on a server: words in a table beside the messages, filled when somebody searches.

The words of a message go in the transaction that deletes the message, and none are added for one that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from clew.backends import ID, POS, Place
from clew.damage import Damage
from clew.engine import Engine
from clew.errors import Tampered, Unavailable
from clew.indexing import BATCH, Mode, Progress, searchable
from clew.model import ROLES
from clew.node import microseconds
from clew.words import grams, vector, words

if TYPE_CHECKING:
    from clew.backends.postgres import PostgresBackend

_Words = tuple[int, bytes, int, int, str]
"""What the index has of a message: position, id, role, time and lexemes."""


class ServerIndex:
    """The index of one workspace of one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def _backend(self) -> PostgresBackend:
        return cast("PostgresBackend", self._engine.backend)

    def catch_up(self, mode: Mode, progress: Progress | None = None) -> None:
        """Adds what is stored now and was not yet."""
        backend, workspace = self._backend, self._engine.workspace
        done = backend.words(lambda tx: tx.search_edge(workspace, mode))
        try:
            total = backend.settled()
        except Unavailable:  # someone writes for long: what is there is added, and looked at again next time
            total = done
        at = done
        while found := self._after(at):
            at = found[-1][0]
            rows = [row for row in (self._row(mode, place) for _, place in found) if row is not None]
            edge = min(at, total)  # beyond it something may still come in between: that much is looked at again
            self._add(mode, rows, edge)
            if progress is not None:
                progress(min(at, total), max(at, total))

    def _after(self, ord: int) -> list[tuple[int, Place]]:
        workspace = self._engine.workspace
        return self._engine.read(lambda tx: tx.by_ord(ord, None, newest=False, limit=BATCH, workspace=workspace))

    def _add(self, mode: Mode, rows: Sequence[_Words], edge: int) -> None:
        workspace = self._engine.workspace
        self._backend.words(lambda tx: tx.add_words(workspace, mode, rows, edge))

    def find(
        self, mode: Mode, query: str, filters: dict[str, Any], *, limit: int, offset: int
    ) -> list[tuple[int, bytes, float]]:
        """Position, id and rank of what matches, best first, or without a query newest first."""
        workspace = self._engine.workspace
        return self._backend.words(lambda tx: tx.find_words(workspace, mode, query, filters, limit, offset))

    def shred(self) -> bool:
        """True: words have gone with their messages."""
        return True

    def remove(self) -> None:
        """Takes all words away, of every workspace that this user may see."""
        self._backend.words(lambda tx: tx.clear_words())

    def check(self) -> Iterator[Damage]:
        """Nothing: whatever is found is compared with its message."""
        return iter(())

    def close(self) -> None:
        """Nothing is open."""

    def _row(self, mode: Mode, place: Place) -> _Words | None:
        node = self._engine.node(place)
        try:
            text = searchable(node.message)
        except Tampered:
            return None
        lexemes = vector(words(text), places=True) if mode == "words" else vector(grams(text), places=False)
        return place.row[POS], place.row[ID], ROLES.index(node.role), microseconds(node.created_at), lexemes
