"""The assistant in the process: always the same answers, everything else as with a real one."""

from __future__ import annotations

import pytest

from clew import Text, ToolCall, chat
from clew.errors import Invalid
from clew.snapshots import Snapshot


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def offline(**settings: object) -> chat.Client:
    client = chat.connect("offline", **settings)  # type: ignore[arg-type]
    assert isinstance(client, chat.Client)
    return client


def test_it_says_back_what_it_hears() -> None:
    """Whole and streamed, the same words, counted."""
    client = offline(system="Be kind.")
    assert client.chat("Hello  there ") == "You said: Hello  there "
    words = [event.text for event in client.stream("Hello  there ") if isinstance(event, Text)]
    assert words == ["You", " said:", " Hello", "  there", " "]
    assert client.usage.known
    assert client.model == "offline"
    assert repr(client) == "<Client offline offline>"


def test_it_calls_tools() -> None:
    """A slash calls the tool of that name; its result is the answer."""
    client = offline(tools=[add])
    assert client.chat('/add {"a": 1, "b": 2}') == "The tool says: 3"
    events = list(client.stream('/add {"a": 3, "b": 4}'))
    assert ToolCall(id="call_1", name="add", arguments={"a": 3, "b": 4}) in events
    assert client.chat("/add") == (
        "The tool says: Error: the arguments do not fit: Object missing required field `a`"
    )  # fmt: skip
    assert client.chat("/other") == "You said: /other"


def test_it_gives_values() -> None:
    """If JSON is requested, the input is the answer."""
    assert offline().ask('{"a": 1}', dict[str, int]) == {"a": 1}


def test_it_is_saved_and_restored() -> None:
    """Its conversations are snapshots like all others, and only its own."""
    client = offline(system="Be kind.", tools=[add])
    client.chat("/add {}")
    snapshot = Snapshot.from_json(client.save().to_json())
    other = offline()
    other.restore(snapshot)
    assert other.history == client.history
    assert other.system == "Be kind."
    assert other.chat("Hello") == "You said: Hello"
    with pytest.raises(Invalid, match="expected offline, got 'openai'"):
        other.restore(snapshot.replace(provider="openai"))


def test_it_is_closed_like_the_others() -> None:
    """A client is a context manager."""
    with offline() as client:
        assert client.chat("Hello")
