"""The neutral view of messages in llm's log: a message with its parts, or one side of an older response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import UNKNOWN, Json, as_arguments, as_dict, as_list, as_text, as_word, modality_of

REFERENCE = "llm-attachment:"
"""How a message names a file that is in the database."""


def role(data: Json) -> str:
    """The role of a message."""
    side = as_word(data.get("side"))
    return as_word(as_dict(data.get("row")).get("role")) or _SIDES.get(side, side)


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message."""
    side = data.get("side")
    row = as_dict(data.get("row"))
    if side is None:
        for part in as_list(data.get("parts")):
            yield from _part(part, data)
        return
    if side == "results":
        for result in as_list(data.get("tool_results")):
            yield _result(result.get("tool_call_id"), result.get("output"), result.get("exception"))
        return
    if side == "response" and (thought := as_text(row.get("reasoning"))):
        yield Thinking(text=thought)
    name = {"system": "system", "prompt": "prompt", "response": "response"}.get(as_word(side), "")
    words = [*_fragments(data), *([text] if (text := as_text(row.get(name))) else [])]
    if words:
        yield Text(text="\n".join(words))
    for attachment in as_list(data.get("attachments")):
        yield _media(attachment)
    for call in as_list(data.get("tool_calls")):
        arguments = as_arguments(_json(call.get("arguments")))
        yield ToolCall(id=as_word(call.get("tool_call_id")), name=as_word(call.get("name")), arguments=arguments)


_SIDES = {"system": "system", "prompt": "user", "results": "tool", "response": "assistant"}


def _part(part: Json, data: Json) -> Iterator[Block]:
    kind = part.get("type")
    about = as_dict(_json(part.get("payload")))
    text = as_text(part.get("text")) or _join(about, data)
    if kind == "text":
        yield Text(text=text)
    elif kind == "reasoning":
        yield Thinking(text=text, redacted="" if about.get("redacted") is True else None)
    elif kind == "tool_call":
        arguments = as_arguments(about.get("arguments"))
        name = as_word(about.get("name") or part.get("tool_name"))
        yield ToolCall(id=as_word(about.get("tool_call_id")), name=name, arguments=arguments)
    elif kind == "tool_result":
        yield _result(about.get("tool_call_id"), about.get("output"), about.get("exception"))
    elif kind == "attachment":
        named = as_dict(about.get("attachment")).get("id")
        files = [file for file in as_list(data.get("attachments")) if file.get("id") == named]
        yield _media(files[0]) if files else Opaque(kind="attachment", data=about)
    else:
        yield Opaque(kind=as_word(kind), data={**part, "payload": about})


def _join(about: Json, data: Json) -> str:
    """A text that is put together from fragments and pieces of its own."""
    fragments = as_dict(data.get("fragments"))
    pieces = [
        as_word(piece["literal"]) if "literal" in piece else as_word(fragments.get(as_word(piece.get("fragment"))))
        for piece in as_list(about.get("text_ref"))
    ]
    return "".join(pieces)


def _fragments(data: Json) -> list[str]:
    return [text for text in as_dict(data.get("fragments")).values() if isinstance(text, str)]


def _result(call: object, output: object, failed: object) -> ToolResult:
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return ToolResult(call_id=as_word(call), content=(Text(text=text),), is_error=failed is not None)


def _media(file: Json) -> Media:
    mime = as_text(file.get("type")) or UNKNOWN
    url = as_text(file.get("url")) or as_text(file.get("path")) or f"{REFERENCE}{as_word(file.get('id'))}"
    return Media(mime_type=mime, modality=modality_of(mime), url=url)


def _json(value: object) -> Any:
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.MsgspecError, RecursionError):
        return value
