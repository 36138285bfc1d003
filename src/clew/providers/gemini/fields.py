"""The fields of Gemini's contents that the neutral view carries."""

from __future__ import annotations

from collections.abc import Mapping

from clew.providers.gemini.target import PLACEHOLDER
from clew.providers.gemini.view import SNAKE
from clew.providers.json_values import Json
from clew.providers.shapes import ANY, NONE, Shape, role


def _part(value: object) -> Shape:
    if not isinstance(value, dict):
        return NONE
    if isinstance(value.get("text"), str):
        signature: Shape = str if value.get("thought") is True else _placeholder
        return {"text": str, "thought": bool, "thoughtSignature": signature, "thought_signature": signature}
    for name in ("functionCall", "functionResponse", "inlineData", "fileData"):
        for spelling in (name, SNAKE[name]):
            if isinstance(value.get(spelling), dict):
                return {spelling: _PARTS[name], "thoughtSignature": _placeholder}
    return ANY


def _placeholder(value: object) -> Shape:
    return ANY if value == PLACEHOLDER else NONE


_PARTS: dict[str, Shape] = {
    "functionCall": {"id": ANY, "name": ANY, "args": ANY},
    "functionResponse": {"id": ANY, "name": ANY, "response": ANY, "parts": [_part]},
    "inlineData": {"mimeType": ANY, "mime_type": ANY, "data": ANY, "displayName": str, "display_name": str},
    "fileData": {
        "mimeType": ANY, "mime_type": ANY, "fileUri": ANY, "file_uri": ANY, "displayName": str, "display_name": str,
    },
}  # fmt: skip
_CONTENT: dict[str, Shape] = {"role": role, "parts": [_part], "usageMetadata": ANY, "model": ANY}


def fields(data: Json) -> Mapping[str, Shape]:
    """The fields of a message that the view carries."""
    return _CONTENT
