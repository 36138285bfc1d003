"""The neutral view of messages in OpenTelemetry's conventions for generative AI."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import (
    UNKNOWN,
    Json,
    as_arguments,
    as_list,
    as_text,
    as_word,
    decoded,
    inline_media,
    modality_of,
    to_json,
)


def role(data: Json) -> str:
    """The role of the message."""
    return as_word(data.get("role"))


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message's parts."""
    for part in as_list(data.get("parts")):
        kind = part.get("type")
        if kind == "text":
            yield Text(text=as_word(part.get("content")))
        elif kind == "reasoning":
            yield Thinking(text=as_word(part.get("content")))
        elif kind == "tool_call":
            yield ToolCall(
                id=as_word(part.get("id")),
                name=as_word(part.get("name")),
                arguments=as_arguments(decoded(part.get("arguments"))),
            )
        elif kind == "tool_call_response":
            yield _response(part)
        elif kind == "blob" and isinstance(content := part.get("content"), str):
            yield inline_media(as_text(part.get("mime_type")) or UNKNOWN, content)
        elif kind == "uri" and isinstance(uri := part.get("uri"), str):
            mime = as_text(part.get("mime_type")) or UNKNOWN
            yield Media(mime_type=mime, modality=modality_of(mime), url=uri)
        else:
            yield Opaque(kind=as_word(kind) or "part", data=part)


def _response(part: Json) -> ToolResult:
    given = part.get("response", part.get("result"))
    text = given if isinstance(given, str) else "" if given is None else to_json(given)
    return ToolResult(call_id=as_word(part.get("id")), content=(Text(text=text),) if text else ())
