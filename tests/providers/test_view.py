"""The neutral view of native messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.errors import Invalid
from clew.providers.neutral import encode, neutral


def view(provider: str, data: object) -> clew.Message:
    return neutral(clew.native(provider, json.dumps(data)))


def test_anthropic() -> None:
    """Text, thinking with its signature, redacted thinking, tool use and images of an Anthropic message are seen."""
    message = view(
        "anthropic",
        {
            "role": "assistant",
            "model": "m",
            "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 2},
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {"x": 1}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                {"type": "later", "z": 1},
            ],
        },
    )
    assert (message.role, message.model) == ("assistant", "m")
    assert message.usage == clew.Usage(input=3, output=4, cached=2)
    assert message.blocks == (
        clew.Text(text="hi"),
        clew.Thinking(text="hm", signature="s"),
        clew.Thinking(redacted="d"),
        clew.ToolCall(id="c", name="f", arguments={"x": 1}),
        clew.Media(mime_type="image/png", modality="image", url="data:image/png;base64,AA=="),
        clew.Opaque(kind="later", data={"type": "later", "z": 1}),
    )


def test_an_anthropic_tool_result_is_the_tools() -> None:
    """A user turn that only answers tool calls is the tool's, with its error flag."""
    block = {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}
    message = view("anthropic", {"role": "user", "content": [block]})
    assert message == clew.tool("no", call_id="c", is_error=True)


def test_openai_chat_and_responses() -> None:
    """Chat messages and items of the Responses API of OpenAI are seen."""
    call = {"id": "c", "function": {"name": "f", "arguments": '{"x":1}'}}
    message = view("openai", {"role": "assistant", "content": "hi", "tool_calls": [call]})
    assert message.blocks == (clew.Text(text="hi"), clew.ToolCall(id="c", name="f", arguments={"x": 1}))
    assert view("openai", {"role": "tool", "tool_call_id": "c", "content": "ok"}) == clew.tool("ok", call_id="c")
    assert view("openai", {"role": "developer", "content": "be kind"}) == clew.system("be kind")
    item: dict[str, Any] = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "not json"}
    assert view("openai", item).blocks == (clew.ToolCall(id="c", name="f", arguments={"": "not json"}),)
    item = {"type": "reasoning", "summary": [{"text": "hm"}], "encrypted_content": "e"}
    assert view("openai", item) == clew.assistant(clew.Thinking(text="hm", redacted="e"))
    part = {"type": "image_url", "image_url": {"url": "data:image/gif;base64,AA=="}}
    (shown,) = view("openai", {"role": "user", "content": [part]}).blocks
    assert isinstance(shown, clew.Media)
    assert shown.mime_type == "image/gif"


def test_gemini() -> None:
    """Parts of a Gemini message are seen; its model is the assistant."""
    parts: list[dict[str, Any]] = [
        {"text": "hi"},
        {"text": "hm", "thought": True, "thoughtSignature": "s"},
        {"functionCall": {"name": "f", "args": {"x": 1}}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}},
        {"later": 1},
    ]
    message = view("gemini", {"role": "model", "parts": parts})
    assert message.role == "assistant"
    assert [type(block) for block in message.blocks] == [
        clew.Text, clew.Thinking, clew.ToolCall, clew.Media, clew.Media, clew.Opaque,
    ]  # fmt: skip
    answer = {"functionResponse": {"name": "f", "response": {"ok": True}}}
    assert view("gemini", {"role": "user", "parts": [answer]}).role == "tool"


def test_an_unknown_provider_is_shown_as_far_as_it_goes() -> None:
    """Plain content is text; everything else is one opaque block."""
    assert view("someone", {"role": "user", "content": "hi"}) == clew.user("hi")
    (block,) = view("someone", {"content": [1]}).blocks
    assert block == clew.Opaque(kind="message", data={"content": [1]})


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'"x"', b"null", b"\xff", b'{"a":1}x', b"{'a':1}", b'{"a":NaN}', b"\xef\xbb\xbf{}"]
)
def test_what_is_not_a_json_object_is_refused(raw: bytes) -> None:
    """A native message is one JSON object in UTF-8; anything else is Invalid before it is stored."""
    with pytest.raises(Invalid):
        encode(clew.native("anthropic", raw))


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "type", "text", "content", "source", "input", "role", "parts", "functionCall", "summary", "usage", "id",
            "tool_calls", "function", "arguments", "image_url", "inlineData", "input_tokens", "data",
        ])
        | st.text(max_size=2),
        inner
        | st.sampled_from(["text", "image", "tool_result", "tool_use", "thinking", "base64", "reasoning", "user"]),
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["role", "content", "parts", "type", "usage", "tool_calls", "summary", "output"]), ANY
    )
)
def test_odd_messages_have_a_view(data: dict[str, Any]) -> None:
    """Any JSON object of a provider has a neutral view, or is refused as Invalid."""
    for provider in ("anthropic", "openai", "gemini", "someone"):
        try:
            encode(clew.native(provider, json.dumps(data)))
        except Invalid:
            continue
        message = view(provider, data)
        assert message.role in ("system", "user", "assistant", "tool")
        assert isinstance(message.text, str)


@pytest.mark.parametrize(
    "raw", [b'{"role": "user", "content": "a\\ud800b"}', b'{"role": "user", "content": "x", "n": 1e999}']
)
def test_json_that_strict_readers_refuse_is_kept(raw):
    """An escaped lone surrogate and a number beyond range are JSON: the bytes are kept, the view is readable."""
    with clew.open(":memory:") as store:
        node = store.sessions.create().append(clew.native("openai", raw))
        assert node.native is not None
        assert node.native.raw == raw
        assert node.role == "user"
        store.search("x")


@pytest.mark.parametrize("raw", [b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1', b'{"a": "\x00"}', b"\xff"])
def test_what_is_not_json_is_refused(raw):
    """NaN, torn JSON, raw control characters and broken UTF-8 are not JSON in any reading."""
    with clew.open(":memory:") as store, pytest.raises(clew.Invalid):
        store.sessions.create().append(clew.native("openai", raw))


def test_files_sounds_and_refusals_of_openai() -> None:
    """Files by content or address, recordings, refusals and what was heard are seen; a handle is opaque."""
    parts: list[dict[str, Any]] = [
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "AA=="}},
        {"type": "input_file", "file_url": "https://a.test/b.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "refusal", "refusal": "no"},
    ]
    assert view("openai", {"role": "user", "content": parts}).blocks == (
        clew.Media(
            mime_type="application/pdf", modality="document", url="data:application/pdf;base64,AA==", name="a.pdf"
        ),
        clew.Media(mime_type="application/pdf", modality="document", url="https://a.test/b.pdf"),
        clew.Media(mime_type="audio/mp3", modality="audio", url="data:audio/mp3;base64,AA=="),
        clew.Opaque(kind="input_image", data=parts[3]),
        clew.Text(text="no", extra={"refusal": True}),
    )
    heard = view("openai", {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "hello"}})
    assert heard.text == "hello"


def test_other_calls_of_openai() -> None:
    """Tools that take text, shells, the old way of calling, and reasoning of servers that speak OpenAI's tongue."""
    custom = {"id": "c", "type": "custom", "custom": {"name": "python", "input": "1"}}
    message = view("openai-compatible", {"role": "assistant", "reasoning_content": "hm", "tool_calls": [custom]})
    assert message.blocks == (
        clew.Thinking(text="hm"),
        clew.ToolCall(id="c", name="python", arguments={"input": "1"}),
    )
    shell = view("openai-responses", {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}})
    assert shell == clew.assistant(clew.ToolCall(id="s", name="shell", arguments={"action": {"commands": ["ls"]}}))
    output = {"type": "shell_call_output", "call_id": "s", "output": [{"stdout": "a"}]}
    assert view("openai-responses", output) == clew.tool('[{"stdout":"a"}]', call_id="s")
    tool = {"type": "function_call", "call_id": "c", "name": "get", "namespace": "mcp__github__", "arguments": "{}"}
    assert view("openai-responses", tool) == clew.assistant(clew.ToolCall(id="c", name="mcp__github__get"))
    old = view("openai", {"role": "assistant", "function_call": {"name": "f", "arguments": "[1]"}})
    assert old.blocks == (clew.ToolCall(id="f", name="f", arguments={"": [1]}),)
    assert view("openai", {"role": "function", "name": "f", "content": "ok"}) == clew.tool("ok", call_id="f")
    picture = view("openai-responses", {"type": "image_generation_call", "id": "i", "result": "AA=="})
    assert picture == clew.assistant(
        clew.Media(mime_type="image/png", modality="image", url="data:image/png;base64,AA==")
    )


def test_documents_of_anthropic() -> None:
    """A document is shown by its content; its title is its name, or text where it has none."""
    sources: list[dict[str, Any]] = [
        {"title": "T", "context": "C", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}},
        {"title": "T", "context": "C", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
        {"title": "T", "source": {"type": "content", "content": [{"type": "text", "text": "chunk"}]}},
        {"source": {"type": "url", "url": "https://a.test/b"}},
    ]
    content = [{"type": "document", **source} for source in sources]
    assert view("anthropic", {"role": "user", "content": content}).blocks == (
        clew.Text(text="C"),
        clew.Media(mime_type="application/pdf", modality="document", url="data:application/pdf;base64,AA==", name="T"),
        clew.Text(text="T\n\nC\n\nwords"),
        clew.Text(text="T"),
        clew.Text(text="chunk"),
        clew.Media(mime_type="application/pdf", modality="document", url="https://a.test/b"),
    )


def test_gemini_in_snake_case() -> None:
    """JSON of Google's SDK has the same view as that of its service: other names, another base64 alphabet."""
    parts: list[dict[str, Any]] = [
        {"function_call": {"name": "f", "args": {}}},
        {"inline_data": {"mime_type": "image/png", "data": "-_8"}},
    ]
    assert view("gemini", {"role": "model", "parts": parts}).blocks == (
        clew.ToolCall(id="f", name="f"),
        clew.Media(mime_type="image/png", modality="image", url="data:image/png;base64,+/8="),
    )
    answers: list[dict[str, Any]] = [{"output": "ok"}, {"error": "no"}, {"result": [1]}, {"x": 1, "output": "ok"}]
    told = [{"functionResponse": {"name": "f", "response": answer}} for answer in answers]
    results = view("gemini", {"role": "user", "parts": told}).blocks
    assert [(one.content[0], one.is_error) for one in results if isinstance(one, clew.ToolResult)] == [
        (clew.Text(text="ok"), False), (clew.Text(text="no"), True), (clew.Text(text="[1]"), False),
        (clew.Text(text='{"x":1,"output":"ok"}'), False),
    ]  # fmt: skip
