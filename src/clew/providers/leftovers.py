"""Finds fields of a message that its neutral view does not carry, so that a conversion can report them.

The `fields` function of a provider returns a shape: which parts of its JSON the view carries. A mapping takes the
fields it lists, a list takes lists of its element, a type its instances, `ANY` everything, `NONE` nothing; a function
picks the shape for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, Literal, NamedTuple

from clew.providers import registry
from clew.providers.json_values import Json

What = Literal[
    "arguments",
    "attachment",
    "blank text",
    "cache mark",
    "call id",
    "citations",
    "document",
    "encrypted reasoning",
    "error flag",
    "field",
    "file handle",
    "file name",
    "first user message",
    "free data",
    "malformed data",
    "media",
    "messages",
    "placeholder signature",
    "refusal",
    "result",
    "result without a call",
    "role",
    "server tool",
    "signature",
    "system message",
    "thinking",
    "tool name",
    "unknown block",
]
"""The kinds of data in a report."""


Shape = Any
ANY: Shape = object
"""The view carries it, or no other provider can use it: ids, token counts and stop reasons of an answer."""
NONE: Shape = ()


def either(element: Shape) -> Callable[[object], Shape]:
    """Text, or a list."""
    return lambda value: [element] if isinstance(value, list) else str


def role(value: object) -> Shape:
    """A role that the neutral view knows."""
    known = ("system", "developer", "user", "assistant", "model", "tool", "function")
    return str if value in known else NONE


def kind_of(value: object) -> str:
    """The ``type`` of an object; empty if it has none."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


class Left(NamedTuple):
    """A field that the view does not carry."""

    at: int | None
    """The index of the element in the message's content."""
    what: What
    detail: str


def leftovers(provider: str, data: Json) -> Iterator[Left]:
    """The fields of a message that its neutral view does not carry."""
    row = registry.find(provider)
    shape = _unknown_fields(data) if row is None else registry.load(row, "messages").fields(data)
    for name, value in data.items():
        element = _pick(shape.get(name), value)
        if name in ("content", "parts") and isinstance(element, list) and isinstance(value, list):
            for index, inner in enumerate(value):
                yield from (_to_left(index, field) for field in _left(inner, element[0]))
        else:
            yield from (_to_left(None, field) for field in _left({name: value}, shape))


def _left(value: object, shape: Shape) -> Iterator[str]:
    """The names of the fields that do not fit; an empty name for a value of the wrong type."""
    shape = _pick(shape, value)
    if _is_empty(value) or shape is ANY:
        return
    if isinstance(shape, Mapping) and isinstance(value, dict):
        for name, inner in value.items():
            if name in shape:
                yield from (field or (name if name in _REPORTED else "") for field in _left(inner, shape[name]))
            elif not _is_empty(inner):
                yield name
    elif isinstance(shape, list) and isinstance(value, list):
        for inner in value:
            yield from _left(inner, shape[0])
    elif isinstance(shape, Mapping | list) or not isinstance(value, shape):
        yield ""


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _pick(shape: Shape, value: object) -> Shape:
    return _pick(shape(value), value) if isinstance(shape, FunctionType) else shape


def _to_left(index: int | None, field: str) -> Left:
    if not field:
        return Left(index, "malformed data", "")
    what = _THINGS.get(field, "field")
    # The name of an undocumented field may be content: leave it out.
    return Left(index, what, field if what == "field" and field in _DOCUMENTED else "")


_THINGS: dict[str, What] = {
    "cache_control": "cache mark", "prompt_cache_breakpoint": "cache mark", "citations": "citations",
    "annotations": "citations", "thoughtSignature": "signature", "thought_signature": "signature",
    "extra_content": "signature", "reasoning_details": "encrypted reasoning", "file_id": "file handle",
}  # fmt: skip
_DOCUMENTED = frozenset({
    "audio", "caller", "data", "detail", "mediaProcessing", "mediaResolution", "media_processing", "media_resolution",
    "name", "namespace", "partMetadata", "part_metadata", "phase", "revised_prompt", "scheduling", "speechMetadata",
    "speech_metadata", "toolset_name", "transformations", "videoMetadata", "video_metadata", "willContinue",
    "will_continue",
})  # fmt: skip


_REPORTED = _DOCUMENTED | _THINGS.keys()
"""Fields that are reported by name if the view cannot take their value."""


def _unknown_fields(data: Json) -> Mapping[str, Shape]:
    if isinstance(data.get("content"), str):
        return {"role": role, "content": str, "id": ANY, "model": ANY, "usage": ANY}
    return dict.fromkeys(data, ANY)  # all of it is one opaque block
