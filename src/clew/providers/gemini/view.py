"""The neutral view of Gemini's contents."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import (
    Json,
    as_arguments,
    as_list,
    as_text,
    as_word,
    guess_mime,
    inline_media,
    modality_of,
    to_json,
)


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a content."""
    for part in as_list(data.get("parts")):
        if isinstance(words := part.get("text"), str):
            signature = as_text(_camel(part, "thoughtSignature"))
            yield Thinking(text=words, signature=signature) if part.get("thought") is True else Text(text=words)
        elif isinstance(call := _camel(part, "functionCall"), dict):
            name = as_word(call.get("name"))
            yield ToolCall(id=as_word(call.get("id")) or name, name=name, arguments=as_arguments(call.get("args")))
        elif isinstance(answer := _camel(part, "functionResponse"), dict):
            yield _response(answer)
        elif (media := _media(part)) is not None:
            yield media
        else:
            yield Opaque(kind=next((name for name in part if not name.startswith("thought")), "part"), data=part)


def _response(answer: Json) -> ToolResult:
    """The result of a function: the value of a single field `output`, `result` or `error`, else all of it as JSON."""
    response = answer.get("response")
    alone = next(iter(response)) if isinstance(response, dict) and len(response) == 1 else ""
    value = response[alone] if isinstance(response, dict) and alone in ("output", "result", "error") else response
    content: list[Text | Media | Opaque] = []
    if value is not None:
        content.append(Text(text=value if isinstance(value, str) else to_json(value)))
    content.extend(_media(part) or Opaque(kind="part", data=part) for part in as_list(answer.get("parts")))
    ident = answer.get("id") or answer.get("name")
    return ToolResult(call_id=as_word(ident), content=tuple(content), is_error=alone == "error")


def _media(part: Json) -> Media | None:
    if isinstance(inline := _camel(part, "inlineData"), dict):
        mime, name = as_word(_camel(inline, "mimeType")), as_text(_camel(inline, "displayName"))
        standard = as_word(inline.get("data")).translate(_URL_SAFE)  # Google's SDK writes the URL-safe alphabet
        return msgspec.structs.replace(inline_media(mime, standard + "=" * (-len(standard) % 4)), name=name)
    if isinstance(file := _camel(part, "fileData"), dict):
        url, name = as_word(_camel(file, "fileUri")), as_text(_camel(file, "displayName"))
        mime = as_text(_camel(file, "mimeType")) or guess_mime(url)
        return Media(mime_type=mime, modality=modality_of(mime), url=url, name=name)
    return None


_URL_SAFE = str.maketrans("-_", "+/")


def _camel(part: Json, name: str) -> object:
    """A field that is in camel case in Google's JSON and in snake case in its Python SDK."""
    found = part.get(name)
    return part.get(SNAKE[name]) if found is None else found


SNAKE = {
    "functionCall": "function_call", "functionResponse": "function_response", "thoughtSignature": "thought_signature",
    "inlineData": "inline_data", "fileData": "file_data", "fileUri": "file_uri", "mimeType": "mime_type",
    "displayName": "display_name",
}  # fmt: skip
