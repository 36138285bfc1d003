"""Events are typed, emitted after the fact, and independent of each other."""

from __future__ import annotations

import msgspec
import pytest

from clew.records import RecordService, events
from clew.records.events import Events
from tests.records.talk import frame, made, snapshot, summary


@pytest.mark.checklist("C5")
def test_c5_what_is_stored_and_deleted_is_told(service: RecordService, heard: list[events.RecordEvent]) -> None:
    """A write emits an event with the summary, a deletion one with its reason, and a snapshot none."""
    made(service, "talk")
    service.update("talk", {"title": "T", "summary": summary()})
    service.commit_snapshot(snapshot("talk", frame(2)))
    service.commit_conversation("talk")
    service.set_privacy("talk", exportable=True)
    shown = service.list().items[0]
    service.delete("talk", "user-requested")
    kinds = [type(one).__name__ for one in heard]
    assert kinds == ["ConversationStored"] * 4 + ["ConversationDeleted", "PurgeCompleted"]
    told = heard[3]
    assert isinstance(told, events.ConversationStored)
    assert told.summary == shown
    assert heard[4] == events.ConversationDeleted(conversation_id="talk", reason="user-requested")


def test_what_is_told_is_stored_already(service: RecordService) -> None:
    """A subscriber that reads the record gets the state of the event."""
    seen: list[str] = []

    def look(event: events.ConversationStored) -> None:
        record = service.get(event.summary.conversation_id)
        assert record is not None
        seen.append(record.title)

    service.events.subscribe(look, events.ConversationStored)
    made(service, "talk")
    service.update("talk", {"title": "T"})
    assert seen == ["Debugging failing test", "T"]


@pytest.mark.checklist("C5")
def test_c5_a_subscriber_that_fails_hurts_nobody(service: RecordService) -> None:
    """The call succeeds, and the other subscribers hear of it."""
    heard: list[events.RecordEvent] = []

    def bad(event: events.RecordEvent) -> None:
        raise ZeroDivisionError

    service.events.subscribe(bad)
    service.events.subscribe(heard.append, events.ConversationStored)
    made(service, "talk")
    assert len(heard) == 1


def test_a_subscriber_can_end_it() -> None:
    """A subscription can be ended, twice, and by the subscriber during an event."""
    bus, heard = Events(), list[events.RecordEvent]()
    stop = bus.subscribe(heard.append)
    once = bus.subscribe(lambda event: once())
    bus.emit(events.CircuitChanged(state="open"))
    stop()
    stop()
    bus.emit(events.CircuitChanged(state="closed"))
    assert heard == [events.CircuitChanged(state="open")]


def test_every_call_is_told_when_it_is_over(service: RecordService) -> None:
    """With its name, its session, how long it took, and what it raised; also if the id was no id at all."""
    heard: list[events.OperationFinished] = []
    service.events.subscribe(heard.append, events.OperationFinished)
    made(service, "talk")
    service.list()
    for wrong in ("other", 5):
        with pytest.raises(Exception, match=r"record|text"):
            service.export(wrong)  # type: ignore[arg-type]
    assert [(one.operation, one.error) for one in heard] == [
        ("create", None), ("list", None), ("export", "NotFound"), ("export", "Invalid"),
    ]  # fmt: skip
    assert [one.session_id is None for one in heard] == [False, True, False, True]
    assert all(one.duration_ns > 0 and one.started_at_ns > 1e18 for one in heard)


def test_events_can_be_written(service: RecordService, heard: list[events.RecordEvent]) -> None:
    """As JSON an event says what it is, in the words of the specification."""
    made(service, "talk")
    service.delete("talk", "workspace-reset")
    written = [msgspec.json.decode(msgspec.json.encode(one)) for one in heard]
    assert [one["event"] for one in written] == ["conversationStored", "conversationDeleted", "privacy.purge.completed"]
    assert written[0]["summary"]["conversationId"] == "talk"
    assert written[1] == {"event": "conversationDeleted", "conversationId": "talk", "reason": "workspace-reset"}
    assert {"purgedCount", "failedCount", "durationMs", "startedAt"} <= set(written[2])
