"""The neutral view of Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import (
    PDF,
    UNKNOWN,
    Json,
    as_arguments,
    as_list,
    as_text,
    as_word,
    guess_mime,
    inline_media,
)


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message."""
    content = data.get("content")
    if isinstance(content, str):
        yield Text(text=content)
        return
    for block in as_list(content):
        kind = block.get("type")
        if kind == "text":
            yield Text(text=as_text(block.get("text")) or "")
        elif kind == "thinking":
            yield Thinking(text=as_text(block.get("thinking")) or "", signature=as_text(block.get("signature")))
        elif kind == "redacted_thinking":
            yield Thinking(redacted=as_text(block.get("data")))
        elif kind == "tool_use":
            asked = as_arguments(block.get("input"))
            yield ToolCall(id=as_word(block.get("id")), name=as_word(block.get("name")), arguments=asked)
        elif kind == "tool_result":
            inner = block.get("content")
            parts = [{"type": "text", "text": inner}] if isinstance(inner, str) else as_list(inner)
            found = tuple(b for b in blocks({"content": parts}) if isinstance(b, Text | Media | Opaque))
            yield ToolResult(
                call_id=as_word(block.get("tool_use_id")), content=found, is_error=block.get("is_error") is True
            )
        elif kind in ("image", "document") and isinstance(block.get("source"), dict):
            yield from _source(block, block["source"])
        else:
            yield Opaque(kind=str(kind), data=block)


def _source(block: Json, source: Json) -> Iterator[Block]:
    """An image or a document. A title that is not a file name becomes text, and so does the context."""
    kind, is_image = source.get("type"), block.get("type") == "image"
    title, context = as_text(block.get("title")) or None, as_text(block.get("context"))
    about = [words for words in (title if kind not in ("base64", "url") else None, context) if words]
    if kind == "text":
        about.append(as_text(source.get("data")) or "")
    if about:
        yield Text(text="\n\n".join(about))
    if kind == "base64":
        media = inline_media(as_word(source.get("media_type")), as_word(source.get("data")))
        yield msgspec.structs.replace(media, name=title)
    elif kind == "url":
        url = as_word(source.get("url"))
        mime = guess_mime(url, UNKNOWN if is_image else PDF)
        yield Media(mime_type=mime, modality="image" if is_image else "document", url=url, name=title)
    elif kind == "content":
        yield from blocks(source)
    elif kind != "text":
        yield Opaque(kind=str(kind), data=source)
