"""Helpers that the tests of a contract share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

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
