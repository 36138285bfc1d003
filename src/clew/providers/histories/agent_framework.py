"""The neutral view of the messages of Microsoft's Agent Framework."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import (
    Json,
    as_arguments,
    as_list,
    as_text,
    as_word,
    decoded,
    guess_mime,
    modality_of,
    to_json,
)


def blocks(data: Json) -> Iterator[Block]:
    """One block for each content except usage."""
    for part in as_list(data.get("contents")):
        kind = as_word(part.get("type"))
        if kind == "function_call":
            id, name = as_word(part.get("call_id")), as_word(part.get("name"))
            yield ToolCall(id=id, name=name, arguments=as_arguments(decoded(part.get("arguments"))))
        elif kind == "function_result":
            content = tuple(_shown(one) for one in as_list(part.get("items"))) or _value(part.get("result"))
            failed = part.get("exception") is not None
            yield ToolResult(call_id=as_word(part.get("call_id")), content=content, is_error=failed)
        elif kind == "text_reasoning":
            yield Thinking(text=as_word(part.get("text")), redacted=as_text(part.get("protected_data")))
        elif kind != "usage":
            yield _shown(part)


def _value(result: object) -> tuple[Text, ...]:
    if result is None:
        return ()
    return (Text(text=result if isinstance(result, str) else to_json(result)),)


def _shown(part: Json) -> Text | Media | Opaque:
    text, url = as_text(part.get("text")), as_text(part.get("uri"))
    if text is not None:
        return Text(text=text)
    if url is not None:
        mime = as_text(part.get("media_type")) or guess_mime(url)
        return Media(mime_type=mime, modality=modality_of(mime), url=url)
    return Opaque(kind=as_word(part.get("type")) or "content", data=part)
