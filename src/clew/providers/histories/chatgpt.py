"""The neutral view of messages in a ChatGPT export."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json, as_dict, as_list, as_text, as_word


def role(data: Json) -> str:
    """The role of the author. A hidden message in the user's name, such as custom instructions, is the program's."""
    author = as_word(as_dict(data.get("author")).get("role"))
    hidden = (
        as_dict(data.get("metadata")).get("is_visually_hidden_from_conversation") is True or data.get("weight") == 0
    )
    return "system" if author == "user" and hidden else author


def media(data: Json) -> Iterator[Media]:
    """The pictures and recordings of a message, of any role."""
    for block in _content(as_dict(data.get("content"))):
        if isinstance(block, Media):
            yield block


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message. One to a tool is a call, one from a tool is a result."""
    content = as_dict(data.get("content"))
    recipient = as_word(data.get("recipient"))
    author = as_dict(data.get("author"))
    found = list(_content(content))
    if author.get("role") == "tool":
        shown = tuple(block for block in found if isinstance(block, Text | Media | Opaque))
        yield ToolResult(call_id=as_word(author.get("name")), content=shown)
    elif author.get("role") == "assistant" and recipient not in ("", "all"):
        words = "".join(block.text for block in found if isinstance(block, Text))
        yield ToolCall(id=recipient, name=recipient, arguments={"input": words})
    else:
        yield from found


def _content(content: Json) -> Iterator[Block]:
    kind = as_word(content.get("content_type"))
    if kind == "thoughts":
        for thought in as_list(content.get("thoughts")):
            yield Thinking(text=as_word(thought.get("content") or thought.get("summary")))
    elif kind == "reasoning_recap":
        yield Thinking(text=as_word(content.get("content")))
    elif isinstance(parts := content.get("parts"), list):
        for part in parts:
            if isinstance(part, str):
                if part:
                    yield Text(text=part)
            elif isinstance(part, dict):
                yield _part(part)
    elif (text := as_text(content.get("text"))) is not None:
        yield Text(text=text)
    elif words := [text for name in _TEXTS if (text := as_text(content.get(name)))]:
        yield Text(text="\n\n".join(words))
    elif content:
        yield Opaque(kind=kind or "content", data=content)


_TEXTS = ("user_profile", "user_instructions", "result", "summary", "content")
"""Fields with the words of content that has neither parts nor text: custom instructions, pages that were read."""


def _part(part: Json) -> Block:
    """Text of a transcript, a picture, a recording; the file itself is elsewhere in the export."""
    kind = as_word(part.get("content_type"))
    if isinstance(sound := part.get("audio_asset_pointer"), dict):
        return _part({**sound, "content_type": "audio_asset_pointer"})
    if (text := as_text(part.get("text"))) is not None:
        return Text(text=text)
    if (pointer := as_text(part.get("asset_pointer"))) is not None:
        is_audio = kind.startswith("audio")
        mime = "audio/wav" if is_audio else "image/png"
        return Media(mime_type=mime, modality="audio" if is_audio else "image", url=pointer)
    return Opaque(kind=kind or "part", data=part)
