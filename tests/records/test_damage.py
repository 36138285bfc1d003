"""A damaged message is reported, and the rest of its record can be read; errors use the caller's ids."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

import clew
from clew.errors import Corrupted
from clew.records import ConversationRecord, ConversationSummary, RecordService, events
from clew.records.frames import DAMAGED
from clew.store.store import Store
from clew.testing import FakeClock
from tests.records.talk import AT, frame, made, snapshot, stored, texts


def spoil(path: Path, nth: int) -> None:
    """Changes the body of one message behind the store's back."""
    conn = sqlite3.connect(path)
    (pos,) = conn.execute("SELECT pos FROM nodes ORDER BY ord LIMIT 1 OFFSET ?", (nth,)).fetchone()
    conn.execute("UPDATE nodes SET body = zeroblob(length(body)) WHERE pos = ?", (pos,))
    conn.commit()
    conn.close()


@pytest.mark.parametrize("quarantined", [False, True])
def test_a_record_is_read_without_its_damaged_message(path: Path, clock: FakeClock, quarantined: bool) -> None:
    """It is there, empty and marked, in its place; updates, snapshots and exports go on, and the event tells."""
    with clew.open(path, clock=clock) as store, RecordService(store, exportable=True) as service:
        made(service, "talk", *(frame(n, content=f"message {n}") for n in (1, 2, 3)))
        spoil(path, 1)
        if quarantined:
            store.quarantine.sweep(force=True)
        heard: list[events.RecordEvent] = []
        service.events.subscribe(heard.append, events.CorruptionDetected)
        record = service.get("talk")
        assert record is not None
        assert texts(record) == ["message 1", "", "message 3"]
        assert [one.sequence for one in record.messages] == [1, 2, 3]
        assert record.messages[1].privacy.redaction_rules_applied == (DAMAGED,)
        assert [(one.conversation_id, one.purged) for one in heard] == [("talk", False)]  # type: ignore[attr-defined]
        record = stored(service.update("talk", {"appendMessages": [frame(4, content="message 4")]}))
        assert texts(record) == ["message 1", "", "message 3", "message 4"]
        assert texts(service.get("talk")) == texts(record)
        service.commit_snapshot(snapshot("talk", frame(5, content="message 5")))
        found = service.get_snapshot("talk")
        assert found is not None
        assert [one.content for one in found.pending_messages] == ["message 5"]
        assert b"message 3" in service.export("talk")


def test_errors_name_the_callers_id(service: RecordService, sealed: Store, path: Path) -> None:
    """Errors about the conversation talk-1 name talk-1, not the hash that is its session's key."""
    for call in (
        lambda: service.update("talk-1", {"title": "x"}),
        lambda: service.commit_conversation("talk-1"),
        lambda: service.set_privacy("talk-1", exportable=True),
        lambda: service.delete("talk-1", "user-requested"),
        lambda: service.attach("talk-1", b"x", type="code"),
        lambda: service.export("talk-1"),
    ):
        with pytest.raises(clew.NotFound, match="record 'talk-1' not found"):
            call()
    made(service, "talk-1", frame(1, frameId="first"))
    session = sealed.sessions.latest()
    with pytest.raises(clew.Conflict) as refused:
        service.export("talk-1")
    assert "talk-1" in str(refused.value)
    session.rewind(to=None)
    with pytest.raises(clew.Conflict, match="first"):
        service.update("talk-1", {"appendMessages": [frame(1, frameId="first")]})
    session.append(clew.user("x"))
    sealed.sessions.hold(session.id)
    report = service.purge_all("workspace-reset")
    assert [(one.conversation_id, one.error) for one in report.failures] == [("talk-1", "session talk-1 is held")]
    conn = sqlite3.connect(path)
    conn.execute("UPDATE refs SET hold = 0, mac = zeroblob(16) WHERE kind = 'session'")
    conn.commit()
    conn.close()
    with pytest.raises(clew.Corrupted) as damaged:
        service.get("talk-1")
    assert session.id not in str(damaged.value)
    assert "talk-1" in str(damaged.value)


def test_a_record_deleted_while_it_is_summarised_is_no_failure(sealed: Store) -> None:
    """The summary has nowhere to go: it is dropped, and `dispose` has nothing to tell."""
    asked, go_on = threading.Event(), threading.Event()

    def summarise(record: ConversationRecord) -> ConversationSummary:
        asked.set()
        assert go_on.wait(30)
        return ConversationSummary(synopsis="late", last_updated_at=AT, keywords=())

    service = RecordService(sealed, summarise=summarise)
    service.initialize()
    made(service, "talk")
    assert asked.wait(30)
    service.delete("talk", "user-requested")
    go_on.set()
    service.dispose(30)


@pytest.mark.checklist("C9")
def test_a_damaged_attachment_is_reported(service: RecordService, path: Path, heard: list[events.RecordEvent]) -> None:
    """Reading an attachment that is damaged raises Corrupted and emits CorruptionDetected."""
    made(service, "talk")
    kept = service.attach("talk", b"x" * 100_000, type="document")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE chunks SET body = zeroblob(length(body))")
    heard.clear()
    with pytest.raises(Corrupted):
        list(service.open_attachment("talk", kept.uri))
    (event,) = heard
    assert isinstance(event, events.CorruptionDetected)
    assert (event.conversation_id, event.purged) == ("talk", False)
    assert kept.checksum in event.where
