"""A turn, from a question to its answer, with every kind of failure."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest

from clew import Text, Thinking, ToolCall, ToolResult, chat
from clew.errors import Conflict, Invalid
from clew.providers.neutral import neutral
from clew.testing.providers import ProviderServer, ToolUse
from tests.chat.conftest import PERSISTENT, Connect


def texts(client: chat.Client) -> list[tuple[str, str]]:
    """Role and words of every message."""
    return [(view.role, view.text) for view in map(neutral, client.history)]


def event(data: str) -> bytes:
    """An event of a stream; Anthropic's have their names beside them."""
    kind = json.loads(data).get("type", "")
    return (f"event: {kind}\n" if kind else "").encode() + f"data: {data}\n\n".encode()


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def explode() -> str:
    """Never works."""
    raise RuntimeError("out of order")


def test_a_conversation_goes_on(provider: str, server: ProviderServer, connect: Connect) -> None:
    """Each question is sent with everything before it."""
    client = connect(provider)
    server.say("Rome.")
    assert client.chat("Where are we going?") == "Rome."
    assert client.chat("When?") == "You said: When?"
    assert texts(client) == [
        ("user", "Where are we going?"), ("assistant", "Rome."), ("user", "When?"), ("assistant", "You said: When?"),
    ]  # fmt: skip
    assert "Where are we going?" in server.requests[-1].body.decode()


def test_what_is_added_goes_with_the_next_question(provider: str, server: ProviderServer, connect: Connect) -> None:
    """Adding sends nothing."""
    client = connect(provider)
    client.add("The file is empty.")
    assert server.requests == []
    client.chat("Why?")
    assert b"The file is empty." in server.requests[0].body
    assert [role for role, _ in texts(client)] == ["user", "user", "assistant"]


def test_a_message_in_the_providers_words(server: ProviderServer, connect: Connect) -> None:
    """A message in the provider's own JSON can be sent; one of another provider cannot."""
    from clew import native

    client = connect("claude")
    picture = {"type": "image", "source": {"type": "url", "url": "https://host/a.png"}}
    client.chat(native("claude", json.dumps({"role": "user", "content": [picture]})))
    assert server.requests[0].json["messages"][0]["content"] == [picture]
    for wrong in (native("gemini", "{}"), native("claude", "{"), native("claude", "[]"), native("claude", "{}")):
        with pytest.raises(Invalid):
            client.chat(wrong)
    assert len(server.requests) == 1


@pytest.mark.parametrize("prompt", ["", None, 7, b"bytes", ["list"], "lone \ud800"])
def test_a_prompt_is_text(prompt: Any, provider: str, connect: Connect, server: ProviderServer) -> None:
    """Anything else is refused before anything is sent."""
    client = connect(provider)
    for call in (client.chat, client.add, lambda said: list(client.stream(said)), lambda said: client.ask(said, str)):
        with pytest.raises(Invalid):
            call(prompt)
    assert server.requests == []
    assert client.chat("Hello")


def test_tools_are_run_until_there_is_an_answer(provider: str, server: ProviderServer, connect: Connect) -> None:
    """Two rounds of tools, and the answer; the model sees what they gave back."""
    client = connect(provider, tools=[add])
    server.say("Let me see.", calls=[ToolUse("add", {"a": 1, "b": 2}, "first")])
    server.say(calls=[ToolUse("add", {"a": 3, "b": 4}, "second")])
    server.say("Ten.")
    assert client.chat("Add it all up") == "Ten."
    assert len(server.requests) == 3
    results = [block for view in map(neutral, client.history) for block in view.blocks if isinstance(block, ToolResult)]
    assert [result.call_id for result in results] == ["first", "second"]
    assert ["3" in result.content[0].text for result in results] == [True, False]  # type: ignore[union-attr]
    assert client.usage == chat.UsageTotal(input=30, output=15, answers=3)
    assert client.reply is not None
    assert client.reply.usage is not None
    assert (client.reply.usage.input, client.reply.usage.output) == (30, 15)


def test_errors_of_tools_are_told_to_the_model(provider: str, server: ProviderServer, connect: Connect) -> None:
    """The model gets an error for a tool that raises, an unknown tool, and invalid arguments, and continues."""
    client = connect(provider, tools=[add, explode])
    server.say(
        calls=[ToolUse("explode", id="1"), ToolUse("nothing", id="2"), ToolUse("add", {"a": "one"}, id="3")]
    )  # fmt: skip
    server.say("I see.")
    assert client.chat("Try") == "I see."
    told = server.requests[-1].body.decode()
    assert "RuntimeError: out of order" in told
    assert "there is no tool 'nothing'; there are: add, explode" in told
    assert "the arguments do not fit" in told


def test_odd_results_of_tools(provider: str, server: ProviderServer, connect: Connect) -> None:
    """The model gets a readable result for a file name that is not Unicode and an error without a text."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def names() -> str:
        return os.fsdecode(b"caf\xe9.txt")

    def mute() -> str:
        raise Mute

    client = connect(provider, tools=[names, mute])
    for ask in (client.chat, lambda said: list(client.stream(said))):
        server.say(calls=[ToolUse("names", id="1"), ToolUse("mute", id="2")])
        server.say("I see.")
        ask("Try")
        told = server.requests[-1].body.decode()
        assert "caf?.txt" in told
        assert "Mute" in told


def test_arguments_that_are_not_json(server: ProviderServer, connect: Connect) -> None:
    """A call that was cut off in the middle is answered with an error, whole and streamed."""
    for provider in ("openai", "openai-responses"):
        client = connect(provider, tools=[add])
        for ask in (client.chat, lambda said, client=client: list(client.stream(said))):
            server.say(calls=[ToolUse("add", written='{"a": 1, "b"')], stop=None)
            server.say("I see.")
            ask("Try")
            assert b"the arguments do not fit" in server.requests[-1].body
    client = connect("claude", tools=[add])
    server.say(calls=[ToolUse("add", written='{"a": 1, "b"')], stop="max_tokens")
    server.say("I see.")
    assert list(client.stream("Try"))
    assert b"the arguments do not fit" in server.requests[-1].body


def test_tools_of_one_answer_run_at_the_same_time(provider: str, server: ProviderServer, connect: Connect) -> None:
    """Tools run concurrently: two that wait for each other finish; results are in the order of the calls."""
    both = threading.Barrier(2, timeout=10)

    def meet(name: str) -> str:
        both.wait()
        return f"{name} was there"

    client = connect(provider, tools=[meet])
    server.say(calls=[ToolUse("meet", {"name": "Ann"}, "1"), ToolUse("meet", {"name": "Bob"}, "2")])
    server.say("Good.")
    assert client.chat("Meet") == "Good."
    told = server.requests[-1].body.decode()
    assert 0 < told.index("Ann was there") < told.index("Bob was there")


def test_there_is_an_end_to_tools(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A model that never stops calling tools is stopped; what was done is in the conversation, and it can go on."""
    client = connect(provider, tools=[add], max_steps=3)
    for number in range(4):
        server.say(calls=[ToolUse("add", {"a": number, "b": 0}, str(number))])
    with pytest.raises(chat.ProviderError, match="no answer after 3 steps"):
        client.chat("Count")
    assert len(server.requests) == 3
    server.say(calls=[ToolUse("add", {"a": 9, "b": 9}, "9")])
    client.chat("Go on")
    assert "18" in server.requests[-1].body.decode()


def test_set_tools_replaces_what_was_there(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A tool of before is neither described nor run."""
    client = connect(provider, tools=[add])
    client.set_tools([explode])
    server.say(calls=[ToolUse("add", {"a": 1, "b": 2})])
    client.chat("Add")
    assert "Adds two numbers." not in server.requests[-1].body.decode()
    assert "there is no tool 'add'" in server.requests[-1].body.decode()
    client.set_tools([])
    assert client.save().tools == ()


def test_streaming(provider: str, server: ProviderServer, connect: Connect) -> None:
    """Thinking, words, calls and results come as they happen, and the answer at the end."""
    client = connect(provider, tools=[add])
    server.say("Let me see.", thinking="Numbers, numbers.", calls=[ToolUse("add", {"a": 1, "b": 2}, "c")])
    server.say("It is three.")
    events = list(client.stream("Add one and two"))
    assert "".join(event.text for event in events if isinstance(event, Thinking)) == "Numbers, numbers."
    words = [event.text for event in events if isinstance(event, Text)]
    assert len(words) == 6
    assert "".join(words) == "Let me see.It is three."
    assert [event for event in events if isinstance(event, ToolCall)] == [
        ToolCall(id="c", name="add", arguments={"a": 1, "b": 2})
    ]
    assert [event.content[0].text for event in events if isinstance(event, ToolResult)] == ["3"]  # type: ignore[union-attr]
    assert isinstance(events[-1], chat.Reply)
    assert events[-1] == client.reply
    assert events[-1].text == "It is three."
    assert (events[-1].usage.input, events[-1].usage.output) == (20, 10)  # type: ignore[union-attr]


def test_streamed_and_whole_are_the_same_conversation(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A streamed answer is stored like a whole one, including signatures."""
    kept = []
    for streamed in (False, True):
        client = connect(provider, tools=[add])
        server.say("Hm.", thinking="Numbers.", calls=[ToolUse("add", {"a": 1, "b": 2}, "c")])
        server.say("Three.", thinking="Done.")
        if streamed:
            list(client.stream("Add"))
        else:
            client.chat("Add")
        kept.append([json.loads(message.raw) for message in client.history])
    for message in kept[0]:
        message.pop("refusal", None)  # the chunks of a stream do not say that there is none
    assert kept[0] == kept[1]


def test_streams_keep_fields_nobody_knows(server: ProviderServer, connect: Connect) -> None:
    """Fields and blocks that came out after the SDK are put together and sent back."""
    streams = {
        "claude": [
            '{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"model":"m","usage":{}}}',
            '{"type":"content_block_start","index":0,"content_block":{"type":"next_year","deep":{"b":1,"a":2}}}',
            '{"type":"content_block_stop","index":0}',
            '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","new":[1]}}',
            '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}',
            '{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"x","n":1}}}',
            '{"type":"content_block_stop","index":1}',
            '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}',
            '{"type":"message_stop"}',
        ],
        "openai": [
            '{"choices":[{"index":0,"delta":{"content":"Hi","deep":{"a":"x"},"new":[1]}}]}',
            '{"choices":[{"index":0,"delta":{"deep":{"a":"y"},"new":[2]},"finish_reason":"stop"}]}',
        ],
        "gemini": [
            '{"candidates":[{"content":{"parts":[{"text":"Hi","new":{"n":12345678901234567890123}}]}}]}',
            '{"candidates":[{"content":{"parts":[{"next_year":{"a":1}}]},"finishReason":"STOP"}]}',
        ],
    }
    expected = {
        "claude": [{"type": "next_year", "deep": {"b": 1, "a": 2}},
                   {"type": "text", "text": "Hi", "new": [1], "citations": [{"type": "x", "n": 1}]}],
        "openai": "Hi",
        "gemini": [{"text": "Hi", "new": {"n": 12345678901234567890123}}, {"next_year": {"a": 1}}],
    }  # fmt: skip
    for provider, lines in streams.items():
        client = connect(provider)
        server.send(b"".join(event(line) for line in lines), "text/event-stream")
        assert list(client.stream("Hello"))[-1].text == "Hi"  # type: ignore[union-attr]
        answer = json.loads(client.history[-1].raw)
        assert (answer.get("content") or answer.get("parts")) == expected[provider]
        if provider == "openai":
            assert (answer["deep"], answer["new"]) == ({"a": "xy"}, [1, 2])


BROKEN = [{"cut": 4}, {"ends": 4}]


@pytest.mark.parametrize("how", BROKEN, ids=["cut", "ended"])
def test_what_arrived_of_a_broken_answer_stays(
    provider: str, how: dict[str, int], server: ProviderServer, connect: Connect
) -> None:
    """Text that arrived before the connection was cut is in the conversation, which continues from there."""
    client = connect(provider)
    server.say("One two three four five six.", **how)  # type: ignore[arg-type]
    heard: list[str] = []
    with pytest.raises(chat.ProviderError, match="the answer broke off"):
        heard.extend(event.text for event in client.stream("Count") if isinstance(event, Text))
    assert heard
    assert heard[0] == "One"
    assert texts(client) == [("user", "Count"), ("assistant", "".join(heard))]
    assert not client.usage.known
    assert client.chat("Go on") == "You said: Go on"


def test_if_nothing_arrives_nothing_was_said(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A question that got no answer at all is not in the conversation, so that it can be asked again."""
    client = connect(provider)
    client.chat("First")
    before = client.save().messages
    for status in (400, 401, 403, 404, 413, 418, 429, 500, 529):
        server.fail(status)
        with pytest.raises(chat.ProviderError) as caught:
            client.chat("Second")
        assert caught.value.status == status
        assert caught.value.__cause__ is not None
    server.fail(429)
    with pytest.raises(chat.ProviderError):
        list(client.stream("Second"))
    server.say("Never seen", cut=0)
    with pytest.raises(chat.ProviderError):
        list(client.stream("Second"))
    assert client.save().messages == before
    assert client.usage.answers == 1


def test_no_error_quotes_the_conversation(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A provider may quote the prompt in an error: the quote is in the cause, and not in the message."""
    client = connect(provider)
    server.fail(400, "your prompt CANARY was too rude")
    with pytest.raises(chat.ProviderError) as caught:
        client.chat("CANARY")
    assert "CANARY" not in str(caught.value)
    assert "CANARY" in str(caught.value.__cause__)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"nothing": 1}', b'{"content": ', b"\xff"])
def test_a_body_that_is_no_answer(provider: str, body: bytes, server: ProviderServer, connect: Connect) -> None:
    """Any server at the address leads to a typed error and an unchanged conversation."""
    client = connect(provider)
    server.send(body)
    with pytest.raises(chat.ProviderError):
        client.chat("Hello")
    server.send(b"event: message_start\ndata: " + body + b"\n\n", "text/event-stream")
    with pytest.raises(chat.ProviderError):
        list(client.stream("Hello"))
    assert client.history == ()


WHOLE_AND_ODD = {
    "claude": b'{"content": [7, {"type": "text", "text": 7}], "usage": 7}',
    "openai": b'{"choices": [{"message": 7}]}',
    "openai-responses": b'{"output": [7]}',
    "gemini": b'{"candidates": [{"content": [7]}]}',
}


@pytest.mark.parametrize("provider", WHOLE_AND_ODD)
def test_a_response_that_makes_no_sense(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A body of the right shape with something else inside is a typed error, too."""
    client = connect(provider)
    server.send(WHOLE_AND_ODD[provider])
    with pytest.raises(chat.ProviderError, match="not in the provider's form"):
        client.chat("Hello")
    assert client.history == ()


ODD = {
    "claude": '{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}',
    "openai": '{"choices":[{"index":0,"delta":{"tool_calls":[7]}}]}',
    "openai-responses": '{"type":"response.output_text.delta","output_index":0}',
    "gemini": '{"candidates":[{"content":{"parts":[7]}}]}',
}


@pytest.mark.parametrize("provider", ODD)
def test_events_that_make_no_sense(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A stream that is not the provider's ends in the typed error."""
    client = connect(provider)
    server.send(event(ODD[provider]), "text/event-stream")
    with pytest.raises(chat.ProviderError):
        list(client.stream("Hello"))
    assert client.chat("Hello")


def test_an_error_in_the_middle_of_a_stream(server: ProviderServer, connect: Connect) -> None:
    """A failure during the answer is an error; the text before it stays."""
    streams = {
        "claude": 'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
        '{"type":"text","text":"Half"}}\n\nevent: error\ndata: {"type":"error","error":{"type":"overloaded"}}\n\n',
        "openai": 'data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n'
        'data: {"error":{"message":"busy"}}\n\n',
        "openai-responses": 'data: {"type":"response.output_text.delta","output_index":0,"delta":"Half"}\n\n'
        'data: {"type":"response.failed","response":{}}\n\n',
        "gemini": 'data: {"candidates":[{"content":{"parts":[{"text":"Half"}]}}]}\n\n'
        'data: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}\n\n',
    }
    for provider, stream in streams.items():
        client = connect(provider)
        server.send(stream.encode(), "text/event-stream")
        with pytest.raises(chat.ProviderError):
            list(client.stream("Hello"))
        assert texts(client)[-1] == ("assistant", "Half")


def test_stopping_early_keeps_what_arrived(provider: str, server: ProviderServer, connect: Connect) -> None:
    """Closing the stream keeps the text so far and unlocks the client."""
    client = connect(provider)
    server.say("One two three four five six.")
    stream = client.stream("Count")
    for event in stream:
        if isinstance(event, Text):
            break
    stream.close()
    assert texts(client) == [("user", "Count"), ("assistant", "One")]
    assert client.chat("Go on")


def test_stopping_in_the_middle_of_thought(provider: str, server: ProviderServer, connect: Connect) -> None:
    """Thinking without words is not kept: no provider takes it back unfinished."""
    client = connect(provider)
    server.say("Words.", thinking="A long thought that goes on.")
    stream = client.stream("Think")
    assert isinstance(next(stream), Thinking)
    stream.close()
    assert client.history == ()
    assert client.chat("Hello")


def test_stopping_at_a_tool_call_leaves_no_call_open(provider: str, server: ProviderServer, connect: Connect) -> None:
    """A stream that is closed when a tool is about to run: the call has a result, which says it was interrupted."""
    client = connect(provider, tools=[add])
    server.say("Hm.", calls=[ToolUse("add", {"a": 1, "b": 2}, "c")])
    stream = client.stream("Add")
    for event in stream:
        if isinstance(event, ToolCall):
            break
    stream.close()
    assert "interrupted" in texts(client)[-1][1]
    client.chat("Go on")  # the server refuses a conversation with an open call


@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupted_tool_leaves_no_call_open(
    provider: str, count: int, server: ProviderServer, connect: Connect
) -> None:
    """Ctrl-C during tools: finished ones keep their results, the others get an interrupted result."""
    done = threading.Event()

    def work(number: int) -> str:
        if number + 1 < count:
            done.set()
            return "finished"
        done.wait(10 if count > 1 else 0)
        raise KeyboardInterrupt

    client = connect(provider, tools=[work])
    server.say(calls=[ToolUse("work", {"number": number}, f"id{number}") for number in range(count)])
    with pytest.raises(KeyboardInterrupt):
        client.chat("Work")
    results = [block for view in map(neutral, client.history) for block in view.blocks if isinstance(block, ToolResult)]
    assert len(results) == count
    words = [str(result.content) for result in results]
    assert "interrupted" in words[-1]
    assert all("finished" in word for word in words[:-1])
    client.chat("Go on")


def test_one_call_at_a_time(connect: Connect, server: ProviderServer) -> None:
    """During an answer, every change of the conversation raises Conflict, also from a tool."""
    client = connect("claude")

    def reenter() -> str:
        """Calls the client it is a tool of."""
        for call in (lambda: client.chat("x"), lambda: client.add("x"), lambda: client.set_tools([])):
            with pytest.raises(Conflict):
                call()
        with pytest.raises(Conflict):
            client.restore(client.save())
        return "refused"

    client.set_tools([reenter])
    server.say(calls=[ToolUse("reenter")])
    client.chat("Try")
    assert b"refused" in server.requests[-1].body
    stream = client.stream("Count")
    next(stream)
    with pytest.raises(Conflict):
        client.chat("x")
    stream.close()
    assert client.chat("Now")


def test_a_stream_that_is_never_begun_blocks_nothing(connect: Connect, server: ProviderServer) -> None:
    """Until the first event is asked for, nothing is sent."""
    client = connect("claude")
    stream = client.stream("Hello")
    assert client.chat("Hello")
    assert len(server.requests) == 1
    stream.close()


@pytest.mark.checklist("A42")
def test_threads_never_tear_a_conversation(connect: Connect, server: ProviderServer) -> None:
    """Many threads at one client: each call is done whole or refused, and saves at any time are sound."""
    client = connect("openai")
    answered: list[str] = []
    refused: list[str] = []

    def talk(name: str) -> None:
        for number in range(5):
            try:
                client.chat(f"{name}{number}")
                answered.append(f"{name}{number}")
            except Conflict:
                refused.append(name)
            parts = [json.loads(part)["role"] for part in client.save().parts]
            assert parts == ["user", "assistant"] * (len(parts) // 2)

    threads = [threading.Thread(target=talk, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) + len(refused) == 20
    assert answered
    assert sorted(text for role, text in texts(client) if role == "user") == sorted(answered)


def test_usage_that_is_not_told_is_not_known(provider: str, server: ProviderServer, connect: Connect) -> None:
    """The sums are lower bounds as soon as one answer does not say what it cost."""
    client = connect(provider)
    assert client.usage == chat.UsageTotal()
    server.say("One.", tokens=(3, 4))
    client.chat("x")
    assert client.usage == chat.UsageTotal(input=3, output=4, answers=1, known=True)
    server.say("Two.", tokens=None)
    client.chat("x")
    assert client.usage == chat.UsageTotal(input=3, output=4, answers=2, known=False)
    assert client.reply is not None
    assert client.reply.usage is None
    server.say("Three.", tokens=(1, 2))
    client.chat("x")
    assert client.reply.usage is not None
    assert (client.reply.usage.input, client.reply.usage.output) == (1, 2)
    assert not client.usage.known


def test_why_it_stopped(server: ProviderServer, connect: Connect) -> None:
    """The reply says why the model stopped, in its provider's word."""
    words = {
        "claude": "max_tokens",
        "openai": "length",
        "openai-responses": "max_output_tokens",
        "gemini": "MAX_TOKENS",
    }
    for provider, word in words.items():
        client = connect(provider, max_tokens=5)
        server.say("Cut", stop=word)
        client.chat("Hello")
        assert client.reply is not None
        assert client.reply.stop == word
        assert client.reply.model == "a-model"
        server.say("Cut", stop=word)
        assert list(client.stream("Hello"))[-1].stop == word  # type: ignore[union-attr]
        assert "5" in server.requests[-1].body.decode()


def test_an_empty_answer_leaves_nothing(server: ProviderServer, connect: Connect) -> None:
    """A question that a provider blocks is not in the conversation, where it would be blocked again and again."""
    client = connect("gemini")
    server.send(b'{"promptFeedback":{"blockReason":"SAFETY"}}')
    assert client.chat("Blocked") == ""
    assert client.reply is not None
    assert client.reply.stop == "SAFETY"
    server.send(b'data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n', "text/event-stream")
    assert [event.stop for event in client.stream("Blocked")] == ["SAFETY"]  # type: ignore[union-attr]
    assert client.history == ()
    other = connect("claude")
    server.say("", stop="refusal")
    assert other.chat("Refused") == ""
    assert other.history == ()
    spent = connect("openai")  # all of its tokens, on reasoning
    for ask in (spent.chat, lambda prompt: list(spent.stream(prompt))):
        server.say("", stop="length")
        ask("Think")
        assert spent.history == ()
    failed = connect("openai-responses")
    server.send(b'{"status":"failed","output":[]}')
    with pytest.raises(chat.ProviderError, match="failed"):
        failed.chat("Hello")


def test_a_pause_is_continued(server: ProviderServer, connect: Connect) -> None:
    """If a provider pauses a long turn, the request is repeated with the answer so far."""
    client = connect("claude")
    server.say("Searching.", stop="pause_turn")
    server.say("Found.")
    assert client.chat("Search") == "Found."
    assert [message["role"] for message in server.requests[-1].json["messages"]] == ["user", "assistant"]


def test_ask_gives_a_value(provider: str, server: ProviderServer, connect: Connect) -> None:
    """The model is held to a type's JSON Schema, and the answer is a value of it."""
    from dataclasses import dataclass

    @dataclass
    class NodeLocation:
        city: str
        people: int

    client = connect(provider)
    server.say('{"city": "Rome", "people": 2700000}')
    assert client.ask("Which city?", NodeLocation) == NodeLocation("Rome", 2_700_000)
    sent = server.requests[-1].body.decode()
    assert '"people"' in sent
    assert '"additionalProperties"' in sent
    server.say("no JSON")
    with pytest.raises(chat.ProviderError, match="does not fit"):
        client.ask("Which city?", NodeLocation)
    server.say('["a", "b"]')
    assert client.ask("Which?", list[str]) == ["a", "b"]
    assert client.ask("Any words", str) == "You said: Any words"
    with pytest.raises(Invalid, match="no JSON Schema"):
        client.ask("What?", complex)
    assert client.chat("Still fine")


def test_options_are_fields_of_the_request(server: ProviderServer, connect: Connect) -> None:
    """Further fields go along, objects are joined, and None takes one out."""
    client = connect("claude", options={"thinking": {"type": "enabled", "budget_tokens": 2000}, "brand_new": [1]})
    client.chat("Hello")
    asked = server.requests[-1].json
    assert (asked["thinking"]["budget_tokens"], asked["brand_new"]) == (2000, [1])
    client = connect("openai-responses", options={"include": None, "reasoning": {"effort": "low"}})
    client.chat("Hello")
    assert "include" not in server.requests[-1].json
    assert server.requests[-1].json["reasoning"] == {"effort": "low"}
    client = connect("gemini", max_tokens=5, options={"generationConfig": {"temperature": 0}})
    client.chat("Hello")
    assert server.requests[-1].json["generationConfig"] == {"maxOutputTokens": 5, "temperature": 0}


def test_the_sdk_retries(provider: str, server: ProviderServer, connect: Connect) -> None:
    """The SDK repeats a request that met a rate limit, as often as configured."""
    client = connect(provider, max_retries=1)
    server.fail(429, retry_after=0.01)
    assert client.chat("Hello") == "You said: Hello"
    assert len(server.requests) == 2
    assert client.usage.answers == 1


def test_nobody_is_there(provider: str, connect: Connect) -> None:
    """An address where nothing listens is a typed error."""
    client = connect(provider, base_url="http://127.0.0.1:9", timeout=5)
    with pytest.raises(chat.ProviderError):
        client.chat("Hello")
    assert client.history == ()


@pytest.mark.parametrize("provider", [name for name in PERSISTENT if name != "openai-compatible"])
def test_a_provider_that_is_silent(provider: str, server: ProviderServer, connect: Connect) -> None:
    """An answer that does not come in time is a typed error."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = connect(provider, base_url=address, timeout=0.2)
        with pytest.raises(chat.ProviderError, match="in time"):
            client.chat("Hello")
