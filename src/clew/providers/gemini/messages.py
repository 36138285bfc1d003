"""Gemini's contents: their neutral view, the fields that it carries, and how a conversion writes them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from clew.base.messages import Block, Media, Opaque, Role, Text, Thinking, ToolCall, ToolResult, texts
from clew.providers.json_values import (
    UNKNOWN,
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
from clew.providers.leftovers import ANY, NONE, Shape, role
from clew.providers.target import Piece, Target, Unites, inline, media_part


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


PLACEHOLDER = base64.b64encode(b"skip_thought_signature_validator").decode()
"""The signature that Google documents for calls that another model made."""


class GeminiTarget:
    """Contents of parts. Tool results are in the user's content and name their function."""

    call_id = re.compile(r".+", re.DOTALL)
    tool_name = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
    unites: Unites = "turns"
    keeps_refusals = keeps_system = False
    keeps_thinking = keeps_errors = keeps_blank = signs_calls = True
    media_of: frozenset[Role] = frozenset({"user", "assistant"})

    def owns(self, data: Json) -> bool:
        return True

    def media(self, media: Media) -> Json | None:
        if (found := inline(media)) is not None:
            return {"inlineData": {"mimeType": found.mime, "data": found.data}}
        url = media.url or ""
        if not url.startswith(("https://", "http://", "gs://")):
            return None
        mime = {} if media.mime_type == UNKNOWN else {"mimeType": media.mime_type}
        return {"fileData": {"fileUri": url, **mime}}

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        parts: list[Json] = []
        signed = False
        for piece in pieces:
            part = self._part(piece)
            if "functionCall" in part and not signed:
                part["thoughtSignature"] = PLACEHOLDER
                signed = True
            parts.append(part)
        return [{"role": "model" if pieces[0].role == "assistant" else "user", "parts": parts}]

    def _part(self, piece: Piece) -> Json:
        block = piece.what
        if isinstance(block, ToolCall):
            return {"functionCall": {**_id(block.id, block.name), "name": block.name, "args": block.arguments}}
        if isinstance(block, ToolResult):
            response = {"error" if block.is_error else "output": "\n".join(texts(block.content))}
            return {"functionResponse": {**_id(block.call_id, piece.tool), "name": piece.tool, "response": response}}
        if isinstance(block, Media):
            return media_part(self, block)
        assert isinstance(block, Text | Thinking)
        return {"text": block.text, **({"thought": True} if isinstance(block, Thinking) else {})}


def _id(ident: str, name: str) -> Json:
    """The id of a call; empty if it is only the name of the function."""
    return {} if ident == name else {"id": ident}


def target(provider: str) -> Target:
    """The message format of a provider."""
    return GeminiTarget()


def _part_shape(value: object) -> Shape:
    if not isinstance(value, dict):
        return NONE
    if isinstance(value.get("text"), str):
        signature: Shape = str if value.get("thought") is True else _placeholder_shape
        return {"text": str, "thought": bool, "thoughtSignature": signature, "thought_signature": signature}
    for name in ("functionCall", "functionResponse", "inlineData", "fileData"):
        for spelling in (name, SNAKE[name]):
            if isinstance(value.get(spelling), dict):
                return {spelling: _PART_SHAPES[name], "thoughtSignature": _placeholder_shape}
    return ANY


def _placeholder_shape(value: object) -> Shape:
    return ANY if value == PLACEHOLDER else NONE


_PART_SHAPES: dict[str, Shape] = {
    "functionCall": {"id": ANY, "name": ANY, "args": ANY},
    "functionResponse": {"id": ANY, "name": ANY, "response": ANY, "parts": [_part_shape]},
    "inlineData": {"mimeType": ANY, "mime_type": ANY, "data": ANY, "displayName": str, "display_name": str},
    "fileData": {
        "mimeType": ANY, "mime_type": ANY, "fileUri": ANY, "file_uri": ANY, "displayName": str, "display_name": str,
    },
}  # fmt: skip
_CONTENT_SHAPE: dict[str, Shape] = {"role": role, "parts": [_part_shape], "usageMetadata": ANY, "model": ANY}


def fields(data: Json) -> Mapping[str, Shape]:
    """The fields of a message that the view carries."""
    return _CONTENT_SHAPE
