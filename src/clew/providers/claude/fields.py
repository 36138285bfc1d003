"""The fields of Anthropic's messages that the neutral view carries."""

from __future__ import annotations

from collections.abc import Mapping

from clew.providers.json_values import Json
from clew.providers.shapes import ANY, NONE, Shape, either, kind_of, role


def _block(value: object) -> Shape:
    if not isinstance(value, dict):
        return NONE
    if kind_of(value) in ("image", "document") and not isinstance(value.get("source"), dict):
        return ANY
    return _BLOCKS.get(kind_of(value), ANY)


def _result_block(value: object) -> Shape:
    return NONE if kind_of(value) in ("thinking", "redacted_thinking", "tool_use", "tool_result") else _block(value)


def _source(value: object) -> Shape:
    return _SOURCES.get(kind_of(value), ANY)


_SOURCES: dict[str, Shape] = {
    "base64": {"type": ANY, "media_type": ANY, "data": ANY},
    "url": {"type": ANY, "url": ANY},
    "text": {"type": ANY, "media_type": ANY, "data": str},
    "content": {"type": ANY, "content": either(_block)},
}
_MEDIA = {"type": ANY, "source": _source, "title": str, "context": str}
_BLOCKS: dict[str, Shape] = {
    "text": {"type": ANY, "text": str},
    "thinking": {"type": ANY, "thinking": str, "signature": str},
    "redacted_thinking": {"type": ANY, "data": str},
    "tool_use": {"type": ANY, "id": ANY, "name": ANY, "input": ANY},
    "tool_result": {"type": ANY, "tool_use_id": ANY, "content": either(_result_block), "is_error": bool},
    "image": _MEDIA,
    "document": _MEDIA,
}
_MESSAGE: dict[str, Shape] = {
    "role": role, "content": either(_block), "id": ANY, "type": ANY, "model": ANY, "stop_reason": ANY,
    "stop_sequence": ANY, "stop_details": ANY, "usage": ANY, "container": ANY, "context_management": ANY,
    "diagnostics": ANY,
}  # fmt: skip


def fields(data: Json) -> Mapping[str, Shape]:
    """The fields of a message that the view carries."""
    return _MESSAGE
