"""Messages as agents on the command line store them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.gemini import messages as gemini
from clew.providers.json_values import (
    Json,
    as_arguments,
    as_dict,
    as_list,
    as_text,
    as_word,
    guess_mime,
    inline_media,
    modality_of,
)
from clew.providers.openai import messages as openai

# Messages in a Codex history: items of the Responses API, and compactions.

_CODEX_SYNTHETIC = (
    "<environment_context>", "<user_instructions>", "<subagent_notification>", "<turn_aborted>", "<skill>",
    "<user_shell_command>", "<permissions instructions>", "<collaboration_mode>", "# AGENTS.md instructions",
)  # fmt: skip
"""How texts begin that the program itself sends in the user's name."""


_CODEX_EXIT = re.compile(r"(?:[A-Z][\w ]*: [^\n]*\n){0,4}(?:Exit code: |Process exited with code )(\d{1,9})\n")
_CODEX_EXIT_JSON = re.compile(r'"metadata":\{"exit_code":(\d{1,9})[,}][^{}]*\}*\Z')
_CODEX_HEAD = 300
"""Characters of a result that can have its exit code."""


def codex_role(data: Json) -> str:
    """The role of an item. Texts that the program sends in the user's name are instructions."""
    if "replacement_history" in data or "message" in data:
        return "user"
    if data.get("role") == "user" and codex_prompt(data) is None:
        return "system"
    if isinstance(data.get("role"), str):
        return as_word(data["role"])
    return "tool" if as_word(data.get("type")).endswith("_output") else "assistant"


def codex_blocks(data: Json) -> Iterator[Block]:
    """The blocks of an item; of a compaction, the summary."""
    if "role" not in data and isinstance(summary := data.get("message"), str):
        kept = [one for one in as_list(data.get("replacement_history")) if one.get("role") == "user"]
        yield Text(text=summary or "\n\n".join(filter(None, map(codex_prompt, kept))))
        return
    if isinstance(output := data.get("output"), dict) and "content" in output:
        data = {**data, "output": output["content"]}
    for block in openai.blocks(data):
        if isinstance(block, ToolResult) and _codex_failed(block):
            yield msgspec.structs.replace(block, is_error=True)
        elif not (isinstance(block, Text) and _codex_is_picture_tag(block.text)):
            yield block


def _codex_failed(result: ToolResult) -> bool:
    """True if the exit code of a command is not 0: it stands above its output, or beside it in JSON."""
    text = next((block.text for block in result.content if isinstance(block, Text)), "")
    found = _CODEX_EXIT.match(text[:_CODEX_HEAD]) or _CODEX_EXIT_JSON.search(text[-_CODEX_HEAD:])
    return found is not None and int(found[1]) != 0


def codex_prompt(data: Json) -> str | None:
    """What the user typed; None for a text of the program, and for an item without text."""
    texts = [text for part in as_list(data.get("content")) if (text := as_text(part.get("text"))) is not None]
    typed = [
        text for text in texts if not text.lstrip().startswith(_CODEX_SYNTHETIC) and not _codex_is_picture_tag(text)
    ]
    if typed or not texts:
        return "\n".join(typed) or None
    has_picture = any(part.get("type") == "input_image" for part in as_list(data.get("content")))
    return "(picture)" if has_picture else None


def _codex_is_picture_tag(text: str) -> bool:
    words = text.strip()
    return words == "</image>" or (words.startswith("<image") and words.endswith(">") and "\n" not in words)


# Events in the logs of GitHub Copilot CLI.

_COPILOT_CLI_ROLES = {
    "system.message": "system", "assistant.message": "assistant", "tool.execution_complete": "tool",
}  # fmt: skip


def copilot_cli_role(data: Json) -> str:
    """The role that the type of an event stands for; a compaction's summary is given to the model as a prompt."""
    return _COPILOT_CLI_ROLES.get(as_word(data.get("type")), "user")


def copilot_cli_blocks(data: Json) -> Iterator[Block]:
    """The blocks of an event that is a message."""
    kind, said = data.get("type"), as_dict(data.get("data"))
    if kind == "tool.execution_complete":
        yield _copilot_cli_result(said)
        return
    if kind == "session.compaction_complete":
        yield Text(text=as_word(said.get("summaryContent")))
        return
    thought, encrypted = as_text(said.get("reasoningText")), as_text(said.get("reasoningOpaque"))
    if thought or encrypted:
        yield Thinking(text=thought or "", redacted=encrypted or None)
    if text := as_text(said.get("content")):
        yield Text(text=text)
    for attachment in as_list(said.get("attachments")):
        yield Opaque(kind=as_word(attachment.get("type")) or "attachment", data=attachment)
    for call in as_list(said.get("toolRequests")):
        yield ToolCall(
            id=as_word(call.get("toolCallId")),
            name=as_word(call.get("name")),
            arguments=as_arguments(call.get("arguments")),
        )


def _copilot_cli_result(said: Json) -> ToolResult:
    result, error = as_dict(said.get("result")), as_dict(said.get("error"))
    content: list[Text | Media | Opaque] = []
    if text := as_text(result.get("content")) or as_text(said.get("result")) or as_text(error.get("message")):
        content.append(Text(text=text))
    content += [
        inline_media(part["mimeType"], part["data"])
        for part in as_list(result.get("contents"))
        if isinstance(part.get("data"), str) and isinstance(part.get("mimeType"), str)
    ]
    failed = said.get("success") is False or bool(error)
    return ToolResult(call_id=as_word(said.get("toolCallId")), content=tuple(content), is_error=failed)


# Gemini CLI's messages, and the tool calls that it adds to a message later.

GEMINI_CLI_CONTEXT = "<session_context>"
"""How the text begins that the program itself writes before the first prompt."""


def gemini_cli_role(data: Json) -> str:
    """The role of the author. The program's own context is the system's."""
    if "type" not in data or data["type"] == "gemini":
        return "assistant"
    first = next((block.text for block in _gemini_cli_content(data) if isinstance(block, Text)), "")
    return "system" if first.startswith(GEMINI_CLI_CONTEXT) else "user"


def gemini_cli_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: thoughts, content, and calls with their results."""
    if "type" not in data:
        yield from _gemini_cli_call(data)
        return
    for thought in as_list(data.get("thoughts")):
        words = (as_word(thought.get("subject")), as_word(thought.get("description")))
        yield Thinking(text="\n".join(word for word in words if word))
    yield from _gemini_cli_content(data)
    for call in as_list(data.get("toolCalls")):
        yield from _gemini_cli_call(call)


def _gemini_cli_content(data: Json) -> Iterator[Block]:
    content = data.get("content")
    if isinstance(content, list):
        parts = [{"text": part} if isinstance(part, str) else part for part in content]
        yield from gemini.blocks({"parts": parts})
    elif isinstance(content, dict):
        yield from gemini.blocks({"parts": [content]})
    elif text := as_text(content):
        yield Text(text=text)


def _gemini_cli_call(call: Json) -> Iterator[Block]:
    """A call and, once it has ended, its result."""
    id, name = as_word(call.get("id")), as_word(call.get("name"))
    yield ToolCall(id=id or name, name=name, arguments=as_arguments(call.get("args")))
    result, status = call.get("result"), call.get("status")
    if result is None and status not in ("error", "cancelled"):
        return
    content: list[Text | Media | Opaque] = []
    if isinstance(result, str):
        content.append(Text(text=result))
    for block in gemini.blocks({"parts": [result] if isinstance(result, dict) else result}):
        if isinstance(block, ToolResult):
            content.extend(block.content)
        elif isinstance(block, Text | Media | Opaque):
            content.append(block)
    yield ToolResult(call_id=id or name, content=tuple(content), is_error=status in ("error", "cancelled"))


def gemini_cli_results(data: Json) -> set[str]:
    """The ids of the calls whose results are all that a message has; empty if it has anything else."""
    content = data.get("content")
    parts = content if isinstance(content, list) else []
    found = {as_word(as_dict(as_dict(part).get("functionResponse")).get("id")) for part in parts}
    return set() if "" in found else found


# Goose's messages: rows of its database, or lines of its older files.


def goose_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message."""
    content = data.get("content_json", data.get("content"))
    for block in as_list(content):
        kind = block.get("type")
        if kind in ("toolRequest", "frontendToolRequest"):
            call = as_dict(as_dict(block.get("toolCall")).get("value"))
            given = as_arguments(call.get("arguments"))
            yield ToolCall(id=as_word(block.get("id")), name=as_word(call.get("name")), arguments=given)
        elif kind == "toolResponse":
            yield _goose_result(as_word(block.get("id")), as_dict(block.get("toolResult")))
        elif kind == "thinking":
            yield Thinking(text=as_word(block.get("thinking")), signature=as_text(block.get("signature")))
        elif kind == "redactedThinking":
            yield Thinking(redacted=as_text(block.get("data")))
        else:
            yield _goose_simple(block)


def _goose_result(id: str, result: Json) -> ToolResult:
    """A result. One that was delivered can still say that the tool failed."""
    value = result.get("value")
    inner = as_dict(value)
    content = [_goose_simple(block) for block in as_list(value if isinstance(value, list) else inner.get("content"))]
    if error := as_text(result.get("error")):
        content.append(Text(text=error))
    failed = result.get("status") == "error" or inner.get("isError") is True
    return ToolResult(call_id=id, content=tuple(content), is_error=failed)


def _goose_simple(block: Json) -> Text | Media | Opaque:
    kind = as_word(block.get("type"))
    if kind == "text":
        return Text(text=as_word(block.get("text")))
    if kind == "image":
        return inline_media(as_word(block.get("mimeType")), as_word(block.get("data")))
    return Opaque(kind=kind or "block", data=block)


# OpenCode's messages: ``{"info": …, "parts": […]}``, each a row of its database or a JSON file.

_OPENCODE_MARKS = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent", "retry"})
"""Parts that say how the program went on, and have no words."""
_OPENCODE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
"""How ``opencode run`` writes an argument that has a space."""


def opencode_role(data: Json) -> str:
    """The role of the author."""
    return as_word(opencode_inner(as_dict(data.get("info"))).get("role"))


def opencode_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message. A tool part is a call and, once it has ended, its result."""
    is_prompt = opencode_role(data) == "user"
    for row in as_list(data.get("parts")):
        part = opencode_inner(row)
        kind = as_word(part.get("type"))
        if kind == "text":
            if text := as_text(part.get("text")):
                if is_prompt and (found := _OPENCODE_QUOTED.fullmatch(text)) and " " in found[1]:
                    text = found[1].replace('\\"', '"')
                yield Text(text=text, extra={"synthetic": True} if part.get("synthetic") is True else None)
        elif kind == "reasoning":
            yield Thinking(text=as_word(part.get("text")))
        elif kind == "tool":
            yield from _opencode_tool(part, as_dict(part.get("state")))
        elif kind == "file":
            yield _opencode_file(part)
        elif kind not in _OPENCODE_MARKS:
            yield Opaque(kind=kind or "part", data=part)
    error = as_dict(opencode_inner(as_dict(data.get("info"))).get("error"))
    if error:
        words = as_text(as_dict(error.get("data")).get("message")) or as_word(error.get("name"))
        yield Opaque(kind="error", data={"message": words})


def opencode_inner(row: Json) -> Json:
    """What a row is about: its ``data``, or, in a file, all of it."""
    data = row.get("data")
    return data if isinstance(data, dict) else row


def _opencode_tool(part: Json, state: Json) -> Iterator[Block]:
    id, status = as_word(part.get("callID")), state.get("status")
    yield ToolCall(id=id, name=as_word(part.get("tool")), arguments=as_arguments(state.get("input")))
    if status not in ("completed", "error"):
        return
    words = as_text(state.get("error") if status == "error" else state.get("output"))
    content: list[Text | Media | Opaque] = [Text(text=words)] if words else []
    content += [_opencode_file(file) for file in as_list(state.get("attachments"))]
    failed = status == "error" or as_dict(state.get("metadata")).get("exit") not in (None, 0)
    yield ToolResult(call_id=id, content=tuple(content), is_error=failed)


def _opencode_file(part: Json) -> Media:
    url = as_word(part.get("url"))
    mime = as_text(part.get("mime")) or guess_mime(url)
    return Media(mime_type=mime, modality=modality_of(mime), url=url, name=as_text(part.get("filename")))


# Pi's messages, and the entries that stand for messages: compactions, summaries of branches.

_PI_ROLES = {"system": "system", "assistant": "assistant", "toolResult": "tool"}


def pi_role(data: Json) -> str:
    """The role of the author. A command that the user ran, and a summary, are the user's."""
    return _PI_ROLES.get(as_word(data.get("role")), "user")


def pi_blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message."""
    kind = data.get("role")
    if kind == "toolResult":
        inner = tuple(block for block in _pi_content(data) if isinstance(block, Text | Media | Opaque))
        id = as_word(data.get("toolCallId"))
        yield ToolResult(call_id=id, content=inner, is_error=data.get("isError") is True)
        return
    if kind == "bashExecution":
        yield Text(text=f"$ {as_word(data.get('command'))}\n{as_word(data.get('output'))}".rstrip())
        return
    if text := as_text(data.get("summary")):
        yield Text(text=text)
    for text in as_dict(data.get("sections")).values():
        if isinstance(text, str) and text:
            yield Text(text=text)
    yield from _pi_content(data)
    if error := as_text(data.get("errorMessage")):
        yield Opaque(kind="error", data={"message": error})


def _pi_content(data: Json) -> Iterator[Block]:
    content = data.get("content")
    if isinstance(content, str):
        if content:
            yield Text(text=content)
        return
    for block in as_list(content):
        kind = block.get("type")
        if kind == "text":
            yield Text(text=as_word(block.get("text")))
        elif kind == "thinking":
            signature = as_text(block.get("thinkingSignature"))
            yield Thinking(text=as_word(block.get("thinking")), signature=signature)
        elif kind == "toolCall":
            given = as_arguments(block.get("arguments"))
            yield ToolCall(id=as_word(block.get("id")), name=as_word(block.get("name")), arguments=given)
        elif kind == "image":
            yield inline_media(as_word(block.get("mimeType")), as_word(block.get("data")))
        else:
            yield Opaque(kind=as_word(kind) or "block", data=block)
