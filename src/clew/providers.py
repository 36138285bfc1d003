"""The neutral view of each provider's own messages: what its JSON says, in clew's words.

The view is for reading (search, display, counting). It is made anew each time and never stored; what goes back to the
provider is the JSON itself. A message of a provider not listed here shows as one opaque block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from clew.errors import Invalid
from clew.model import (
    Block,
    Media,
    Message,
    Modality,
    Native,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

Json = dict[str, Any]

_decode = msgspec.json.Decoder().decode


def view(said: Native) -> Message:
    """The neutral view of a native message. Raises msgspec.DecodeError if it is not JSON, Invalid if not an object."""
    try:
        data = _decode(said.raw)
    except msgspec.MsgspecError:
        data = _lenient(said.raw)
    if not isinstance(data, dict):
        raise Invalid(f"a native message is a JSON object, not {type(data).__name__}")
    blocks = tuple(_VIEWS.get(said.provider, _unknown)(data))
    return Message(_role(data, blocks), blocks, _text(data.get("model")), _usage(data), said.label, said.extra)


def _lenient(raw: bytes) -> Any:
    """JSON with what some programs write and strict readers refuse: escaped lone surrogates, numbers beyond range.

    Their bytes are kept like all others; in the view a lone surrogate is a question mark, such a number is its text.
    """
    import json

    def refuse(word: str) -> None:
        raise msgspec.DecodeError(f"JSON has no {word}")

    try:
        data = json.loads(raw.decode(), parse_float=_finite, parse_constant=refuse)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))


def _finite(number: str) -> float | str:
    value = float(number)
    return value if math.isfinite(value) else number


def _role(data: Json, blocks: tuple[Block, ...]) -> Role:
    """A message that only answers tool calls is the tool's, whatever the provider calls its role."""
    if blocks and all(isinstance(block, ToolResult) for block in blocks):
        return "tool"
    role = data.get("role")
    if isinstance(role, str):
        return _ROLES.get(role, "user")
    return "assistant" if data.get("type") in ("function_call", "reasoning") else "user"


_ROLES: dict[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "model": "assistant",
    "tool": "tool", "function": "tool",
}  # fmt: skip


def _anthropic(data: Json) -> Iterator[Block]:
    content = data.get("content")
    if isinstance(content, str):
        yield Text(text=content)
        return
    for block in _list(content):
        kind = block.get("type")
        if kind == "text":
            yield Text(text=_text(block.get("text")) or "")
        elif kind == "thinking":
            yield Thinking(text=_text(block.get("thinking")) or "", signature=_text(block.get("signature")))
        elif kind == "redacted_thinking":
            yield Thinking(redacted=_text(block.get("data")))
        elif kind == "tool_use":
            yield ToolCall(id=str(block.get("id")), name=str(block.get("name")), arguments=_dict(block.get("input")))
        elif kind == "tool_result":
            inner = block.get("content")
            parts = [{"type": "text", "text": inner}] if isinstance(inner, str) else _list(inner)
            content = tuple(b for b in _anthropic({"content": parts}) if isinstance(b, Text | Media | Opaque))
            yield ToolResult(
                call_id=str(block.get("tool_use_id")), content=content, is_error=block.get("is_error") is True
            )
        elif kind in ("image", "document") and isinstance(block.get("source"), dict):
            yield _source(block["source"])
        else:
            yield Opaque(kind=str(kind), data=block)


def _source(source: Json) -> Media | Opaque:
    if source.get("type") == "base64":
        return _inline(str(source.get("media_type")), str(source.get("data")))
    if source.get("type") == "url":
        return Media(mime_type="application/octet-stream", modality="image", url=str(source.get("url")))
    return Opaque(kind=str(source.get("type")), data=source)


def _openai(data: Json) -> Iterator[Block]:
    """Chat completions messages, and the items of the Responses API."""
    kind = data.get("type")
    if kind == "function_call":
        yield _call(data.get("call_id"), data)
    elif kind == "function_call_output":
        yield ToolResult(call_id=str(data.get("call_id")), content=tuple(_parts(data.get("output"))))
    elif kind == "reasoning":
        words = "\n".join(str(part.get("text", "")) for part in _list(data.get("summary")))
        yield Thinking(text=words, redacted=_text(data.get("encrypted_content")))
    elif data.get("role") in ("tool", "function"):
        yield ToolResult(call_id=str(data.get("tool_call_id")), content=tuple(_parts(data.get("content"))))
    elif "role" in data:
        yield from _parts(data.get("content"))
        if isinstance(refusal := data.get("refusal"), str):
            yield Text(text=refusal, extra={"refusal": True})
        for call in _list(data.get("tool_calls")):
            yield _call(call.get("id"), _dict(call.get("function")))
    else:
        yield Opaque(kind=str(kind), data=data)


def _call(ident: object, function: Json) -> ToolCall:
    """A call whose arguments came as JSON text; text that does not parse is kept as it is."""
    raw = function.get("arguments")
    try:
        arguments = _decode(raw) if isinstance(raw, str) and raw else {}
    except (msgspec.DecodeError, RecursionError):
        arguments = {"": raw}
    return ToolCall(id=str(ident), name=str(function.get("name")), arguments=_dict(arguments))


def _parts(content: object) -> Iterator[Text | Media | Opaque]:
    if isinstance(content, str):
        yield Text(text=content)
        return
    for part in _list(content):
        kind = part.get("type")
        if isinstance(words := part.get("text"), str):
            yield Text(text=words)
        elif kind in ("image_url", "input_image"):
            url = part.get("image_url")
            url = url.get("url") if isinstance(url, dict) else url
            yield Media(mime_type=_mime(url), modality="image", url=str(url))
        elif kind == "input_audio":
            sound = _dict(part.get("input_audio"))
            yield _inline(f"audio/{sound.get('format')}", str(sound.get("data")))
        else:
            yield Opaque(kind=str(kind), data=part)


def _gemini(data: Json) -> Iterator[Block]:
    for part in _list(data.get("parts")):
        call, answer, inline = part.get("functionCall"), part.get("functionResponse"), part.get("inlineData")
        if isinstance(words := part.get("text"), str):
            signature = _text(part.get("thoughtSignature"))
            yield Thinking(text=words, signature=signature) if part.get("thought") is True else Text(text=words)
        elif isinstance(call, dict):
            name = str(call.get("name"))
            yield ToolCall(id=str(call.get("id") or name), name=name, arguments=_dict(call.get("args")))
        elif isinstance(answer, dict):
            words = msgspec.json.encode(answer.get("response")).decode()
            yield ToolResult(call_id=str(answer.get("id") or answer.get("name")), content=(Text(text=words),))
        elif isinstance(inline, dict):
            yield _inline(str(inline.get("mimeType")), str(inline.get("data")))
        elif isinstance(file := part.get("fileData"), dict):
            mime = str(file.get("mimeType"))
            yield Media(mime_type=mime, modality=_modality(mime), url=str(file.get("fileUri")))
        else:
            yield Opaque(kind="part", data=part)


def _unknown(data: Json) -> Iterator[Block]:
    """A provider clew has no rules for: plain text content is shown, the rest is opaque."""
    content = data.get("content")
    yield Text(text=content) if isinstance(content, str) else Opaque(kind="message", data=data)


def _usage(data: Json) -> Usage | None:
    used = data.get("usage") or data.get("usageMetadata")
    if not isinstance(used, dict):
        return None

    def count(*names: str) -> int | None:
        return next((used[name] for name in names if type(used.get(name)) is int and used[name] >= 0), None)

    return Usage(
        input=count("input_tokens", "prompt_tokens", "promptTokenCount"),
        output=count("output_tokens", "completion_tokens", "candidatesTokenCount"),
        cached=count("cache_read_input_tokens", "cachedContentTokenCount"),
        reasoning=count("thoughtsTokenCount"),
    )


def _inline(mime: str, base64: str) -> Media:
    return Media(mime_type=mime, modality=_modality(mime), url=f"data:{mime};base64,{base64}")


def _mime(url: object) -> str:
    """The type that a data: URL names."""
    if isinstance(url, str) and url.startswith("data:"):
        return url[5:].partition(",")[0].partition(";")[0] or "text/plain"
    return "application/octet-stream"


def _modality(mime: str) -> Modality:
    kind = mime.partition("/")[0]
    return kind if kind in ("text", "image", "audio", "video") else "document"  # type: ignore[return-value]


def _list(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


_VIEWS: dict[str, Callable[[Json], Iterator[Block]]] = {
    "anthropic": _anthropic,
    "claude": _anthropic,
    "openai": _openai,
    "openai-compatible": _openai,
    "openai-responses": _openai,
    "offline": _openai,
    "gemini": _gemini,
}
