"""Saving and restoring: the conversation continues with the same provider in another client."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew import Native, chat
from clew.errors import Invalid
from clew.snapshots import SNAPSHOT_VERSION, FileStore, Snapshot, ToolSnapshot, new_snapshot
from clew.testing import providers
from clew.testing.providers import ProviderServer, ToolUse
from tests.chat.conftest import PERSISTENT, TOKEN, Connect

SYSTEM = "Answer in verse."


def lookup(word: str) -> str:
    """Looks a word up."""
    return f"{word}: a word"


def said(server: ProviderServer) -> str:
    """The last request, as text."""
    return server.requests[-1].body.decode()


def save_restore(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A restored client sends the same requests as the original one."""
    first = connect(provider, system=SYSTEM, tools=[lookup])
    server.say("One moment.", thinking="A word.", calls=[ToolUse("lookup", {"word": "clew"})])
    server.say("It is a ball of thread.")
    assert first.chat("What is a clew?") == "It is a ball of thread."
    snapshot = first.save()

    second = connect(provider)
    second.restore(Snapshot.from_json(snapshot.to_json()))
    second.set_tools([lookup])
    assert second.history == first.history
    assert second.save().messages == snapshot.messages
    server.say("Where it began.")
    assert second.chat("Where were we?") == "Where it began."
    continued = server.requests[-1].json
    server.say("Where it began.")
    first.chat("Where were we?")
    assert server.requests[-1].json == continued
    assert "a word" in said(server)
    assert SYSTEM in said(server)


@pytest.mark.checklist("A3", "A7")
def test_claude_save_restore(server: ProviderServer, connect: Connect) -> None:
    """A conversation with Claude is saved, restored into a new client, and continues."""
    save_restore("claude", server, connect)
    asked = server.requests[-1].json
    assert asked["system"] == SYSTEM
    assert SYSTEM not in json.dumps(asked["messages"])


@pytest.mark.checklist("A3", "A7")
def test_openai_save_restore(server: ProviderServer, connect: Connect) -> None:
    """A conversation with OpenAI is saved, restored into a new client, and continues."""
    save_restore("openai", server, connect)
    first, *others = server.requests[-1].json["messages"]
    assert first == {"role": "system", "content": SYSTEM}
    assert SYSTEM not in json.dumps(others)


@pytest.mark.checklist("A3")
def test_openai_compatible_save_restore(server: ProviderServer, connect: Connect) -> None:
    """So is one with any server that speaks its protocol."""
    save_restore("openai-compatible", server, connect)


def test_openai_responses_save_restore(server: ProviderServer, connect: Connect) -> None:
    """So is one over the Responses API, reasoning included."""
    save_restore("openai-responses", server, connect)
    assert "gAAAA" in said(server)


@pytest.mark.checklist("A3")
def test_gemini_save_restore(server: ProviderServer, connect: Connect) -> None:
    """A conversation with Gemini is saved, restored into a new client, and continues."""
    save_restore("gemini", server, connect)
    asked = server.requests[-1].json
    assert asked["systemInstruction"] == {"parts": [{"text": SYSTEM}]}
    assert SYSTEM not in json.dumps(asked["contents"])
    assert "c2ln/25lZA==" in said(server)  # the signature of the thought


@pytest.mark.checklist("A7")
def test_gemini_has_the_system_prompt_in_config_and_history(server: ProviderServer, connect: Connect) -> None:
    """The history shows it first, and the request has it in its configuration, once."""
    client = connect("gemini", system=SYSTEM)
    client.chat("Hello")
    restored = connect("gemini")
    restored.restore(client.save())
    restored.chat("Hello again")
    assert restored.history[0].raw.decode().count(SYSTEM) == 1
    assert said(server).count(SYSTEM) == 1


@pytest.mark.parametrize("provider", PERSISTENT)
def test_a_snapshot_without_a_system_prompt_clears_the_clients(
    provider: str, server: ProviderServer, connect: Connect
) -> None:
    """Messages added before the restore are not sent afterwards."""
    snapshot = connect(provider).save()
    client = connect(provider, system="Be rude.")
    client.restore(snapshot)
    client.chat("Hello")
    assert "Be rude." not in said(server)
    assert "systemInstruction" not in server.requests[-1].json
    assert "system" not in server.requests[-1].json


@pytest.mark.checklist("A5", "A6")
@pytest.mark.parametrize("source", PERSISTENT)
@pytest.mark.parametrize("target", PERSISTENT)
def test_restore_provider_mismatch(source: str, target: str, connect: Connect) -> None:
    """A snapshot of another provider is refused with both names, and nothing is changed."""
    snapshot = connect(source, system="Theirs").save()
    client = connect(target, system="Mine")
    client.add("Still here?")
    before = (client.history, client.system, client.id)
    if {source, target} <= {"openai", "openai-compatible"} or source == target:
        client.restore(snapshot)
        assert client.system == "Theirs"
        return
    with pytest.raises(Invalid, match=f"expected {target}, got '{source}'"):
        client.restore(snapshot)
    assert (client.history, client.system, client.id) == before


MALFORMED = [
    b"",
    b"{}",
    b'"text"',
    b"[1]",
    b"[null]",
    b'[{"role": "user"',
    b"[{}]",
    b'[{"role": "nobody", "content": "x", "parts": [{}]}]',
    b'[{"role": 7}]',
    b"[" * 100_000,
    b'[{"role": "user", "content": "fine", "parts": [{"text": "fine"}]}, []]',
    b'\xff\xfe["role"]',
    b'[{"role": "user", "content": ' + b"9" * 5000 + b"}]",
    b'[{"role": "user", "content": ' + b"[" * 50_000 + b"]" * 50_000 + b"}]",
]


@pytest.mark.parametrize("messages", MALFORMED, ids=lambda raw: repr(raw[:20]))
def test_malformed_messages_change_nothing(provider: str, messages: bytes, connect: Connect) -> None:
    """A restore parses everything before it swaps anything."""
    client = connect(provider, system="Mine", tools=[lookup])
    client.add("Still here?")
    before = client.save()
    with pytest.raises(Invalid):
        client.restore(new_snapshot(provider=provider, messages=messages, system_prompt="Theirs"))
    after = client.save()
    assert after.replace(created_at=before.created_at) == before


@pytest.mark.parametrize(
    ("provider", "messages"),
    [
        ("claude", b'[{"role": "user", "content": 7}]'),
        ("claude", b'[{"role": "user", "content": [{"text": "no type"}]}]'),
        ("gemini", b'[{"role": "user", "parts": "text"}]'),
        ("gemini", b'[{"role": "system", "parts": []}]'),
        ("openai-responses", b'[{"type": 7}]'),
    ],
)
def test_what_is_wrong_is_said(provider: str, messages: bytes, connect: Connect) -> None:
    """The error names the message and what is wrong with it, and quotes nothing of it."""
    with pytest.raises(Invalid, match="message 1 of the snapshot is not one of") as caught:
        connect(provider).restore(new_snapshot(provider=provider, messages=messages))
    assert "no type" not in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": 7},
        {"role": "user", "content": {"text": "Hello"}},
        {"role": "user", "content": ["Hello"]},
        {"role": "user", "content": [{"text": "Hello"}]},
        {"role": "user"},
        {"role": "tool", "content": "clear"},
        {"role": "assistant", "tool_calls": "lookup"},
        {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "lookup"}}]},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": "lookup"}]},
    ],
)
@pytest.mark.parametrize("provider", ["openai", "openai-compatible"])
def test_openai_takes_only_its_own_messages(provider: str, message: object, connect: Connect) -> None:
    """A message whose content or calls are not of OpenAI's form is refused when it is restored, not when it is sent."""
    with pytest.raises(Invalid, match="message 2 of the snapshot is not one of"):
        messages = json.dumps([{"role": "user", "content": "Hello"}, message]).encode()
        connect(provider).restore(new_snapshot(provider=provider, messages=messages))


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": 7},
        {"role": "user"},
        {"role": "assistant", "content": [{"text": "Hello"}]},
        {"type": "function_call", "name": "lookup", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": 7},
    ],
)
def test_responses_takes_only_its_own_items(item: object, connect: Connect) -> None:
    """So it is with the items of the Responses API."""
    with pytest.raises(Invalid, match="message 1 of the snapshot is not one of"):
        messages = json.dumps([item]).encode()
        connect("openai-responses").restore(new_snapshot(provider="openai-responses", messages=messages))


ASKED = {"role": "user", "content": "Hello"}
GEMINI_ASKED = {"role": "user", "parts": [{"text": "Hello"}]}
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": "clear"}
REFUSED = [
    ("claude", {"role": "system", "content": "Be kind."}),
    ("claude", {"role": "user", "content": ""}),
    ("claude", {"role": "user", "content": []}),
    ("claude", ASKED, {"role": "assistant", "content": []}),
    ("claude", ASKED, {"role": "assistant", "content": ""}),
    ("claude", {"role": "user", "content": [RESULT]}),
    ("claude", {"role": "user", "content": [{"type": "tool_result", "content": "clear"}]}),
    ("claude", {"role": "assistant", "content": "Hello"}),
    ("claude", ASKED, {"role": "assistant", "content": [{"type": "tool_use", "name": "lookup", "input": {}}]}),
    ("claude", ASKED, {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}),
    ("claude", ASKED, {"role": "assistant", "content": "Hello", "usage": {"input_tokens": 1}}),
    ("openai", ASKED, {"role": "assistant"}),
    ("openai", ASKED, {"role": "assistant", "content": None, "tool_calls": []}),
    ("openai", ASKED, {"role": "tool", "tool_call_id": "1", "content": "clear"}),
    ("openai-compatible", ASKED, {"role": "assistant", "content": None}),
    ("openai-responses", ASKED, {"role": "tool", "content": "clear"}),
    ("openai-responses", ASKED, {"type": "function_call_output", "call_id": "1", "output": "clear"}),
    ("openai-responses", {"type": "message", "content": "Hello"}),
    ("gemini", {"role": "user", "parts": []}),
    ("gemini", {"role": "user", "parts": [{"text": "Hello"}, {}]}),
    ("gemini", GEMINI_ASKED, {"role": "model", "parts": []}),
    ("gemini", {"role": "user", "parts": [{"functionResponse": {"name": "lookup", "response": {}}}]}),
]


@pytest.mark.checklist("A8")
@pytest.mark.parametrize("given", REFUSED, ids=lambda given: f"{given[0]}-{json.dumps(given[-1])[:60]}")
def test_a_restore_refuses_what_the_provider_refuses(given, server: ProviderServer, connect: Connect) -> None:
    """The error comes from the restore, which changes nothing, and not from the provider at the next question."""
    provider, *messages = given
    client = connect(provider, system="Mine", tools=[lookup])
    client.chat("Still here?")
    before = client.save()
    with pytest.raises(Invalid, match=f"message {len(messages)} of the snapshot is not one of {provider}: "):
        client.restore(new_snapshot(provider=provider, messages=json.dumps(messages), system_prompt="Theirs"))
    assert client.save().replace(created_at=before.created_at) == before
    assert client.chat("And now?") == "You said: And now?"


def claude_said(kind: str, *ids: str) -> list[Any]:
    """A message of Claude's format: text of a side, or calls or results with these ids."""
    if kind in ("user", "assistant"):
        return [{"role": kind, "content": "Hello"}]
    if kind == "call":
        return [
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "t", "input": {}} for id in ids]}
        ]
    return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"} for id in ids]}]


def openai_said(kind: str, *ids: str) -> list[Any]:
    """The same for chat completions, which have a message for each result."""
    if kind in ("user", "assistant"):
        return [{"role": kind, "content": "Hello"}]
    if kind == "call":
        calls = [{"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}} for id in ids]
        return [{"role": "assistant", "tool_calls": calls}]
    return [{"role": "tool", "tool_call_id": id, "content": "x"} for id in ids]


def gemini_said(kind: str, *ids: str) -> list[Any]:
    """The same for Gemini, where results have the function's name instead of an id."""
    role = "model" if kind in ("assistant", "call") else "user"
    parts = {
        "call": [{"functionCall": {"name": "t", "args": {}}} for _ in ids],
        "result": [{"functionResponse": {"name": "t", "response": {}}} for _ in ids],
    }
    return [{"role": role, "parts": parts.get(kind, [{"text": "Hello"}])}]


MESSAGES = st.lists(
    st.sampled_from([
        ("user",), ("assistant",), ("call", "a"), ("call", "b"), ("call", "a", "b"), ("result", "a"), ("result", "b"),
        ("result", "a", "b"), ("result", "a", "a"),
    ]),
    max_size=5,
)  # fmt: skip


@pytest.mark.checklist("A8")
@pytest.mark.parametrize(
    ("provider", "said", "refuses"),
    [("claude", claude_said, providers.refuse_anthropic), ("openai", openai_said, providers.refuse_completions),
     ("openai-compatible", openai_said, providers.refuse_completions),
     ("gemini", gemini_said, providers.refuse_gemini)],
)  # fmt: skip
@given(drawn=MESSAGES)
@settings(max_examples=200, deadline=None)
def test_calls_and_results_in_any_order(
    provider: str, said: Callable[..., list[Any]], refuses: Callable[[Any], str | None], drawn: list[tuple[str, ...]]
) -> None:
    """A restore accepts a history exactly if the provider accepts it with the results that are still missing."""
    history = [message for one in [("user",), *drawn] for message in said(*one)]
    missing = [["a"] * a + ["b"] * b for a in range(6) for b in range(6)]
    whole = [[*history, *(said("result", *ids) if ids else [])] for ids in missing]
    accepted = not all(refuses({"messages": one, "contents": one, "max_tokens": 1, "tools": [{}]}) for one in whole)
    client = chat.connect(provider, "a-model", token=TOKEN, base_url="https://a.b")
    assert isinstance(client, chat.Client)
    with client:
        try:
            client.restore(new_snapshot(provider=provider, messages=json.dumps(history)))
        except Invalid:
            assert not accepted
        else:
            assert accepted
            assert len(client.history) == len(history)


@pytest.mark.checklist("A8")
def test_an_empty_answer_does_not_spoil_the_conversation(
    provider: str, server: ProviderServer, connect: Connect
) -> None:
    """The conversation after one is saved, restored and continued, since an empty answer is not part of it."""
    client = connect(provider)
    client.chat("Hello")
    server.say("")
    client.chat("Say nothing")
    restored = connect(provider)
    restored.restore(client.save())
    assert restored.chat("Go on") == client.chat("Go on") == "You said: Go on"


def test_what_openai_says_is_restored(connect: Connect) -> None:
    """Every form that a message may have is taken."""
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "lookup"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "clear"},
        {"role": "assistant", "tool_calls": [{"id": "2", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]},
    ]
    client = connect("openai")
    client.restore(new_snapshot(provider="openai", messages=json.dumps(messages)))
    assert len(client.history) == 6


@pytest.mark.parametrize("number", [b"1e400", b"-1e400"])
def test_a_number_that_no_request_can_carry_is_refused(
    provider: str, number: bytes, server: ProviderServer, connect: Connect
) -> None:
    """A snapshot with one is not restored, and the error says why; an answer with one is the provider's error."""
    client = connect(provider)
    message = client.message("Hello").raw[:-1] + b',"n":' + number + b"}"
    with pytest.raises(Invalid, match=r"message 1 of the snapshot .* a number that is too large to be sent"):
        client.restore(new_snapshot(provider=provider, messages=b"[" + message + b"]"))
    with pytest.raises(Invalid, match="too large"):
        client.chat(Native(provider, message))
    assert client.history == ()
    assert server.requests == []


def test_an_answer_with_a_number_that_cannot_be_sent_back(server: ProviderServer, connect: Connect) -> None:
    """It is an error at once, and not with every question after it."""
    client = connect("openai")
    server.send(b'{"choices":[{"message":{"role":"assistant","content":"Hi","n":1e400},"finish_reason":"stop"}]}')
    with pytest.raises(chat.ProviderError, match="not in the provider's form"):
        client.chat("Hello")
    assert client.chat("Hello") == "You said: Hello"


@pytest.mark.parametrize(("snapshot", "client"), [("anthropic", "claude"), ("claude", "anthropic")])
def test_anthropic_and_claude_are_one_provider(
    snapshot: str, client: str, server: ProviderServer, connect: Connect
) -> None:
    """A client and a snapshot may have either name."""
    made = connect(client, base_url=server.url)
    assert made.provider == "claude"
    saved = new_snapshot(provider=snapshot, messages=b'[{"role":"user","content":"Hello"}]')
    assert made.restore(saved) is None
    assert made.chat(Native(snapshot, b'{"role":"user","content":"Still there?"}')) == "You said: Still there?"


@pytest.mark.checklist("A5")
def test_restore_replaces_the_history(provider: str, server: ProviderServer, connect: Connect) -> None:
    """Messages from before the restore are not part of the conversation."""
    other = connect(provider)
    other.chat("From the snapshot")
    client = connect(provider)
    client.chat("Before the restore")
    client.restore(other.save())
    client.chat("After the restore")
    assert "From the snapshot" in said(server)
    assert "Before the restore" not in said(server)
    # The snapshot is not touched by what came after, nor the client it came from.
    assert b"After the restore" not in other.save().messages


@pytest.mark.checklist("A10")
def test_the_model_stays_the_clients(connect: Connect, server: ProviderServer) -> None:
    """The model of a snapshot is informative: the client keeps its own."""
    snapshot = connect("claude").save()
    assert snapshot.model == "a-model"
    client = connect("claude")
    client.model = "another-model"
    client.restore(snapshot)
    client.chat("Hello")
    assert server.requests[-1].json["model"] == "another-model"
    assert client.save().model == "another-model"


FOREIGN = b"""{"role" : "assistant", "content": [ {"type":"text", "text":"caf\\u00e9", "n": 12345678901234567890123,
  "z": 1, "a": 1.10} ,{"type": "from_next_year", "x": null} ] }"""


@pytest.mark.checklist("A4")
def test_messages_are_kept_byte_for_byte(connect: Connect, server: ProviderServer) -> None:
    """Key order, big integers, escapes, spaces and unknown blocks are as they were; the values reach the provider."""
    user = b'{"content" : "Hello" , "role":"user"}'
    client = connect("claude")
    client.restore(new_snapshot(provider="claude", messages=b"[" + user + b" ,\n" + FOREIGN + b"]"))
    assert [message.raw for message in client.history] == [user, FOREIGN]
    client.chat("Go on")
    saved = client.save()
    assert list(saved.parts)[:2] == [user, FOREIGN]
    assert b"12345678901234567890123" in server.requests[-1].body
    assert server.requests[-1].json["messages"][1] == json.loads(FOREIGN)


WHOLE = {
    "claude": (
        b'{"id":"m","type":"message","role":"assistant","content": %s ,"stop_reason":"end_turn","usage":{}}',
        b'[ {"zeta":1,"type":"text","text":"caf\\u00e9 \\/","big":12345678901234567890123,"f":1.10} ]',
        b'{"role":"assistant","content":%s}',
    ),
    "openai": (
        b'{"id":"m","object":"chat.completion","choices":[{"index":0,"message": %s ,"finish_reason":"stop"}]}',
        b'{"content": "caf\\u00e9","role":"assistant","x_new":{"b":12345678901234567890123,"a":1.10} }',
        b"%s",
    ),
    "openai-responses": (
        b'{"id":"m","object":"response","status":"completed","output":[ %s ]}',
        b'{"type":"message","role":"assistant","content":[{"text":"caf\\u00e9","type":"output_text"}],"new":1.10 }',
        b"%s",
    ),
    "gemini": (
        b'{"candidates":[{"content": %s ,"finishReason":"STOP"}]}',
        b'{"role":"model", "parts":[ {"text":"caf\\u00e9","newField":{"b":12345678901234567890123,"a":1.10}} ]}',
        b"%s",
    ),
}


@pytest.mark.parametrize("provider", WHOLE)
def test_answers_are_kept_byte_for_byte(provider: str, connect: Connect, server: ProviderServer) -> None:
    """The history has the bytes of a provider's answer, which is sent back with every field."""
    body, answer, kept = WHOLE[provider]
    client = connect(provider)
    server.send(body % answer)
    assert client.chat("Hello").startswith("café")
    assert client.history[-1] == Native(provider, kept % answer)
    client.chat("Go on")
    sent = server.requests[-1].json
    messages = sent.get("messages") or sent.get("input") or sent["contents"]
    assert json.loads(kept % answer) in messages


def test_what_no_request_can_carry_is_sent_as_a_question_mark(connect: Connect, server: ProviderServer) -> None:
    """Half of a surrogate pair, which a provider may once have sent, is kept, and does not break the next request."""
    raw = b'{"role":"user","content":"half \\ud83d a pair, and a whole one \\ud83d\\ude42"}'
    client = connect("claude")
    client.restore(new_snapshot(provider="claude", messages=b"[" + raw + b"]"))
    client.chat("Go on")
    assert server.requests[-1].json["messages"][0]["content"] == "half ? a pair, and a whole one 🙂"
    assert client.history[0].raw == raw


def test_snapshot_tools_exclude_handlers(connect: Connect) -> None:
    """A snapshot has a tool's name, description and parameters, and nothing that runs."""
    snapshot = connect("claude", tools=[lookup]).save()
    (tool,) = snapshot.tools
    assert (tool.name, tool.description) == ("lookup", "Looks a word up.")
    assert tool.parameters is not None
    assert tool.parameters["required"] == ["word"]
    assert set(json.loads(snapshot.to_json())["tools"][0]) == {"name", "description", "parameters"}
    assert connect("claude").save().tools == ()
    assert "tools" not in json.loads(connect("claude").save().to_json())


def test_snapshot_version(connect: Connect) -> None:
    """A snapshot says its version."""
    assert connect("claude").save().version == SNAPSHOT_VERSION == 1


def test_snapshot_serialization(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A client's snapshot is the same after a round trip through JSON."""
    client = connect(provider, system=SYSTEM, tools=[lookup])
    client.chat("Hello")
    snapshot = client.save()
    again = Snapshot.from_json(snapshot.to_json())
    assert again == snapshot
    assert again.messages == snapshot.messages


@pytest.mark.checklist("A1", "A2")
def test_claude_local_not_persistent() -> None:
    """The client that runs a program cannot be saved, and says so when asked; it is a chat client all the same."""
    client = chat.connect("claude-local")
    assert isinstance(client, chat.ChatClient)
    assert isinstance(client, chat.StreamingChatClient)
    assert not isinstance(client, chat.PersistentChatClient)


@pytest.mark.checklist("A2")
def test_persistence_is_discovered(provider: str, connect: Connect) -> None:
    """Every other client is persistent, and isinstance says so."""
    assert isinstance(connect(provider), chat.PersistentChatClient)
    assert isinstance(chat.connect("offline"), chat.PersistentChatClient)


def test_tools_after_a_restore(connect: Connect, server: ProviderServer) -> None:
    """A restored tool is described to the model and runs nothing until `set_tools` gives it its function again."""
    snapshot = connect("claude", tools=[lookup]).save()
    client = connect("claude")
    client.restore(snapshot)
    server.say(calls=[ToolUse("lookup", {"word": "clew"})])
    server.say("It does not run.")
    client.chat("Look it up")
    assert server.requests[-1].json["tools"][0]["name"] == "lookup"
    result = server.requests[-1].json["messages"][-1]["content"][0]
    assert result["is_error"]
    assert "no function" in result["content"]

    client.set_tools([lookup])
    server.say(calls=[ToolUse("lookup", {"word": "clew"})])
    client.chat("And now?")
    assert server.requests[-1].json["messages"][-1]["content"][0]["content"] == "clew: a word"


@pytest.mark.checklist("A9")
def test_a_restore_removes_the_clients_tools(provider: str, connect: Connect, server: ProviderServer) -> None:
    """Functions that the client had before are neither offered nor run, whatever the snapshot calls its own tools."""
    ran: list[str] = []

    def erase(path: str) -> str:
        """Erases a file."""
        ran.append(path)
        return "done"

    client = connect(provider, tools=[erase])
    client.restore(new_snapshot(provider=provider, tools=[ToolSnapshot("first")]))
    client.restore(new_snapshot(provider=provider, tools=[ToolSnapshot("second"), ToolSnapshot("erase")]))
    assert [tool.name for tool in client.tools] == ["second", "erase"]
    server.say(calls=[ToolUse("erase", {"path": "/"})])
    server.say("It did not run.")
    client.chat("Erase it")
    assert "no function" in said(server)
    assert "Erases a file." not in said(server)
    assert ran == []

    client.restore(new_snapshot(provider=provider))
    assert client.tools == ()


def test_one_conversation_has_one_id(connect: Connect) -> None:
    """Saved again, and saved after a restore, it has the same id, and keeps what was remembered with it."""
    client = connect("claude")
    first = client.save().replace(metadata={"ticket": "7"})
    client.chat("Hello")
    assert client.save().id == first.id == client.id
    other = connect("claude")
    assert other.id != client.id
    other.restore(first)
    assert other.save().id == first.id
    assert other.save().metadata == {"ticket": "7"}


@pytest.mark.checklist("A11")
def test_tokens_are_stored_nowhere(
    provider: str, server: ProviderServer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """The token reaches the provider, and no snapshot, no log line at any level, no repr and no error."""
    caplog.set_level(logging.DEBUG)
    client = connect(provider, system=SYSTEM, tools=[lookup])
    client.chat("Hello")
    list(client.stream("Hello"))
    server.fail(401, "no such key")
    with pytest.raises(chat.ProviderError) as caught:
        client.chat("Hello")
    assert any(TOKEN in value for value in server.requests[-1].headers.values())
    told = [client.save().to_json().decode(), repr(client), repr(caught.value), str(caught.value), caplog.text]
    assert not any(TOKEN in text for text in told)
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        pickle.dumps(client)


def test_multi_provider_save_restore(tmp_path, server: ProviderServer, connect: Connect) -> None:
    """Clients of all providers in one store: listed, loaded, restored, each into its own."""
    store = FileStore(tmp_path / "snapshots")
    saved = {}
    for provider in PERSISTENT:
        client = connect(provider, system=SYSTEM)
        client.chat(f"Hello, {provider}")
        saved[provider] = client.save()
        store.save(saved[provider])
    assert {(one.id, one.provider) for one in store.list()} == {(one.id, name) for name, one in saved.items()}
    for provider, snapshot in saved.items():
        client = connect(provider)
        client.restore(store.load(snapshot.id))
        assert client.save().messages == store.load(snapshot.id).messages
        assert f"Hello, {provider}".encode() in client.history[-2].raw


def test_a_long_conversation_is_saved_without_being_copied(connect: Connect) -> None:
    """A snapshot shares the client's messages until they are read."""
    client = chat.connect("offline")
    assert isinstance(client, chat.Client)
    for number in range(50):
        client.add(f"Message {number}")
    snapshot = client.save()
    client.add("Later")
    assert snapshot.lazy
    assert len(snapshot.parts) == 50
    assert b"Later" not in snapshot.messages
