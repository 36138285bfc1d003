"""Messages as a conversion reads them: the neutral view, what the view leaves behind, and who says each block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import msgspec

from clew import codec
from clew.convert.report import Notes
from clew.convert.shapes import leftovers
from clew.convert.target import Piece, Target
from clew.convert.tongues import family
from clew.errors import Invalid, Tampered
from clew.model import Block, Message, Native, Role, Said, Text, Thinking, ToolCall, ToolResult
from clew.providers import Json, parse

NEUTRAL = "clew"
"""The provider that messages in clew's own form are told to be of, where there has to be one."""
_NOTHING = (Text(text=""),)


class Read:
    """One message as it was given. What is not asked for is not worked out."""

    def __init__(self, said: Said, to: str, target: Target) -> None:
        self.said = said
        self._to = to
        self._target = target

    @cached_property
    def message(self) -> Message:
        """Its neutral view."""
        return codec.neutral(self.said)

    @cached_property
    def data(self) -> Json:
        """The JSON of a native message."""
        return parse(self.raw)

    @cached_property
    def own(self) -> bool:
        """True if it is in the target's tongue already."""
        said = self.said
        same = isinstance(said, Native) and family(said.provider) == family(self._to)
        return same and self._target.owns(self.data)

    @property
    def raw(self) -> bytes:
        """The bytes of a native message."""
        assert isinstance(self.said, Native)
        return self.said.raw

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks; a message of none has an empty one, to stand for it."""
        return self.message.blocks or _NOTHING


def read(said: Said | bytes, source: str, to: str, target: Target) -> Read:
    """A message, given as itself or as bytes of `source`. Invalid if it could not be stored."""
    if isinstance(said, bytes):
        if not source:
            raise Invalid("messages given as bytes need the name of their provider", hint="Pass source=….")
        said = Native(source, said)
    if isinstance(said, Native) and said.provider == NEUTRAL:
        said = _neutral(said.raw)
    codec.encode(said)
    return Read(said, to, target)


def _neutral(raw: bytes) -> Said:
    """A message that is written in clew's own form."""
    try:
        return codec.decode(b"\x01" + raw, "")
    except Tampered as error:
        raise Invalid(f"this is not a message: {error.why}") from None


def pieces(given: Read, at: int, notes: Notes) -> Iterator[Piece]:
    """The blocks of a message that is to be converted, each with the role it will be said in."""
    _note_leftovers(given, at, notes)
    role = given.message.role
    for index, block in enumerate(given.blocks):
        said_by = _speaker(block, role)
        if said_by != role and not isinstance(block, ToolResult):
            notes.add(at, index, "changed", "role")
        yield Piece(at, index, said_by, block)


def own_pieces(given: Read, at: int) -> Iterator[Piece]:
    """The blocks of a message that is to be kept as it is."""
    role = given.message.role
    for index, block in enumerate(given.blocks):
        yield Piece(at, index, _speaker(block, role), block, own=True)


def _speaker(block: Block, role: Role) -> Role:
    """Who says a block, whatever message it stands in."""
    if isinstance(block, ToolCall):
        return "assistant"
    if isinstance(block, ToolResult):
        return "tool"
    if isinstance(block, Text | Thinking) and role == "system":
        return "system"
    return "user" if role in ("tool", "system") else role


def _note_leftovers(given: Read, at: int, notes: Notes) -> None:
    said = given.said
    if said.extra or said.label is not None:
        notes.add(at, None, "dropped", "free data")
    if not isinstance(said, Native):
        return
    content = given.data.get("parts") or given.data.get("content")
    aligned = isinstance(content, list) and len(content) == len(given.blocks)
    for left in leftovers(said.provider, given.data):
        notes.add(at, left.at if aligned else None, "dropped", left.what, left.detail)
    try:
        msgspec.json.decode(said.raw)
    except msgspec.MsgspecError:
        notes.add(at, None, "changed", "malformed data")  # what strict readers refuse was read as something close
