"""The neutral view of messages in a Claude.ai export."""

from __future__ import annotations

from collections.abc import Iterator

from clew.base.messages import Block, Opaque, Text
from clew.providers.claude import view
from clew.providers.json_values import Json, as_list, as_text, as_word


def role(data: Json) -> str:
    """The role of the sender. The instructions of a project are the system's."""
    if "sender" not in data and "docs" in data:
        return "system"
    return "user" if data.get("sender") == "human" else as_word(data.get("sender"))


def blocks(data: Json) -> Iterator[Block]:
    """The blocks of a message: its content, or its text where it has none, and the text of its attachments."""
    if "sender" not in data and "docs" in data:
        yield from _project(data)
        return
    found = [_voice(block) for block in view.blocks(data) if not (isinstance(block, Text) and not block.text)]
    if not found and (text := as_text(data.get("text"))):
        found = [Text(text=text)]
    yield from found
    for attachment in as_list(data.get("attachments")):
        if text := as_text(attachment.get("extracted_content")):
            yield Text(text=f"{as_word(attachment.get('file_name'))}\n\n{text}".strip())
    for file in as_list(data.get("files")):
        yield Opaque(kind="file", data=file)


def _voice(block: Block) -> Block:
    """What was said aloud, as text."""
    if isinstance(block, Opaque) and block.kind == "voice_note" and isinstance(block.data, dict):
        words = [text for name in ("title", "text") if (text := as_text(block.data.get(name)))]
        return Text(text="\n\n".join(words)) if words else block
    return block


def _project(data: Json) -> Iterator[Block]:
    for name in ("description", "prompt_template"):
        if text := as_text(data.get(name)):
            yield Text(text=text)
    for document in as_list(data.get("docs")):
        yield Text(text=f"{as_word(document.get('filename'))}\n\n{as_word(document.get('content'))}".strip())
