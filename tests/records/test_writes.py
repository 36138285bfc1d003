"""Writes of the service: circuit breaker, latency and background jobs."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import Conflict, ShutdownIncomplete, StorageFull, Unavailable
from clew.records import CircuitOpen, Pending, RecordService, events
from clew.records.repository import Repository
from clew.records.service import RecordReader
from clew.records.writes import Breaker, Latency, Limits, Writes
from clew.store.parts import Parts
from clew.store.store import Store
from tests.records.talk import frame, given, made, stored


class Seconds:
    """A clock in seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def state(breaker: Breaker) -> str:
    """As it is now: it changes without being assigned to."""
    return breaker.state


def fails(breaker: Breaker, error: type[Exception] = Unavailable) -> None:
    """A call that fails."""
    with pytest.raises(error), breaker.guard():
        raise error("x")


@pytest.mark.checklist("C36")
def test_c36_a_circuit_opens_after_repeated_failures_and_closes_again() -> None:
    """Five failures in a row open it; nothing is tried until the cool-down is over; then one call decides."""
    clock, told = Seconds(), list[str]()
    breaker = Breaker(failures=5, cool_down=30, clock=clock, changed=told.append)
    for _ in range(4):
        fails(breaker)
    with breaker.guard():
        pass
    for _ in range(5):
        assert state(breaker) == "closed"
        fails(breaker)
    assert state(breaker) == "open"
    clock.now += 29.9
    fails(breaker, CircuitOpen)
    clock.now += 0.2
    fails(breaker)
    assert state(breaker) == "open"
    fails(breaker, CircuitOpen)
    clock.now += 31
    with breaker.guard():
        assert state(breaker) == "half-open"
        fails(breaker, CircuitOpen)  # only one may try
    assert state(breaker) == "closed"
    assert told == ["open", "half-open", "open", "half-open", "closed"]


@pytest.mark.parametrize("error", [Conflict, StorageFull, KeyboardInterrupt])
def test_c36_other_errors_show_that_the_store_works(error: type[BaseException]) -> None:
    """A conflict, a full disk or an interrupt is no failure to write, and closes a half-open circuit."""
    clock = Seconds()
    breaker = Breaker(failures=1, cool_down=1, clock=clock)
    fails(breaker)
    clock.now += 2
    with pytest.raises(error), breaker.guard():
        raise error("x")
    assert state(breaker) == "closed"
    for _ in range(3):
        with pytest.raises(error), breaker.guard():
            raise error("x")
    assert state(breaker) == "closed"


@pytest.mark.checklist("C36", "C41")
def test_c36_a_service_stops_writing_to_a_broken_disk(sealed: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After repeated errors writes are refused without being tried, reads go on, and the events tell."""
    clock, heard, tried = Seconds(), list[events.RecordEvent](), list[int]()
    service = RecordService(sealed, failures=3, cool_down=10, timer=clock)
    service.events.subscribe(heard.append, events.CircuitChanged)
    service.initialize()
    made(service, "talk")
    real = Repository.change

    def broken(*args: object, **kwargs: object) -> object:
        tried.append(1)
        raise Unavailable("an I/O error")

    monkeypatch.setattr(Repository, "change", broken)
    for _ in range(3):
        with pytest.raises(Unavailable, match="I/O"):
            service.update("talk", {"title": "x"})
    for _ in range(5):
        with pytest.raises(CircuitOpen, match="10 s"):
            service.update("talk", {"title": "x"})
    assert len(tried) == 3
    assert service.get("talk") is not None
    assert service.pending == 0
    monkeypatch.setattr(Repository, "change", real)
    clock.now += 11
    service.update("talk", {"title": "x"})
    service.delete("talk", "user-requested")
    states = [one.state for one in heard if isinstance(one, events.CircuitChanged)]
    assert states == ["open", "half-open", "closed"]
    service.dispose()


# -- latency


@pytest.mark.checklist("C30")
def test_c30_slow_writes_are_noticed_once() -> None:
    """If more than one write in twenty is slow, an event says so once, and again only after an improvement."""
    latency = Latency(150)
    assert [latency.note(200) for _ in range(19)] == [None] * 19
    assert latency.note(200) == (200, 20)
    assert latency.note(200) is None
    assert all(latency.note(1) is None for _ in range(100))
    assert [latency.note(300) for _ in range(5)] == [None] * 5
    assert latency.note(300) == (300, 100)


def test_c30_few_writes_are_too_few_to_tell() -> None:
    """One slow write among twenty is not reported."""
    latency = Latency(150)
    assert all(latency.note(took) is None for took in [1] * 19 + [1000])


@pytest.mark.checklist("C30")
def test_c30_a_service_tells_of_slow_writes(sealed: Store) -> None:
    """A write that is slow by the service's clock emits an event."""
    clock, heard = Seconds(), list[events.RecordEvent]()

    def timer() -> float:
        clock.now += 0.2
        return clock.now

    service = RecordService(sealed, timer=timer)
    service.events.subscribe(heard.append, events.SlowWrites)
    service.initialize()
    made(service, "talk")
    for n in range(2, 30):
        service.update("talk", {"appendMessages": [frame(n)]})
    (told,) = heard
    assert isinstance(told, events.SlowWrites)
    assert (told.p95_ms > 150, told.limit_ms, told.samples) == (True, 150, 20)
    service.dispose()


def test_c30_what_is_read_back_is_part_of_a_write(sealed: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller waits for the record that an update returns: the time that takes is measured too."""
    clock, heard = Seconds(), list[events.RecordEvent]()
    service = RecordService(sealed, timer=lambda: clock.now)
    service.events.subscribe(heard.append, events.SlowWrites)
    service.initialize()
    made(service, "talk")
    read = RecordReader.read

    def slow(*args: Any) -> Any:
        clock.now += 0.5
        return read(*args)

    monkeypatch.setattr(RecordReader, "read", slow)
    for n in range(2, 30):
        service.update("talk", {"appendMessages": [frame(n)]})
    (told,) = heard
    assert isinstance(told, events.SlowWrites)
    assert round(told.p95_ms) == 500
    service.dispose()


# -- in the background


def test_c28_dispose_does_not_wait_for_another_program(sealed: Store, path: Path) -> None:
    """On a busy store, a write waits up to a minute, and `dispose` for its grace period."""
    service = RecordService(sealed, retry_every=60)
    service.initialize()
    made(service, "talk")
    waiting: Pending[object] = Pending("update", "talk", 1, lambda: sealed.sessions.create())
    service._writes._deferred.add(waiting)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    with pytest.raises(ShutdownIncomplete) as caught:
        service.dispose(0.3)
    assert time.monotonic() - began < 5
    other.execute("ROLLBACK")
    other.close()
    assert len(caught.value.failures) == 2
    with pytest.raises(StorageFull):
        waiting.result(5)


def test_what_waited_is_written_once() -> None:
    """A record that was stored and could not be read back at once is read again, not created again."""
    outcomes = iter([StorageFull("x"), None])
    reads = iter([Unavailable("x"), None])
    written: list[int] = []

    def write() -> int:
        if error := next(outcomes):
            raise error
        written.append(1)
        return len(written)

    def read(number: int) -> int:
        if error := next(reads):
            raise error
        return number

    writes = Writes(events.Events(), Limits(10, 1000, 150, 60, 5, 30), time.monotonic)
    waiting = writes.now_or_later("create", "talk", 1, write, read)
    assert isinstance(waiting, Pending)
    writes.space()
    assert not waiting.done
    writes.space()
    assert (waiting.result(0), len(written)) == (1, 1)
    writes.close(time.monotonic() + 1)


def test_a_deferred_write_that_is_broken_off_is_an_error_of_its_own(service: RecordService) -> None:
    """A call that raises what no store raises is not swallowed by the queue: it fails where it is made again."""
    from clew.records.deferred import Deferred, Pending

    deferred = Deferred()
    waiting: Pending[int] = Pending("update", "talk", 1, lambda: 1 // 0)
    deferred.add(waiting)
    assert deferred.flush()
    with pytest.raises(ZeroDivisionError):
        waiting.result()
    assert isinstance(service.create(given()), clew.records.ConversationRecord)


def test_what_an_update_returns_costs_what_it_adds(path: Path) -> None:
    """The record of a long conversation is returned without reading all of it, and is what `get` reads."""
    with clew.open(path, durability="relaxed") as store, RecordService(store) as service:
        made(service, "talk", *(frame(n, content=f"message {n}") for n in range(1, 2001)))
        rows: list[int] = []
        seen = Parts.of(store).engine.backend.read

        def read(work: Any, **settings: Any) -> Any:
            result = seen(work, **settings)
            rows.append(len(result.nodes) if hasattr(result, "nodes") else 0)
            return result

        Parts.of(store).engine.read = read  # type: ignore[method-assign]
        for n in range(2001, 2011):
            record = stored(service.update("talk", {"appendMessages": [frame(n, content=f"message {n}")]}))
            assert len(record.messages) == n
            assert max(rows) <= 1
        titled = stored(service.update("talk", {"title": "x"}))
        assert service.get("talk") == titled
        assert max(rows) == 2010
        session = store.sessions.latest()
        session.rewind(to=session.path()[4].id)
        record = stored(service.update("talk", {"appendMessages": [frame(3000, content="instead")]}))
        assert record == service.get("talk")
        assert [one.content for one in record.messages][-2:] == ["message 5", "instead"]
