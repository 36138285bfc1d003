"""The fields of OpenAI's messages and items that the neutral view carries."""

from __future__ import annotations

from collections.abc import Mapping

from clew.providers.json_values import Json
from clew.providers.openai.view import CALLS
from clew.providers.shapes import ANY, NONE, Shape, either, kind_of, role


def _part(value: object) -> Shape:
    if not isinstance(value, dict):
        return NONE
    kind = kind_of(value)
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
    known = {"file_data": str, "file_url": NONE if inline else str, "filename": str, "detail": _detail}
    return {"type": ANY, "file": known} if within else {"type": ANY, **known}


def _detail(value: object) -> Shape:
    return str if value == "auto" else NONE


def _output(value: object) -> Shape:
    if isinstance(value, list) and not all("type" in part for part in value if isinstance(part, dict)):
        return ANY  # shown as JSON
    return _part if isinstance(value, dict) else either(_part)


def fields(data: Json) -> Mapping[str, Shape]:
    """The fields of a message or an item that the view carries."""
    kind = kind_of(data)
    if kind in _ITEMS:
        return _ITEMS[kind]
    if kind in CALLS:
        return {name: ANY for name in data if name != "caller"}
    if kind.removesuffix("_output") in CALLS:
        return {**_ITEM, "output": _output}
    if data.get("role") in ("tool", "function"):
        answered = {} if data.get("tool_call_id") else {"name": ANY}
        return {"role": ANY, "type": ANY, "id": ANY, "tool_call_id": ANY, "content": either(_part), **answered}
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
    "role": role, "content": either(_part), "refusal": str, "reasoning_content": str, "reasoning": str,
    "tool_calls": [{"id": ANY, "type": ANY, "index": ANY, "function": _FUNCTION, "custom": _CUSTOM}],
    "function_call": _FUNCTION, "audio": {"transcript": str, "id": ANY, "expires_at": ANY},
    "id": ANY, "type": ANY, "status": ANY, "model": ANY, "usage": ANY,
}  # fmt: skip
