"""The parts of an open store, created on first use. The store's views and other rooms get them here."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast

from clew.base.loading import loading
from clew.engine.engine import Engine
from clew.store.session_table import SessionParts

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.store.search.index import Index
    from clew.store.search.postgres import ServerIndex
    from clew.store.search.query import Search
    from clew.upkeep.purge import Purger


class HasParts(Protocol):
    """A `Store` or a `Session`."""

    @property
    def _parts(self) -> SessionParts: ...


class Stoppable(Protocol):
    """A thread that works on a store."""

    def stop(self, seconds: float | None = None) -> None:
        """Stops it, and waits for it at most `seconds`. Idempotent."""


class Parts(SessionParts):
    """The engine of a store and the parts that its views share."""

    def __init__(self, engine: Engine, *, tidy: bool = True) -> None:
        super().__init__(engine)
        self.tidy = tidy
        """Whether closing the store clears remaining traces and objects."""
        self.threads = set[Stoppable]()
        """What the store stops when it is closed."""
        self.closing: list[Callable[[], object]] = []
        """What the store calls before it is closed."""

    @staticmethod
    def of(owner: HasParts) -> Parts:
        """The parts of a `Store`, or of the store of a `Session`: for modules of clew, not for its users."""
        return cast("Parts", owner._parts)

    @cached_property
    def search(self) -> Search:
        """Full-text search."""
        with loading:
            from clew.store.search.query import Search

        return Search(self)

    @property
    def index(self) -> Index | ServerIndex:
        """The search index."""
        return self.search.index

    @cached_property
    def purger(self) -> Purger:
        """Deletes and purges."""
        with loading:
            from clew.upkeep.purge import Purger

        return Purger(self.engine, self.refs, lambda: self.search)

    def close(self) -> None:
        """Closes the search index, if one is open."""
        if "search" in self.__dict__:
            self.search.close()
