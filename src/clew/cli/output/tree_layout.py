"""The layout of message trees: order and indentation. Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from clew.base.messages import Media, Message, Text, Thinking, ToolCall, ToolResult
from clew.base.visible import plain
from clew.turns.faces import tool_line

SNIPPET = 50
INDENT, END = "    ", "------"


class TreeItem(NamedTuple):
    """One message of the tree."""

    id: str
    parent: str | None
    at: datetime
    role: str
    handle: str
    snippet: str
    agent: str | None = None
    """The subagent whose conversation starts here."""
    under: str | None = None
    """The message to show it under if it has no parent: the one that called the subagent."""
    cpe_id: str | None = None


class TreeRow(NamedTuple):
    """A message with its indentation; `last` if nothing follows it."""

    item: TreeItem
    level: int
    last: bool


def arrange(items: Iterable[TreeItem], *, compact: bool = False, limit: int | None = None) -> Iterator[TreeRow]:
    """Each message after its parent; the most recently active comes last, among trees and among siblings.

    A message whose parent is missing is a root, unless `under` is set. With `compact`, only forks are indented; `limit`
    keeps the newest trees.
    """
    known = {item.id: item for item in items}
    below: dict[str, list[TreeItem]] = {}
    roots = []
    for item in known.values():
        above = item.parent or item.under
        if above is None or above not in known:
            roots.append(item)
        else:
            below.setdefault(above, []).append(item)
    latest = _latest(roots, below)
    for siblings in (roots, *below.values()):
        siblings.sort(key=lambda item: latest[item.id])
    # A stack, because conversations are deeper than Python's recursion limit.
    stack = [(root, 0) for root in reversed(roots[-limit:] if limit else roots)]
    while stack:
        item, level = stack.pop()
        children = below.get(item.id, [])
        yield TreeRow(item, level, not children)
        forks = not compact or len(children) > 1
        stack.extend((child, level + (forks or child.parent is None)) for child in reversed(children))


def _latest(roots: list[TreeItem], below: dict[str, list[TreeItem]]) -> dict[str, datetime]:
    """For each message, the time of its newest descendant or itself."""
    order = list(roots)
    for item in order:
        order.extend(below.get(item.id, ()))
    latest: dict[str, datetime] = {}
    for item in reversed(order):
        latest[item.id] = max([item.at, *(latest[child.id] for child in below.get(item.id, ()))])
    return latest


def snippet(message: Message) -> str:
    """The first words of a message on one line; without text, the kind of its first block."""
    words = next((block.text for block in message.blocks if isinstance(block, Text)), None)
    if words is None:
        words = next((_describe(block) for block in message.blocks if not isinstance(block, Thinking)), None)
    if words is None:
        words = "Thinking" if message.blocks else ""
    start = words[: 4 * SNIPPET].replace("\r\n", " ").replace("\n", " ").replace("\r", " ").strip()
    return start if len(start) <= SNIPPET else start[: SNIPPET - 3] + "..."


def _describe(block: object) -> str:
    if isinstance(block, Media):
        return block.modality.capitalize()
    if isinstance(block, ToolCall):
        return plain(tool_line(block))
    if isinstance(block, ToolResult):
        return next((_describe(inner) for inner in block.content), "")
    return block.text if isinstance(block, Text) else "Opaque"
