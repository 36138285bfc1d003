"""What the tests of a contract share: helpers, and a clock and ids that a test controls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from clew.base import ids
from clew.engine.node import Node
from clew.errors import ClewError
from clew.store.session import Session
from clew.store.store import Store

OpenStore = Callable[..., Store]
"""Opens the store under test with the settings of `clew.open`. Every call opens the same store."""


class Contract:
    """Base class of contract tests. A subclass provides the fixture `open_store`: an `OpenStore`."""

    reopens = True
    """False for a store that is lost on close and cannot be opened twice."""


def an_id(number: int) -> str:
    """An id that is the same in every run."""
    return f"00000000-0000-4000-8000-{number:012x}"


def texts(nodes: Iterable[Node]) -> list[str]:
    """The texts of the messages."""
    return [node.text for node in nodes]


def search_texts(store: Store, query: str) -> list[str]:
    """The texts of the messages that a search finds, sorted."""
    return sorted(hit.node.text for hit in store.search(query))


def titles(sessions: Iterable[Session]) -> list[str | None]:
    """The titles of the sessions."""
    return [session.title for session in sessions]


@contextmanager
def raises(kind: type[ClewError], *, naming: str = "") -> Iterator[None]:
    """Expects exactly this class of error, with `naming` in its message. AssertionError otherwise."""
    try:
        yield
    except kind as error:
        if naming in error.message:
            return
        raise AssertionError(f"{error.message!r} does not name {naming}") from error
    raise AssertionError(f"{kind.__name__} was not raised")


def skip(why: str) -> None:
    """Skips the test."""
    import pytest  # installed only where the tests run

    pytest.skip(why)


class FakeClock:
    """A clock that a test sets: microseconds since 1970, for `clew.open(clock=…)`."""

    def __init__(self, start: int = 1_700_000_000_000_000, *, tick: int = 0) -> None:
        self.now = start
        """The time that the next call returns."""
        self.tick = tick
        """Microseconds added by every call."""

    def __call__(self) -> int:
        now = self.now
        self.now += self.tick
        return now

    def advance(self, by: int | timedelta = 1) -> None:
        """Advances the clock by microseconds or a timedelta; negative values move it back."""
        self.now += by if isinstance(by, int) else by // timedelta(microseconds=1)


class SequentialIds:
    """Ids that count up from `first`, in stored form, for `clew.open(ids=…)`: the same in every run."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = itertools.count(first)

    def __call__(self) -> bytes:
        return ids.parse(f"00000000-0000-7000-8000-{next(self._numbers):012x}")
