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
UNKNOWN = "application/octet-stream"
"""The type of what does not say its type."""
_PDF = "application/pdf"
_DIGITS = 4000
"""Python converts no text of more than 4,300 digits to a number, to keep hostile input from taking minutes."""

_decode = msgspec.json.Decoder().decode


def view(said: Native) -> Message:
    """The neutral view of a native message. Raises msgspec.DecodeError if it is not JSON, Invalid if not an object.

    What a provider says beside its messages, the model and what it cost, may stand in their free data: ``model`` and
    ``usage``, the latter with the names that `Usage` has.
    """
    data = parse(said.raw)
    beside = said.extra or {}
    blocks = tuple(_VIEWS.get(said.provider, _unknown)(data))
    model = _text(data.get("model")) or _text(beside.get("model"))
    usage = _usage(data) or _usage_beside(beside.get("usage"))
    return Message(_role(data, blocks), blocks, model, usage, said.label, said.extra)


def parse(raw: bytes) -> Json:
    """The JSON object of a native message, as `view` reads it. Raises as `view` does."""
    try:
        data = _decode(raw)
    except msgspec.MsgspecError:
        data = _lenient(raw)
    if not isinstance(data, dict):
        raise Invalid(f"a native message is a JSON object, not {type(data).__name__}")
    return data


def _lenient(raw: bytes) -> Any:
    """JSON with what some programs write and strict readers refuse: escaped lone surrogates, numbers beyond range.

    Their bytes are kept like all others; in the view a lone surrogate is a question mark, such a number is its text.
    """
    import json

    def refuse(word: str) -> None:
        raise msgspec.DecodeError(f"JSON has no {word}")

    try:
        data = json.loads(raw.decode(), parse_int=integer, parse_float=_finite, parse_constant=refuse)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))


def integer(number: str) -> int | str:
    """A whole number in JSON; its text if it has more digits than Python converts."""
    return int(number) if len(number) <= _DIGITS else number


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
    if any(isinstance(block, Thinking | ToolCall) for block in blocks):
        return "assistant"
    # The other items without a role are what the model did on its own: searches, pictures, code.
    return "user" if data.get("type") is None else "assistant"


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
            asked = _arguments(block.get("input"))
            yield ToolCall(id=_word(block.get("id")), name=_word(block.get("name")), arguments=asked)
        elif kind == "tool_result":
            inner = block.get("content")
            parts = [{"type": "text", "text": inner}] if isinstance(inner, str) else _list(inner)
            found = tuple(b for b in _anthropic({"content": parts}) if isinstance(b, Text | Media | Opaque))
            yield ToolResult(
                call_id=_word(block.get("tool_use_id")), content=found, is_error=block.get("is_error") is True
            )
        elif kind in ("image", "document") and isinstance(block.get("source"), dict):
            yield from _source(block, block["source"])
        else:
            yield Opaque(kind=str(kind), data=block)


def _source(block: Json, source: Json) -> Iterator[Block]:
    """What an image or a document shows. A title that is not a file's name is text, as is what is said about it."""
    kind, is_image = source.get("type"), block.get("type") == "image"
    title, context = _text(block.get("title")) or None, _text(block.get("context"))
    about = [words for words in (title if kind not in ("base64", "url") else None, context) if words]
    if kind == "text":
        about.append(_text(source.get("data")) or "")
    if about:
        yield Text(text="\n\n".join(about))
    if kind == "base64":
        media = _inline(_word(source.get("media_type")), _word(source.get("data")))
        yield msgspec.structs.replace(media, name=title)
    elif kind == "url":
        url = _word(source.get("url"))
        mime = _mime(url, UNKNOWN if is_image else _PDF)
        yield Media(mime_type=mime, modality="image" if is_image else "document", url=url, name=title)
    elif kind == "content":
        yield from _anthropic(source)
    elif kind != "text":
        yield Opaque(kind=str(kind), data=source)


def _openai(data: Json) -> Iterator[Block]:
    """Chat completions messages, and the items of the Responses API."""
    kind = _word(data.get("type"))
    if kind in CALLS:
        yield _item_call(kind, data)
    elif kind.removesuffix("_output") in CALLS:
        ident = data.get("call_id") or data.get("id")  # a local shell's output has no other name for its call
        yield ToolResult(call_id=_word(ident), content=tuple(_output(data.get("output"))))
    elif kind == "reasoning":
        said = [*_list(data.get("summary")), *_list(data.get("content"))]
        words = "\n".join(_word(part.get("text")) for part in said)
        yield Thinking(text=words, redacted=_text(data.get("encrypted_content")))
    elif kind == "image_generation_call" and isinstance(picture := data.get("result"), str):
        yield _inline(f"image/{_text(data.get('output_format')) or 'png'}", picture)
    elif data.get("role") in ("tool", "function"):
        ident = data.get("tool_call_id") or data.get("name")
        yield ToolResult(call_id=_word(ident), content=tuple(_parts(data.get("content"))))
    elif "role" in data:
        yield from _chat(data)
    else:
        yield Opaque(kind=kind, data=data)


CALLS = frozenset({
    "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call",
})  # fmt: skip
"""Items that ask the client to run something; the type of the answer ends in `_output`."""


def _chat(data: Json) -> Iterator[Block]:
    for name in ("reasoning_content", "reasoning"):  # servers that speak OpenAI's tongue have the first or the second
        if isinstance(thought := data.get(name), str) and thought:
            yield Thinking(text=thought)
    yield from _parts(data.get("content"))
    if isinstance(refusal := data.get("refusal"), str):
        yield Text(text=refusal, extra={"refusal": True})
    if isinstance(words := _dict(data.get("audio")).get("transcript"), str):
        yield Text(text=words)
    for call in _list(data.get("tool_calls")):
        if isinstance(custom := call.get("custom"), dict):
            yield _custom(call.get("id"), custom)
        else:
            yield _call(call.get("id"), _dict(call.get("function")))
    if isinstance(function := data.get("function_call"), dict):
        yield _call(function.get("name"), function)


def _item_call(kind: str, data: Json) -> ToolCall:
    if kind == "function_call":
        return _call(data.get("call_id"), data)
    if kind == "custom_tool_call":
        return _custom(data.get("call_id"), data)
    about = ("type", "id", "call_id", "status", "caller")
    asked = {name: value for name, value in data.items() if name not in about}
    return ToolCall(id=_word(data.get("call_id")), name=kind.removesuffix("_call"), arguments=asked)


def _call(ident: object, function: Json) -> ToolCall:
    """A call whose arguments came as JSON text; text that does not parse is kept as it is."""
    raw = function.get("arguments")
    try:
        arguments = _decode(raw) if isinstance(raw, str) and raw else {}
    except (msgspec.MsgspecError, RecursionError):
        arguments = raw
    return ToolCall(id=_word(ident), name=_word(function.get("name")), arguments=_arguments(arguments))


def _custom(ident: object, call: Json) -> ToolCall:
    """A call of a tool that takes free text."""
    return ToolCall(id=_word(ident), name=_word(call.get("name")), arguments={"input": _word(call.get("input"))})


def _arguments(value: object) -> Json:
    """The arguments of a call. What is not an object stands alone under an empty name."""
    return value if isinstance(value, dict) else {} if value is None else {"": value}


def _output(value: object) -> Iterator[Text | Media | Opaque]:
    if isinstance(value, dict):
        value = [value]
    if value is None or isinstance(value, str) or all("type" in part for part in _list(value)):
        yield from _parts(value)
    else:
        yield Text(text=_json(value))


def _parts(content: object) -> Iterator[Text | Media | Opaque]:
    if isinstance(content, str):
        yield Text(text=content)
        return
    for part in _list(content):
        kind = part.get("type")
        if isinstance(words := part.get("text"), str):
            yield Text(text=words)
        elif kind == "refusal" and isinstance(words := part.get("refusal"), str):
            yield Text(text=words, extra={"refusal": True})
        elif kind in ("image_url", "input_image", "computer_screenshot"):
            url = part.get("image_url")
            url = url.get("url") if isinstance(url, dict) else url
            image = isinstance(url, str) and Media(mime_type=_mime(url), modality="image", url=url)
            yield image or Opaque(kind=str(kind), data=part)
        elif kind == "input_audio":
            sound = _dict(part.get("input_audio"))
            yield _inline(f"audio/{_word(sound.get('format'))}", _word(sound.get("data")))
        elif kind in ("file", "input_file"):
            yield _file(part, _dict(part.get("file")) or part)
        else:
            yield Opaque(kind=str(kind), data=part)


def _file(part: Json, file: Json) -> Media | Opaque:
    inline, url, name = _text(file.get("file_data")), _text(file.get("file_url")), _text(file.get("filename"))
    if inline and not inline.startswith("data:"):
        inline = f"data:{_mime(name or '', _PDF)};base64,{inline}"
    if not (url := inline or url):
        return Opaque(kind=str(part.get("type")), data=part)
    mime = _mime(url, _mime(name or "", _PDF))
    return Media(mime_type=mime, modality=_modality(mime), url=url, name=name)


def _gemini(data: Json) -> Iterator[Block]:
    for part in _list(data.get("parts")):
        if isinstance(words := part.get("text"), str):
            signature = _text(_camel(part, "thoughtSignature"))
            yield Thinking(text=words, signature=signature) if part.get("thought") is True else Text(text=words)
        elif isinstance(call := _camel(part, "functionCall"), dict):
            name = _word(call.get("name"))
            yield ToolCall(id=_word(call.get("id")) or name, name=name, arguments=_arguments(call.get("args")))
        elif isinstance(answer := _camel(part, "functionResponse"), dict):
            yield _response(answer)
        elif (media := _gemini_media(part)) is not None:
            yield media
        else:
            yield Opaque(kind=next((name for name in part if not name.startswith("thought")), "part"), data=part)


def _response(answer: Json) -> ToolResult:
    """What a function answered: under `output` or `error` if it is said there, else all of it, as JSON."""
    said = answer.get("response")
    alone = next(iter(said)) if isinstance(said, dict) and len(said) == 1 else ""
    told = said[alone] if isinstance(said, dict) and alone in ("output", "result", "error") else said
    content: list[Text | Media | Opaque] = []
    if told is not None:
        content.append(Text(text=told if isinstance(told, str) else _json(told)))
    content.extend(_gemini_media(part) or Opaque(kind="part", data=part) for part in _list(answer.get("parts")))
    ident = answer.get("id") or answer.get("name")
    return ToolResult(call_id=_word(ident), content=tuple(content), is_error=alone == "error")


def _gemini_media(part: Json) -> Media | None:
    if isinstance(inline := _camel(part, "inlineData"), dict):
        mime, name = _word(_camel(inline, "mimeType")), _text(_camel(inline, "displayName"))
        standard = _word(inline.get("data")).translate(_URL_SAFE)  # Google's SDK writes the other alphabet
        return msgspec.structs.replace(_inline(mime, standard + "=" * (-len(standard) % 4)), name=name)
    if isinstance(file := _camel(part, "fileData"), dict):
        url, name = _word(_camel(file, "fileUri")), _text(_camel(file, "displayName"))
        mime = _text(_camel(file, "mimeType")) or _mime(url)
        return Media(mime_type=mime, modality=_modality(mime), url=url, name=name)
    return None


_URL_SAFE = str.maketrans("-_", "+/")


def _camel(part: Json, name: str) -> object:
    """A field that Google's JSON spells in camel case, and its Python SDK also in snake case."""
    found = part.get(name)
    return part.get(_SNAKE[name]) if found is None else found


_SNAKE = {
    "functionCall": "function_call", "functionResponse": "function_response", "thoughtSignature": "thought_signature",
    "inlineData": "inline_data", "fileData": "file_data", "fileUri": "file_uri", "mimeType": "mime_type",
    "displayName": "display_name",
}  # fmt: skip


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


def _usage_beside(used: object) -> Usage | None:
    if not isinstance(used, dict):
        return None
    counts = {name: used.get(name) for name in Usage.__struct_fields__}
    known = {name: count for name, count in counts.items() if type(count) is int and 0 <= count < 1 << 50}
    return Usage(**known) if known else None


def _inline(mime: str, base64: str) -> Media:
    return Media(mime_type=mime, modality=_modality(mime), url=f"data:{mime};base64,{base64}")


def _mime(url: str, otherwise: str = UNKNOWN) -> str:
    """The type that a data: URL names, or that the end of an address or file name tells."""
    if url.startswith("data:"):
        return url[5:].partition(",")[0].partition(";")[0] or "text/plain"
    ending = url.partition("?")[0].partition("#")[0].rpartition(".")[2].lower()
    return _ENDINGS.get(ending, otherwise)


_ENDINGS = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
    "svg": "image/svg+xml", "pdf": _PDF, "txt": "text/plain", "md": "text/markdown", "csv": "text/csv",
    "html": "text/html", "json": "application/json", "mp3": "audio/mp3", "wav": "audio/wav", "mp4": "video/mp4",
}  # fmt: skip


def _modality(mime: str) -> Modality:
    kind = mime.partition("/")[0]
    return kind if kind in ("text", "image", "audio", "video") else "document"  # type: ignore[return-value]


def _list(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _word(value: object) -> str:
    """A name or an id as text; one that is missing is empty."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_VIEWS: dict[str, Callable[[Json], Iterator[Block]]] = {
    "anthropic": _anthropic,
    "claude": _anthropic,
    "openai": _openai,
    "openai-compatible": _openai,
    "openai-responses": _openai,
    "offline": _openai,
    "gemini": _gemini,
}
