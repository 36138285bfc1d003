"""The neutral view of the messages of Cline, Roo Code and Kilo Code: Anthropic's, with wrappers of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from clew.base.messages import Block, Media, Opaque, Text, ToolResult
from clew.providers.claude import view
from clew.providers.json_values import Json, to_json

WRAPPED = re.compile(r"\s*<(user_input|task|user_message|feedback)\b[^>]*>\n?(.*?)\n?</\1>\s*", re.DOTALL)
"""A prompt, as the programs wrap it."""
_CONTEXT = "<environment_details>"


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message. Prompts are unwrapped; what the program says about its surroundings is set apart."""
    for block in view.blocks(data):
        if isinstance(block, Text):
            if block.text.lstrip().startswith(_CONTEXT):
                yield Opaque(kind="environment_details", data={"text": block.text})
            else:
                yield Text(text=WRAPPED.sub(r"\2", block.text))
        elif isinstance(block, ToolResult):
            yield _result(block)
        else:
            yield block


def _result(block: ToolResult) -> ToolResult:
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
