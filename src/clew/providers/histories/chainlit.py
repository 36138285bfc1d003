"""The neutral view of Chainlit's steps and elements: ``{"step": …}``, or ``{"element": …, "role": …}``."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Text, ToolCall, ToolResult
from clew.providers.json_values import UNKNOWN, Json, as_arguments, as_dict, as_text, as_word, decoded, modality_of

_MESSAGE = "_message"


def role(data: Json) -> str:
    """The role of the author. A step that is not a message is what the assistant has called."""
    kind = as_word(as_dict(data.get("step")).get("type"))
    return kind.removesuffix(_MESSAGE) if kind.endswith(_MESSAGE) else as_text(data.get("role")) or "assistant"


def blocks(data: Json) -> Iterator[Block]:
    """The text of a message; the call and the result of another step; the file of an element that has an address."""
    step, element = as_dict(data.get("step")), as_dict(data.get("element"))
    output = as_word(step.get("output"))
    if url := as_text(element.get("url")):
        mime = as_text(element.get("mime")) or UNKNOWN
        yield Media(mime_type=mime, modality=modality_of(mime), url=url, name=as_text(element.get("name")))
    elif as_word(step.get("type")).endswith(_MESSAGE):
        if output:
            yield Text(text=output)
    elif step:
        id, failed = as_word(step.get("id")), step.get("isError") is True
        yield ToolCall(id=id, name=as_word(step.get("name")), arguments=as_arguments(decoded(step.get("input"))))
        yield ToolResult(call_id=id, content=(Text(text=output),) if output else (), is_error=failed)
