"""Messages that a provider would refuse are repaired, whichever provider they come from."""

from __future__ import annotations

import json
from typing import Any

import pytest

import clew
from clew.convert import Loss, convert_messages, repair_messages
from clew.convert.layout import NO_CALL, NO_RESULT
from tests.convert import vectors
from tests.convert.sdk import PROVIDERS, check
from tests.convert.test_pairs import assert_answered


def loads(raw: tuple[bytes, ...]) -> list[Any]:
    return [json.loads(message) for message in raw]


def call(id: str, name: str = "f") -> clew.ToolCall:
    return clew.ToolCall(id=id, name=name, arguments={"x": 1})


@pytest.mark.parametrize("to", PROVIDERS)
def test_a_call_without_a_result_gets_one_that_says_so(to: str) -> None:
    """At the end of a conversation that was cut off, and in the middle of one."""
    talk = [
        clew.user("go"), clew.assistant(call("a"), call("b")), clew.tool("done", call_id="b"), clew.user("well?"),
        clew.assistant(call("c")),
    ]  # fmt: skip
    found = convert_messages(talk, to=to)
    assert_answered(to, found.messages)
    assert b"".join(found.messages).count(NO_RESULT.encode()) == 2
    assert [(loss.message, loss.block) for loss in found.report.losses if loss.what == "result"] == [(1, 0), (4, 0)]


@pytest.mark.parametrize("to", PROVIDERS)
def test_a_result_without_a_call_becomes_text(to: str) -> None:
    """Results without a call, before their call, or for a call that has one."""
    talk = [
        clew.user("go"), clew.tool("early", call_id="a"), clew.assistant(call("a")), clew.tool("one", call_id="a"),
        clew.tool("two", call_id="a"), clew.tool("stray", call_id="z"),
    ]  # fmt: skip
    found = convert_messages(talk, to=to)
    assert_answered(to, found.messages)
    sent = b"".join(found.messages).decode()
    assert sent.count(NO_CALL) == 3
    assert all(words in sent for words in ("early", "one", "two", "stray"))
    assert found.report.count("changed", "result without a call") == 3


@pytest.mark.parametrize(
    ("source", "words", "what"),
    [
        ({"type": "file", "file_id": "file_1"}, "[file left out]", "file handle"),
        ({"type": "base64", "media_type": "image/bmp", "data": "AAAA"}, "[image left out]", "media"),
    ],
)
def test_a_result_without_a_call_that_shows_what_the_target_cannot(source: Any, words: str, what: Any) -> None:
    """A result in the target's own format is converted like any other; omitted content is reported."""
    shown = [{"type": "image", "source": source}]
    stray = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "z", "content": shown}]}
    own = clew.Native("anthropic", json.dumps(stray).encode())
    found = convert_messages([own, clew.assistant("I see.")], to="anthropic")
    said = [{"type": "text", "text": NO_CALL}, {"type": "text", "text": words}]
    assert loads(found.messages)[0]["content"] == said
    assert found.report.count("changed", "result without a call") == 1
    assert found.report.count("dropped", what) == 1


@pytest.mark.parametrize("to", PROVIDERS)
def test_a_late_result_is_moved_to_its_call(to: str) -> None:
    """Messages between a call and its result are moved after them, and the report says so."""
    talk = [clew.assistant("hm", call("a")), clew.user("wait"), clew.tool("done", call_id="a")]
    found = convert_messages([clew.user("go"), *talk], to=to)
    assert_answered(to, found.messages)
    sent = b"".join(found.messages)
    assert sent.index(b"done") < sent.index(b"wait")
    assert Loss(3, 0, "moved", "result") in found.report.losses


@pytest.mark.parametrize("to", PROVIDERS)
def test_calls_one_after_the_other_stay_so(to: str) -> None:
    """Call, result, call, result is not the same as two calls at once."""
    talk = [
        clew.user("go"), clew.assistant(call("a")), clew.tool("1", call_id="a"), clew.assistant(call("b")),
        clew.tool("2", call_id="b"),
    ]  # fmt: skip
    found = convert_messages(talk, to=to)
    assert len(found.messages) == 5
    assert not found.report.count("merged")


def test_ids_are_what_the_target_accepts() -> None:
    """Ids of other characters or of too many are replaced, on the call and on its result; no two are the same."""
    long = "x" * 41
    talk = [clew.user("go"), clew.assistant(*map(call, ("a|b", "a|b", long, "ok"))), *(
        clew.tool(words, call_id=id) for words, id in (("1", "a|b"), ("2", "a|b"), ("3", long), ("4", "ok"))
    )]  # fmt: skip
    _, assistant, user = loads(convert_messages(talk, to="anthropic").messages)
    ids = [block["id"] for block in assistant["content"]]
    assert ids == ["call_1", "call_2", long, "ok"]
    results = {block["tool_use_id"]: block["content"][0]["text"] for block in user["content"]}
    assert results == {"call_1": "1", "call_2": "2", long: "3", "ok": "4"}
    chat = loads(convert_messages(talk, to="openai").messages)
    assert [one["id"] for one in chat[1]["tool_calls"]] == ["a|b", "call_1", "call_2", "ok"]
    assert [(one["tool_call_id"], one["content"]) for one in chat[2:]] == [
        ("a|b", "1"), ("call_1", "2"), ("call_2", "3"), ("ok", "4"),
    ]  # fmt: skip


def test_names_of_tools_are_what_the_target_accepts() -> None:
    """The same tool has the same name throughout, and two tools never share one."""
    names = ["a.b", "a b", "a_b", "a.b", "", "n" * 200]
    talk = [clew.user("go")]
    for at, name in enumerate(names):
        talk += [clew.assistant(call(str(at), name)), clew.tool("ok", call_id=str(at))]
    found = convert_messages(talk, to="openai")
    told = [one["tool_calls"][0]["function"]["name"] for one in loads(found.messages) if "tool_calls" in one]
    assert told[0] == told[3]
    assert len(set(told)) == 5
    assert all(0 < len(name) <= 64 for name in told)
    assert found.report.count("changed", "tool name") == 5


@pytest.mark.parametrize("to", PROVIDERS)
def test_repair_keeps_what_is_sound(to: str) -> None:
    """Repairing the provider's own messages changes those that need it, and not a byte of the others."""
    before = convert_messages([clew.user("go"), clew.assistant("I call.", call("a"), call("b"))], to=to)
    spaced = [json.dumps(json.loads(message), indent=2).encode() for message in before.messages]
    cut = [message for message in spaced if NO_RESULT.encode() not in message]
    found = repair_messages(cut, provider=to)
    assert list(found.messages[: len(cut)]) == cut
    assert_answered(to, found.messages)
    assert found.report.count("added", "result") == 2


def test_a_result_that_is_missing_joins_the_others() -> None:
    """Anthropic requires all results of a turn in one message, so that message is rewritten with the missing one."""
    use = {"type": "tool_use", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    thought = {"type": "thinking", "thinking": "hm", "signature": "SIG"}
    talk = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [thought, {**use, "id": "a"}, {**use, "id": "b"}]},
        {"role": "user", "content": [result, {"type": "text", "text": "so"}]},
        {"role": "assistant", "content": "well"},
    ]
    raw = [json.dumps(message, indent=2).encode() for message in talk]
    found = repair_messages(raw, provider="claude")
    assert [*found.messages[:2], found.messages[3]] == [raw[0], raw[1], raw[3]]  # with the signature
    check("anthropic", found.messages[2])
    content = json.loads(found.messages[2])["content"]
    assert [block.get("tool_use_id", block["type"]) for block in content] == ["a", "b", "text"]
    assert convert_messages(raw, source="claude", to="claude").messages == tuple(raw)


def test_mixed_messages_become_one_providers() -> None:
    """Neutral messages among native ones are written in the provider's words; the native ones stay as they are."""
    answer = clew.native(
        "anthropic",
        b'{"role": "assistant",  "content": [{"type": "thinking", "thinking": "hm", "signature": "SIG"}, '
        b'{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]}',
    )
    talk: list[clew.Message | clew.Native] = [
        clew.system("Be kind."),
        clew.user("go"),
        answer,
        clew.tool("done", call_id="toolu_1"),
    ]
    found = convert_messages(talk, to="anthropic")
    assert found.messages[1] == answer.raw
    assert loads(found.messages)[2] == {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "done"}]}],
    }
    assert (found.system, bool(found.report)) == ("Be kind.", False)


def test_thinking_can_be_dropped() -> None:
    """Reasoning becomes text, or goes if that is wanted; either way the report says so."""
    talk = [clew.user("go"), clew.assistant(clew.Thinking(text="SECRET", signature="s"), "Yes.")]
    kept, gone = convert_messages(talk, to="openai"), convert_messages(talk, to="openai", thinking="drop")
    assert b"<thinking>\\nSECRET\\n</thinking>" in kept.messages[1]
    assert b"SECRET" not in gone.messages[1]
    assert kept.report.count("changed", "thinking") == gone.report.count("dropped", "thinking") == 1
    assert json.loads(convert_messages(talk, to="gemini").messages[1])["parts"][0] == {
        "text": "SECRET",
        "thought": True,
    }


def test_attachments_are_put_in_if_they_can_be_had() -> None:
    """A blob is read through the function that is given; without one it is left out, and reported."""
    shown = clew.Media(mime_type="image/png", modality="image", blob="d" * 64)
    found = convert_messages([clew.user(shown)], to="anthropic", blob={"d" * 64: b"PNG"}.__getitem__)
    source = json.loads(found.messages[0])["content"][0]["source"]
    assert source == {"type": "base64", "media_type": "image/png", "data": "UE5H"}
    left = convert_messages([clew.user(shown)], to="anthropic")
    assert left.report.count("dropped", "attachment") == 1
    assert json.loads(left.messages[0])["content"] == [{"type": "text", "text": "[image left out]"}]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"to": "someone"}, "cannot write messages of 'someone'"),
        ({"to": "openai", "thinking": "loud"}, "thinking must be"),
        ({"to": "openai", "system": 1}, "a system prompt is text"),
        ({"to": None}, "cannot write messages of NoneType"),
    ],
)
def test_what_cannot_be_asked_is_invalid(wrong: dict[str, Any], said: str) -> None:
    """A provider or a wish that clew does not know is refused, with what there is."""
    with pytest.raises(clew.Invalid, match=said):
        convert_messages([clew.user("hi")], **wrong)


@pytest.mark.parametrize("messages", [b"[]", "text", None, [1], [b"[]"], [b"{"], [b"\xff"], [clew.user("\0")]])
def test_what_is_not_a_list_of_messages_is_invalid(messages: Any) -> None:
    """Messages that cannot be stored cannot be converted."""
    with pytest.raises(clew.Invalid):
        convert_messages(messages, source="openai", to="gemini")


def test_bytes_need_a_provider() -> None:
    """Bytes do not tell whose they are."""
    with pytest.raises(clew.Invalid, match="name of their provider"):
        convert_messages([b'{"role": "user", "content": "hi"}'], to="gemini")


def test_arguments_that_are_too_deep_are_text() -> None:
    """Arguments nested deeper than a message may be are carried as the JSON they are written in."""
    deep = "[" * 190 + "]" * 190
    item = {"type": "function_call", "call_id": "a", "name": "f", "arguments": f'{{"x": {deep}}}'}
    found = convert_messages([json.dumps(item).encode()], source="openai-responses", to="anthropic")
    assert json.loads(found.messages[1])["content"][0]["input"] == {"": f'{{"x":{deep}}}'}
    assert found.report.count("changed", "arguments") == 1


def test_results_of_one_turn_stand_in_one_message() -> None:
    """This also holds for a message in the provider's own format, which is rewritten then."""
    use = {"type": "tool_use", "name": "f", "input": {}}
    talk = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{**use, "id": "a"}, {**use, "id": "b"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}]},
    ]
    found = repair_messages([json.dumps(message).encode() for message in talk], provider="anthropic")
    assert [block["tool_use_id"] for block in loads(found.messages)[2]["content"]] == ["a", "b"]
    assert len(found.messages) == 3


def test_calls_of_one_turn_stand_in_one_message() -> None:
    """Chat completions want what the assistant says beside its calls in the message of the calls."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    own = clew.native("openai", json.dumps({"role": "assistant", "content": None, "tool_calls": [call]}))
    talk: list[clew.Message | clew.Native] = [clew.user("go"), own, clew.assistant("hm"), clew.tool("1", call_id="a")]
    found = convert_messages(talk, to="openai")
    assert [message["role"] for message in loads(found.messages)] == ["user", "assistant", "tool"]
    assert loads(found.messages)[1]["content"] == "hm"


def test_a_function_may_be_answered_by_its_name() -> None:
    """Gemini's calls may have ids while their results have none."""
    talk = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "done"}}}]},
    ]
    found = convert_messages([json.dumps(message).encode() for message in talk], source="gemini", to="anthropic")
    assert loads(found.messages)[2]["content"][0]["tool_use_id"] == "1"
    assert not found.report


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sound_conversations_are_repaired_to_themselves(provider: str) -> None:
    """Documented examples of a provider need no repair: no byte changes, except for a call without a result."""
    raw = vectors.raw(provider)
    found = repair_messages(raw, provider=provider)
    assert list(found.messages[: len(raw)]) == raw
    assert len(found.messages) == len(raw) + (provider == "gemini")
