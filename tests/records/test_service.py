"""The record service: created, changed, read, listed, deleted; and what it refuses."""

from __future__ import annotations

import io
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any, get_args

import pytest

import clew
from clew.backends import BODY
from clew.backends.sqlite.tx import SQLiteTx
from clew.backends.sqlite.writer import Writer
from clew.base import ids
from clew.engine.node import node_row
from clew.errors import Closed, Conflict, Invalid, NotFound, ShutdownIncomplete
from clew.records import Pending, Policy, PurgeReason, RecordService, events
from clew.records.repository import Repository
from clew.records.service import RecordReader
from clew.store.parts import Parts
from clew.store.store import Store
from clew.store.unit import Unit
from clew.testing import FakeClock
from tests.records.talk import frame, given, made, snapshot, stored, summary, texts

# -- beginning and end


@pytest.mark.checklist("C2", "C28")
def test_nothing_works_before_it_is_initialized(sealed: Store) -> None:
    """Every call is refused until `initialize`, and again after `dispose`; both may be called twice."""
    service = RecordService(sealed)
    calls: list[Callable[[], object]] = [
        lambda: service.create(given()), lambda: service.update("x", {}), lambda: service.get("x"), service.list,
        lambda: service.delete("x", "user-requested"), lambda: service.purge_all("workspace-reset"),
        lambda: service.commit_snapshot(snapshot("x")), lambda: service.get_snapshot("x"), service.recoverable,
        lambda: service.commit_conversation("x"), lambda: service.export("x"), service.sweep,
        lambda: service.attach("x", b"", type="code"), lambda: service.open_attachment("x", "y"),
        lambda: service.set_privacy("x"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(Closed, match="not initialized"):
            call()
    report = service.initialize()
    assert report is not None
    assert report.purged_count == 0
    assert service.initialize() is None
    assert service.is_initialized
    service.dispose()
    service.dispose()
    assert not service.is_initialized
    for call in calls:
        with pytest.raises(Closed, match="disposed"):
            call()
    with pytest.raises(Closed):
        service.initialize()
    sealed.sessions.create()  # the store is its opener's, and still open


def test_one_that_was_never_initialized_can_be_disposed_of(sealed: Store) -> None:
    """Disposing first is no error, and final."""
    service = RecordService(sealed)
    service.dispose()
    with pytest.raises(Closed):
        service.initialize()


@pytest.mark.checklist("C28")
def test_dispose_waits_for_calls_that_are_going_on(sealed: Store) -> None:
    """`dispose` waits for running calls."""
    service = RecordService(sealed)
    service.initialize()
    inside = threading.Event()

    def slow(event: events.RecordEvent) -> None:
        inside.set()
        time.sleep(0.2)

    service.events.subscribe(slow, events.ConversationStored)
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(service.create(given("talk"))))
    thread.start()
    inside.wait()
    began = time.monotonic()
    service.dispose()
    assert time.monotonic() - began > 0.1
    thread.join()
    assert len(done) == 1


def test_what_fails_in_the_background_is_told_by_name(sealed: Store) -> None:
    """An application's error may contain content, so the message has only its class; the error is its cause."""

    def summarise(record: clew.records.ConversationRecord) -> None:
        raise RuntimeError(record.messages[0].content)

    service = RecordService(sealed, summarise=summarise)
    service.initialize()
    made(service, "talk", frame(content="canary"))
    with pytest.raises(ShutdownIncomplete, match="RuntimeError") as caught:
        service.dispose()
    assert "canary" not in str(caught.value)
    assert [str(error) for error in caught.value.failures] == ["canary"]


@pytest.mark.checklist("C28")
def test_dispose_does_not_wait_for_ever(sealed: Store) -> None:
    """After the grace it says how many calls were still going on, and what else was not done, in one error."""

    def summarise(record: object) -> None:
        raise ZeroDivisionError

    service = RecordService(sealed, summarise=summarise)
    service.initialize()
    inside, go_on = threading.Event(), threading.Event()

    def stuck(event: events.RecordEvent) -> None:
        inside.set()
        go_on.wait(5)

    made(service, "first")
    service.events.subscribe(stuck, events.ConversationStored)
    thread = threading.Thread(target=lambda: service.create(given("second", summary=summary())))
    thread.start()
    inside.wait()
    began = time.monotonic()
    with pytest.raises(ShutdownIncomplete) as told:
        service.dispose(grace=0.2)
    assert time.monotonic() - began < 4  # of the 5 that the call takes
    assert sorted(type(one).__name__ for one in told.value.failures) == ["Unavailable", "ZeroDivisionError"]
    assert "1 calls were still running" in str(told.value)
    go_on.set()
    thread.join()


# -- creating, changing, reading


def test_a_record_is_created_and_read(service: RecordService) -> None:
    """A record has the given values, and defaults for the others."""
    record = made(service, "talk", frame(1), frame(2, "assistant", "Lint."), summary=summary())
    assert service.get("talk") == record
    assert texts(record) == ["Why is the build failing?", "Lint."]
    assert record.metrics.user_utterance_count == record.metrics.assistant_utterance_count == 1
    assert record.retention.retention_policy == "workspace-default"
    assert (record.privacy.classification, record.privacy.exportable) == ("Confidential", False)
    assert record.storage.checksum
    assert record.version == 1


@pytest.mark.checklist("C3")
def test_create_update_and_get_of_ids_that_are_taken_or_unknown(service: RecordService) -> None:
    """A second record with an id is a Conflict, an update of none is NotFound, and reading one gives None."""
    made(service, "talk")
    with pytest.raises(Conflict):
        service.create(given("talk"))
    with pytest.raises(NotFound):
        service.update("other", {"title": "x"})
    with pytest.raises(NotFound):
        service.commit_conversation("other")
    with pytest.raises(NotFound):
        service.delete("other", "user-requested")
    with pytest.raises(NotFound):
        service.set_privacy("other", exportable=True)
    with pytest.raises(NotFound):
        service.attach("other", b"x", type="code")
    assert service.get("other") is None
    assert service.get_snapshot("other") is None
    assert service.list().total_count == 1


@pytest.mark.parametrize("id", ["talk", "3F0C8F6E-6A58-4D0E-9D0A-1F2B7C9D4E5F", "müde", "k3m9qa", "x" * 512])
def test_any_id_will_do(service: RecordService, sealed: Store, id: str) -> None:
    """An id that is not a UUID is the conversation's all the same; its session has a UUID that tells nothing of it."""
    made(service, id)
    record = service.get(id)
    assert record is not None
    assert record.conversation_id == id == service.list().items[0].conversation_id
    (session,) = sealed.sessions.list().items
    assert sealed.sessions.get(session.id) == session
    assert record.storage.blob_uri == f"sessions/{session.id}"
    assert id not in session.id
    assert ids.maybe(session.id) is not None
    service.delete(id, "user-requested")
    assert service.get(id) is None


@pytest.mark.parametrize("id", ["", "x" * 513, "\ud800", 5])
def test_what_is_no_id(service: RecordService, id: str) -> None:
    """An empty id, a long one, half a character and a number are Invalid."""
    with pytest.raises(Invalid):
        service.get(id)
    with pytest.raises(Invalid):
        service.create(given() | {"conversationId": id})


def test_frames_of_two_conversations_may_have_the_same_id(service: RecordService) -> None:
    """An id that is no UUID is a frame's in its conversation alone; a UUID is one message's in the whole store."""
    for talk in ("one", "two"):
        assert made(service, talk, frame(1, frameId="1")).messages[0].frame_id == "1"
    one = frame()
    made(service, "three", one)
    with pytest.raises(Conflict):
        service.create(given("four", one))
    assert service.get("four") is None


@pytest.mark.checklist("C10")
def test_an_update_changes_what_it_says_and_nothing_else(service: RecordService) -> None:
    """Messages are added; title and summary are replaced; retention and metrics are merged field by field."""
    before = made(service, "talk", summary=summary("before"), metrics={"averageLatencyMs": 7})
    record = stored(service.update("talk", {"appendMessages": [frame(2, "assistant", "Lint.")]}))
    assert (record.title, record.summary, record.metrics.average_latency_ms) == (before.title, before.summary, 7)
    assert texts(record) == ["Why is the build failing?", "Lint."]
    record = stored(service.update("talk", {"title": "T", "summary": summary("after"), "metrics": {"durationMs": 9}}))
    assert record.summary is not None
    assert (record.title, record.summary.synopsis) == ("T", "after")
    assert (record.metrics.duration_ms, record.metrics.average_latency_ms) == (9, 7)
    assert len(record.messages) == 2
    record = stored(service.update("talk", {"retention": {"manualHold": True}}))
    assert (record.retention.manual_hold, record.retention.retention_policy) == (True, "workspace-default")
    record = stored(service.update("talk", {"retention": {"manualHold": False}, "metrics": {"userUtteranceCount": 5}}))
    assert record.retention.manual_hold is None
    record = stored(service.update("talk", {"appendMessages": [frame(3)]}))
    assert record.metrics.user_utterance_count == 6
    assert record.last_interaction_at > before.last_interaction_at


def test_a_title_alone_is_no_interaction(service: RecordService) -> None:
    """The last interaction of a record is its last message."""
    before = made(service, "talk")
    after = stored(service.update("talk", {"title": "other"}))
    assert after.last_interaction_at == before.last_interaction_at
    assert after.storage.blob_version > before.storage.blob_version


def test_a_message_is_stored_once(service: RecordService) -> None:
    """The same update again changes nothing; the same id with other words is a Conflict, and nothing is added."""
    made(service, "talk")
    second, third = frame(2, "assistant", "Lint."), frame(3)
    service.update("talk", {"appendMessages": [second]})
    record = stored(service.update("talk", {"appendMessages": [second, third]}))
    assert [one.sequence for one in record.messages] == [1, 2, 3]
    assert record.metrics.assistant_utterance_count == 1
    with pytest.raises(Conflict):
        service.update("talk", {"appendMessages": [{**second, "content": "Tests."}, frame(4)]})
    assert service.get("talk") == record


def test_a_message_on_a_branch_is_not_taken_for_stored(service: RecordService, sealed: Store) -> None:
    """Adding a message again that the conversation has rewound raises Conflict."""
    second = frame(2)
    made(service, "talk", frame(1), second)
    (session,) = sealed.sessions.list().items
    session.rewind(to=session.path()[0].id)
    with pytest.raises(Conflict, match="branch"):
        service.update("talk", {"appendMessages": [second]})


@pytest.mark.checklist("C8")
def test_sequences_stay_in_order(service: RecordService) -> None:
    """Sequence numbers keep their gaps; if two writers chose the same, the later message gets the next one."""
    made(service, "talk", frame(10), frame(20, "assistant"))
    record = stored(service.update("talk", {"appendMessages": [frame(20), frame(25)]}))
    assert [one.sequence for one in record.messages] == [10, 20, 21, 25]


def test_what_cannot_be_stored_is_refused_before_anything_is(service: RecordService) -> None:
    """Text that cannot be read back unchanged is Invalid, and the record does not change."""
    before = made(service, "talk")
    for content in ("\ud800", "a\0b"):
        with pytest.raises(Invalid):
            service.update("talk", {"title": "x", "appendMessages": [frame(2, content=content)]})
    with pytest.raises(Invalid):
        service.update("talk", {"summary": summary("\ud800")})
    assert service.get("talk") == before


# -- versions


def test_a_field_that_someone_else_has_set_is_a_conflict(service: RecordService) -> None:
    """With an expected version, messages are always added, and a field is set only if no other writer set it since."""
    before = made(service, "talk")
    seen = before.storage.blob_version
    service.update("talk", {"title": "theirs"}, expected_version=seen)
    record = stored(service.update("talk", {"appendMessages": [frame(2)]}, expected_version=seen))
    assert (record.title, len(record.messages)) == ("theirs", 2)
    record = stored(service.update("talk", {"summary": summary(), "appendMessages": [frame(3)]}, expected_version=seen))
    assert (record.title, len(record.messages)) == ("theirs", 3)
    with pytest.raises(Conflict, match="title"):
        service.update("talk", {"title": "mine", "appendMessages": [frame(4)]}, expected_version=seen)
    assert service.get("talk") == record
    assert (
        stored(service.update("talk", {"title": "mine"}, expected_version=record.storage.blob_version)).title == "mine"
    )
    assert stored(service.update("talk", {"title": "whatever is there"})).title == "whatever is there"
    for wrong in (0, "1", 1.5):
        with pytest.raises(Invalid):
            service.update("talk", {"title": "x"}, expected_version=wrong)  # type: ignore[arg-type]
    with pytest.raises(Conflict, match=", not "):
        service.update("talk", {"title": "x"}, expected_version=10_000)


# -- lists


@pytest.mark.checklist("C4")
def test_lists_are_last_interaction_first(service: RecordService) -> None:
    """Records are listed by last interaction, in pages with a total; a new title does not count."""
    for n in range(7):
        made(service, f"talk-{n}")
    service.update("talk-2", {"appendMessages": [frame(2)]})
    service.update("talk-0", {"title": "renamed"})
    order = ["talk-2", "talk-6", "talk-5", "talk-4", "talk-3", "talk-1", "talk-0"]
    assert [one.conversation_id for one in service.list().items] == order
    found, cursor = [], None
    for size in (3, 3, 1):
        page = service.list(limit=3, cursor=cursor)
        assert (len(page.items), page.total_count) == (size, 7)
        found += [one.conversation_id for one in page.items]
        cursor = page.next_cursor
    assert found == order
    assert cursor is None
    assert service.list(limit=7).next_cursor is None


@pytest.mark.checklist("C4")
def test_a_cursor_survives_changes(service: RecordService) -> None:
    """Deletions, additions and messages between two pages neither repeat nor hide other records."""
    for n in range(6):
        made(service, f"talk-{n}")
    page = service.list(limit=2)
    service.delete("talk-4", "user-requested")  # the last of the page
    service.delete("talk-2", "user-requested")
    made(service, "new")
    service.update("talk-5", {"appendMessages": [frame(2)]})
    rest = service.list(limit=10, cursor=page.next_cursor)
    assert [one.conversation_id for one in rest.items] == ["talk-3", "talk-1", "talk-0"]


@pytest.mark.checklist("C4")
def test_ties_are_broken(path, clock: FakeClock) -> None:
    """Records of the same moment have one order, the later first, and pages that agree with it."""
    clock.tick = 0
    with clew.open(path, clock=clock) as store, RecordService(store) as service:
        for n in range(5):
            made(service, f"talk-{n}")
        assert len({one.last_interaction_at for one in service.list().items}) == 1
        whole = [one.conversation_id for one in service.list().items]
        found, cursor = [], None
        for _ in range(5):
            page = service.list(limit=1, cursor=cursor)
            found.append(page.items[0].conversation_id)
            cursor = page.next_cursor
        assert found == whole == [f"talk-{n}" for n in reversed(range(5))]


@pytest.mark.checklist("C4")
@pytest.mark.parametrize("cursor", ["", "x", "1.2.3", "zz.1.00", 5])
def test_a_bad_cursor_is_invalid(service: RecordService, cursor: str) -> None:
    """A cursor that no list has made is an error, not the first page."""
    made(service)
    with pytest.raises(Invalid):
        service.list(cursor=cursor)
    with pytest.raises(Invalid):
        service.list(limit=0)


def test_what_has_expired_is_not_listed_unless_asked_for(sealed: Store, clock: FakeClock) -> None:
    """A record whose time is over is hidden from lists before a sweep takes it, held ones are not; totals agree."""
    service = RecordService(sealed)
    service.initialize()
    for talk in ("old", "held", "custom"):
        made(service, talk)
    service.update("held", {"retention": {"manualHold": True}})
    soon, late = "2025-11-01T00:00:00.000Z", "2026-03-01T00:00:00.000Z"
    made(service, "short")
    service.update("short", {"retention": {"retentionExpiresAt": soon}})
    service.update("custom", {"retention": {"retentionExpiresAt": late}})
    clock.advance(timedelta(days=31))
    made(service, "new")
    page = service.list()
    assert [one.conversation_id for one in page.items] == ["new", "custom", "held"]
    assert page.total_count == 3
    page = service.list(include_expired=True)
    assert [one.conversation_id for one in page.items] == ["new", "short", "custom", "held", "old"]
    assert page.total_count == 5
    assert [one.conversation_id for one in service.list(limit=1, cursor=service.list(limit=2).next_cursor).items] == [
        "held"
    ]
    assert service.sweep().purged_count == 2
    assert service.list(include_expired=True).total_count == 3
    service.dispose()


# -- retention


def test_a_window_is_from_7_to_180_days(sealed: Store) -> None:
    """Other windows are refused, whether given at first or later; so are moments outside of it for one record."""
    for days in (0, 6, 181, -1, 7.5, "30"):
        with pytest.raises(Invalid):
            RecordService(sealed, policy=Policy(days))  # type: ignore[arg-type]
    with RecordService(sealed, policy=Policy(7)) as service:
        with pytest.raises(Invalid):
            service.set_policy(Policy(181))
        assert service.policy == Policy(7)
        made(service, "talk")
        for moment in ("2025-10-22T12:00:00.000Z", "2026-10-21T12:00:00.000Z"):
            with pytest.raises(Invalid):
                service.update("talk", {"retention": {"retentionExpiresAt": moment}})
        with pytest.raises(Invalid):
            service.update("talk", {"retention": {"retentionPolicy": "custom"}})
        with pytest.raises(Invalid):
            service.update(
                "talk",
                {"retention": {"retentionPolicy": "workspace-default", "retentionExpiresAt": "2025-11-21T12:00:00Z"}},
            )


def test_a_record_may_have_a_moment_of_its_own(service: RecordService) -> None:
    """`retentionExpiresAt` sets a custom retention; setting it again changes nothing; the default can be restored."""
    made(service, "talk")
    until = "2026-01-01T00:00:00.000Z"
    record = stored(service.update("talk", {"retention": {"retentionExpiresAt": until}}))
    assert (record.retention.retention_expires_at, record.retention.retention_policy) == (until, "custom")
    record = stored(service.update("talk", {"retention": {"retentionPolicy": "custom"}}))
    assert record.retention.retention_expires_at == until
    record = stored(service.update("talk", {"retention": {"retentionPolicy": "workspace-default"}}))
    assert record.retention.retention_policy == "workspace-default"
    assert record.retention.retention_expires_at.startswith("2025-11-20T12:00:00")


# -- deleting


@pytest.mark.checklist("C26")
def test_what_is_held_stays(service: RecordService, heard: list[events.RecordEvent]) -> None:
    """A held record is not deleted, and a purge of everything counts it as a failure, not as purged."""
    made(service, "held")
    made(service, "other")
    service.update("held", {"retention": {"manualHold": True}})
    heard.clear()
    with pytest.raises(Conflict):
        service.delete("held", "user-requested")
    report = service.purge_all("workspace-reset")
    assert (report.purged_count, [one.conversation_id for one in report.failures]) == (1, ["held"])
    assert report.started_at <= report.completed_at
    assert service.get("held") is not None
    assert [type(one).__name__ for one in heard] == ["PurgeCompleted", "ConversationDeleted", "PurgeCompleted"]
    done = heard[-1]
    assert isinstance(done, events.PurgeCompleted)
    assert (done.reason, done.purged_count, done.failed_count) == ("workspace-reset", 1, 1)


def test_everything_includes_the_trash(service: RecordService, sealed: Store) -> None:
    """Trashed records are purged with the rest, and can be deleted by id."""
    for talk in ("one", "two", "three"):
        made(service, talk)
    for session in sealed.sessions.list().items[:2]:
        session.trash()
    assert service.get("three") is None
    with pytest.raises(Conflict):
        service.create(given("three"))
    with pytest.raises(NotFound):
        service.update("three", {"title": "x"})
    service.delete("three", "user-requested")
    assert service.purge_all("workspace-reset").purged_count == 2
    assert sealed.sessions.trashed().items == []


@pytest.mark.checklist("C20")
@pytest.mark.parametrize("reason", get_args(PurgeReason))
def test_every_reason_is_reported(
    service: RecordService, heard: list[events.RecordEvent], reason: PurgeReason, sealed: Store
) -> None:
    """Report, events and receipt of a deletion have the reason that was given."""
    made(service, "talk")
    heard.clear()
    assert service.delete("talk", reason).reason == reason
    assert [getattr(one, "reason", None) for one in heard] == [reason, reason]
    assert sealed.sessions.receipts()[-1].reason == reason
    assert service.purge_all(reason).reason == reason


@pytest.mark.checklist("C20")
def test_the_reasons_are_defined() -> None:
    """They are those that applications of the schema use."""
    assert set(get_args(PurgeReason)) == {
        "user-requested", "retention-expired", "privacy-policy-change", "workspace-reset", "corruption-detected",
        "session-timeout", "policy-update", "error-recovery",
    }  # fmt: skip


@pytest.mark.checklist("C20")
def test_an_unknown_reason_is_refused(service: RecordService) -> None:
    """A reason is one of those that are defined, and nothing goes for another."""
    made(service, "talk")
    with pytest.raises(Invalid):
        service.delete("talk", "because")  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        service.purge_all("because")  # type: ignore[arg-type]
    assert service.get("talk") is not None


# -- sizes and attachments


@pytest.mark.checklist("C29")
def test_a_record_that_is_too_large_is_refused(sealed: Store) -> None:
    """The limit holds for create and for what is added up to it, and nothing is stored of what goes over it."""
    with RecordService(sealed, max_payload=10_000) as service:
        with pytest.raises(Invalid, match="limit"):
            service.create(given("large", frame(content="x" * 10_000)))
        assert service.get("large") is None
        made(service, "talk", frame(content="x" * 4000))
        service.update("talk", {"appendMessages": [frame(2, content="x" * 4000)]})
        with pytest.raises(Invalid, match="attachment"):
            service.update("talk", {"appendMessages": [frame(3, content="x" * 4000)], "title": "other"})
        record = service.get("talk")
        assert record is not None
        assert (len(record.messages), record.title) == (2, "Debugging failing test")
        assert 8000 < record.storage.size_bytes < 10_000
        service.attach("talk", b"x" * 1_000_000, type="document")
    with pytest.raises(Invalid):
        RecordService(sealed, max_payload=0)


def noted_size(store: Store, key: str) -> tuple[int, int]:
    """The size that the record's data notes, and what its messages add up to."""
    repository = Repository(store, 1, False)
    found = repository.find(repository.key(key))
    assert found is not None
    nodes = found.session.path()
    return found.fields.size, sum(len(node_row(node)[BODY]) for node in nodes)


def test_the_noted_size_is_what_is_stored(sealed: Store) -> None:
    """After every write the stored size is correct, also after other writers and rewinds."""
    name = "01890000-0000-7000-8000-000000000001"
    with RecordService(sealed, max_payload=20_000) as service:
        made(service, name, frame(content="x" * 3000))
        (session,) = sealed.sessions.list().items

        def write(n: int) -> None:
            service.update(name, {"appendMessages": [frame(n, content="x" * 1000), frame(n + 1)]})
            noted, counted = noted_size(sealed, name)
            assert noted == counted > 1000

        write(2)
        session.append(clew.user("y" * 2000))
        write(4)
        session.refresh()
        session.rewind(to=session.path()[0].id)
        write(6)
        service.commit_snapshot(snapshot(name, frame(8, content="x" * 500)))
        assert len(set(noted_size(sealed, name))) == 1
        session.refresh().compact([clew.user("short")])
        write(9)
        fork = sealed.sessions.fork(session.id)
        service.update(fork.id, {"appendMessages": [frame(11, content="x" * 700)]})
        assert len(set(noted_size(sealed, fork.id))) == 1
        session.refresh().append(clew.user("z" * 20_000))
        with pytest.raises(Invalid, match="limit"):
            service.update(name, {"appendMessages": [frame(13)]})


def test_a_write_does_not_count_the_record_again(sealed: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a record that others have written to is counted, once: else a write costs what it adds."""
    counted = []
    count = SQLiteTx.body_bytes

    def spy(tx: SQLiteTx, low: int, high: int) -> int:
        counted.append(high - low + 1)
        return count(tx, low, high)

    name = "01890000-0000-7000-8000-000000000001"
    with RecordService(sealed) as service:
        made(service, name, *[frame(n) for n in range(1, 200)])
        sealed.sessions.latest().append(clew.user("From elsewhere"))
        monkeypatch.setattr(SQLiteTx, "body_bytes", spy)
        service.update(name, {"appendMessages": [frame(300)]})
        assert counted == [200]
        service.update(name, {"appendMessages": [frame(301)], "title": "A longer title than there was before"})
        service.commit_snapshot(snapshot(name, frame(302), summary=summary()))
        service.commit_conversation(name, {"appendMessages": [frame(303)]})
    with RecordService(sealed) as service:
        service.update(name, {"appendMessages": [frame(304)]})
    assert counted == [200]


@pytest.mark.parametrize("field", ["title", "summary", "participants"])
def test_everything_said_of_a_record_counts(sealed: Store, field: str) -> None:
    """A title, a summary or a participant is no way around the limit, neither at first nor later nor as a snapshot."""
    large: dict[str, Any] = {
        "title": "x" * 20_000,
        "summary": summary("x" * 20_000),
        "participants": [{"id": "u", "role": "user", "displayName": "x" * 20_000}],
    }
    with RecordService(sealed, max_payload=10_000) as service:
        with pytest.raises(Invalid, match="limit"):
            service.create(given("large", **{field: large[field]}))
        assert service.list().total_count == 0
        made(service, "talk")
        if field != "participants":
            with pytest.raises(Invalid, match="limit"):
                service.update("talk", {field: large[field]})
        if field == "summary":
            with pytest.raises(Invalid, match="limit"):
                service.commit_snapshot(snapshot("talk", summary=large["summary"]))
        assert service.recoverable() == ()


def test_a_record_over_the_limit_can_be_kept_and_ended(sealed: Store) -> None:
    """A record that grew too large otherwise can be held, renamed and committed, if that adds nothing."""
    session = sealed.sessions.create(title="Much was said")
    session.append(clew.user("x" * 20_000))
    with RecordService(sealed, max_payload=10_000) as service:
        service.update(session.id, {"retention": {"manualHold": True}})
        service.update(session.id, {"title": "Much"})
        assert stored(service.commit_conversation(session.id)).retention.manual_hold
        with pytest.raises(Invalid, match="limit"):
            service.update(session.id, {"appendMessages": [frame()]})


@pytest.mark.checklist("C29")
def test_ten_megabytes_by_default(sealed: Store) -> None:
    """Nine are stored; eleven are not."""
    with RecordService(sealed) as service:
        made(service, "nine", frame(content="x" * 9_000_000))
        with pytest.raises(Invalid):
            service.create(given("eleven", frame(content="x" * 11_000_000)))


@pytest.mark.checklist("C9", "C29")
def test_attachments_are_stored_in_pieces(service: RecordService, sealed: Store) -> None:
    """A file of any size is streamed, referenced by messages, checked, and deleted with the record."""
    made(service, "talk")
    content = bytes(range(256)) * 50_000  # more than ten megabytes
    kept = service.attach("talk", io.BytesIO(content), type="document")
    assert (kept.checksum, kept.byte_length) == (sha256(content).hexdigest(), len(content))
    audio: dict[str, Any] = {
        "uri": service.attach("talk", b"sound", type="audio").uri,
        "format": "opus",
        "durationMs": 3,
    }
    record = stored(service.update("talk", {"appendMessages": [frame(2, attachments=[kept], audio=audio)]}))
    assert record.attachments == (kept,) == record.messages[1].attachments
    pieces = list(service.open_attachment("talk", kept.uri))
    assert len(pieces) > 40
    assert b"".join(pieces) == content
    assert b"".join(service.open_attachment("talk", audio["uri"])) == b"sound"
    for uri in ("blobs/" + "0" * 64, "../x"):
        with pytest.raises(NotFound):
            service.open_attachment("talk", uri)
    with pytest.raises(Invalid):
        service.open_attachment("talk", 5)  # type: ignore[arg-type]
    for wrong in ({"byteLength": 1}, {"uri": "blobs/" + "0" * 64}):
        reference = {
            "attachmentId": "a", "type": "document", "uri": kept.uri, "checksum": kept.checksum,
            "byteLength": kept.byte_length, **wrong,
        }  # fmt: skip
        with pytest.raises(Invalid):
            service.update("talk", {"appendMessages": [frame(3, attachments=[reference])]})
    unknown = "0" * 64
    reference = {"attachmentId": "a", "type": "code", "uri": f"blobs/{unknown}", "checksum": unknown, "byteLength": 1}
    with pytest.raises(NotFound):
        service.update("talk", {"appendMessages": [frame(3, attachments=[reference])]})
    with pytest.raises(Invalid):
        service.attach("talk", b"", type="video")  # type: ignore[arg-type]
    service.delete("talk", "user-requested")
    assert Parts.of(sealed).engine.read(lambda tx: tx.maintenance.sizes())["blobs"] == 0


# -- export


@pytest.mark.checklist("C23")
def test_c23_a_record_leaves_only_if_it_may(
    service: RecordService, sealed: Store, heard: list[events.RecordEvent]
) -> None:
    """Export is refused until it is allowed, returns JSON, and emits an event; the store enforces the same."""
    from clew.store import jsonl

    made(service, "talk")
    heard.clear()
    with pytest.raises(Conflict, match="not to be exported"):
        service.export("talk")
    (session,) = sealed.sessions.list().items
    with pytest.raises(Conflict):
        jsonl.refuse_export(session.id, session.data)
    assert heard == []
    record = service.set_privacy("talk", exportable=True, consent_capture="spoken")
    assert record.privacy.exportable
    assert service.export("talk") == records_json(record)
    assert events.ConversationExported(conversation_id="talk") in heard
    jsonl.refuse_export(session.id, session.refresh().data)
    assert service.set_privacy("talk", exportable=False).privacy.consent_capture == "spoken"
    with pytest.raises(Conflict):
        service.export("talk")
    with pytest.raises(NotFound):
        service.export("other")


def test_c23_whoever_forbids_an_export_that_is_under_way_is_heard(
    service: RecordService, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that was read while it could be exported does not leave once it no longer may."""
    made(service, "talk")
    service.set_privacy("talk", exportable=True)
    read = RecordReader.read

    def slow(*args: Any) -> Any:
        found = read(*args)
        repository.set_privacy(repository.key("talk"), False, None)
        return found

    monkeypatch.setattr(RecordReader, "read", slow)
    with pytest.raises(Conflict, match="not to be exported"):
        service.export("talk")


def records_json(record: clew.records.ConversationRecord) -> bytes:
    return clew.records.to_json(record)


# -- sessions that others have written


def test_any_session_is_a_record(service: RecordService, sealed: Store) -> None:
    """Any session is a record: its messages are frames, except those of systems and tools."""
    session = sealed.sessions.create(title="Build")
    session.append([
        clew.system("Be brief."), clew.user("Why?"), clew.assistant(clew.ToolCall(id="1", name="lint")),
        clew.tool("ok", call_id="1"), clew.native("anthropic", b'{"role":"assistant","content":"Lint."}'),
    ])  # fmt: skip
    record = service.get(session.id)
    assert record is not None
    assert texts(record) == ["Why?", "", "Lint."]
    assert [one.sequence for one in record.messages] == [1, 2, 3]
    assert record.messages[0].frame_id == session.path()[1].id
    assert (record.title, record.privacy.exportable, record.participants) == ("Build", True, ())
    record = stored(service.update(session.id, {"appendMessages": [frame(1)]}))
    assert len(record.messages) == 4
    service.export(session.id)
    assert sealed.sessions.get(session.id).extra["clew.record"]


def test_what_the_store_took_out_is_said(service: RecordService, sealed: Store) -> None:
    """A frame has the store's redactions in addition to those of the application."""
    note = {"containsSecrets": True, "redactionRulesApplied": ["aws-key"], "piiTokens": ["aws-key:" + "0" * 32]}
    session = sealed.sessions.create()
    session.append(clew.user("My key is ***", extra={"clew.redaction": note}))
    record = service.get(session.id)
    assert record is not None
    privacy = record.messages[0].privacy
    assert (privacy.contains_secrets, privacy.redaction_rules_applied) == (True, ("aws-key",))
    assert privacy.pii_tokens == ("aws-key:" + "0" * 32,)


def test_free_data_of_others_stays(service: RecordService, sealed: Store) -> None:
    """A record shares the free data of its session with other programs."""
    session = sealed.sessions.create(extra={"mine": 1}, labels=["red"], cwd="/src")
    service.update(session.id, {"title": "T"})
    session.refresh()
    assert (session.extra["mine"], session.labels, session.cwd, session.title) == (1, ("red",), "/src", "T")
    assert sealed.sessions.latest(cwd="/src") == session
    assert sealed.verify().ok


def test_what_does_not_decode_is_damage(service: RecordService, sealed: Store) -> None:
    """Free data under the record's name that is nothing of the kind is Corrupted, not a guess."""
    session = sealed.sessions.create(extra={"clew.record": {"user_utterances": "many"}})
    with pytest.raises(clew.Corrupted):
        service.get(session.id)
    other = sealed.sessions.create()
    other.append(clew.user("x", extra={"clew.record": {"sequence": "one"}}))
    with pytest.raises(clew.Corrupted):
        service.get(other.id)
    assert service.purge_all("workspace-reset").purged_count == 2


@pytest.mark.checklist("C35")
def test_c35_it_works_in_memory(clock: FakeClock) -> None:
    """For tests the whole service runs on a store that is never written."""
    with clew.open(":memory:", clock=clock) as store, RecordService(store) as service:
        made(service, "talk")
        service.update("talk", {"appendMessages": [frame(2)]})
        service.commit_snapshot(snapshot("talk", frame(3)))
        service.commit_conversation("talk")
        service.delete("talk", "user-requested")
        assert service.list().total_count == 0


def test_workspaces_do_not_see_each_other(path) -> None:
    """A service sees the records of its store's workspace, and purges no others."""
    with clew.open(path, workspace="a") as one, clew.open(path, workspace="b") as other:
        with RecordService(one) as here, RecordService(other) as there:
            made(here, "talk")
            made(there, "talk")
            made(there, "more")
            assert here.list().total_count == 1
            assert here.purge_all("workspace-reset").purged_count == 1
            assert there.list().total_count == 2


@pytest.mark.parametrize(
    "settings",
    [{"max_payload": "1"}, {"max_pending": -1}, {"max_pending": "1"}, {"max_pending_bytes": None}, {"slow_ms": "1"},
     {"slow_ms": float("nan")}, {"retry_every": 0}, {"retry_every": float("inf")}, {"retry_every": "1"},
     {"failures": 0}, {"failures": None}, {"cool_down": -1}, {"cool_down": "1"}, {"policy": 30},
     {"policy": Policy(181)}, {"policy": Policy(None)}, {"summarise": 5}, {"clock": 5}, {"timer": 5}],
)  # fmt: skip
def test_settings_that_make_no_sense_are_invalid(sealed: Store, settings: Any) -> None:
    """Invalid settings are refused when the service is created."""
    with pytest.raises(Invalid):
        RecordService(sealed, **settings)
    with pytest.raises(Invalid, match="Store"):
        RecordService(settings)


def test_calls_that_make_no_sense_are_invalid(service: RecordService, sealed: Store) -> None:
    """Invalid arguments change nothing, and no record is reported as damaged."""
    made(service, "talk")
    size = Parts.of(sealed).engine.read(lambda tx: tx.maintenance.sizes())["blobs"]
    wrong: list[Callable[[], object]] = [
        lambda: service.set_privacy("talk", exportable="no"),  # type: ignore[arg-type]
        lambda: service.set_privacy("talk", exportable=1),  # type: ignore[arg-type]
        lambda: service.set_privacy("talk", consent_capture=5),  # type: ignore[arg-type]
        lambda: service.set_privacy("talk", consent_capture="\ud800"),
        lambda: service.attach("talk", b"x", type="video"),  # type: ignore[arg-type]
        lambda: service.attach("talk", b"x", type="code", attachment_id="\ud800"),
        lambda: service.attach("talk", b"x", type="code", attachment_id=5),  # type: ignore[arg-type]
        lambda: service.dispose("2"),  # type: ignore[arg-type]
        lambda: service.dispose(float("nan")),
        lambda: Pending("update", "talk", 1, lambda: 1).result("x"),  # type: ignore[arg-type]
        lambda: Pending("update", "talk", 1, lambda: 1).result(float("inf")),
    ]
    for call in wrong:
        with pytest.raises(Invalid):
            call()
    assert service.is_initialized
    assert Parts.of(sealed).engine.read(lambda tx: tx.maintenance.sizes())["blobs"] == size


def test_a_write_that_was_not_kept_is_not_settled(service: RecordService, sealed: Store) -> None:
    """If the write itself failed, nothing is stored, and the caller gets the error."""

    def work(unit: Unit) -> None:
        Parts.of(sealed).engine.backend.writer.suspect = True  # type: ignore[attr-defined]
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(clew.Unavailable):
        sealed.write(work)
    made(service, "talk")


@contextmanager
def a_commit_that_fails(*, kept: bool) -> Iterator[None]:
    """The next commit ends with an error, after it was done or without that; those after it go well."""
    real = Writer.commit
    fail = iter([True])

    def commit(self: Writer, tx: SQLiteTx) -> None:
        failing = next(fail, False)
        if kept or not failing:
            real(self, tx)
        if failing:
            self.suspect = True
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "commit", commit)
        yield


def test_a_write_whose_commit_fails_is_settled(service: RecordService) -> None:
    """If the result of a commit is unknown, the service checks the store; a stored write is not an error."""
    with a_commit_that_fails(kept=True):
        record = made(service, "talk")
    assert service.get("talk") == record


def test_a_snapshot_whose_commit_fails_is_not_taken_for_stored(service: RecordService) -> None:
    """One that adds no message leaves the record's own row as it was, which so says nothing of whether it was kept."""
    made(service, "talk")
    with a_commit_that_fails(kept=False), pytest.raises(clew.Unavailable):
        service.commit_snapshot(snapshot("talk", summary=summary("first")))
    assert service.recoverable() == ()
    service.commit_snapshot(snapshot("talk", summary=summary("first")))
    with a_commit_that_fails(kept=False), pytest.raises(clew.Unavailable):
        service.commit_snapshot(snapshot("talk", summary=summary("second")))
    kept = service.get_snapshot("talk")
    assert kept is not None
    assert kept.summary is not None
    assert kept.summary.synopsis == "first"


def test_a_snapshot_whose_commit_fails_late_is_settled(service: RecordService) -> None:
    """If it was kept after all, it is no error."""
    made(service, "talk")
    with a_commit_that_fails(kept=True):
        assert service.commit_snapshot(snapshot("talk", summary=summary("first"))) is None
    assert service.recoverable() == ("talk",)


def test_a_message_that_was_compacted_is_not_added_again(service: RecordService, sealed: Store) -> None:
    """Repeating a call whose response was lost succeeds even after another writer's compaction."""
    said = [frame(1), frame(2, "assistant")]
    made(service, "talk", *said)
    session = sealed.sessions.list().items[0]
    session.compact(clew.user("in short"))
    session.compact(clew.user("in shorter"))
    again = stored(service.update("talk", {"appendMessages": said}))
    assert texts(again) == ["in shorter"]
    assert service.commit_snapshot(snapshot("talk", said[1])) is None
    session.refresh().rewind(to=None)
    with pytest.raises(Conflict):
        service.update("talk", {"appendMessages": said})
