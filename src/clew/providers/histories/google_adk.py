"""The neutral view of the events of Google's Agent Development Kit (ADK)."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Opaque, Text
from clew.providers.gemini import view
from clew.providers.json_values import Json, as_dict, as_text


def role(data: Json) -> str:
    """The role: `user`, `assistant` for every agent, or `system` for an event without content."""
    if not as_dict(data.get("content")).get("parts") and as_text(data.get("error_message")) is None:
        return "system"
    return "user" if data.get("author") == "user" else "assistant"


def blocks(data: Json) -> Iterator[Block]:
    """The parts of the content, then an error. An event that only changes the state is one opaque block."""
    found = list(view.blocks(as_dict(data.get("content"))))
    if (error := as_text(data.get("error_message"))) is not None:
        found.append(Text(text=error))
    yield from found or [Opaque(kind="actions", data=as_dict(data.get("actions")))]
