"""The neutral view of chats in VS Code: a prompt, or a request with the response to it."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word, decoded, inline_media

_SILENT = frozenset({
    "undoStop", "prepareToolInvocation", "mcpServersStarting", "codeblockUri", "progressMessage",
    "progressTaskSerialized", "usedContext", "references",
})  # fmt: skip
"""Parts of a response that only the screen needs."""
_DENIED = 0
"""The kind of confirmation by which a person refuses a call."""


def role(data: Json) -> str:
    """A request is read as its response; its prompt is a message of its own."""
    return "assistant" if "requestId" in data or "response" in data else "user"


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a prompt or of a response."""
    if role(data) == "user":
        yield Text(text=_prompt(data))
        return
    words = ""
    for part in _parts(data.get("response")):
        if (more := _words(part)) is not None:
            words += more
            continue
        if words:
            yield Text(text=words)
            words = ""
        yield from _block(part, as_dict(as_dict(data.get("result")).get("metadata")))
    if words:
        yield Text(text=words)
    if error := as_text(as_dict(as_dict(data.get("result")).get("errorDetails")).get("message")):
        yield Text(text=error, extra={"error": True})


def _prompt(data: Json) -> str:
    text = as_text(data.get("text"))
    return text if text is not None else "".join(as_word(part.get("text")) for part in as_list(data.get("parts")))


def _parts(response: object) -> Iterator[Json]:
    """The parts of a response; older ones are plain text."""
    for part in response if isinstance(response, list) else [response]:
        if isinstance(part, dict):
            yield part
        elif isinstance(part, str):
            yield {"value": part}


def _words(part: Json) -> str | None:
    """Text of a response, and the names of files in it, which stand between two texts."""
    kind = part.get("kind")
    if kind is None and "value" in part:
        return as_text(part["value"])
    if kind in ("markdownContent", "markdownVuln"):
        return _markdown(part.get("content"))
    if kind == "inlineReference":
        target = as_dict(part.get("inlineReference"))
        uri = as_dict(target.get("uri")) or target
        return as_text(part.get("name")) or as_text(target.get("name")) or as_word(uri.get("path"))
    return None


def _block(part: Json, metadata: Json) -> Iterator[Block]:
    kind = as_word(part.get("kind"))
    if kind == "thinking":
        thought = part.get("value")
        yield Thinking(text="".join(as_word(one) for one in thought) if isinstance(thought, list) else as_word(thought))
    elif kind in ("toolInvocationSerialized", "toolInvocation"):
        yield from _invocation(part, metadata)
    elif kind not in _SILENT:
        yield Opaque(kind=kind or "part", data=part)


def _invocation(part: Json, metadata: Json) -> Iterator[Block]:
    id = as_word(part.get("toolCallId"))
    about, details = as_dict(part.get("toolSpecificData")), part.get("resultDetails")
    yield ToolCall(id=id, name=as_word(part.get("toolId")), arguments=_arguments(id, part, about, metadata))
    if part.get("isComplete") is False:
        return
    confirmed = part.get("isConfirmed")
    denied = confirmed is False or as_dict(confirmed).get("type") == _DENIED
    code = as_dict(about.get("terminalCommandState")).get("exitCode")
    failed = denied or as_dict(details).get("isError") is True or (type(code) is int and code != 0)
    yield ToolResult(call_id=id, content=tuple(_output(id, part, about, metadata)), is_error=failed)


def _arguments(id: str, part: Json, about: Json, metadata: Json) -> Json:
    """The arguments as the model gave them, or as the editor shows them."""
    for turn in as_list(metadata.get("toolCallRounds")):
        for call in as_list(turn.get("toolCalls")):
            if id and _bare(as_word(call.get("id"))) == _bare(id):
                return as_arguments(decoded(call.get("arguments")))
    command = as_dict(about.get("commandLine"))
    for given in (command.get("userEdited"), command.get("toolEdited"), command.get("original"), about.get("command")):
        if isinstance(given, str):
            return {"command": given}
    given = about.get("rawInput", as_dict(part.get("resultDetails")).get("input"))
    if given is not None:
        return as_arguments(decoded(given))
    shown = _markdown(part.get("invocationMessage"))
    return {"message": shown} if shown else {}


def _output(id: str, part: Json, about: Json, metadata: Json) -> Iterator[Text | Media | Opaque]:
    results = as_dict(metadata.get("toolCallResults"))
    said = next((as_dict(value) for name, value in results.items() if id and _bare(name) == _bare(id)), {})
    texts = [as_text(one.get("value")) for one in as_list(said.get("content"))]
    if any(texts):
        yield from (Text(text=text) for text in texts if text)
        return
    output = as_dict(part.get("resultDetails")).get("output")
    found = False
    for one in [output] if isinstance(output, dict) else as_list(output):
        data = as_text(one.get("base64Data"))
        if data is not None:
            yield inline_media(as_word(one.get("mimeType")), data)
        elif text := as_text(one.get("value")):
            yield Text(text=text)
        found = True
    if text := as_text(as_dict(about.get("terminalCommandOutput")).get("text")):
        yield Text(text=text)
    elif not found and (shown := _markdown(part.get("pastTenseMessage"))):
        yield Text(text=shown)


def _bare(id: str) -> str:
    """The id of a call without the ending that the editor adds to it in some places."""
    return id.partition("__vscode")[0]


def _markdown(value: object) -> str:
    return as_word(value.get("value")) if isinstance(value, dict) else as_text(value) or ""
