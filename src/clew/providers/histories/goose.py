"""The neutral view of Goose's messages: rows of its database, or lines of its older files."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word, inline_media


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message."""
    content = data.get("content_json", data.get("content"))
    for block in as_list(content):
        kind = block.get("type")
        if kind in ("toolRequest", "frontendToolRequest"):
            call = as_dict(as_dict(block.get("toolCall")).get("value"))
            given = as_arguments(call.get("arguments"))
            yield ToolCall(id=as_word(block.get("id")), name=as_word(call.get("name")), arguments=given)
        elif kind == "toolResponse":
            yield _result(as_word(block.get("id")), as_dict(block.get("toolResult")))
        elif kind == "thinking":
            yield Thinking(text=as_word(block.get("thinking")), signature=as_text(block.get("signature")))
        elif kind == "redactedThinking":
            yield Thinking(redacted=as_text(block.get("data")))
        else:
            yield _simple(block)


def _result(id: str, result: Json) -> ToolResult:
    """A result. One that was delivered can still say that the tool failed."""
    value = result.get("value")
    inner = as_dict(value)
    content = [_simple(block) for block in as_list(value if isinstance(value, list) else inner.get("content"))]
    if error := as_text(result.get("error")):
        content.append(Text(text=error))
    failed = result.get("status") == "error" or inner.get("isError") is True
    return ToolResult(call_id=id, content=tuple(content), is_error=failed)


def _simple(block: Json) -> Text | Media | Opaque:
    kind = as_word(block.get("type"))
    if kind == "text":
        return Text(text=as_word(block.get("text")))
    if kind == "image":
        return inline_media(as_word(block.get("mimeType")), as_word(block.get("data")))
    return Opaque(kind=kind or "block", data=block)
