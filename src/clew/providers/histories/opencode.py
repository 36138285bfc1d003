"""The neutral view of opencode's messages: ``{"info": …, "parts": […]}``, each a row of its database or a JSON file."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word, guess_mime, modality_of

_MARKS = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent", "retry"})
"""Parts that say how the program went on, and have no words."""


def role(data: Json) -> str:
    """The role of the author."""
    return as_word(inner(as_dict(data.get("info"))).get("role"))


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message. A tool part is a call and, once it has ended, its result."""
    for row in as_list(data.get("parts")):
        part = inner(row)
        kind = as_word(part.get("type"))
        if kind == "text":
            if text := as_text(part.get("text")):
                yield Text(text=text, extra={"synthetic": True} if part.get("synthetic") is True else None)
        elif kind == "reasoning":
            yield Thinking(text=as_word(part.get("text")))
        elif kind == "tool":
            yield from _tool(part, as_dict(part.get("state")))
        elif kind == "file":
            yield _file(part)
        elif kind not in _MARKS:
            yield Opaque(kind=kind or "part", data=part)
    error = as_dict(inner(as_dict(data.get("info"))).get("error"))
    if error:
        words = as_text(as_dict(error.get("data")).get("message")) or as_word(error.get("name"))
        yield Opaque(kind="error", data={"message": words})


def inner(row: Json) -> Json:
    """What a row is about: its ``data``, or, in a file, all of it."""
    data = row.get("data")
    return data if isinstance(data, dict) else row


def _tool(part: Json, state: Json) -> Iterator[Block]:
    id, status = as_word(part.get("callID")), state.get("status")
    yield ToolCall(id=id, name=as_word(part.get("tool")), arguments=as_arguments(state.get("input")))
    if status not in ("completed", "error"):
        return
    words = as_text(state.get("error") if status == "error" else state.get("output"))
    content: list[Text | Media | Opaque] = [Text(text=words)] if words else []
    content += [_file(file) for file in as_list(state.get("attachments"))]
    failed = status == "error" or as_dict(state.get("metadata")).get("exit") not in (None, 0)
    yield ToolResult(call_id=id, content=tuple(content), is_error=failed)


def _file(part: Json) -> Media:
    url = as_word(part.get("url"))
    mime = as_text(part.get("mime")) or guess_mime(url)
    return Media(mime_type=mime, modality=modality_of(mime), url=url, name=as_text(part.get("filename")))
