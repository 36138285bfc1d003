"""A conversation as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from clew.base.messages import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.base.visible import paragraphs, plain
from clew.engine.node import Node
from clew.errors import Corrupted
from clew.exports.tool_lines import tool_line
from clew.store.origin import name_of
from clew.store.session import Session

Detail = Literal["prompts", "conversation", "folded", "full"]
"""What is written: only what the user asked; questions and answers, with tool calls on one line; everything, with
thinking and tools on one line each; everything."""
HIDDEN = "(reasoning hidden by the provider)"


def markdown(
    session: Session | None, nodes: Iterable[Node], *, detail: Detail = "full", front_matter: bool = False
) -> Iterator[str]:
    """The lines of a conversation; hidden characters in it are escaped. With `front_matter`, facts come first."""
    if session is not None and front_matter:
        yield from _front_matter(session)
    if session is not None:
        yield f"# {plain(session.title or 'Untitled')}"
    first = session is None
    for node in nodes:
        message, why = read(node)
        lines = [f"(damaged: {plain(why)})"] if message is None else list(_body(message, detail))
        before = count_replaced(node)
        if before:
            yield from (*([] if first else [""]), f"> {seam_text(before)}")
            first = False
        if detail in ("prompts", "conversation") and not lines:
            continue
        if not first:
            yield ""
        first = False
        when = node.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
        yield f"## {node.role} · {name_of(node)} · {when}{' · interrupted' if is_interrupted(message) else ''}"
        if lines:
            yield ""
            yield from lines


def read(node: Node) -> tuple[Message | None, str]:
    """A node's message; or None, and why it cannot be read."""
    try:
        return node.message, ""
    except Corrupted as error:
        return None, error.why


def count_replaced(node: Node) -> int:
    """For the first message after a compaction, how many messages come before it in the history; 0 for others."""
    try:
        return node.counters.messages - 1 if node.parent_id is None else 0
    except Corrupted:
        return 0


def seam_text(before: int) -> str:
    """A notice for the place of a compaction."""
    return f"Compacted here. From here on, the model no longer sees the {before:,} message{'s' * (before != 1)} before."


def is_interrupted(message: Message | None) -> bool:
    """True for an answer that was interrupted."""
    return message is not None and bool((message.extra or {}).get("interrupted"))


def fold_block(block: Block) -> Iterator[str]:
    """Thinking and tool blocks on one line each; text in full."""
    match block:
        case Thinking():
            count = len(block.text.split())
            yield f"> thinking, {count:,} word{'s' * (count != 1)}" if block.text else f"> {HIDDEN}"
        case ToolCall():
            yield f"⚙ {tool_line(block)}"
        case ToolResult():
            size = sum(len(inner.text) for inner in block.content if isinstance(inner, Text))
            yield f"⚙ {'error' if block.is_error else 'result'}, {size:,} character{'s' * (size != 1)}"
        case Opaque():
            yield f"[{plain(block.kind)}]"
        case _:
            yield from _block(block)


def json_fence(value: Any) -> Iterator[str]:
    """A value as a fenced JSON block."""
    yield "```json"
    yield from paragraphs(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    yield "```"


def placeholder(block: Media) -> str:
    """A placeholder for an image or a document."""
    where = block.name or (block.url if block.url and not block.url.startswith("data:") else None)
    return f"[{block.modality}: {plain(block.mime_type)}{f', {plain(where)}' if where else ''}]"


def _front_matter(session: Session) -> Iterator[str]:
    source = session.extra.get("source")
    origin = source if isinstance(source, dict) else {}
    counters = session.counters
    facts = {
        "title": session.title,
        "id": session.id,
        "created": session.created_at.isoformat(),
        "updated": session.updated_at.isoformat(),
        "tool": origin.get("tool"),
        "tool_id": origin.get("id"),
        "project": session.cwd,
        "git_branch": origin.get("branch"),
        "model": session.model,
        "labels": list(session.labels) or None,
        "messages": counters.messages,
        "tokens_in": counters.tokens_in,
        "tokens_out": counters.tokens_out,
    }
    yield "---"
    # JSON is YAML, and leaves nothing to be read as a tag, a number or a comment.
    yield from (f"{name}: {msgspec.json.encode(value).decode()}" for name, value in facts.items() if value is not None)
    yield "---"


def _body(message: Message, detail: Detail) -> Iterator[str]:
    if detail == "prompts" and message.role != "user":
        return
    blocks: Iterable[Block] = message.blocks
    if detail in ("prompts", "conversation"):
        blocks = [block for block in blocks if isinstance(block, Text | Media | ToolCall)]
    for number, block in enumerate(blocks):
        if number:
            yield ""
        yield from _block(block) if detail == "full" else fold_block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Text():
            yield from paragraphs(block.text)
        case Thinking():
            yield from (f"> {line}".rstrip() for line in paragraphs(block.text or HIDDEN))
        case ToolCall():
            yield f"**tool call** {plain(block.name)} {plain(block.id)}"
            yield from json_fence(block.arguments)
        case ToolResult():
            yield f"**tool result**{' **error**' if block.is_error else ''} {plain(block.call_id)}"
            for inner in block.content:
                yield from ("", *_block(inner))
        case Media():
            yield placeholder(block)
        case Opaque():
            yield f"[{plain(block.kind)}]"
            yield from json_fence(block.data)
