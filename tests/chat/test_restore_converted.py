"""Going on with another provider: a snapshot is converted while it is restored, if that is asked for."""

from __future__ import annotations

import pytest

from clew import chat
from clew.chat.recording import autosave
from clew.errors import Invalid
from clew.providers.neutral import neutral
from clew.snapshots import FileStore, new_snapshot
from clew.testing.providers import ProviderServer, ToolUse
from tests.chat.conftest import PERSISTENT, Connect


def lookup(word: str) -> str:
    """Looks a word up."""
    return f"{word}: a word"


@pytest.mark.parametrize("source", PERSISTENT)
@pytest.mark.parametrize("target", [*PERSISTENT, "offline"])
def test_every_pair(source: str, target: str, server: ProviderServer, connect: Connect) -> None:
    """A conversation with tools and thinking continues with any other provider, which accepts all of it."""
    first = connect(source, system="Answer in verse.", tools=[lookup])
    server.say("One moment.", thinking="A word.", calls=[ToolUse("lookup", {"word": "clew"}, "call-1")])
    server.say("A ball of thread.")
    first.chat("What is a clew?")
    snapshot = first.save()

    second = chat.connect("offline", tools=[lookup]) if target == "offline" else connect(target, tools=[lookup])
    assert isinstance(second, chat.Client)
    report = second.restore(snapshot, convert=True)
    assert (report is None) == (source == target or {source, target} <= {"openai", "openai-compatible"})
    said = " ".join(neutral(message).text for message in second.history)
    assert "What is a clew?" in said
    assert "clew: a word" in said
    assert "A ball of thread." in said
    assert second.chat("And then?") == "You said: And then?"
    if target != "offline":
        assert server.requests[-1].body.decode().count("Answer in verse.") == 1
    assert second.system == "Answer in verse."
    assert first.save().messages == snapshot.messages


def test_what_is_lost_is_told(server: ProviderServer, connect: Connect) -> None:
    """The report names what could not be carried over; the conversation has an id of its own."""
    first = connect("claude")
    server.say("Yes.", thinking="Signed.")
    first.chat("Hello")
    second = connect("openai")
    report = second.restore(first.save(), convert=True)
    assert report is not None
    assert (report.source, report.to) == ("claude", "openai")
    assert report.count("dropped", "signature")
    assert second.id != first.id
    assert second.save().metadata["converted_from"] == first.id


def test_a_refused_conversion_changes_nothing(connect: Connect) -> None:
    """A snapshot that cannot be read is refused as ever, and one of another provider unless it is asked for."""
    client = connect("openai")
    client.add("Still here?")
    before = client.history
    with pytest.raises(Invalid, match="expected openai, got 'claude'"):
        client.restore(new_snapshot(provider="claude"))
    with pytest.raises(Invalid):
        client.restore(new_snapshot(provider="claude", messages=b'{"not": "an array"}'), convert=True)
    assert client.history == before


def test_autosave(tmp_path, server: ProviderServer, connect: Connect) -> None:
    """A client that saves itself has every answer in the store, streamed ones too, under one id."""
    store = FileStore(tmp_path / "snapshots")
    client = autosave(connect("claude"), store)
    client.chat("Hello")
    assert store.load(client.id).message_count == 2
    list(client.stream("Again"))
    server.say("One two three", cut=4)
    with pytest.raises(chat.ProviderError):
        list(client.stream("Once more"))
    other = connect("claude")
    other.restore(store.load(client.id))
    assert other.history == client.history
    assert len(other.history) == 6
    assert len(store.list()) == 1
    assert isinstance(client, chat.PersistentChatClient)
    assert isinstance(client, chat.StreamingChatClient)
