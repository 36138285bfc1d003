"""The neutral view of events in the logs of GitHub Copilot CLI."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word, inline_media

_ROLES = {
    "system.message": "system", "assistant.message": "assistant", "tool.execution_complete": "tool",
}  # fmt: skip


def role(data: Json) -> str:
    """The role that the type of an event stands for; a compaction's summary is given to the model as a prompt."""
    return _ROLES.get(as_word(data.get("type")), "user")


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of an event that is a message."""
    kind, said = data.get("type"), as_dict(data.get("data"))
    if kind == "tool.execution_complete":
        yield _result(said)
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


def _result(said: Json) -> ToolResult:
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
