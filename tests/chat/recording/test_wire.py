"""However a conversation is continued, the next request has its system prompt, tools and messages."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import clew
import clew.chat.recording
from clew.cli.chat import models
from clew.cli.chat.conversation import ChatSession
from clew.cli.chat.interrupts import Interrupts
from clew.providers import registry
from clew.testing.providers import ProviderServer
from tests.chat.recording.wire import PLACES, PROVIDERS, Journey, Script, Turn, Way, connect, hold, request, tool

SYSTEMS = ["", "Be brief.", "First this.\n\nThen “that”."]
TOOLS = ["lookup", "weather", "read_file"]
ANYHOW = [Turn("Why?", "Lint.", calls=1), Turn("And this?", "A picture.", picture=True)]

turns = st.builds(
    Turn,
    st.sampled_from(["Why?", "And then?", "Was ist das – 🧶?"]),
    st.sampled_from(["Lint.", "So it goes."]),
    st.booleans(),
    st.integers(0, 2),
    st.sampled_from(["", "Let me think."]),
)
scripts = st.builds(
    Script,
    st.sampled_from(PROVIDERS),
    st.sampled_from(SYSTEMS),
    st.lists(st.sampled_from(TOOLS), unique=True, max_size=3).map(tuple),
    st.lists(turns, min_size=1, max_size=3).map(tuple),
)
steps = st.sampled_from([
    *(Way(kind) for kind in ("take", "resume", "take", "resume", "fork", "document")),
    *(Way("store", place) for place in PLACES),
])  # fmt: skip
conversions = st.builds(Way, st.just("convert"), st.sampled_from([*PROVIDERS, "anthropic"]))
ends = st.sampled_from(["client", "functions", "chat -c"])


@pytest.fixture(scope="module")
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as server, pytest.MonkeyPatch.context() as patched:
        for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
            patched.setenv(variable, "a-token")
        for provider, variable in ((row.name, row.base_url_variable) for row in registry.PROVIDERS.values() if row.sdk):
            patched.setenv(variable, server.base_url(provider))
        yield server


def travel(server: ProviderServer, script: Script, ways: list[Way], end: str) -> tuple[Any, Any, str]:
    """The request of the client that held a conversation, that of one at the end of its way, and whose that is."""
    with tempfile.TemporaryDirectory() as folder, clew.open(":memory:") as store:
        first, session = hold(server, store, script)
        journey = Journey(store, Path(folder), session)
        provider = script.provider
        for way in ways:
            journey.go(way)
            provider = way.place.replace("anthropic", "claude") if way.kind == "convert" else provider
        if end == "chat -c":
            if not isinstance(journey.at, clew.Session):
                journey.go(Way("resume"))
            assert isinstance(journey.at, clew.Session)
            choice = models.choose(None, journey.at)
            assert choice[:2] == (provider, "a-model")
            last = ChatSession(store, choice, Interrupts(), session=journey.at)._bare
        else:
            last = journey.arrive(server, provider, script.tools if end == "functions" else ())
        found = request(server, first), request(server, last), provider
        first.close()
        last.close()
        return found


def check_same(server: ProviderServer, script: Script, ways: list[Way], end: str) -> None:
    before, after, _ = travel(server, script, ways, end)
    assert after == before


def check_converted(server: ProviderServer, script: Script, ways: list[Way], end: str) -> None:
    before, after, provider = travel(server, script, ways, end)
    assert system_of(provider, after) == system_of(script.provider, before) == script.system
    assert tools_of(after) == tools_of(before)
    said = {word for turn in script.turns for word in (turn.question, turn.answer)}
    assert [word for word in words_of(after) if word in said] == [word for word in words_of(before) if word in said]


def system_of(provider: str, asked: Any) -> Any:
    """The system prompt of a request."""
    if provider == "claude":
        return asked["system"] or ""
    if provider == "gemini":
        return (asked["systemInstruction"] or {"parts": [{"text": ""}]})["parts"][0]["text"]
    first = asked["input" if provider == "openai-responses" else "messages"][0]
    return first["content"] if first.get("role") == "system" else ""


def tools_of(asked: Any) -> list[tuple[str, str, str]]:
    """The tools of a request in any provider's form."""
    found = []
    for one in asked["tools"] or []:
        for told in one.get("functionDeclarations") or [one.get("function") or one]:
            schema = told.get("parameters") or told.get("input_schema") or told.get("parametersJsonSchema")
            found.append((told["name"], told["description"], json.dumps(schema, sort_keys=True)))
    return found


def words_of(value: Any) -> list[str]:
    """Every text in a request, in order."""
    if isinstance(value, dict):
        return [word for inner in value.values() for word in words_of(inner)]
    if isinstance(value, list):
        return [word for inner in value for word in words_of(inner)]
    return [value] if isinstance(value, str) else []


QUICK = settings(
    phases=[Phase.explicit, Phase.generate],  # a failure is short enough as it is found
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
LONG = settings(QUICK, max_examples=1500, derandomize=False)
KEPT = given(scripts, st.lists(steps, max_size=5), ends)
CONVERTED = given(scripts, st.tuples(st.lists(steps, max_size=3), conversions, st.lists(steps, max_size=3)), ends)


@QUICK
@KEPT
@example(Script("claude", "Be brief.", ("lookup",), (ANYHOW[0],)), [Way("take"), Way("resume")], "chat -c")
@example(Script("gemini", "Be brief.", ("lookup",), (ANYHOW[0],)), [Way("take")], "client")
def test_the_next_request_is_the_same(server: ProviderServer, script: Script, ways: list[Way], end: str) -> None:
    """By sessions, snapshots and stores, in any order, the same system prompt, tools and messages are sent."""
    check_same(server, script, ways, end)


@QUICK
@CONVERTED
def test_another_provider_is_sent_the_same(server: ProviderServer, script: Script, ways: Any, end: str) -> None:
    """A conversion keeps the system prompt, the tools and all content."""
    check_converted(server, script, [*ways[0], ways[1], *ways[2]], end)


@pytest.mark.soak
@LONG
@KEPT
def test_the_next_request_is_the_same_at_length(
    server: ProviderServer, script: Script, ways: list[Way], end: str
) -> None:
    """So it is for many conversations and many ways."""
    check_same(server, script, ways, end)


@pytest.mark.soak
@LONG
@CONVERTED
def test_another_provider_is_sent_the_same_at_length(
    server: ProviderServer, script: Script, ways: Any, end: str
) -> None:
    """So it is for many conversations and many ways."""
    check_converted(server, script, [*ways[0], ways[1], *ways[2]], end)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_session_is_saved_and_restored_with_everything(server: ProviderServer, provider: str) -> None:
    """Session, snapshot, session: the snapshot is what the client itself would have saved, and nothing is copied."""
    script = Script(provider, "Be brief.", ("lookup",), tuple(ANYHOW))
    with clew.open(":memory:") as store:
        client, session = hold(server, store, script)
        stored = len(list(store.nodes.list()))
        taken, own = store.snapshots.take(session), client.save()
        assert (taken.provider, taken.system_prompt, taken.tools) == (provider, "Be brief.", own.tools)
        assert [json.loads(raw) for raw in taken.parts] == [json.loads(raw) for raw in own.parts]
        again = store.snapshots.resume(taken.id)
        assert [node.id for node in again.path()] == [node.id for node in session.path()]
        assert len(list(store.nodes.list())) == stored
        assert store.verify().ok


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_snapshot_of_a_client_becomes_a_session_with_everything(server: ProviderServer, provider: str) -> None:
    """Also if it was saved in another place, if it has no message yet, and if it is saved again after it has grown."""
    with clew.open(":memory:") as store:
        client = connect(server, provider, system="Be brief.", tools=[tool("lookup")])
        store.snapshots.save(client.save())
        for _ in range(2):
            session = store.snapshots.resume(client.id)
            other = connect(server, provider)
            clew.chat.recording.resume(other, session)
            assert (other.system, other.tools) == (client.system, client.tools)
            assert request(server, other) == request(server, client)
            store.snapshots.save(client.save())
        assert store.snapshots.load(client.id) == client.save().replace(
            created_at=store.snapshots.load(client.id).created_at
        )


def test_a_snapshot_that_was_stored_without_its_prompt(server: ProviderServer) -> None:
    """A prompt that was given to `take` is that of a session made from the snapshot, too."""
    with clew.open(":memory:") as store:
        _, session = hold(server, store, Script("claude", "", (), (ANYHOW[0],)))
        taken = store.snapshots.take(session, system_prompt="Be loud.")
        other = connect(server, "claude")
        clew.chat.recording.resume(other, store.snapshots.resume(taken.id))
        assert request(server, other)["system"] == "Be loud."
        _, prompted = hold(server, store, Script("claude", "Be brief.", (), (ANYHOW[0],)))
        taken = store.snapshots.take(prompted, system_prompt="Be loud.")
        assert store.snapshots.load(taken.id).message_count == 2
        clew.chat.recording.resume(other, store.snapshots.resume(taken.id))
        assert request(server, other)["system"] == "Be loud."
