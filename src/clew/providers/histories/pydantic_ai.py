"""The neutral view of Pydantic AI's messages: requests and responses with parts."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_list, as_text, as_word, guess_mime, modality_of, to_json


def role(data: Json) -> str:
    """A response is the assistant's. A request is the user's, or the system's if it has nothing but instructions."""
    if data.get("kind") == "response":
        return "assistant"
    kinds = {part.get("part_kind") for part in as_list(data.get("parts"))}
    return "system" if kinds == {"system-prompt"} else "user"


def blocks(data: Json) -> Iterator[Block]:
    """One block for each part; a prompt of several pieces has one for each piece."""
    for part in as_list(data.get("parts")):
        kind = as_word(part.get("part_kind"))
        if kind == "tool-call":
            arguments = part.get("args")
            given = arguments if isinstance(arguments, dict) else {"input": arguments} if arguments else {}
            yield ToolCall(id=as_word(part.get("tool_call_id")), name=as_word(part.get("tool_name")), arguments=given)
        elif kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name") is not None):
            content = part.get("content")
            text = content if isinstance(content, str) else to_json(content)
            failed = kind == "retry-prompt"
            yield ToolResult(call_id=as_word(part.get("tool_call_id")), content=(Text(text=text),), is_error=failed)
        elif kind == "thinking":
            yield Thinking(text=as_word(part.get("content")), signature=as_text(part.get("signature")))
        else:
            yield from _content(kind, part.get("content"), part)


def _content(kind: str, content: object, part: Json) -> Iterator[Block]:
    if isinstance(content, str):
        if content:
            yield Text(text=content)
    elif isinstance(content, list):
        for piece in content:
            if isinstance(piece, str):
                yield Text(text=piece)
            elif isinstance(piece, dict) and (url := as_text(piece.get("url"))) is not None:
                mime = as_text(piece.get("media_type")) or guess_mime(url)
                yield Media(mime_type=mime, modality=modality_of(mime), url=url)
            else:
                yield Opaque(kind=as_word(piece.get("kind")) if isinstance(piece, dict) else kind, data=piece)
    else:
        yield Opaque(kind=kind or "part", data=part)
