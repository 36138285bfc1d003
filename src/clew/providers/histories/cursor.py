"""The neutral view of messages in Cursor: rows of its databases, and lines of its transcripts."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import (
    UNKNOWN,
    Json,
    as_arguments,
    as_dict,
    as_list,
    as_text,
    as_word,
    decoded,
    guess_mime,
    modality_of,
    to_json,
)

_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
_ROLES = {1: "user", 2: "assistant"}
_FAILED = ("error", "failed", "cancelled", "rejected")


def role(data: Json) -> str:
    """Who said it, in any of the forms."""
    said = _spoken_blocks(data)
    kind = said.get("type")
    return as_word(said.get("role")) or _ROLES.get(kind if type(kind) is int else 0, "user")


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a bubble of the editor, or of a message with content."""
    said = _spoken_blocks(data)
    content = as_dict(said.get("message")).get("content", said.get("content"))
    if content is not None:
        yield from _content(content)
        return
    if thought := as_text(as_dict(said.get("thinking")).get("text")):
        yield Thinking(text=thought)
    if text := as_text(said.get("text")):
        yield Text(text=_prompt(text))
    for image in as_list(said.get("images")):
        yield Opaque(kind="image", data=image)
    if call := as_dict(said.get("toolFormerData")):
        yield from _tool(call)


def _spoken_blocks(data: Json) -> Json:
    """The JSON in a row of a database; a line of a transcript is that itself."""
    row = data.get("row")
    if not isinstance(row, dict):
        return data
    value = row.get("value", row.get("data"))
    if isinstance(value, dict):
        try:
            value = base64.b64decode(as_word(value.get("$base64")))
        except ValueError:
            return {}
    return as_dict(decoded(value))


def _tool(call: Json) -> Iterator[Block]:
    id = as_word(call.get("toolCallId"))
    name = as_text(call.get("name")) or as_word(call.get("tool"))
    given = call.get("rawArgs") or call.get("params")
    yield ToolCall(id=id, name=name, arguments=as_arguments(decoded(given)))
    status = as_text(as_dict(call.get("additionalData")).get("status")) or as_text(call.get("status")) or ""
    result, error = call.get("result"), call.get("error")
    failed = status in _FAILED or bool(error)
    if result is None and not failed:
        return
    shown = result if result is not None else error
    text = "" if shown is None else shown if isinstance(shown, str) else to_json(shown)
    yield ToolResult(call_id=id, content=(Text(text=text),) if text else (), is_error=failed)


def _content(content: object) -> Iterator[Block]:
    if isinstance(content, str):
        yield Text(text=_prompt(content))
    for part in as_list(content):
        kind = part.get("type")
        if kind == "text":
            yield Text(text=_prompt(as_word(part.get("text"))))
        elif kind in ("reasoning", "thinking"):
            yield Thinking(text=as_text(part.get("text")) or as_word(part.get("thinking")))
        elif kind in ("tool-call", "tool_use"):
            yield ToolCall(
                id=as_text(part.get("toolCallId")) or as_word(part.get("id")),
                name=as_text(part.get("toolName")) or as_word(part.get("name")),
                arguments=as_arguments(part.get("args", part.get("input"))),
            )
        elif kind in ("tool-result", "tool_result"):
            yield _result(part)
        elif kind == "image" and isinstance(url := part.get("image"), str):
            mime = as_text(part.get("mimeType")) or guess_mime(url, UNKNOWN)
            yield Media(mime_type=mime, modality=modality_of(mime), url=url)
        else:
            yield Opaque(kind=as_word(kind) or "part", data=part)


def _result(part: Json) -> ToolResult:
    id = as_text(part.get("toolCallId")) or as_word(part.get("tool_use_id"))
    output = part.get("result", part.get("content"))
    text = output if isinstance(output, str) else "" if output is None else to_json(output)
    if isinstance(output, list):
        text = "\n".join(as_word(one.get("text")) for one in as_list(output))
    failed = part.get("isError") is True or part.get("is_error") is True
    return ToolResult(call_id=id, content=(Text(text=text),) if text else (), is_error=failed)


def _prompt(text: str) -> str:
    """A prompt without the wrapper that Cursor puts around it."""
    found = _QUERY.findall(text)
    return "\n".join(found) if found else text
