"""OpenAI's messages: their neutral view, the fields that it carries, and how a conversion writes them.

There are two forms: messages of chat completions, which many servers support, and items of the Responses API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from clew.base.messages import Block, Media, Opaque, Role, Text, Thinking, ToolCall, ToolResult, texts
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
from clew.providers.leftovers import ANY, NONE, Shape, either, kind_of, role
from clew.providers.target import (
    IMAGES,
    Piece,
    Target,
    Unites,
    inline,
    is_refusal,
    link,
    media_part,
    mime_type,
    text_arguments,
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
        return _in_namespace(_call(data.get("call_id"), data), data)
    if kind == "custom_tool_call":
        return _in_namespace(_custom(data.get("call_id"), data), data)
    about = ("type", "id", "call_id", "status", "caller")
    asked = {name: value for name, value in data.items() if name not in about}
    return ToolCall(id=as_word(data.get("call_id")), name=kind.removesuffix("_call"), arguments=asked)


def _in_namespace(call: ToolCall, data: Json) -> ToolCall:
    """A call with the server in its name, as ``mcp__github__create_issue``; Codex may keep the server beside it."""
    server = as_word(data.get("namespace"))
    is_bare = server.startswith("mcp__") and not call.name.startswith("mcp__")
    return msgspec.structs.replace(call, name=f"{server.rstrip('_')}__{call.name}") if is_bare else call


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


def _part_shape(value: object) -> Shape:
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
            return {"type": ANY, "detail": _detail_shape, "image_url": {"url": str, "detail": _detail_shape}}
        return {"type": ANY, "detail": _detail_shape, "image_url": str} if isinstance(url, str) else ANY
    if kind == "input_audio":
        return {"type": ANY, "input_audio": {"data": ANY, "format": ANY}}
    return _file_shape(value) if kind in ("file", "input_file") else ANY


def _file_shape(part: Json) -> Shape:
    within = part["file"] if isinstance(part.get("file"), dict) and part["file"] else None
    file: Json = within or part
    inline, url = (isinstance(file.get(name), str) and file[name] for name in ("file_data", "file_url"))
    if not inline and not url:
        return ANY  # all of it is one opaque block
    known = {"file_data": str, "file_url": NONE if inline else str, "filename": str, "detail": _detail_shape}
    return {"type": ANY, "file": known} if within else {"type": ANY, **known}


def _detail_shape(value: object) -> Shape:
    return str if value == "auto" else NONE


def _output_shape(value: object) -> Shape:
    if isinstance(value, list) and not all("type" in part for part in value if isinstance(part, dict)):
        return ANY  # shown as JSON
    return _part_shape if isinstance(value, dict) else either(_part_shape)


def fields(data: Json) -> Mapping[str, Shape]:
    """The fields of a message or an item that the view carries."""
    kind = kind_of(data)
    if kind in _ITEM_SHAPES:
        return _ITEM_SHAPES[kind]
    if kind in CALLS:
        return {name: ANY for name in data if name != "caller"}
    if kind.removesuffix("_output") in CALLS:
        return {**_ITEM_SHAPE, "output": _output_shape}
    if data.get("role") in ("tool", "function"):
        answered = {} if data.get("tool_call_id") else {"name": ANY}
        return {"role": ANY, "type": ANY, "id": ANY, "tool_call_id": ANY, "content": either(_part_shape), **answered}
    return _MESSAGE_SHAPE if "role" in data else dict.fromkeys(data, ANY)


_FUNCTION_SHAPE = {"name": ANY, "arguments": str}
_CUSTOM_SHAPE = {"name": ANY, "input": ANY}
_ITEM_SHAPE = {"type": ANY, "id": ANY, "status": ANY, "call_id": ANY}
_THOUGHT_SHAPES = [{"type": ANY, "text": ANY}]
_ITEM_SHAPES: dict[str, Mapping[str, Shape]] = {
    "function_call": {**_ITEM_SHAPE, **_FUNCTION_SHAPE},
    "custom_tool_call": {**_ITEM_SHAPE, **_CUSTOM_SHAPE},
    "reasoning": {**_ITEM_SHAPE, "summary": _THOUGHT_SHAPES, "content": _THOUGHT_SHAPES, "encrypted_content": str},
    "image_generation_call": {
        **_ITEM_SHAPE, "result": str, "output_format": str, "background": ANY, "quality": ANY, "size": ANY,
        "action": ANY,
    },
}  # fmt: skip
_MESSAGE_SHAPE: dict[str, Shape] = {
    "role": role, "content": either(_part_shape), "refusal": str, "reasoning_content": str, "reasoning": str,
    "tool_calls": [{"id": ANY, "type": ANY, "index": ANY, "function": _FUNCTION_SHAPE, "custom": _CUSTOM_SHAPE}],
    "function_call": _FUNCTION_SHAPE, "audio": {"transcript": str, "id": ANY, "expires_at": ANY},
    "id": ANY, "type": ANY, "status": ANY, "model": ANY, "usage": ANY,
}  # fmt: skip


_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHAT_FIELDS = ("tool_calls", "function_call", "refusal", "audio", "reasoning", "reasoning_content", "name")
_RESPONSES_PARTS = frozenset({"input_text", "input_image", "input_file", "output_text"})


class ChatTarget:
    """Chat completions: a message for each tool result, the calls of a turn in one message."""

    call_id = re.compile(r".{1,40}", re.DOTALL)
    tool_name = _TOOL_NAME
    unites: Unites = "calls"
    keeps_thinking = keeps_errors = signs_calls = False
    keeps_refusals = keeps_blank = keeps_system = True
    media_of: frozenset[Role] = frozenset({"user"})

    def owns(self, data: Json) -> bool:
        return "role" in data and data.get("type") is None and not _kinds(data) & _RESPONSES_PARTS

    def media(self, media: Media) -> Json | None:
        found, url, mime = inline(media), link(media), mime_type(media)
        if media.modality == "image" and (mime in IMAGES or found is None):
            address = url if found is None else found.url
            return None if address is None else {"type": "image_url", "image_url": {"url": address}}
        if found is not None and mime in ("audio/wav", "audio/mp3"):
            return {"type": "input_audio", "input_audio": {"data": found.data, "format": mime[6:]}}
        if found is not None and mime == PDF:
            return {"type": "file", "file": {"filename": media.name or "document.pdf", "file_data": found.url}}
        return None

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        first = pieces[0]
        if isinstance(result := first.what, ToolResult):
            return [{"role": "tool", "tool_call_id": result.call_id, "content": "\n".join(texts(result.content))}]
        if first.role != "assistant":
            return [{"role": first.role, "content": self._content(pieces)}]
        message: Json = {"role": "assistant"}
        refused = [piece for piece in pieces if is_refusal(piece.what)]
        words = [piece for piece in pieces if isinstance(piece.what, Text) and piece not in refused]
        calls = [piece.what for piece in pieces if isinstance(piece.what, ToolCall)]
        message["content"] = self._content(words) if words else None
        if refused:
            message["refusal"] = "\n".join(texts(piece.what for piece in refused))
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text_arguments(call)}}
                for call in calls
            ]
        return [message]

    def _content(self, pieces: Sequence[Piece]) -> str | list[Json]:
        if len(pieces) == 1 and isinstance(only := pieces[0].what, Text):
            return only.text
        blocks = [piece.what for piece in pieces]
        return [
            {"type": "text", "text": block.text} if isinstance(block, Text) else media_part(self, block)
            for block in blocks
        ]


class ResponsesTarget:
    """The Responses API: a flat list of items."""

    call_id = re.compile(r".{1,64}", re.DOTALL)
    tool_name = _TOOL_NAME
    unites: Unites = "nothing"
    keeps_thinking = keeps_refusals = keeps_errors = signs_calls = False
    keeps_blank = keeps_system = True
    media_of: frozenset[Role] = frozenset({"user", "tool"})

    def owns(self, data: Json) -> bool:
        if "role" not in data:
            return True
        is_input = data["role"] not in ("tool", "function") and not any(data.get(name) for name in _CHAT_FIELDS)
        return is_input and _kinds(data) <= _RESPONSES_PARTS | {"refusal"}

    def media(self, media: Media) -> Json | None:
        found, url, mime = inline(media), link(media), mime_type(media)
        if media.modality == "image" and (mime in IMAGES or found is None):
            address = url if found is None else found.url
            return None if address is None else {"type": "input_image", "detail": "auto", "image_url": address}
        if found is not None and mime == PDF:
            return {"type": "input_file", "filename": media.name or "document.pdf", "file_data": found.url}
        if url is not None and mime == PDF:
            return {"type": "input_file", "file_url": url}
        return None

    def write(self, pieces: Sequence[Piece]) -> list[Json]:
        items: list[Json] = []
        spoken: list[Piece] = []
        for piece in pieces:
            block = piece.what
            if isinstance(block, Text | Media) and piece.role != "assistant":
                spoken.append(piece)
            elif isinstance(block, Text):
                items.append({"role": "assistant", "content": block.text})
            elif isinstance(block, ToolCall):
                asked = {"call_id": block.id, "name": block.name, "arguments": text_arguments(block)}
                items.append({"type": "function_call", **asked})
            elif isinstance(block, ToolResult):
                answer = {"call_id": block.call_id, "output": self._content(block.content)}
                items.append({"type": "function_call_output", **answer})
        if spoken:
            items.append({"role": spoken[0].role, "content": self._content([piece.what for piece in spoken])})
        return items

    def _content(self, blocks: Sequence[Block]) -> str | list[Json]:
        if len(blocks) < 2 and all(isinstance(block, Text) for block in blocks):
            return "".join(texts(blocks))
        return [
            {"type": "input_text", "text": block.text} if isinstance(block, Text) else media_part(self, block)
            for block in blocks
        ]


def _kinds(data: Json) -> set[str]:
    """The types of the parts of a message."""
    content = data.get("content")
    parts = content if isinstance(content, list) else []
    return {str(part.get("type")) for part in parts if isinstance(part, dict)}


def target(provider: str) -> Target:
    """The message format of a provider."""
    return ResponsesTarget() if provider == "openai-responses" else ChatTarget()
