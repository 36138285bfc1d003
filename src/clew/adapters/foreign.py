"""Messages of other programs in a framework's session, such as one of ``clew append``, in the framework's own form.

A message that the framework did not write is translated by its neutral view. One that has no such form is left out,
with a warning: the framework continues without it, and the session keeps it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from clew.adapters.keyed import native_message
from clew.base.messages import Message, Native, Text, Thinking, ToolCall, ToolResult
from clew.engine.node import Node
from clew.errors import Corrupted

T = TypeVar("T")
Part = Text | ToolCall | ToolResult


class NoForm(Exception):
    """A framework has no form for a message; the text says for what in it."""


class Translation(NamedTuple, Generic[T]):
    """A message of a session, and what the framework gets for it: one value, several, or none."""

    node: Node
    values: Sequence[T]


class Translator(Generic[T]):
    """Reads the messages of the sessions of one framework.

    `decode` reads a message of `provider`. `translate` makes values of any other message, or raises `NoForm`; it is
    also given the value before it.
    """

    def __init__(
        self,
        tool: str,
        decode: Callable[[Node, Native], T],
        translate: Callable[[Node, Message, T | None], Sequence[T]],
        *,
        provider: str | None = None,
    ) -> None:
        self._tool = tool
        self._decode = decode
        self._translate = translate
        self._provider = provider or tool

    def values(self, nodes: Iterable[Node]) -> list[T]:
        """What the framework gets for messages, in their order. Corrupted."""
        return [value for one in self.pairs(nodes) for value in one.values]

    def pairs(self, nodes: Iterable[Node]) -> list[Translation[T]]:
        """`values`, with the messages that they are made of. Corrupted."""
        found: list[Translation[T]] = []
        last: T | None = None
        for node in nodes:
            own = own_message(node, self._provider)
            values = [self._decode(node, own)] if own is not None else self._foreign(node, last)
            found.append(Translation(node, values))
            last = values[-1] if values else last
        return found

    def _foreign(self, node: Node, last: T | None) -> Sequence[T]:
        try:
            return self._translate(node, node.message, last)
        except NoForm as error:
            warnings.warn(f"message {node.id} is left out: {self._tool} has no form for {error}", stacklevel=4)
            return ()


def own_message(node: Node, provider: str) -> Native | None:
    """A message of this provider; None if another program wrote it. Corrupted."""
    try:
        said = native_message(node)
    except Corrupted:
        if isinstance(node.said, Message):
            return None
        raise
    return said if said.provider == provider else None


def parts_of(message: Message) -> list[Part]:
    """The parts of a message that every framework has a form for, without thinking. NoForm for any other."""
    parts: list[Part] = []
    for block in message.blocks:
        if isinstance(block, Text | ToolCall | ToolResult):
            parts.append(block)
        elif not isinstance(block, Thinking):
            raise NoForm(f"a {block.__struct_config__.tag} block")
    if not parts:
        raise NoForm("a message without content")
    return parts


def result_text(result: ToolResult) -> str:
    """The text of a tool's result. NoForm if it is more than text."""
    texts = [block.text for block in result.content if isinstance(block, Text)]
    if len(texts) < len(result.content):
        raise NoForm("a tool's result that is more than text")
    return "\n".join(texts)
