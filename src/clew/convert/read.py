"""Reads messages for a conversion: the neutral view, the fields that it does not carry, and the role of each block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import msgspec

from clew.base import codec
from clew.base.messages import AnyMessage, Block, Message, Native, Role, Text, Thinking, ToolCall, ToolResult
from clew.convert.report import Notes
from clew.errors import Corrupted, Invalid
from clew.providers.json_values import Json
from clew.providers.leftovers import leftovers
from clew.providers.neutral import encode, neutral
from clew.providers.registry import family
from clew.providers.target import Piece, Target
from clew.providers.view import parse

NEUTRAL = "clew"
"""The provider name of messages in clew's own form."""
_NOTHING = (Text(text=""),)


class Read:
    """A message of the input. Its views are computed on first use."""

    def __init__(self, message: AnyMessage, to: str, target: Target) -> None:
        self.original = message
        self._to = to
        self._target = target

    @cached_property
    def message(self) -> Message:
        """Its neutral view."""
        return neutral(self.original)

    @cached_property
    def data(self) -> Json:
        """The JSON of a native message."""
        return parse(self.raw)

    @cached_property
    def own(self) -> bool:
        """True if it is in the target's format already."""
        message = self.original
        same = isinstance(message, Native) and family(message.provider) == family(self._to)
        return same and self._target.owns(self.data)

    @property
    def raw(self) -> bytes:
        """The bytes of a native message."""
        assert isinstance(self.original, Native)
        return self.original.raw

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks; a message without blocks gets an empty one."""
        return self.message.blocks or _NOTHING


def read(message: AnyMessage | bytes, source: str, to: str, target: Target) -> Read:
    """A message of the input, which may be bytes of the provider `source`. Invalid if it could not be stored."""
    if isinstance(message, bytes):
        if not source:
            raise Invalid("messages given as bytes need the name of their provider", hint="Pass source=….")
        message = Native(source, message)
    if isinstance(message, Native) and message.provider == NEUTRAL:
        message = _neutral(message.raw)
    encode(message)
    return Read(message, to, target)


def _neutral(raw: bytes) -> AnyMessage:
    """Decodes a message in clew's own form."""
    try:
        return codec.decode(b"\x01" + raw, "")
    except Corrupted as error:
        raise Invalid(f"this is not a message: {error.why}") from None


def pieces(given: Read, at: int, notes: Notes) -> Iterator[Piece]:
    """The blocks of a message to convert, each with its new role."""
    _note_leftovers(given, at, notes)
    role = given.message.role
    for index, block in enumerate(given.blocks):
        said_by = _speaker(block, role)
        if said_by != role and not isinstance(block, ToolResult):
            notes.add(at, index, "changed", "role")
        yield Piece(at, index, said_by, block)


def own_pieces(given: Read, at: int) -> Iterator[Piece]:
    """The blocks of a message that stays unchanged."""
    role = given.message.role
    for index, block in enumerate(given.blocks):
        yield Piece(at, index, _speaker(block, role), block, own=True)


def _speaker(block: Block, role: Role) -> Role:
    """The role that a block belongs to, regardless of its message."""
    if isinstance(block, ToolCall):
        return "assistant"
    if isinstance(block, ToolResult):
        return "tool"
    if isinstance(block, Text | Thinking) and role == "system":
        return "system"
    return "user" if role in ("tool", "system") else role


def _note_leftovers(given: Read, at: int, notes: Notes) -> None:
    message = given.original
    if message.extra or message.label is not None:
        notes.add(at, None, "dropped", "free data")
    if not isinstance(message, Native):
        return
    content = given.data.get("parts") or given.data.get("content")
    aligned = isinstance(content, list) and len(content) == len(given.blocks)
    for left in leftovers(message.provider, given.data):
        notes.add(at, left.at if aligned else None, "dropped", left.what, left.detail)
    try:
        msgspec.json.decode(message.raw)
    except msgspec.MsgspecError:
        notes.add(at, None, "changed", "malformed data")  # JSON that strict parsers refuse was read approximately
