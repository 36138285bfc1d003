"""The neutral view of Gemini CLI's messages, and of the tool calls that it adds to a message later."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.gemini import view
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word

CONTEXT = "<session_context>"
"""How the text begins that the program itself writes before the first prompt."""


def role(data: Json) -> str:
    """The role of the author. The program's own context is the system's."""
    if "type" not in data or data["type"] == "gemini":
        return "assistant"
    first = next((block.text for block in _content(data) if isinstance(block, Text)), "")
    return "system" if first.startswith(CONTEXT) else "user"


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: thoughts, content, and calls with their results."""
    if "type" not in data:
        yield from _call(data)
        return
    for thought in as_list(data.get("thoughts")):
        words = (as_word(thought.get("subject")), as_word(thought.get("description")))
        yield Thinking(text="\n".join(word for word in words if word))
    yield from _content(data)
    for call in as_list(data.get("toolCalls")):
        yield from _call(call)


def _content(data: Json) -> Iterator[Block]:
    content = data.get("content")
    if isinstance(content, list):
        parts = [{"text": part} if isinstance(part, str) else part for part in content]
        yield from view.blocks({"parts": parts})
    elif isinstance(content, dict):
        yield from view.blocks({"parts": [content]})
    elif text := as_text(content):
        yield Text(text=text)


def _call(call: Json) -> Iterator[Block]:
    """A call and, once it has ended, its result."""
    id, name = as_word(call.get("id")), as_word(call.get("name"))
    yield ToolCall(id=id or name, name=name, arguments=as_arguments(call.get("args")))
    result, status = call.get("result"), call.get("status")
    if result is None and status not in ("error", "cancelled"):
        return
    content: list[Text | Media | Opaque] = []
    if isinstance(result, str):
        content.append(Text(text=result))
    for block in view.blocks({"parts": [result] if isinstance(result, dict) else result}):
        if isinstance(block, ToolResult):
            content.extend(block.content)
        elif isinstance(block, Text | Media | Opaque):
            content.append(block)
    yield ToolResult(call_id=id or name, content=tuple(content), is_error=status in ("error", "cancelled"))


def results(data: Json) -> set[str]:
    """The ids of the calls whose results are all that a message has; empty if it has anything else."""
    content = data.get("content")
    parts = content if isinstance(content, list) else []
    found = {as_word(as_dict(as_dict(part).get("functionResponse")).get("id")) for part in parts}
    return set() if "" in found else found
