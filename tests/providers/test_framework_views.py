# ruff: noqa: E501  an example is one line of JSON
"""The neutral view of the messages of agent frameworks, by examples of what each of them writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import clew
from clew.base.messages import Native
from clew.providers.view import view

CALL = clew.ToolCall(id="c", name="weather", arguments={"city": "Turin"})
EXAMPLES: list[tuple[str, dict[str, Any], str, list[Any]]] = [
    (
        "google-adk",
        {"author": "guide", "content": {"parts": [{"function_call": {"id": "c", "name": "weather", "args": CALL.arguments}}]}},
        "assistant", [CALL],
    ),
    (
        "google-adk",
        {"author": "guide", "content": {"role": "user", "parts": [{"function_response": {"id": "c", "response": {"result": "x"}}}]}},
        "tool", [clew.ToolResult(call_id="c", content=(clew.Text(text="x"),))],
    ),
    ("google-adk", {"author": "user", "content": {"parts": [{"text": "hi"}]}}, "user", [clew.Text(text="hi")]),
    ("google-adk", {"author": "guide", "error_message": "no"}, "assistant", [clew.Text(text="no")]),
    (
        "google-adk", {"author": "user", "actions": {"state_delta": {"a": 1}}},
        "system", [clew.Opaque(kind="actions", data={"state_delta": {"a": 1}})],
    ),
    (
        "strands",
        {"role": "assistant", "content": [{"text": "x"}, {"toolUse": {"toolUseId": "c", "name": "weather", "input": CALL.arguments}}]},
        "assistant", [clew.Text(text="x"), CALL],
    ),
    (
        "strands",
        {"message": {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "status": "error", "content": [{"json": {"a": 1}}]}}]}},
        "tool", [clew.ToolResult(call_id="c", content=(clew.Text(text='{"a":1}'),), is_error=True)],
    ),
    (
        "strands",
        {"message": {"role": "user", "content": [{"text": "secret"}]}, "redact_message": {"role": "user", "content": [{"text": "[blocked]"}]}},
        "user", [clew.Text(text="[blocked]")],
    ),
    (
        "strands",
        {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}, {"cachePoint": {}}]},
        "assistant", [clew.Thinking(text="hm", signature="s"), clew.Opaque(kind="cachePoint", data={"cachePoint": {}})],
    ),
    (
        "agent-framework",
        {"role": "assistant", "contents": [{"type": "text_reasoning", "text": "hm"}, {"type": "function_call", "call_id": "c", "name": "weather", "arguments": '{"city": "Turin"}'}]},
        "assistant", [clew.Thinking(text="hm"), CALL],
    ),
    (
        "agent-framework",
        {"role": "tool", "contents": [{"type": "function_result", "call_id": "c", "result": {"a": 1}, "exception": "E"}]},
        "tool", [clew.ToolResult(call_id="c", content=(clew.Text(text='{"a":1}'),), is_error=True)],
    ),
    (
        "agent-framework",
        {"role": "user", "contents": [{"type": "uri", "uri": "https://x/y.pdf", "media_type": "application/pdf"}, {"type": "usage"}]},
        "user", [clew.Media(mime_type="application/pdf", modality="document", url="https://x/y.pdf")],
    ),
    (
        "llama-index",
        {"role": "chatbot", "additional_kwargs": {"tool_calls": [{"id": "c", "function": {"name": "weather", "arguments": '{"city": "Turin"}'}}]}, "blocks": []},
        "assistant", [CALL],
    ),
    (
        "llama-index",
        {"role": "tool", "additional_kwargs": {"tool_call_id": "c"}, "blocks": [{"block_type": "text", "text": "sunny"}]},
        "tool", [clew.ToolResult(call_id="c", content=(clew.Text(text="sunny"),))],
    ),
    (
        "llama-index",
        {"role": "user", "blocks": [{"block_type": "image", "url": "https://x/y.png", "image_mimetype": None}]},
        "user", [clew.Media(mime_type="image/png", modality="image", url="https://x/y.png")],
    ),
    (
        "chainlit", {"step": {"id": "s", "type": "user_message", "output": "hi", "name": "ada"}},
        "user", [clew.Text(text="hi")],
    ),
    (
        "chainlit",
        {"step": {"id": "c", "type": "tool", "name": "weather", "input": '{"city": "Turin"}', "output": "x", "isError": True}},
        "assistant", [CALL, clew.ToolResult(call_id="c", content=(clew.Text(text="x"),), is_error=True)],
    ),
    (
        "chainlit", {"element": {"id": "e", "url": "https://x/y.png", "mime": "image/png", "name": "y"}, "role": "user"},
        "user", [clew.Media(mime_type="image/png", modality="image", url="https://x/y.png", name="y")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("provider", "data", "role", "blocks"), EXAMPLES)
def test_view(provider: str, data: dict[str, Any], role: str, blocks: list[Any]) -> None:
    """Roles, calls, results, reasoning and files of each framework are shown as those of every provider."""
    seen = view(Native(provider, json.dumps(data).encode()))
    assert seen.role == role
    assert list(seen.blocks) == blocks


@pytest.mark.parametrize("provider", ["google-adk", "strands", "agent-framework", "llama-index", "chainlit"])
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [None], [1], {"a": {}}])
def test_odd_values(provider: str, value: Any) -> None:
    """Any value in any field gives a view, and no error."""
    names = ("content", "contents", "blocks", "message", "role", "author", "additional_kwargs", "error_message", "step")
    for name in names:
        view(Native(provider, json.dumps({name: value}).encode()))
