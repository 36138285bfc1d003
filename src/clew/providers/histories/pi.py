"""The neutral view of pi's messages, and of the entries that stand for messages: compactions, summaries of branches."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word, inline_media

_ROLES = {"system": "system", "assistant": "assistant", "toolResult": "tool"}


def role(data: Json) -> str:
    """The role of the author. A command that the user ran, and a summary, are the user's."""
    return _ROLES.get(as_word(data.get("role")), "user")


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message."""
    kind = data.get("role")
    if kind == "toolResult":
        inner = tuple(block for block in _content(data) if isinstance(block, Text | Media | Opaque))
        id = as_word(data.get("toolCallId"))
        yield ToolResult(call_id=id, content=inner, is_error=data.get("isError") is True)
        return
    if kind == "bashExecution":
        yield Text(text=f"$ {as_word(data.get('command'))}\n{as_word(data.get('output'))}".rstrip())
        return
    if text := as_text(data.get("summary")):
        yield Text(text=text)
    for text in as_dict(data.get("sections")).values():
        if isinstance(text, str) and text:
            yield Text(text=text)
    yield from _content(data)
    if error := as_text(data.get("errorMessage")):
        yield Opaque(kind="error", data={"message": error})


def _content(data: Json) -> Iterator[Block]:
    content = data.get("content")
    if isinstance(content, str):
        if content:
            yield Text(text=content)
        return
    for block in as_list(content):
        kind = block.get("type")
        if kind == "text":
            yield Text(text=as_word(block.get("text")))
        elif kind == "thinking":
            signature = as_text(block.get("thinkingSignature"))
            yield Thinking(text=as_word(block.get("thinking")), signature=signature)
        elif kind == "toolCall":
            given = as_arguments(block.get("arguments"))
            yield ToolCall(id=as_word(block.get("id")), name=as_word(block.get("name")), arguments=given)
        elif kind == "image":
            yield inline_media(as_word(block.get("mimeType")), as_word(block.get("data")))
        else:
            yield Opaque(kind=as_word(kind) or "block", data=block)
