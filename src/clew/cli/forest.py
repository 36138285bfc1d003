"""A forest of messages as lines, in the order and shape in which people read it. Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from clew.model import Media, Message, Text, Thinking, ToolCall, ToolResult

SNIPPET = 50
INDENT, END = "    ", "------"


class Leaf(NamedTuple):
    """What the tree shows of one message."""

    id: str
    parent: str | None
    at: datetime
    role: str
    handle: str
    snippet: str
    agent: str | None = None
    """The subagent whose trace begins here."""
    under: str | None = None
    """The message it stands under, if it follows none: a subagent's stands under the one that called it."""


class Placed(NamedTuple):
    """A message in its place: how far it is indented, and whether nothing follows it."""

    leaf: Leaf
    level: int
    last: bool


def arrange(leaves: Iterable[Leaf], *, compact: bool = False, limit: int | None = None) -> Iterator[Placed]:
    """Each message after the one it follows; what was last active comes last, among trees and among siblings.

    A message whose parent is not given is a root, unless it stands under another. With `compact` only forks indent;
    `limit` keeps the newest trees.
    """
    known = {leaf.id: leaf for leaf in leaves}
    below: dict[str, list[Leaf]] = {}
    roots = []
    for leaf in known.values():
        above = leaf.parent or leaf.under
        if above is None or above not in known:
            roots.append(leaf)
        else:
            below.setdefault(above, []).append(leaf)
    latest = _latest(roots, below)
    for siblings in (roots, *below.values()):
        siblings.sort(key=lambda leaf: latest[leaf.id])
    # A stack and no recursion: talks are deeper than Python's.
    stack = [(root, 0) for root in reversed(roots[-limit:] if limit else roots)]
    while stack:
        leaf, level = stack.pop()
        children = below.get(leaf.id, [])
        yield Placed(leaf, level, not children)
        forks = not compact or len(children) > 1
        stack.extend((child, level + (forks or child.parent is None)) for child in reversed(children))


def _latest(roots: list[Leaf], below: dict[str, list[Leaf]]) -> dict[str, datetime]:
    """For each message the time of its newest descendant, itself included."""
    order = list(roots)
    for leaf in order:
        order.extend(below.get(leaf.id, ()))
    latest: dict[str, datetime] = {}
    for leaf in reversed(order):
        latest[leaf.id] = max([leaf.at, *(latest[child.id] for child in below.get(leaf.id, ()))])
    return latest


def snippet(message: Message) -> str:
    """The first words of a message, on one line; what has no words says what it is."""
    words = next((block.text for block in message.blocks if isinstance(block, Text)), None)
    if words is None:
        words = next((_instead(block) for block in message.blocks if not isinstance(block, Thinking)), None)
    if words is None:
        words = "Thinking" if message.blocks else ""
    start = words[: 4 * SNIPPET].replace("\r\n", " ").replace("\n", " ").replace("\r", " ").strip()
    return start if len(start) <= SNIPPET else start[: SNIPPET - 3] + "..."


def _instead(block: object) -> str:
    if isinstance(block, Media):
        return block.modality.capitalize()
    if isinstance(block, ToolCall):
        return f"{block.name}({', '.join(block.arguments)})"
    if isinstance(block, ToolResult):
        return next((_instead(inner) for inner in block.content), "")
    return block.text if isinstance(block, Text) else "Opaque"
