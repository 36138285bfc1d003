"""What of a provider's JSON its neutral view carries. All else is left behind, and is reported.

A shape says what the view takes of a value: a mapping takes the fields it lists, a list takes lists of its element, a
type its instances, `ANY` everything; a function picks the shape for a value. The shapes follow `clew.providers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from clew.convert.gemini import PLACEHOLDER
from clew.convert.report import What
from clew.providers import CALLS, Json

Shape = Any
ANY: Shape = object
"""Everything is taken; or it is of no use to another provider: ids and counts of an answer, reasons to stop."""
NONE: Shape = ()
"""Nothing is taken."""


class Left(NamedTuple):
    """Something that the view does not carry."""

    at: int | None
    """Which element of the message's content."""
    what: What
    detail: str


def leftovers(provider: str, data: Json) -> Iterator[Left]:
    """What the neutral view of a message leaves behind."""
    shape: Mapping[str, Shape] = _FAMILIES.get(provider, _unknown)(data)
    for name, value in data.items():
        element = _picked(shape.get(name), value)
        if name in ("content", "parts") and isinstance(element, list) and isinstance(value, list):
            for index, inner in enumerate(value):
                yield from (_named(index, field) for field in _left(inner, element[0]))
        else:
            yield from (_named(None, field) for field in _left({name: value}, shape))


def _left(value: object, shape: Shape) -> Iterator[str]:
    """The fields that do not fit, by name; an empty name for a value that is not what it should be."""
    shape = _picked(shape, value)
    if _is_empty(value) or shape is ANY:
        return
    if isinstance(shape, Mapping) and isinstance(value, dict):
        for name, inner in value.items():
            if name in shape:
                yield from (field or (name if name in _TOLD else "") for field in _left(inner, shape[name]))
            elif not _is_empty(inner):
                yield name
    elif isinstance(shape, list) and isinstance(value, list):
        for inner in value:
            yield from _left(inner, shape[0])
    elif isinstance(shape, Mapping | list) or not isinstance(value, shape):
        yield ""


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _picked(shape: Shape, value: object) -> Shape:
    return _picked(shape(value), value) if isinstance(shape, FunctionType) else shape


def _named(index: int | None, field: str) -> Left:
    if not field:
        return Left(index, "malformed data", "")
    what = _THINGS.get(field, "field")
    # A field that nobody documents may be named by anyone, with anything.
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


_TOLD = _DOCUMENTED | _THINGS.keys()
"""Fields that are told by name if their value is not what the view takes."""


def _either(element: Shape) -> Callable[[object], Shape]:
    """Text, or a list."""
    return lambda value: [element] if isinstance(value, list) else str


def _role(value: object) -> Shape:
    known = ("system", "developer", "user", "assistant", "model", "tool", "function")
    return str if value in known else NONE


def _kind(value: object) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def _unknown(data: Json) -> Mapping[str, Shape]:
    if isinstance(data.get("content"), str):
        return {"role": _role, "content": str, "id": ANY, "model": ANY, "usage": ANY}
    return dict.fromkeys(data, ANY)  # all of it is one opaque block


# -- Anthropic


def _block(value: object) -> Shape:
    if not isinstance(value, dict):
        return NONE
    if _kind(value) in ("image", "document") and not isinstance(value.get("source"), dict):
        return ANY
    return _BLOCKS.get(_kind(value), ANY)


def _result_block(value: object) -> Shape:
    return NONE if _kind(value) in ("thinking", "redacted_thinking", "tool_use", "tool_result") else _block(value)


def _source(value: object) -> Shape:
    return _SOURCES.get(_kind(value), ANY)


_SOURCES: dict[str, Shape] = {
    "base64": {"type": ANY, "media_type": ANY, "data": ANY},
    "url": {"type": ANY, "url": ANY},
    "text": {"type": ANY, "media_type": ANY, "data": str},
    "content": {"type": ANY, "content": _either(_block)},
}
_MEDIA = {"type": ANY, "source": _source, "title": str, "context": str}
_BLOCKS: dict[str, Shape] = {
    "text": {"type": ANY, "text": str},
    "thinking": {"type": ANY, "thinking": str, "signature": str},
    "redacted_thinking": {"type": ANY, "data": str},
    "tool_use": {"type": ANY, "id": ANY, "name": ANY, "input": ANY},
    "tool_result": {"type": ANY, "tool_use_id": ANY, "content": _either(_result_block), "is_error": bool},
    "image": _MEDIA,
    "document": _MEDIA,
}
_ANTHROPIC: dict[str, Shape] = {
    "role": _role, "content": _either(_block), "id": ANY, "type": ANY, "model": ANY, "stop_reason": ANY,
    "stop_sequence": ANY, "stop_details": ANY, "usage": ANY, "container": ANY, "context_management": ANY,
    "diagnostics": ANY,
}  # fmt: skip


# -- OpenAI


def _part(value: object) -> Shape:
    if not isinstance(value, dict):
        return NONE
    kind = _kind(value)
    if isinstance(value.get("text"), str):
        return {"type": ANY, "text": str, "logprobs": ANY}
    if kind == "refusal" and isinstance(value.get("refusal"), str):
        return {"type": ANY, "refusal": str}
    if kind in ("image_url", "input_image", "computer_screenshot"):
        url = value.get("image_url")
        if isinstance(url, dict) and isinstance(url.get("url"), str):
            return {"type": ANY, "detail": _detail, "image_url": {"url": str, "detail": _detail}}
        return {"type": ANY, "detail": _detail, "image_url": str} if isinstance(url, str) else ANY
    if kind == "input_audio":
        return {"type": ANY, "input_audio": {"data": ANY, "format": ANY}}
    return _file(value) if kind in ("file", "input_file") else ANY


def _file(part: Json) -> Shape:
    within = part["file"] if isinstance(part.get("file"), dict) and part["file"] else None
    file: Json = within or part
    inline, url = (isinstance(file.get(name), str) and file[name] for name in ("file_data", "file_url"))
    if not inline and not url:
        return ANY  # all of it is one opaque block
    fields = {"file_data": str, "file_url": NONE if inline else str, "filename": str, "detail": _detail}
    return {"type": ANY, "file": fields} if within else {"type": ANY, **fields}


def _detail(value: object) -> Shape:
    return str if value == "auto" else ()


def _output(value: object) -> Shape:
    if isinstance(value, list) and not all("type" in part for part in value if isinstance(part, dict)):
        return ANY  # shown as JSON
    return _part if isinstance(value, dict) else _either(_part)


def _openai(data: Json) -> Mapping[str, Shape]:
    kind = _kind(data)
    if kind in _ITEMS:
        return _ITEMS[kind]
    if kind in CALLS:
        return {name: ANY for name in data if name != "caller"}
    if kind.removesuffix("_output") in CALLS:
        return {**_ITEM, "output": _output}
    if data.get("role") in ("tool", "function"):
        answered = {} if data.get("tool_call_id") else {"name": ANY}
        return {"role": ANY, "type": ANY, "id": ANY, "tool_call_id": ANY, "content": _either(_part), **answered}
    return _MESSAGE if "role" in data else dict.fromkeys(data, ANY)


_FUNCTION = {"name": ANY, "arguments": str}
_CUSTOM = {"name": ANY, "input": ANY}
_ITEM = {"type": ANY, "id": ANY, "status": ANY, "call_id": ANY}
_THOUGHTS = [{"type": ANY, "text": ANY}]
_ITEMS: dict[str, Mapping[str, Shape]] = {
    "function_call": {**_ITEM, **_FUNCTION},
    "custom_tool_call": {**_ITEM, **_CUSTOM},
    "reasoning": {**_ITEM, "summary": _THOUGHTS, "content": _THOUGHTS, "encrypted_content": str},
    "image_generation_call": {
        **_ITEM, "result": str, "output_format": str, "background": ANY, "quality": ANY, "size": ANY, "action": ANY,
    },
}  # fmt: skip
_MESSAGE: dict[str, Shape] = {
    "role": _role, "content": _either(_part), "refusal": str, "reasoning_content": str, "reasoning": str,
    "tool_calls": [{"id": ANY, "type": ANY, "index": ANY, "function": _FUNCTION, "custom": _CUSTOM}],
    "function_call": _FUNCTION, "audio": {"transcript": str, "id": ANY, "expires_at": ANY},
    "id": ANY, "type": ANY, "status": ANY, "model": ANY, "usage": ANY,
}  # fmt: skip


# -- Gemini


def _gemini_part(value: object) -> Shape:
    if not isinstance(value, dict):
        return NONE
    if isinstance(value.get("text"), str):
        signature: Shape = str if value.get("thought") is True else _placeholder
        return {"text": str, "thought": bool, "thoughtSignature": signature, "thought_signature": signature}
    for name in ("functionCall", "functionResponse", "inlineData", "fileData"):
        for spelling in (name, _SNAKE[name]):
            if isinstance(value.get(spelling), dict):
                return {spelling: _GEMINI_PARTS[name], "thoughtSignature": _placeholder}
    return ANY


def _placeholder(value: object) -> Shape:
    return ANY if value == PLACEHOLDER else NONE


_SNAKE = {
    "functionCall": "function_call", "functionResponse": "function_response", "inlineData": "inline_data",
    "fileData": "file_data",
}  # fmt: skip
_GEMINI_PARTS: dict[str, Shape] = {
    "functionCall": {"id": ANY, "name": ANY, "args": ANY},
    "functionResponse": {"id": ANY, "name": ANY, "response": ANY, "parts": [_gemini_part]},
    "inlineData": {"mimeType": ANY, "mime_type": ANY, "data": ANY, "displayName": str, "display_name": str},
    "fileData": {
        "mimeType": ANY,
        "mime_type": ANY,
        "fileUri": ANY,
        "file_uri": ANY,
        "displayName": str,
        "display_name": str,
    },
}
_GEMINI: dict[str, Shape] = {"role": _role, "parts": [_gemini_part], "usageMetadata": ANY, "model": ANY}

_FAMILIES: dict[str, Callable[[Json], Mapping[str, Shape]]] = {
    "anthropic": lambda _: _ANTHROPIC,
    "claude": lambda _: _ANTHROPIC,
    "openai": _openai,
    "openai-compatible": _openai,
    "openai-responses": _openai,
    "offline": _openai,
    "gemini": lambda _: _GEMINI,
}
