"""The neutral view of the messages of Strands Agents: those of Amazon Bedrock, alone or in a stored record."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word, inline_media, to_json


def role(data: Json) -> str:
    """The role of a message."""
    return as_word(_message(data).get("role"))


def blocks(data: Json) -> Iterator[Block]:
    """One block for each part of the content."""
    for part in as_list(_message(data).get("content")):
        yield from _block(part)


def _message(data: Json) -> Json:
    """The message of a record; the new one if a guardrail replaced it."""
    return as_dict(data.get("redact_message")) or as_dict(data.get("message")) or data


def _block(part: Json) -> Iterator[Block]:
    if (text := as_text(part.get("text"))) is not None:
        yield Text(text=text)
    elif call := as_dict(part.get("toolUse")):
        id, name = as_word(call.get("toolUseId")), as_word(call.get("name"))
        yield ToolCall(id=id, name=name, arguments=as_arguments(call.get("input")))
    elif result := as_dict(part.get("toolResult")):
        content = tuple(_result(one) for one in as_list(result.get("content")))
        failed = result.get("status") == "error"
        yield ToolResult(call_id=as_word(result.get("toolUseId")), content=content, is_error=failed)
    elif thought := as_dict(part.get("reasoningContent")):
        words = as_dict(thought.get("reasoningText"))
        yield Thinking(text=as_word(words.get("text")), signature=as_text(words.get("signature")))
    elif part:
        yield _media(part) or Opaque(kind=next(iter(part)), data=part)


def _result(part: Json) -> Text | Media | Opaque:
    if (text := as_text(part.get("text"))) is not None:
        return Text(text=text)
    if "json" in part:
        return Text(text=to_json(part["json"]))
    return _media(part) or Opaque(kind=next(iter(part), "part"), data=part)


_TYPES = {"image": "image/", "video": "video/", "document": "application/"}


def _media(part: Json) -> Media | None:
    """An image, video or document whose bytes are in the message."""
    for kind, prefix in _TYPES.items():
        if about := as_dict(part.get(kind)):
            data = as_dict(as_dict(about.get("source")).get("bytes")).get("data")
            if isinstance(data, str):
                return inline_media(prefix + as_word(about.get("format")), data)
    return None
