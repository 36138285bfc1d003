"""The neutral view of Continue's messages: an item of a history, with the message and the state of its calls."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Opaque, Text, Thinking, ToolResult
from clew.providers.json_values import Json, as_dict, as_list, as_text, as_word
from clew.providers.openai import view

_ENDED = ("done", "errored", "canceled")


def role(data: Json) -> str:
    """The role of the author."""
    found = as_word(as_dict(data.get("message")).get("role"))
    return "assistant" if found == "thinking" else found


def blocks(data: Json) -> Iterator[Block]:
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
    parts = [_part(part) for part in content if isinstance(part, dict)] if isinstance(content, list) else content
    yield from view.blocks({"role": message.get("role"), "content": parts, "tool_calls": message.get("toolCalls")})
    for state in as_list(data.get("toolCallStates")):
        if state.get("status") in _ENDED:
            yield _result(state)
    if summary := as_text(data.get("conversationSummary")):
        yield Opaque(kind="conversation_summary", data={"text": summary})


def has_ended(data: Json) -> bool:
    """True if no call of a message still runs."""
    return all(state.get("status") in _ENDED for state in as_list(data.get("toolCallStates")))


def _result(state: Json) -> ToolResult:
    texts = [as_text(one.get("content")) for one in as_list(state.get("output"))]
    content = tuple(Text(text=text) for text in texts if text)
    return ToolResult(call_id=as_word(state.get("toolCallId")), content=content, is_error=state["status"] != "done")


def _part(part: Json) -> Json:
    """A part of the content as OpenAI writes it: a picture has another name there."""
    return {"type": "image_url", "image_url": part.get("imageUrl")} if part.get("type") == "imageUrl" else part
