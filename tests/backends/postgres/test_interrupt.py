"""Ctrl-C in the middle of an append to a server: the message is there or it is not, and the thread goes on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import clew
from clew.store.parts import Parts
from tests.concurrency.interrupts import appended_anyhow

# A connection that was interrupted may be left to the garbage collector, and the driver warns of that.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
DOORS = {"__exit__ call", "give_back call"}
"""No Python code can close the gap at the door of the function that lets go of a connection."""


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What was left is gone before the warnings of other tests are looked at."""
    yield
    gc.collect()


def test_an_append_may_be_interrupted_anywhere(url: str) -> None:
    """Wherever the interrupt comes, the same append made again gives one message, and no connection is lost."""
    with clew.open(url, durability="relaxed", timeout=5) as store:
        session = store.sessions.create()
        session.append(clew.user("warm"))
        connections = Parts.of(store).engine.backend._connections  # type: ignore[attr-defined]
        slots = connections._slots

        def meanwhile(where: str) -> None:
            if where in DOORS and slots.qsize() == 7:
                connections._local.held.clear()
                slots.put(None)
            assert slots.qsize() == 8, where

        expected = appended_anyhow(session, meanwhile)
        stored = [node.id for node in session.path()]
        assert [id for id in stored if id in set(expected)] == expected
