"""Recovery: what was pending is there after a crash, and a snapshot that is damaged costs nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clew
from clew.errors import Corrupted, NotFound
from clew.records import RecordService, events
from clew.records.redactor import Redactor
from clew.records.repository import RECOVERY, Marks, Repository
from clew.records.service import MAX_PAYLOAD
from clew.store.parts import Parts
from clew.store.store import Store
from clew.store.unit import Unit
from tests.records.conftest import KEY
from tests.records.talk import frame, given, made, snapshot, stored, summary, texts


def pending(service: RecordService, talk: str = "talk") -> list[str]:
    """The pending part of a conversation."""
    found = service.get_snapshot(talk)
    assert found is not None
    return [one.content for one in found.pending_messages]


@pytest.mark.checklist("C11")
def test_what_is_pending_is_stored_and_marked(service: RecordService) -> None:
    """A snapshot's messages are the record's at once; it still tells which of them were not committed."""
    made(service, "talk", frame(1, content="one"))
    service.commit_snapshot(snapshot("talk", frame(2, content="two"), summary=summary("so far")))
    found = service.get_snapshot("talk")
    assert found is not None
    assert found.summary is not None
    assert (found.session_id, found.summary.synopsis) == ("session-1", "so far")
    assert pending(service) == ["two"]
    assert texts(service.get("talk")) == ["one", "two"]
    assert service.recoverable() == ("talk",)


def test_a_later_snapshot_replaces_an_earlier_one(service: RecordService) -> None:
    """Each snapshot has everything that is pending; what was stored with an earlier one is not stored again."""
    made(service, "talk", frame(1, content="one"))
    second = frame(2, content="two")
    service.commit_snapshot(snapshot("talk", second))
    service.commit_snapshot(snapshot("talk", second, frame(3, "assistant", "three"), sessionId="session-2"))
    assert pending(service) == ["two", "three"]
    found = service.get_snapshot("talk")
    assert found is not None
    assert [one.sequence for one in found.pending_messages] == [2, 3]
    assert found.session_id == "session-2"
    assert texts(service.get("talk")) == ["one", "two", "three"]


@pytest.mark.checklist("C11")
def test_a_commit_ends_it(service: RecordService) -> None:
    """A commit removes the snapshot; its summary and metrics apply, unless the commit has newer ones."""
    made(service, "talk")
    said = {"summary": summary("pending"), "metrics": {"durationMs": 5, "averageLatencyMs": 6}}
    service.commit_snapshot(snapshot("talk", frame(2, "assistant"), **said))
    record = stored(service.commit_conversation("talk", {"metrics": {"averageLatencyMs": 7}}))
    assert record.summary is not None
    assert record.summary.synopsis == "pending"
    assert (record.metrics.duration_ms, record.metrics.average_latency_ms) == (5, 7)
    assert len(record.messages) == 2
    assert service.get_snapshot("talk") is None
    assert service.recoverable() == ()
    service.commit_conversation("talk")
    assert service.get_snapshot("talk") is None


def test_a_conversation_may_begin_with_a_snapshot(service: RecordService) -> None:
    """A conversation that was never created can be recovered; creating it later makes its record, once."""
    first = frame(1, content="one")
    service.commit_snapshot(snapshot("talk", first))
    assert texts(service.get("talk")) == ["one"]
    assert service.recoverable() == ("talk",)
    record = made(service, "talk", first, frame(2, content="two"))
    assert (record.title, texts(record)) == ("Debugging failing test", ["one", "two"])
    with pytest.raises(clew.Conflict):
        service.create(given("talk"))
    assert pending(service) == ["one", "two"]
    service.commit_conversation("talk")
    assert service.recoverable() == ()


def test_one_that_was_committed_cannot_be_created(service: RecordService) -> None:
    """A conversation that began with snapshots and was committed is a record."""
    service.commit_snapshot(snapshot("talk", frame()))
    service.commit_conversation("talk", {"title": "T"})
    with pytest.raises(clew.Conflict):
        service.create(given("talk"))


def test_an_empty_snapshot_marks_where_things_stand(service: RecordService) -> None:
    """With nothing pending there is a snapshot all the same, for an empty conversation too."""
    service.commit_snapshot(snapshot("talk"))
    assert pending(service) == []
    made(service, "other")
    service.commit_snapshot(snapshot("other"))
    assert pending(service, "other") == []
    assert service.recoverable() == ("other", "talk")


def test_many_that_are_open(service: RecordService, monkeypatch: pytest.MonkeyPatch) -> None:
    """All conversations with something pending are found, page by page."""
    from clew.records import repository

    monkeypatch.setattr(repository, "PAGE", 3)
    for n in range(7):
        service.commit_snapshot(snapshot(f"talk-{n}", frame()))
    assert service.recoverable() == tuple(f"talk-{n}" for n in reversed(range(7)))


def test_a_snapshot_goes_with_its_record(service: RecordService, sealed: Store) -> None:
    """Deleting, trashing and restoring the record does the same to its snapshot."""
    service.commit_snapshot(snapshot("talk", frame()))
    (session,) = sealed.sessions.list().items
    session.trash()
    assert service.get_snapshot("talk") is None
    assert service.recoverable() == ()
    sealed.sessions.restore(session.id)
    assert len(pending(service)) == 1
    service.delete("talk", "user-requested")
    assert service.get_snapshot("talk") is None
    kept = Parts.of(sealed).engine.read(lambda tx: tx.maintenance.sizes())["refs"]
    assert kept == 4  # receipts, audit, policy, hashes of purged ids
    assert sealed.verify().ok


def test_a_rewound_conversation_has_all_it_has_left_pending(service: RecordService, sealed: Store) -> None:
    """If the committed messages were rewound, all present messages are pending."""
    made(service, "talk", frame(1, content="one"), frame(2, content="two"))
    service.commit_snapshot(snapshot("talk", frame(3, content="three")))
    (session,) = sealed.sessions.list().items
    session.rewind(to=session.path()[0].id)
    assert pending(service) == ["one"]


def test_messages_under_a_snapshot_can_be_deleted(service: RecordService, sealed: Store) -> None:
    """Deleting messages by id moves the mark up as it moves the session."""
    made(service, "talk", frame(1, content="one"), frame(2, content="two"))
    service.commit_snapshot(snapshot("talk", frame(3, content="three")))
    (session,) = sealed.sessions.list().items
    sealed.nodes.delete([session.path()[1].id], recursive=True)
    assert texts(service.get("talk")) == ["one"]
    assert pending(service) == []
    assert sealed.verify().ok


# -- damage


def damage(path: Path, column: str = "data") -> None:
    """Flips a bit of the one snapshot in a store, behind its back."""
    with sqlite3.connect(path) as conn:
        ((ref, value),) = conn.execute(f"SELECT ref, {column} FROM refs WHERE kind = 'recovery'").fetchall()
        changed = value + 1 if isinstance(value, int) else bytes([*value[:-1], value[-1] ^ 1])
        conn.execute(f"UPDATE refs SET {column} = ? WHERE ref = ?", (changed, ref))
    conn.close()


@pytest.mark.checklist("C38")
@pytest.mark.parametrize("column", ["data", "mac", "version"])
def test_c38_a_damaged_snapshot_is_made_anew(
    service: RecordService, sealed: Store, heard: list[events.RecordEvent], path: Path, column: str
) -> None:
    """A damaged snapshot is read again, reported and replaced; all messages are there and pending."""
    made(service, "talk", frame(1, content="one"))
    service.commit_snapshot(snapshot("talk", frame(2, content="two")))
    heard.clear()
    damage(path, column)
    assert pending(service) == ["one", "two"]
    (told,) = heard
    assert isinstance(told, events.CorruptionDetected)
    assert (told.conversation_id, told.purged) == ("talk", False)
    assert pending(service) == ["one", "two"]
    assert len(heard) == 1
    assert texts(service.get("talk")) == ["one", "two"]
    assert sealed.verify().ok
    assert len(stored(service.commit_conversation("talk")).messages) == 2


@pytest.mark.checklist("C38")
def test_c38_reading_it_once_more_may_be_enough(
    service: RecordService, heard: list[events.RecordEvent], monkeypatch
) -> None:
    """A snapshot whose second read succeeds is not replaced."""
    made(service, "talk", frame(1, content="one"))
    service.commit_snapshot(snapshot("talk", frame(2, content="two")))
    heard.clear()
    real, fail = Repository.read_pending, iter([True])

    def marked(repository: Repository, key: str) -> object:
        if next(fail, False):
            raise Corrupted("the snapshot")
        return real(repository, key)

    monkeypatch.setattr(Repository, "read_pending", marked)
    assert pending(service) == ["two"]
    assert heard == []


def test_c38_a_damaged_snapshot_is_replaced_by_the_next(service: RecordService, sealed: Store, path: Path) -> None:
    """Writing a snapshot over a damaged one, or committing, does not need to read it."""
    made(service, "talk", frame(1, content="one"))
    service.commit_snapshot(snapshot("talk", frame(2, content="two")))
    damage(path)
    service.commit_snapshot(snapshot("talk", frame(3, content="three")))
    assert pending(service) == ["three"]
    damage(path)
    record = stored(service.commit_conversation("talk"))
    assert texts(record) == ["one", "two", "three"]
    assert service.get_snapshot("talk") is None
    assert sealed.verify().ok


def test_a_snapshot_that_someone_else_has_put_right_stays(service: RecordService, repository: Repository) -> None:
    """Replacing changes nothing if the snapshot is sound or deleted by then."""
    made(service, "talk", frame(1, content="one"))
    key = repository.key("talk")
    repository.replace_mark(key)
    assert service.get_snapshot("talk") is None
    service.commit_snapshot(snapshot("talk", frame(2, content="two")))
    repository.replace_mark(key)
    assert pending(service) == ["two"]
    with pytest.raises(NotFound):
        repository.replace_mark(repository.key("other"))


def test_a_snapshot_that_does_not_decode_is_damage(service: RecordService, sealed: Store) -> None:
    """A snapshot that decrypts but does not decode is replaced as well."""
    service.commit_snapshot(snapshot("talk", frame(content="one")))
    key = Repository(sealed, MAX_PAYLOAD, False).key("talk")

    def spoil(unit: Unit) -> None:
        mark = Marks(sealed, Redactor(sealed, None)).find(unit, key)
        assert mark is not None
        unit.put(RECOVERY, mark.id, b"{}", before=mark)

    sealed.write(spoil)
    assert pending(service) == ["one"]


# -- crashes

WRITER = """
import sys, time
import clew
from clew.records import RecordService
from tests.records.conftest import KEY
from tests.records.talk import frame, made, snapshot
store = clew.open(sys.argv[1], key=KEY)
service = RecordService(store)
service.initialize()
made(service, "talk", frame(1, content="committed"))
said = []
for n in range(2, 1000):
    said.append(frame(n, "assistant", f"answer {n}"))
    began = time.monotonic()
    service.commit_snapshot(snapshot("talk", *said[-5:]))
    print(n, time.monotonic() - began, flush=True)
"""


@pytest.mark.checklist("C39")
def test_c39_a_crash_and_what_comes_after(path: Path) -> None:
    """A killed program finds its conversation with all acknowledged messages again, and commits it."""
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=env)
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(20)]
    writer.send_signal(signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.stdout.close()
    writer.wait()
    told = [line.split() for line in lines if line.endswith("\n")]
    assert min(float(took) for _, took in told) < 2
    with clew.open(path, key=KEY) as store, RecordService(store) as service:
        assert service.recoverable() == ("talk",)
        began = time.monotonic()
        found = service.get_snapshot("talk")
        assert time.monotonic() - began < 2
        assert found is not None
        said = [one.content for one in found.pending_messages]
        assert said[: len(told)] == [f"answer {n}" for n, _ in told]
        record = stored(service.commit_conversation("talk", {"summary": summary()}))
        assert texts(record) == ["committed", *said]
        assert service.recoverable() == ()
        assert store.verify().ok


@pytest.mark.checklist("C6")
def test_ten_thousand_messages_are_back_within_two_seconds(service: RecordService) -> None:
    """A long conversation is found and read again in time, not counting what else the machine does."""
    frames = [frame(n, "assistant" if n % 2 else "user", f"message {n}") for n in range(1, 10_001)]
    service.commit_snapshot(snapshot("talk", *frames))
    took = []
    for _ in range(3):
        began = time.process_time()
        assert service.recoverable() == ("talk",)
        found = service.get_snapshot("talk")
        took.append(time.process_time() - began)
        assert found is not None
        assert len(found.pending_messages) == 10_000
    assert min(took) < 2
