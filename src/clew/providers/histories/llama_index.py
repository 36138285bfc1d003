"""The neutral view of LlamaIndex's chat messages."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import (
    Json,
    as_arguments,
    as_dict,
    as_list,
    as_text,
    as_word,
    decoded,
    guess_mime,
    inline_media,
    modality_of,
)

_FILES = {
    "image": ("image", "image_mimetype"),
    "audio": ("audio", "format"),
    "video": ("video", "video_mimetype"),
    "document": ("data", "document_mimetype"),
}
"""Kinds of blocks with a file: the fields that have its bytes, and its type."""


def role(data: Json) -> str:
    """The role of a message; `chatbot` means the assistant."""
    name = as_word(data.get("role"))
    return "assistant" if name == "chatbot" else name


def blocks(data: Json) -> Iterator[Block]:
    """One block for each part, then tool calls of older versions. The content of a tool's message is a result."""
    about = as_dict(data.get("additional_kwargs"))
    found = [block for part in as_list(data.get("blocks")) if (block := _block(part)) is not None]
    if data.get("role") in ("tool", "function"):
        shown = tuple(block for block in found if isinstance(block, Text | Media | Opaque))
        yield ToolResult(call_id=as_word(about.get("tool_call_id")), content=shown)
        return
    yield from found
    if not any(isinstance(block, ToolCall) for block in found):
        for call in as_list(about.get("tool_calls")):
            function = as_dict(call.get("function"))
            name = as_word(function.get("name") or call.get("name"))
            yield ToolCall(
                id=as_word(call.get("id")), name=name, arguments=as_arguments(decoded(function.get("arguments")))
            )


def _block(part: Json) -> Block | None:
    kind = as_word(part.get("block_type"))
    if (text := as_text(part.get("text"))) is not None:
        return Text(text=text) if text else None
    if kind == "tool_call":
        id, name = as_word(part.get("tool_call_id")), as_word(part.get("tool_name"))
        return ToolCall(id=id, name=name, arguments=as_arguments(decoded(part.get("tool_kwargs"))))
    if kind == "thinking":
        return Thinking(text=as_word(part.get("content")))
    if kind in _FILES:
        bytes, mime = (as_text(part.get(field)) for field in _FILES[kind])
        if bytes:
            return inline_media(mime or f"{kind}/*", bytes)
        if url := as_text(part.get("url")) or as_text(part.get("path")):
            mime = mime or guess_mime(url)
            return Media(mime_type=mime, modality=modality_of(mime), url=url)
    return Opaque(kind=kind or "block", data=part)
