"""Anthropic's messages: their neutral view, the fields that it carries, and how a conversion writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from clew.base.messages import Block, Media, Opaque, Role, Text, Thinking, ToolCall, ToolResult
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
from clew.providers.leftovers import ANY, NONE, Shape, either, kind_of, role
from clew.providers.target import IMAGES, Piece, Target, Unites, inline, link, media_part, mime_type


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


def _block_shape(value: object) -> Shape:
    if not isinstance(value, dict):
        return NONE
    if kind_of(value) in ("image", "document") and not isinstance(value.get("source"), dict):
        return ANY
    return _BLOCK_SHAPES.get(kind_of(value), ANY)


def _result_shape(value: object) -> Shape:
    return (
        NONE if kind_of(value) in ("thinking", "redacted_thinking", "tool_use", "tool_result") else _block_shape(value)
    )


def _source_shape(value: object) -> Shape:
    return _SOURCE_SHAPES.get(kind_of(value), ANY)


_SOURCE_SHAPES: dict[str, Shape] = {
    "base64": {"type": ANY, "media_type": ANY, "data": ANY},
    "url": {"type": ANY, "url": ANY},
    "text": {"type": ANY, "media_type": ANY, "data": str},
    "content": {"type": ANY, "content": either(_block_shape)},
}
_MEDIA_SHAPE = {"type": ANY, "source": _source_shape, "title": str, "context": str}
_BLOCK_SHAPES: dict[str, Shape] = {
    "text": {"type": ANY, "text": str},
    "thinking": {"type": ANY, "thinking": str, "signature": str},
    "redacted_thinking": {"type": ANY, "data": str},
    "tool_use": {"type": ANY, "id": ANY, "name": ANY, "input": ANY},
    "tool_result": {"type": ANY, "tool_use_id": ANY, "content": either(_result_shape), "is_error": bool},
    "image": _MEDIA_SHAPE,
    "document": _MEDIA_SHAPE,
}
_MESSAGE_SHAPE: dict[str, Shape] = {
    "role": role, "content": either(_block_shape), "id": ANY, "type": ANY, "model": ANY, "stop_reason": ANY,
    "stop_sequence": ANY, "stop_details": ANY, "usage": ANY, "container": ANY, "context_management": ANY,
    "diagnostics": ANY,
}  # fmt: skip


def fields(data: Json) -> Mapping[str, Shape]:
    """The fields of a message that the view carries."""
    return _MESSAGE_SHAPE


class ClaudeTarget:
    """Messages of blocks. Tool results are in the user's message."""

    call_id = re.compile(r"[A-Za-z0-9_-]+")
    tool_name = re.compile(r"[A-Za-z0-9_-]{1,128}")
    unites: Unites = "turns"
    keeps_thinking = keeps_refusals = keeps_blank = keeps_system = signs_calls = False
    keeps_errors = True
    media_of: frozenset[Role] = frozenset({"user", "tool"})

    def owns(self, data: Json) -> bool:
        return True

    def media(self, media: Media) -> Json | None:
        found, url, mime = inline(media), link(media), mime_type(media)
        if found is not None and mime in IMAGES:
            return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": found.data}}
        if url is not None and media.modality == "image":
            return {"type": "image", "source": {"type": "url", "url": url}}
        title = {} if media.name is None else {"title": media.name}
        if found is not None and mime == PDF:
            return {"type": "document", "source": {"type": "base64", "media_type": PDF, "data": found.data}, **title}
        if url is not None and mime == PDF:
            return {"type": "document", "source": {"type": "url", "url": url}, **title}
        return None

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        role = "assistant" if pieces[0].role == "assistant" else "user"
        return [{"role": role, "content": [self._block(piece.what) for piece in pieces]}]

    def _block(self, block: Block) -> Json:
        if isinstance(block, ToolCall):
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
        if isinstance(block, ToolResult):
            failed = {"is_error": True} if block.is_error else {}
            content = [self._block(inner) for inner in block.content]
            return {"type": "tool_result", "tool_use_id": block.call_id, "content": content, **failed}
        if isinstance(block, Media):
            return media_part(self, block)
        assert isinstance(block, Text)
        return {"type": "text", "text": block.text}


def target(provider: str) -> Target:
    """The message format of a provider."""
    return ClaudeTarget()
