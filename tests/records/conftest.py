"""A service on a sealed store, with its clock under control and its events at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.records import RecordService, events
from clew.store.store import Store
from clew.testing import FakeClock

KEY = bytes(range(32))


@pytest.fixture
def clock() -> FakeClock:
    """A clock that advances a millisecond per call, and otherwise when set."""
    return FakeClock(1_761_048_000_000_000, tick=1000)


@pytest.fixture
def sealed(path: Path, clock: FakeClock) -> Iterator[Store]:
    """A sealed store in a file."""
    with clew.open(path, key=KEY, clock=clock) as store:
        yield store


@pytest.fixture
def service(sealed: Store) -> Iterator[RecordService]:
    """A service that is ready."""
    service = RecordService(sealed)
    service.initialize()
    yield service
    service.dispose()


@pytest.fixture
def heard(service: RecordService) -> list[events.RecordEvent]:
    """Everything that the service tells, but for the end of each call."""
    found: list[events.RecordEvent] = []

    def listen(event: events.RecordEvent) -> None:
        if not isinstance(event, events.OperationFinished):
            found.append(event)

    service.events.subscribe(listen)
    return found
