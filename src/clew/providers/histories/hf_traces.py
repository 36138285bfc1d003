"""The neutral view of messages in session traces of Hugging Face: OpenAI's messages with other names."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Text
from clew.providers.json_values import Json, as_word
from clew.providers.openai import view

_NAMES = {"reasoningContent": "reasoning_content", "toolCalls": "tool_calls", "toolCallId": "tool_call_id"}


def role(data: Json) -> str:
    """The role of the message."""
    return as_word(data.get("role"))


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message; empty text is left out."""
    renamed = {_NAMES.get(name, name): value for name, value in data.items() if name != "type"}
    yield from (block for block in view.blocks(renamed) if not (isinstance(block, Text) and not block.text))
