"""The transcript: read by range, replayed, with those of subagents."""

from __future__ import annotations

import dataclasses
import json
import uuid
from typing import Any

import msgspec
import pytest

import clew
from clew import agents
from clew.testing import FakeClock


def test_reading_by_range(sessions):
    """Events have numbers; any stretch of them can be read, and none beyond the end."""
    session = sessions.create()
    for number in range(300):
        assert session.append_event({"type": "x", "n": number}).number == number
    transcript = session.transcript
    assert transcript.count() == 300
    assert [event.data["n"] for event in transcript.read(255, 259)] == [255, 256, 257, 258]
    assert [event.number for event in transcript.read(298)] == [298, 299]
    assert list(transcript.read(300)) == []
    assert [event.type for event in transcript.read(0, 1)] == ["x"]


def test_an_event_is_stored_once(sessions):
    """The same uuid and content again change nothing; other content is a Conflict; other sessions are apart."""
    session, other, name = sessions.create(), sessions.create(), str(uuid.uuid4())
    first = session.append_event({"uuid": name, "type": "x"})
    assert session.append_event(b'{ "uuid": "%s", "type": "x" }' % name.encode()) == first
    with pytest.raises(clew.Conflict):
        session.append_event({"uuid": name, "type": "y"})
    other.append_event({"uuid": name, "type": "y"})
    assert (session.transcript.count(), other.transcript.count()) == (1, 1)
    session.append_event({"type": "x"})
    session.append_event({"type": "x"})
    assert session.transcript.count() == 3  # without a uuid each is another
    assert len({event.uuid for event in session.transcript.read()}) == 3


def test_other_entries_of_the_log_are_passed_over(sessions):
    """A program may keep an audit in the same log: it is no part of the transcript."""
    session = sessions.create()
    session.append_event({"type": "one"})
    session.conversation.log.append(b"an audit")
    session.append_event({"type": "two"})
    assert [event.type for event in session.transcript.read()] == ["one", "two"]
    assert sessions._store.verify().ok


def test_events_are_no_messages(sessions):
    """Events are not part of the conversation, and search does not find them."""
    session = sessions.create()
    session.append_event({"type": "user", "message": {"role": "user", "content": "harbour"}})
    assert session.messages == []
    assert sessions._store.search("harbour") == []


@dataclasses.dataclass
class TextBlock:
    text: str


@dataclasses.dataclass
class AssistantMessage:
    content: list[TextBlock]
    model: str


class Struct(msgspec.Struct, tag="progress"):
    step: int


def test_data_classes_are_kept_with_their_names(sessions):
    """Data classes of an SDK are stored with the name of their class as type."""
    session = sessions.create()
    session.append_event(AssistantMessage([TextBlock("hi")], "m"))
    session.append_event(Struct(3))
    told: list[dict[str, Any]] = [event.data for event in session.transcript.read()]
    told = [{name: value for name, value in event.items() if name != "uuid"} for event in told]
    assert told == [
        {"type": "AssistantMessage", "content": [{"type": "TextBlock", "text": "hi"}], "model": "m"},
        {"type": "progress", "step": 3},
    ]


@pytest.mark.parametrize(
    "bad", [None, 5, "text", b"[1]", b"{", [], object(), {"a": object()}, b'{"a": NaN}', float("nan")]
)
def test_what_is_no_event(sessions, bad):
    """It is an error, and nothing is stored."""
    session = sessions.create()
    with pytest.raises(clew.Invalid):
        session.append_event(bad)
    assert session.transcript.count() == 0


def test_an_event_that_is_nested_too_deeply(sessions):
    """It is refused: whether it could be read would depend on the reader's stack."""
    session = sessions.create()
    with pytest.raises(clew.Invalid, match="200 levels"):
        session.append_event(b'{"a":' * 300 + b"1" + b"}" * 300)


def test_replaying_with_subagents(tmp_path):
    """Events of a session and of all below it come in the order in which they happened, each saying whose it is."""
    clock = FakeClock()
    with agents.open(tmp_path / "s.db", clock=clock) as sessions:
        main = sessions.create()
        child = sessions.create(agent_name="reader", parent=main)
        below = sessions.create(agent_name="counter", parent=child)
        for number, whose in enumerate([main, child, main, below, child, main]):
            clock.advance(1)
            whose.append_event({"type": "x", "n": number})
        replayed = list(main.transcript.replay())
        assert [event.data["n"] for event in replayed] == [0, 1, 2, 3, 4, 5]
        assert [event.agent for event in replayed] == [None, "reader", None, "counter", "reader", None]
        assert [event.session_id for event in replayed][3] == below.id
        assert [one.session_id for one in main.transcript.subagents()] == [child.id]
        again = sessions.create()
        for event in main.transcript.read():
            again.append_event(event.raw)
        assert [e.raw for e in again.transcript.read()] == [e.raw for e in main.transcript.read()]


def test_a_repr_shows_no_content(sessions):
    """The repr has no content."""
    session = sessions.create()
    event = session.append_event({"type": "x", "text": "harbour"})
    session.append_and_save(clew.user("harbour"))
    assert "harbour" not in repr([event, session, session.transcript, sessions])
    assert json.loads(event.raw)["text"] == "harbour"


def test_a_size_that_is_refused_is_over_the_limit_that_is_named(sessions, monkeypatch):
    """For a message and an event, the error names the limit."""
    import re

    from clew.agents import jsonl

    monkeypatch.setattr(jsonl, "LINE_LIMIT", 20_000)
    session = sessions.create()
    for call in (
        lambda size: session.append_and_save(clew.user("x" * size)),
        lambda size: session.append_event({"type": "x" * size}),
    ):
        refused = 0
        for size in range(15_000, 20_100, 50):
            try:
                call(size)
            except clew.Invalid as error:
                has, limit = (int(one.replace(",", "")) for one in re.findall("[0-9,]+(?= bytes|$)", error.message))
                assert has > limit
                refused += 1
        assert refused
