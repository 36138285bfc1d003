"""The neutral view of messages in an export of LibreChat."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word, decoded


def role(data: Json) -> str:
    """The role of the sender."""
    return "user" if data.get("isCreatedByUser") is True or data.get("sender") == "User" else "assistant"


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: its content, or its text where it has none, and its files."""
    failed = {"error": True} if data.get("error") is True else None
    parts = as_list(data.get("content"))
    for part in parts:
        yield from _part(part)
    if not parts and (text := as_text(data.get("text"))):
        yield Text(text=text, extra=failed)
    for file in as_list(data.get("files")):
        yield Opaque(kind="file", data=file)


def _part(part: Json) -> Iterator[Block]:
    kind = part.get("type")
    inner = part.get(kind) if isinstance(kind, str) else None
    if kind in ("text", "think", "error"):
        text = as_word(inner.get("value")) if isinstance(inner, dict) else as_text(inner) or ""
        if kind == "think":
            yield Thinking(text=text)
        elif text:
            yield Text(text=text, extra={"error": True} if kind == "error" else None)
    elif kind == "tool_call":
        yield from _call(as_dict(inner))
    else:
        yield Opaque(kind=as_word(kind) or "part", data=part)


def _call(call: Json) -> Iterator[Block]:
    function = as_dict(call.get("function"))
    id = as_word(call.get("id"))
    given = decoded(call.get("args", function.get("arguments")))
    name = as_text(call.get("name")) or as_word(function.get("name"))
    yield ToolCall(id=id, name=name, arguments=as_arguments(given))
    output = as_text(call.get("output")) or as_text(function.get("output"))
    if output is not None:
        yield ToolResult(call_id=id, content=(Text(text=output),))
