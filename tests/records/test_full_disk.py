"""A disk that is full while records are written, and is freed: nothing that was accepted is missing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import clew
from clew.errors import NotFound, ShutdownIncomplete, StorageFull, Unavailable
from clew.records import ConversationRecord, Pending, RecordService, events
from clew.testing import FakeClock
from tests.crash import disk
from tests.records.conftest import KEY
from tests.records.talk import frame, given, made, snapshot, texts


@pytest.fixture
def small(tmp_path: Path) -> Iterator[disk.Disk]:
    """Eight megabytes."""
    with disk.mounted(tmp_path / "disk", "8m") as made:
        yield made


def until_full(service: RecordService, talk: str) -> tuple[list[str], Pending[ConversationRecord]]:
    """Adds messages until there is no space: the accepted ones, and the first that waits."""
    accepted: list[str] = []
    for n in range(2, 2000):
        content = f"{n} " + "x" * 20_000
        outcome = service.update(talk, {"appendMessages": [frame(n, content=content)]})
        if isinstance(outcome, Pending):
            return accepted, outcome
        accepted.append(content)
    raise AssertionError("the disk never filled")


def fold(path: Path, how: str = "PASSIVE") -> None:
    """Folds the write-ahead log into the store, so that its space is used again, or with TRUNCATE given back."""
    conn = sqlite3.connect(path)
    assert conn.execute(f"PRAGMA wal_checkpoint({how})").fetchone()[0] == 0
    conn.close()


@pytest.mark.checklist("C31", "C41")
def test_ac_006_a_write_waits_for_space(small: disk.Disk) -> None:
    """A write for which there is no space says so, is warned of, and made when a purge frees some; all is there."""
    path = small.folder / "s.db"
    with clew.open(path, key=KEY) as store:
        service = RecordService(store, retry_every=60)
        heard: list[events.RecordEvent] = []
        service.events.subscribe(heard.append, events.CapacityWarning, events.CircuitChanged)
        service.initialize()
        made(service, "old", *[frame(n, content="y" * 100_000) for n in range(1, 26)])
        made(service, "talk")
        fold(path, "TRUNCATE")
        small.fill(leave=100_000)
        large = "x" * 1_000_000
        waiting = service.update("talk", {"appendMessages": [frame(2, content=large)]})
        assert isinstance(waiting, Pending)
        assert (waiting.done, waiting.stored, waiting.operation) == (False, False, "update")
        with pytest.raises(Unavailable):
            waiting.result(timeout=0.01)
        (warning,) = heard
        assert isinstance(warning, events.CapacityWarning)
        assert (warning.deferred, warning.pending_count) == (True, 1)
        assert warning.pending_bytes > len(large)
        assert "Free some space" in warning.advice
        assert "do not repeat it" in warning.advice
        later = service.update("talk", {"appendMessages": [frame(3, content="later")]})
        new = service.create(given("new", frame(content="new")))
        assert isinstance(later, Pending)
        assert isinstance(new, Pending)
        assert service.pending == 3
        assert service.get("new") is None
        assert len(texts(service.get("talk"))) == 1
        service.delete("old", "user-requested")
        assert service.pending == 0
        assert waiting.stored
        assert texts(later.result())[-1] == "later"
        assert new.result().conversation_id == "new"
        said = texts(service.get("talk"))
        assert said[1:] == [large, "later"]
        small.free()
        service.dispose()
        assert store.verify().ok
    with clew.open(path, key=KEY) as store, RecordService(store) as service:
        assert texts(service.get("talk")) == said


def test_a_purge_on_a_full_disk(small: disk.Disk) -> None:
    """A disk that is full to the last byte is no obstacle to deleting: the reserve makes room."""
    with clew.open(small.folder / "s.db") as store, RecordService(store, retry_every=60) as service:
        made(service, "talk", *[frame(n, content="y" * 100_000) for n in range(1, 16)])
        small.fill()
        service.delete("talk", "user-requested")
        assert service.list().total_count == 0
        assert store.verify().ok


def test_space_that_is_freed_elsewhere_is_noticed(small: disk.Disk) -> None:
    """Nobody has to ask: what waits is tried from time to time."""
    with clew.open(small.folder / "s.db") as store:
        service = RecordService(store, retry_every=0.05)
        service.initialize()
        made(service, "talk")
        small.fill(leave=300_000)
        accepted, waiting = until_full(service, "talk")
        held = service.commit_snapshot(snapshot("talk", frame(9000, content="pending")))
        assert isinstance(held, Pending)
        small.free()
        assert len(waiting.result(timeout=10).messages) == len(accepted) + 2
        assert held.result(timeout=10) is None
        assert held.stored
        service.dispose()


def test_many_writers_on_a_full_disk(small: disk.Disk) -> None:
    """Eight threads write while the disk fills and is freed: each message is there, once, in its thread's order."""
    with clew.open(small.folder / "s.db") as store:
        service = RecordService(store, retry_every=0.05)
        service.initialize()
        made(service, "talk", frame(1, content="first"))
        small.fill(leave=600_000)
        said: dict[int, list[str]] = {}
        waiting: list[Pending[ConversationRecord]] = []

        def talk(number: int) -> None:
            said[number] = []
            for turn in range(12):
                content = f"{number}:{turn} " + "z" * 9000
                outcome = service.update("talk", {"appendMessages": [frame(turn, content=content)]})
                if isinstance(outcome, Pending):
                    waiting.append(outcome)
                said[number].append(content)

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert waiting
        small.free()
        for one in waiting:
            one.result(timeout=20)
        found = texts(service.get("talk"))
        assert len(found) == 8 * 12 + 1
        for number, mine in said.items():
            assert [one for one in found if one.startswith(f"{number}:")] == mine
        service.dispose()
        assert store.verify().ok


def test_what_waits_is_bounded(small: disk.Disk) -> None:
    """When too much waits already, a write is refused; what waits is lost with the service, and named."""
    with clew.open(small.folder / "s.db") as store:
        service = RecordService(store, retry_every=60, max_pending=3)
        heard: list[events.CapacityWarning] = []
        service.events.subscribe(heard.append, events.CapacityWarning)
        service.initialize()
        made(service, "talk")
        small.fill(leave=300_000)
        _, waiting = until_full(service, "talk")
        for n in range(2):
            assert isinstance(service.create(given(f"new-{n}")), Pending)
        with pytest.raises(StorageFull) as told:
            service.create(given("one-too-many"))
        assert "purge" in told.value.hint
        assert [one.deferred for one in heard] == [True, True, True, False]
        with pytest.raises(ShutdownIncomplete) as ended:
            service.dispose()
        assert len(ended.value.failures) == 3
        assert "new-1" in str(ended.value)
        with pytest.raises(StorageFull):
            waiting.result()
        assert waiting.done
        assert not waiting.stored
        small.free()
    with clew.open(small.folder / "s.db") as store, RecordService(store) as service:
        assert service.get("new-0") is None


def test_bytes_that_wait_are_bounded(small: disk.Disk) -> None:
    """Memory is not what a full disk is paid for with."""
    with clew.open(small.folder / "s.db") as store:
        service = RecordService(store, retry_every=60, max_pending_bytes=50_000)
        service.initialize()
        made(service, "talk")
        small.fill(leave=300_000)
        until_full(service, "talk")
        with pytest.raises(StorageFull):
            service.create(given("large", frame(content="x" * 40_000)))
        small.free()
        service.dispose()
        assert service.pending == 0


def test_what_is_purged_does_not_come_back(small: disk.Disk) -> None:
    """Writes that wait for a record that is deleted, or for any when all are purged, are given up."""
    with clew.open(small.folder / "s.db") as store:
        service = RecordService(store, retry_every=60)
        service.initialize()
        made(service, "talk", frame(1, content="x" * 100_000))
        made(service, "other")
        small.fill(leave=300_000)
        _, waiting = until_full(service, "talk")
        new = service.create(given("new"))
        assert isinstance(new, Pending)
        small.free()
        service.delete("talk", "privacy-policy-change")
        with pytest.raises(NotFound, match="talk"):
            waiting.result()
        assert new.result(timeout=0).conversation_id == "new"
        assert service.get("talk") is None
        small.fill(leave=300_000)
        _, waiting = until_full(service, "other")
        small.free()
        assert service.purge_all("workspace-reset").purged_count == 2
        with pytest.raises(NotFound):
            waiting.result()
        assert service.list().total_count == 0
        service.dispose()


def test_what_waits_for_a_record_that_stays_is_kept(small: disk.Disk) -> None:
    """A hold keeps a record when all are purged, and so what waits for it; one that only waits can be deleted."""
    with clew.open(small.folder / "s.db") as store:
        service = RecordService(store, retry_every=60)
        service.initialize()
        made(service, "held")
        service.update("held", {"retention": {"manualHold": True}})
        id = str(uuid.uuid4())
        made(service, "filler")
        small.fill(leave=300_000)
        until_full(service, "filler")
        kept = service.update("held", {"appendMessages": [frame(2, content="kept")]})
        unwanted = service.create(given(id.upper()))
        assert isinstance(kept, Pending)
        assert isinstance(unwanted, Pending)
        small.free()
        service.delete(id, "privacy-policy-change")
        with pytest.raises(NotFound):
            unwanted.result()
        with pytest.raises(NotFound):
            service.delete(id, "privacy-policy-change")
        report = service.purge_all("workspace-reset")
        assert [failure.conversation_id for failure in report.failures] == ["held"]
        assert texts(kept.result(timeout=0))[-1] == "kept"
        assert [one.conversation_id for one in service.list().items] == ["held"]
        service.dispose()


def test_what_waits_for_space_is_activity(small: disk.Disk) -> None:
    """A sweep does not purge a record with a waiting write, although it has expired."""
    clock = FakeClock(1_761_048_000_000_000, tick=1000)
    with clew.open(small.folder / "s.db", clock=clock) as store:
        service = RecordService(store, retry_every=60)
        service.initialize()
        made(service, "old", frame(1, content="y" * 100_000))
        made(service, "talk")
        clock.advance(timedelta(days=31))
        made(service, "filler")
        small.fill(leave=300_000)
        until_full(service, "filler")
        waiting = service.update("talk", {"appendMessages": [frame(2, content="still here")]})
        assert isinstance(waiting, Pending)
        small.free()
        assert service.sweep().purged_count == 1
        assert texts(waiting.result(timeout=0))[-1] == "still here"
        assert service.get("old") is None
        service.dispose()


def test_a_subscriber_may_write_when_what_waited_is_stored(small: disk.Disk) -> None:
    """A subscriber called for a waiting write may write, which waits behind the others, and delete."""
    with clew.open(small.folder / "s.db") as store:
        service = RecordService(store, retry_every=60)
        service.initialize()
        for talk in ("talk", "unwanted"):
            made(service, talk)
        small.fill(leave=300_000)
        until_full(service, "talk")
        for talk in ("first", "second"):
            assert isinstance(service.create(given(talk)), Pending)
        small.free()
        written: list[object] = []

        def write(event: events.ConversationStored) -> None:
            if event.summary.conversation_id == "first":
                written.append(service.update("talk", {"title": "told"}))
                service.delete("unwanted", "user-requested")

        service.events.subscribe(write, events.ConversationStored)
        service.create(given("after"))
        (later,) = written
        assert isinstance(later, Pending)
        assert later.stored
        assert [one.conversation_id for one in service.list().items][:3] == ["after", "second", "first"]
        assert service.get("unwanted") is None
        record = service.get("talk")
        assert record is not None
        assert record.title == "told"
        service.dispose()


def test_a_write_that_fails_for_another_reason_is_told_so(small: disk.Disk) -> None:
    """A waiting write that cannot be stored once there is space raises the error of the call."""
    with clew.open(small.folder / "s.db") as store:
        service = RecordService(store, retry_every=60)
        service.initialize()
        made(service, "talk")
        small.fill(leave=300_000)
        until_full(service, "talk")
        first, second = service.create(given("new")), service.create(given("new"))
        assert isinstance(first, Pending)
        assert isinstance(second, Pending)
        small.free()
        service.create(given("after"))
        assert first.stored
        with pytest.raises(clew.Conflict):
            second.result()
        service.dispose()


LIMITED = """
import resource, signal, sys
import clew
from clew.records import Pending, RecordService
from tests.records.talk import frame, made, texts
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = clew.open(sys.argv[1])
service = RecordService(store, retry_every=0.05)
service.initialize()
made(service, "talk")
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.RLIM_INFINITY))
accepted = ["Why is the build failing?"]
for n in range(2, 1000):
    said = frame(n, content=f"{n} " + "x" * 20_000)
    waiting = service.update("talk", {"appendMessages": [said]})
    if isinstance(waiting, Pending):
        break
    accepted.append(said["content"])
assert len(accepted) > 3
assert texts(service.get("talk")) == accepted
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert texts(waiting.result(timeout=30)) == [*accepted, said["content"]]
assert texts(service.get("talk")) == [*accepted, said["content"]]
service.dispose()
store.close()
print("ok")
"""


def test_a_file_that_may_not_grow(path: Path) -> None:
    """With a limit on file sizes, a write waits as on a full disk; all accepted writes are stored."""
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "ok\n", done.stderr
