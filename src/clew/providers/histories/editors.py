"""Messages as agents in editors store them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

import msgspec

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.claude import messages as claude
from clew.providers.json_values import (
    UNKNOWN,
    Json,
    as_arguments,
    as_dict,
    as_list,
    as_text,
    as_word,
    decoded,
    guess_mime,
    inline_media,
    modality_of,
    to_json,
)
from clew.providers.openai import messages as openai

# Messages of Cline, Roo Code and Kilo Code: Anthropic's, with wrappers of their own.

CLINE_WRAPPED = re.compile(r"\s*<(user_input|task|user_message|feedback)\b[^>]*>\n?(.*?)\n?</\1>\s*", re.DOTALL)
"""A prompt, as the programs wrap it."""
_CLINE_CONTEXT = "<environment_details>"


def cline_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message. Prompts are unwrapped; what the program says about its surroundings is set apart."""
    is_error = as_dict(data.get("metadata")).get("displayRole") == "error"
    for block in claude.blocks(data):
        if isinstance(block, Text):
            if is_error:
                yield Opaque(kind="error", data={"message": block.text})
            elif block.text.lstrip().startswith(_CLINE_CONTEXT):
                yield Opaque(kind="environment_details", data={"text": block.text})
            else:
                yield Text(text=CLINE_WRAPPED.sub(r"\2", block.text))
        elif isinstance(block, ToolResult):
            yield _cline_result(block)
        else:
            yield block


def _cline_result(block: ToolResult) -> ToolResult:
    """A result whose content is a list of queries, each with its own result."""
    content: list[Text | Media | Opaque] = []
    failed = block.is_error
    for one in block.content:
        if isinstance(one, Opaque) and isinstance(one.data, dict) and "result" in one.data:
            result = one.data["result"]
            content.append(Text(text=result if isinstance(result, str) else to_json(result)))
            failed = failed or one.data.get("success") is False
        else:
            content.append(one)
    return msgspec.structs.replace(block, content=tuple(content), is_error=failed)


# Continue's messages: an item of a history, with the message and the state of its calls.

_CONTINUE_DEV_ENDED = ("done", "errored", "canceled")


def continue_dev_role(data: Json) -> str:
    """The role of the author."""
    found = as_word(as_dict(data.get("message")).get("role"))
    return "assistant" if found == "thinking" else found


def continue_dev_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message, and the results of the calls in it."""
    message = as_dict(data.get("message"))
    content = message.get("content")
    if message.get("role") == "thinking":
        yield Thinking(text=as_word(content))
        return
    if message.get("role") == "tool":
        result = (
            as_word(content) if not isinstance(content, list) else "\n".join(as_word(p.get("text")) for p in content)
        )
        yield ToolResult(call_id=as_word(message.get("toolCallId")), content=(Text(text=result),))
        return
    if thought := as_text(as_dict(data.get("reasoning")).get("text")):
        yield Thinking(text=thought)
    parts = (
        [_continue_dev_part(part) for part in content if isinstance(part, dict)]
        if isinstance(content, list)
        else content
    )
    yield from openai.blocks({"role": message.get("role"), "content": parts, "tool_calls": message.get("toolCalls")})
    for state in as_list(data.get("toolCallStates")):
        if state.get("status") in _CONTINUE_DEV_ENDED:
            yield _continue_dev_result(state)
    if summary := as_text(data.get("conversationSummary")):
        yield Opaque(kind="conversation_summary", data={"text": summary})


def continue_dev_has_ended(data: Json) -> bool:
    """True if no call of a message still runs."""
    return all(state.get("status") in _CONTINUE_DEV_ENDED for state in as_list(data.get("toolCallStates")))


def _continue_dev_result(state: Json) -> ToolResult:
    texts = [as_text(one.get("content")) for one in as_list(state.get("output"))]
    content = tuple(Text(text=text) for text in texts if text)
    return ToolResult(call_id=as_word(state.get("toolCallId")), content=content, is_error=state["status"] != "done")


def _continue_dev_part(part: Json) -> Json:
    """A part of the content as OpenAI writes it: a picture has another name there."""
    return {"type": "image_url", "image_url": part.get("imageUrl")} if part.get("type") == "imageUrl" else part


# Messages in Cursor: rows of its databases, and lines of its transcripts.

_CURSOR_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
_CURSOR_ROLES = {1: "user", 2: "assistant"}
_CURSOR_FAILED = ("error", "failed", "cancelled", "rejected")


def cursor_role(data: Json) -> str:
    """Who said it, in any of the forms."""
    said = _cursor_spoken_blocks(data)
    kind = said.get("type")
    return as_word(said.get("role")) or _CURSOR_ROLES.get(kind if type(kind) is int else 0, "user")


def cursor_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a bubble of the editor, or of a message with content."""
    said = _cursor_spoken_blocks(data)
    content = as_dict(said.get("message")).get("content", said.get("content"))
    if content is not None:
        yield from _cursor_content(content)
        return
    if thought := as_text(as_dict(said.get("thinking")).get("text")):
        yield Thinking(text=thought)
    if text := as_text(said.get("text")):
        yield Text(text=_cursor_prompt(text))
    for image in as_list(said.get("images")):
        yield Opaque(kind="image", data=image)
    if call := as_dict(said.get("toolFormerData")):
        yield from _cursor_tool(call)


def _cursor_spoken_blocks(data: Json) -> Json:
    """The JSON in a row of a database; a line of a transcript is that itself."""
    row = data.get("row")
    if not isinstance(row, dict):
        return data
    value = row.get("value", row.get("data"))
    if isinstance(value, dict):
        try:
            value = base64.b64decode(as_word(value.get("$base64")))
        except ValueError:
            return {}
    return as_dict(decoded(value))


def _cursor_tool(call: Json) -> Iterator[Block]:
    id = as_word(call.get("toolCallId"))
    name = as_text(call.get("name")) or as_word(call.get("tool"))
    given = call.get("rawArgs") or call.get("params")
    yield ToolCall(id=id, name=name, arguments=as_arguments(decoded(given)))
    status = as_text(as_dict(call.get("additionalData")).get("status")) or as_text(call.get("status")) or ""
    result, error = call.get("result"), call.get("error")
    failed = status in _CURSOR_FAILED or bool(error)
    if result is None and not failed:
        return
    shown = result if result is not None else error
    text = "" if shown is None else shown if isinstance(shown, str) else to_json(shown)
    yield ToolResult(call_id=id, content=(Text(text=text),) if text else (), is_error=failed)


def _cursor_content(content: object) -> Iterator[Block]:
    if isinstance(content, str):
        yield Text(text=_cursor_prompt(content))
    for part in as_list(content):
        kind = part.get("type")
        if kind == "text":
            yield Text(text=_cursor_prompt(as_word(part.get("text"))))
        elif kind in ("reasoning", "thinking"):
            yield Thinking(text=as_text(part.get("text")) or as_word(part.get("thinking")))
        elif kind in ("tool-call", "tool_use"):
            yield ToolCall(
                id=as_text(part.get("toolCallId")) or as_word(part.get("id")),
                name=as_text(part.get("toolName")) or as_word(part.get("name")),
                arguments=as_arguments(part.get("args", part.get("input"))),
            )
        elif kind in ("tool-result", "tool_result"):
            yield _cursor_result(part)
        elif kind == "image" and isinstance(url := part.get("image"), str):
            mime = as_text(part.get("mimeType")) or guess_mime(url, UNKNOWN)
            yield Media(mime_type=mime, modality=modality_of(mime), url=url)
        else:
            yield Opaque(kind=as_word(kind) or "part", data=part)


def _cursor_result(part: Json) -> ToolResult:
    id = as_text(part.get("toolCallId")) or as_word(part.get("tool_use_id"))
    output = part.get("result", part.get("content"))
    text = output if isinstance(output, str) else "" if output is None else to_json(output)
    if isinstance(output, list):
        text = "\n".join(as_word(one.get("text")) for one in as_list(output))
    failed = part.get("isError") is True or part.get("is_error") is True
    return ToolResult(call_id=id, content=(Text(text=text),) if text else (), is_error=failed)


def _cursor_prompt(text: str) -> str:
    """A prompt without the wrapper that Cursor puts around it."""
    found = _CURSOR_QUERY.findall(text)
    return "\n".join(found) if found else text


# Chats in VS Code: a prompt, or a request with the response to it.

_VSCODE_SILENT = frozenset({
    "undoStop", "prepareToolInvocation", "mcpServersStarting", "codeblockUri", "progressMessage",
    "progressTaskSerialized", "usedContext", "references",
})  # fmt: skip
"""Parts of a response that only the screen needs."""
_VSCODE_DENIED = 0
"""The kind of confirmation by which a person refuses a call."""


def vscode_role(data: Json) -> str:
    """A request is read as its response; its prompt is a message of its own."""
    return "assistant" if "requestId" in data or "response" in data else "user"


def vscode_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a prompt or of a response."""
    if vscode_role(data) == "user":
        yield Text(text=_vscode_prompt(data))
        return
    words = ""
    for part in _vscode_parts(data.get("response")):
        if (more := _vscode_words(part)) is not None:
            words += more
            continue
        if words:
            yield Text(text=words)
            words = ""
        yield from _vscode_block(part, as_dict(as_dict(data.get("result")).get("metadata")))
    if words:
        yield Text(text=words)
    if error := as_text(as_dict(as_dict(data.get("result")).get("errorDetails")).get("message")):
        yield Text(text=error, extra={"error": True})


def _vscode_prompt(data: Json) -> str:
    text = as_text(data.get("text"))
    return text if text is not None else "".join(as_word(part.get("text")) for part in as_list(data.get("parts")))


def _vscode_parts(response: object) -> Iterator[Json]:
    """The parts of a response; older ones are plain text."""
    for part in response if isinstance(response, list) else [response]:
        if isinstance(part, dict):
            yield part
        elif isinstance(part, str):
            yield {"value": part}


def _vscode_words(part: Json) -> str | None:
    """Text of a response, and the names of files in it, which stand between two texts."""
    kind = part.get("kind")
    if kind is None and "value" in part:
        return as_text(part["value"])
    if kind in ("markdownContent", "markdownVuln"):
        return _vscode_markdown(part.get("content"))
    if kind == "inlineReference":
        target = as_dict(part.get("inlineReference"))
        uri = as_dict(target.get("uri")) or target
        return as_text(part.get("name")) or as_text(target.get("name")) or as_word(uri.get("path"))
    return None


def _vscode_block(part: Json, metadata: Json) -> Iterator[Block]:
    kind = as_word(part.get("kind"))
    if kind == "thinking":
        thought = part.get("value")
        yield Thinking(text="".join(as_word(one) for one in thought) if isinstance(thought, list) else as_word(thought))
    elif kind in ("toolInvocationSerialized", "toolInvocation"):
        yield from _vscode_invocation(part, metadata)
    elif kind not in _VSCODE_SILENT:
        yield Opaque(kind=kind or "part", data=part)


def _vscode_invocation(part: Json, metadata: Json) -> Iterator[Block]:
    id = as_word(part.get("toolCallId"))
    about, details = as_dict(part.get("toolSpecificData")), part.get("resultDetails")
    yield ToolCall(id=id, name=as_word(part.get("toolId")), arguments=_vscode_arguments(id, part, about, metadata))
    if part.get("isComplete") is False:
        return
    confirmed = part.get("isConfirmed")
    denied = confirmed is False or as_dict(confirmed).get("type") == _VSCODE_DENIED
    code = as_dict(about.get("terminalCommandState")).get("exitCode")
    failed = denied or as_dict(details).get("isError") is True or (type(code) is int and code != 0)
    yield ToolResult(call_id=id, content=tuple(_vscode_output(id, part, about, metadata)), is_error=failed)


def _vscode_arguments(id: str, part: Json, about: Json, metadata: Json) -> Json:
    """The arguments as the model gave them, or as the editor shows them."""
    for turn in as_list(metadata.get("toolCallRounds")):
        for call in as_list(turn.get("toolCalls")):
            if id and _vscode_bare(as_word(call.get("id"))) == _vscode_bare(id):
                return as_arguments(decoded(call.get("arguments")))
    command = as_dict(about.get("commandLine"))
    for given in (command.get("userEdited"), command.get("toolEdited"), command.get("original"), about.get("command")):
        if isinstance(given, str):
            return {"command": given}
    given = about.get("rawInput", as_dict(part.get("resultDetails")).get("input"))
    if given is not None:
        return as_arguments(decoded(given))
    shown = _vscode_markdown(part.get("invocationMessage"))
    return {"message": shown} if shown else {}


def _vscode_output(id: str, part: Json, about: Json, metadata: Json) -> Iterator[Text | Media | Opaque]:
    results = as_dict(metadata.get("toolCallResults"))
    said = next(
        (as_dict(value) for name, value in results.items() if id and _vscode_bare(name) == _vscode_bare(id)), {}
    )
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
    elif not found and (shown := _vscode_markdown(part.get("pastTenseMessage"))):
        yield Text(text=shown)


def _vscode_bare(id: str) -> str:
    """The id of a call without the ending that the editor adds to it in some places."""
    return id.partition("__vscode")[0]


def _vscode_markdown(value: object) -> str:
    return as_word(value.get("value")) if isinstance(value, dict) else as_text(value) or ""
