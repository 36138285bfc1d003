"""The neutral view of LangChain's messages, as LangGraph's threads have them.

A message is what LangChain's ``message_to_dict`` returns, with the fields that have a value, or a plain dict with a
role and content.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_dict, as_list, as_text, as_word

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}


def role(data: Json) -> str:
    """The role of a message, from its type, or from the role of a plain dict."""
    kind = as_word(data.get("type"))
    if kind == "chat":
        kind = as_word(as_dict(data.get("data")).get("role"))
    return _ROLES.get(kind, kind) or as_word(data.get("role"))


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: its content, then its tool calls. The content of a tool's message is a result."""
    fields = as_dict(data.get("data")) if "data" in data else data
    found = list(_content(fields.get("content")))
    if role(data) == "tool":
        shown = tuple(block for block in found if isinstance(block, Text | Media | Opaque))
        failed = fields.get("status") == "error"
        yield ToolResult(call_id=as_word(fields.get("tool_call_id")), content=shown, is_error=failed)
        return
    yield from found
    for call in as_list(fields.get("tool_calls")):
        function = as_dict(call.get("function"))
        arguments = call.get("args", function.get("arguments"))
        given = arguments if isinstance(arguments, dict) else {"input": arguments}
        name = as_word(call.get("name") or function.get("name"))
        yield ToolCall(id=as_word(call.get("id")), name=name, arguments=given)


def _content(content: object) -> Iterator[Block]:
    if isinstance(content, str):
        if content:
            yield Text(text=content)
        return
    for part in content if isinstance(content, list) else []:
        if isinstance(part, str):
            yield Text(text=part)
        elif isinstance(part, dict):
            kind = as_word(part.get("type"))
            if (text := as_text(part.get("text"))) is not None:
                yield Text(text=text)
            elif kind in ("thinking", "reasoning"):
                yield Thinking(text=as_word(part.get("thinking") or part.get("reasoning")))
            elif kind == "image_url":
                image = part.get("image_url")
                url = as_word(as_dict(image).get("url") if isinstance(image, dict) else image)
                yield Media(mime_type="image/*", modality="image", url=url)
            elif kind != "tool_use":  # `tool_calls` has it
                yield Opaque(kind=kind or "part", data=part)
