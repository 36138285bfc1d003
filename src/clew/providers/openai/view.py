"""The neutral view of OpenAI's messages: chat completions, and the items of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import (
    PDF,
    Json,
    as_arguments,
    as_dict,
    as_list,
    as_text,
    as_word,
    guess_mime,
    inline_media,
    modality_of,
    to_json,
)

CALLS = frozenset({
    "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call",
})  # fmt: skip
"""Items that ask the client to run something; the type of the answer ends in `_output`."""


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message or an item."""
    kind = as_word(data.get("type"))
    if kind in CALLS:
        yield _item_call(kind, data)
    elif kind.removesuffix("_output") in CALLS:
        ident = data.get("call_id") or data.get("id")  # a local shell's output has no other name for its call
        yield ToolResult(call_id=as_word(ident), content=tuple(_output(data.get("output"))))
    elif kind == "reasoning":
        parts = [*as_list(data.get("summary")), *as_list(data.get("content"))]
        words = "\n".join(as_word(part.get("text")) for part in parts)
        yield Thinking(text=words, redacted=as_text(data.get("encrypted_content")))
    elif kind == "image_generation_call" and isinstance(picture := data.get("result"), str):
        yield inline_media(f"image/{as_text(data.get('output_format')) or 'png'}", picture)
    elif data.get("role") in ("tool", "function"):
        ident = data.get("tool_call_id") or data.get("name")
        yield ToolResult(call_id=as_word(ident), content=tuple(_parts(data.get("content"))))
    elif "role" in data:
        yield from _chat(data)
    else:
        yield Opaque(kind=kind, data=data)


def _chat(data: Json) -> Iterator[Block]:
    for name in ("reasoning_content", "reasoning"):  # compatible servers use one or the other
        if isinstance(thought := data.get(name), str) and thought:
            yield Thinking(text=thought)
    yield from _parts(data.get("content"))
    if isinstance(refusal := data.get("refusal"), str):
        yield Text(text=refusal, extra={"refusal": True})
    if isinstance(words := as_dict(data.get("audio")).get("transcript"), str):
        yield Text(text=words)
    for call in as_list(data.get("tool_calls")):
        if isinstance(custom := call.get("custom"), dict):
            yield _custom(call.get("id"), custom)
        else:
            yield _call(call.get("id"), as_dict(call.get("function")))
    if isinstance(function := data.get("function_call"), dict):
        yield _call(function.get("name"), function)


def _item_call(kind: str, data: Json) -> ToolCall:
    if kind == "function_call":
        return _call(data.get("call_id"), data)
    if kind == "custom_tool_call":
        return _custom(data.get("call_id"), data)
    about = ("type", "id", "call_id", "status", "caller")
    asked = {name: value for name, value in data.items() if name not in about}
    return ToolCall(id=as_word(data.get("call_id")), name=kind.removesuffix("_call"), arguments=asked)


def _call(ident: object, function: Json) -> ToolCall:
    """A call whose arguments are JSON text; text that does not parse stays unchanged."""
    raw = function.get("arguments")
    try:
        arguments = msgspec.json.decode(raw) if isinstance(raw, str) and raw else {}
    except (msgspec.MsgspecError, RecursionError):
        arguments = raw
    return ToolCall(id=as_word(ident), name=as_word(function.get("name")), arguments=as_arguments(arguments))


def _custom(ident: object, call: Json) -> ToolCall:
    """A call of a tool that takes free text."""
    return ToolCall(id=as_word(ident), name=as_word(call.get("name")), arguments={"input": as_word(call.get("input"))})


def _output(value: object) -> Iterator[Text | Media | Opaque]:
    if isinstance(value, dict):
        value = [value]
    if value is None or isinstance(value, str) or all("type" in part for part in as_list(value)):
        yield from _parts(value)
    else:
        yield Text(text=to_json(value))


def _parts(content: object) -> Iterator[Text | Media | Opaque]:
    if isinstance(content, str):
        yield Text(text=content)
        return
    for part in as_list(content):
        kind = part.get("type")
        if isinstance(words := part.get("text"), str):
            yield Text(text=words)
        elif kind == "refusal" and isinstance(words := part.get("refusal"), str):
            yield Text(text=words, extra={"refusal": True})
        elif kind in ("image_url", "input_image", "computer_screenshot"):
            url = part.get("image_url")
            url = url.get("url") if isinstance(url, dict) else url
            image = isinstance(url, str) and Media(mime_type=guess_mime(url), modality="image", url=url)
            yield image or Opaque(kind=str(kind), data=part)
        elif kind == "input_audio":
            sound = as_dict(part.get("input_audio"))
            yield inline_media(f"audio/{as_word(sound.get('format'))}", as_word(sound.get("data")))
        elif kind in ("file", "input_file"):
            yield _file(part, as_dict(part.get("file")) or part)
        else:
            yield Opaque(kind=str(kind), data=part)


def _file(part: Json, file: Json) -> Media | Opaque:
    inline, url, name = as_text(file.get("file_data")), as_text(file.get("file_url")), as_text(file.get("filename"))
    if inline and not inline.startswith("data:"):
        inline = f"data:{guess_mime(name or '', PDF)};base64,{inline}"
    if not (url := inline or url):
        return Opaque(kind=str(part.get("type")), data=part)
    mime = guess_mime(url, guess_mime(name or "", PDF))
    return Media(mime_type=mime, modality=modality_of(mime), url=url, name=name)
