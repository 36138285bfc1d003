"""Snapshots and sessions that go on with another provider."""

from __future__ import annotations

import json

import pytest

import clew
from clew.convert import convert, convert_session
from clew.providers.registry import canonical
from clew.snapshots import Snapshot, ToolSnapshot, new_snapshot
from tests.convert import vectors
from tests.convert.sdk import PROVIDERS, check
from tests.convert.test_pairs import PAIRS


def taken(provider: str, **fields: object) -> Snapshot:
    messages = b"[ " + b" ,\n".join(vectors.raw(provider)) + b" ]"
    return new_snapshot(provider=provider, model="m", messages=messages, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_a_snapshot_for_another_provider(source: str, to: str) -> None:
    """It is a new one, with its own id, which says what it was made of; the old one stays as it was."""
    before = taken(source, system_prompt="Be kind.", metadata={"a": "b"})
    document = before.to_json()
    made, report = convert(before, to, model="other")
    assert before.to_json() == document
    assert made.id != before.id
    assert (made.provider, made.model, made.metadata) == (
        canonical(to),
        "other",
        {"a": "b", "converted_from": before.id},
    )
    assert made.system_prompt.startswith("Be kind.")
    assert (report.source, report.to, bool(report)) == (source, to, True)
    for message in made.parts:
        check(to, message)
    assert Snapshot.from_json(made.to_json()) == made


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_snapshot_for_the_same_provider(provider: str) -> None:
    """Its messages are the same array, byte for byte."""
    before = taken(provider, system_prompt="Be kind.")
    made, report = convert(before, provider)
    assert (made.messages, made.system_prompt) == (before.messages, "Be kind.")
    assert (made.id == before.id, bool(report)) == (False, False)


def test_tools_are_named_as_their_calls() -> None:
    """A name that the target would refuse is replaced in the tools as it is in the messages."""
    tools = [ToolSnapshot("default_api:screenshot", "Shows.", {"type": "object"}), ToolSnapshot("read_file")]
    made, report = convert(taken("gemini", tools=tools), "openai")
    assert [tool.name for tool in made.tools] == ["default_api_screenshot", "read_file"]
    assert (made.tools[0].description, made.tools[0].parameters) == ("Shows.", {"type": "object"})
    called = {call["function"]["name"] for one in map(json.loads, made.parts) for call in one.get("tool_calls", ())}
    assert {"default_api_screenshot", "read_file"} <= called
    assert report.losses[0].message is None


def test_a_snapshot_without_messages() -> None:
    """Its system prompt goes where the target has it."""
    made, report = convert(new_snapshot(provider="claude", system_prompt="Be kind."), "openai")
    assert made.messages == b'[{"role":"system","content":"Be kind."}]'
    assert not report


def test_a_snapshot_in_neutral_form() -> None:
    """A session in neutral form can be converted for any provider."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        session.append([clew.user("Hello"), clew.assistant("Hello to you")])
        made, report = convert(store.snapshots.take(session), "gemini")
    assert [json.loads(raw)["parts"][0]["text"] for raw in made.parts] == ["Hello", "Hello to you"]
    assert not report


@pytest.mark.parametrize("messages", [b"{}", b"[1]", b"[", b'"x"', b"[{}, null]"])
def test_a_snapshot_of_something_else_is_invalid(messages: bytes) -> None:
    """Anything but a list of messages is refused."""
    with pytest.raises(clew.Invalid):
        convert(new_snapshot(provider="claude", messages=messages), "openai")


@pytest.fixture
def store():
    with clew.open(":memory:") as opened:
        yield opened


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_a_session_for_another_provider(source: str, to: str) -> None:
    """It is a fork whose path is the other provider's, and whose history has what it was made of."""
    with clew.open(":memory:") as store:
        session = store.sessions.create(title="Build fails", model="m")
        session.append([clew.native(source, raw) for raw in vectors.raw(source)])
        before = [node.id for node in session.path()]
        made, report = convert_session(store, session.handle, to=to, model="other")
        assert (made.title, made.model, made.forked_from, made.forked_at) == (
            "Build fails", "other", session.id, before[-1],
        )  # fmt: skip
        for node in made.path():
            if node.native is None:
                assert (node.role, node.depth) == ("system", 0)
            else:
                assert node.native.provider == canonical(to)
                check(to, node.native.raw)
        assert [node.id for node in made.history()][: len(before)] == before
        assert [node.id for node in session.path()] == before
        assert session.refresh().model == "m"
        assert report
        assert store.verify().ok


def test_a_session_that_needs_nothing_is_shared(store: clew.Store) -> None:
    """For its own provider, a sound session is a fork: nothing is stored again."""
    session = store.sessions.create()
    said = b'{"role": "user", "content":   "Hello"}'
    session.append([clew.system("Be kind."), clew.native("claude", said, label="l", extra={"k": 1})])
    made, report = convert_session(store, session, to="anthropic")
    assert [node.id for node in made.path()] == [node.id for node in session.path()]
    assert not report


def test_a_session_that_was_cut_off_is_repaired_beside_itself(store: clew.Store) -> None:
    """A call that nothing came of is answered in a derived branch; the messages that are kept are as they were."""
    session = store.sessions.create()
    asked = clew.native("claude", b'{"role": "user", "content":   "Go"}', label="l", extra={"k": 1})
    use = b'{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}'
    session.append([asked, clew.native("claude", use)])
    made, report = convert_session(store, session, to="claude")
    path = made.path()
    assert [path[0].native, path[1].native, path[2].role] == [asked, clew.native("claude", use), "tool"]
    assert report.count("added", "result") == 1
    assert len(session.path()) == 2


def test_attachments_of_a_session_go_with_it(store: clew.Store) -> None:
    """Attachments in the store are put into the messages."""
    session = store.sessions.create()
    session.append(clew.user("Look", session.attach(b"PNG", mime_type="image/png", modality="image")))
    made, report = convert_session(store, session, to="gemini")
    (node,) = made.path()
    assert node.native is not None
    assert json.loads(node.native.raw)["parts"][1] == {"inlineData": {"mimeType": "image/png", "data": "UE5H"}}
    assert not report


def test_a_session_of_nothing(store: clew.Store) -> None:
    """A session without words becomes one without messages."""
    empty = convert_session(store, store.sessions.create(), to="gemini").session
    assert empty.path() == []
    session = store.sessions.create()
    session.append(clew.user(clew.Opaque(kind="later", data={})))
    made, report = convert_session(store, session, to="gemini")
    assert (made.path(), report.count("dropped", "unknown block")) == ([], 1)


def test_what_fails_leaves_nothing_behind(store: clew.Store) -> None:
    """An unknown session or provider is refused, and no session was made."""
    session = store.sessions.create()
    session.append(clew.user("Hello"))
    with pytest.raises(clew.Invalid):
        convert_session(store, session, to="someone")
    with pytest.raises(clew.NotFound):
        convert_session(store, "zzzzzz", to="gemini")
    assert len(store.sessions.list().items) == 1


def test_a_conversion_is_stored_whole_or_not_at_all(store: clew.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the converted messages cannot be stored, there is no fork of the old ones either."""

    def fail(*_: object) -> None:
        raise clew.StorageFull("no space")

    session = store.sessions.create()
    session.append(clew.user("Hello"))
    monkeypatch.setattr(clew.Session, "compact", fail)
    with pytest.raises(clew.StorageFull):
        convert_session(store, session, to="gemini")
    assert store.sessions.list().items == [session]


def test_a_session_for_a_provider_of_the_same_form(store: clew.Store) -> None:
    """Messages that another provider takes byte for byte are that provider's in the new session."""
    session = store.sessions.create()
    session.append([clew.native("openai-compatible", b'{"role":"user","content":"Hello"}')])
    made, report = convert_session(store, session, to="openai-responses")
    assert [(node.native.provider, node.native.raw) for node in made.path() if node.native] == [
        ("openai-responses", b'{"role":"user","content":"Hello"}')
    ]
    assert not report
    shared = convert_session(store, session, to="openai-compatible").session
    assert [node.id for node in shared.path()] == [node.id for node in session.path()]
