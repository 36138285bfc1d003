"""Records in a store that others use too: what they put beside a record neither changes it nor costs it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import clew
from clew.errors import Conflict, Corrupted, NotFound
from clew.records import RecordService, events, validate_record
from clew.store.store import Store
from clew.testing import FakeClock
from tests.records.conftest import KEY
from tests.records.talk import frame, made, snapshot, stored, texts


def damage(path: Path, statement: str) -> None:
    """Changes the file behind the store's back."""
    conn = sqlite3.connect(path)
    with conn:
        conn.execute(statement)
    conn.close()


def test_c23_other_free_data_does_not_make_a_record_exportable(service: RecordService, sealed: Store) -> None:
    """Replacing a session's free data keeps the record's entry."""
    made(service, "talk")
    session = sealed.sessions.latest()
    for extra in ({"mine": 1}, None, {"clew.record": {"exportable": True}}):
        session.update(extra=extra)
        with pytest.raises(Conflict, match="not to be exported"):
            service.export("talk")
        assert [one.conversation_id for one in service.list().items] == ["talk"]
    assert sealed.sessions.latest().update(extra={"mine": 2}).extra["mine"] == 2


def test_c23_a_fork_of_a_record_does_not_leave_either(service: RecordService, sealed: Store) -> None:
    """A fork is a record of its own, by its session's id, and as little to be exported as what it came from."""
    made(service, "talk")
    fork = sealed.sessions.latest().fork()
    assert [one.conversation_id for one in service.list().items] == [fork.id, "talk"]
    with pytest.raises(Conflict, match="not to be exported"):
        service.export(fork.id)
    stored(service.update(fork.id, {"appendMessages": [frame(2, content="apart")]}))
    assert texts(service.get("talk")) == ["Why is the build failing?"]
    service.delete(fork.id, "user-requested")
    assert service.get("talk") is not None


def test_free_data_called_record_is_not_ours(service: RecordService, sealed: Store) -> None:
    """An application may well have something of its own that it calls a record."""
    session = sealed.sessions.create(extra={"record": "Kind of Blue"})
    session.append(clew.user("x", extra={"record": {"sequence": "one"}}))
    assert texts(service.get(session.id)) == ["x"]
    assert service.list().total_count == len(service.list().items) == 1


@pytest.mark.parametrize("note", [{"redactionRulesApplied": 5}, {"piiTokens": ["plain"]}, "x", {"containsSecrets": 1}])
def test_an_annotation_that_is_none_is_passed_over(service: RecordService, sealed: Store, note: object) -> None:
    """A note that the store did not write is ignored, and the record stays valid."""
    session = sealed.sessions.create()
    session.append(clew.user("x", extra={"clew.redaction": note}))
    record = service.get(session.id)
    assert record is not None
    assert validate_record(record) == record
    assert not record.messages[0].privacy.contains_secrets


def test_ac_005_what_a_newer_clew_has_written_is_not_purged(sealed: Store) -> None:
    """A record that is sound and says what this service does not understand stays, however strict the service is."""
    session = sealed.sessions.create(extra={"clew.record": {"user_utterances": "many"}})
    other = sealed.sessions.create()
    other.append(clew.user("x", extra={"clew.record": {"sequence": "one"}}))
    heard: list[events.CorruptionDetected] = []
    with RecordService(sealed, strict=True) as service:
        service.events.subscribe(heard.append, events.CorruptionDetected)
        for id in (session.id, other.id):
            with pytest.raises(Corrupted):
                service.get(id)
    assert [one.purged for one in heard] == [False, False]
    assert len(sealed.sessions.list().items) == 2


def test_one_damaged_record_hides_no_other(path: Path, clock: FakeClock) -> None:
    """A damaged record is omitted from lists and from recoverable ones, and reported; the others are listed."""
    with clew.open(path, key=KEY, clock=clock) as store, RecordService(store) as service:
        for talk in ("one", "damaged", "other"):
            service.commit_snapshot(snapshot(talk, frame(1)))
        made(service, "last")
        session = store.sessions.list().items[2].id
        key = clew.base.ids.parse(session).hex()
        damage(path, f"UPDATE refs SET data = zeroblob(length(data)) WHERE key = x'{key}'")
        heard: list[events.CorruptionDetected] = []
        service.events.subscribe(heard.append, events.CorruptionDetected)
        assert [one.conversation_id for one in service.list().items] == ["last", "other", "one"]
        assert service.recoverable() == ("other", "one")
        assert [(one.conversation_id, one.purged) for one in heard] == [(session, False)] * 2


def test_a_record_that_is_purged_as_it_is_stored_is_told(service: RecordService, sealed: Store) -> None:
    """A subscriber may purge a record as soon as it is stored; the caller gets NotFound."""

    def purge(event: events.ConversationStored) -> None:
        sealed.sessions.purge(sealed.sessions.latest().id)

    service.events.subscribe(purge, events.ConversationStored)
    with pytest.raises(NotFound, match="talk"):
        made(service, "talk")


def test_ac_005_what_cannot_be_purged_is_told_all_the_same(path: Path, clock: FakeClock) -> None:
    """If a purge is not possible, a damaged record stays and the event says so; otherwise it is purged."""
    with clew.open(path, key=KEY, clock=clock) as store, RecordService(store, strict=True) as service:
        made(service, "talk")
        heard: list[events.CorruptionDetected] = []
        service.events.subscribe(heard.append, events.CorruptionDetected)
        damage(path, "UPDATE nodes SET body = zeroblob(length(body))")
        with store.transaction(), pytest.raises(Corrupted):
            service.get("talk")
        damage(path, "UPDATE refs SET mac = zeroblob(length(mac)) WHERE kind = 'session'")
        with pytest.raises(Corrupted):
            service.get("talk")
        assert [one.purged for one in heard] == [False, True]
