"""The neutral view of messages in LM Studio: one version of a message, with one step or several."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_arguments, as_dict, as_list, as_text, as_word, decoded, to_json


def role(data: Json) -> str:
    """The role of the message."""
    return as_word(data.get("role"))


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of all steps. Status and debug steps only concern the screen."""
    yield from _content(data.get("content"), thinking=False)
    for step in as_list(data.get("steps")):
        kind = step.get("type")
        if kind == "contentBlock":
            yield from _content(step.get("content"), thinking=as_dict(step.get("style")).get("type") == "thinking")
        elif kind not in ("toolStatus", "debugInfoBlock"):
            yield Opaque(kind=as_word(kind) or "step", data=step)


def _content(content: object, *, thinking: bool) -> Iterator[Block]:
    for part in as_list(content):
        kind = part.get("type")
        if kind == "text":
            text = as_word(part.get("text"))
            if text:
                yield Thinking(text=text) if thinking else Text(text=text)
        elif kind == "toolCallRequest":
            yield ToolCall(
                id=_call_id(part), name=as_word(part.get("name")), arguments=as_arguments(part.get("parameters"))
            )
        elif kind == "toolCallResult":
            yield ToolResult(call_id=_call_id(part), content=tuple(_result(part.get("content"))))
        else:
            yield Opaque(kind=as_word(kind) or "part", data=part)


def _call_id(part: Json) -> str:
    found = (part.get(name) for name in ("toolCallRequestId", "toolCallId", "callId"))
    return next((as_word(value) for value in found if value is not None), "")


def _result(content: object) -> Iterator[Text | Media | Opaque]:
    """What a tool gave: text, which may be the JSON of a list of texts."""
    if isinstance(content, str):
        texts = [as_text(one.get("text")) for one in as_list(decoded(content))]
        text = "\n".join(text for text in texts if text) or content
        if text:
            yield Text(text=text)
    elif content is not None:
        yield Text(text=to_json(content))
