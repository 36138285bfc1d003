"""Messages and their blocks, as plain values.

A message has no id and no place; the store gives it both when it stores it (`clew.engine.node.Node`). Values are
frozen, compare by content, and are checked when they are stored, not when they are made.
"""

# No `from __future__ import annotations` here: Python would compile the type of each field at every start.
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from clew.errors import Invalid

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
Modality = Literal["text", "image", "audio", "video", "document"]

REDACTION = "clew.redaction"
"""The key of the annotation of what was redacted, in the `extra` of a message or a session."""
RECORD = "clew.record"
"""Where free data, of a message or of a session, keeps what `clew.records` says of it."""
ATTACHED = "clew.attached"
"""Where a native message's free data has its attachments that are stored: for each reference, blob, type and name."""
SETUP = "clew.chat"
"""Key of provider, address and tools in a session's free data. See `clew.store.snapshots`."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type", gc=False):
    """Base of all blocks: a ``type`` when written, and free data in ``extra``."""

    extra: dict[str, Any] | None = None


class Text(Value, tag="text", frozen=True):
    """Text."""

    text: str


class Thinking(Value, tag="thinking", frozen=True):
    """Reasoning; ``signature`` proves it to its provider, ``redacted`` is reasoning the provider keeps encrypted."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None


class ToolCall(Value, tag="tool_call", frozen=True):
    """A request to run a tool."""

    id: str
    name: str
    arguments: dict[str, Any] = {}


class Media(Value, tag="media", frozen=True):
    """An image, a recording, a document: in the store as a blob, or elsewhere at a URL; one of the two."""

    mime_type: str
    modality: Modality
    blob: str | None = None
    url: str | None = None
    name: str | None = None


class Opaque(Value, tag="opaque", frozen=True):
    """A block of an unknown kind, stored unchanged."""

    kind: str
    data: Any = None


class ToolResult(Value, tag="tool_result", frozen=True):
    """The result of the tool call ``call_id``."""

    call_id: str
    content: tuple[Text | Media | Opaque, ...] = ()
    is_error: bool = False


Block = Text | Thinking | ToolCall | ToolResult | Media | Opaque


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The cost of a message: tokens as its provider counts them, and money in millionths of the currency's unit.

    None means unknown. `clew.providers.usage` makes the counts of all providers comparable.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    cost: int | None = None
    cache_write: int | None = None
    """Tokens written to a cache."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One message in neutral form."""

    role: Role
    blocks: tuple[Block, ...] = ()
    model: str | None = None
    usage: Usage | None = None
    label: str | None = None
    extra: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The text of its text blocks and tool results, joined by newlines; without thinking."""
        blocks = self.blocks
        if len(blocks) == 1 and type(block := blocks[0]) is Text:  # as most are
            return block.text
        return "\n".join(texts(blocks))


class Native(msgspec.Struct, frozen=True, gc=False):
    """A provider's own message: its JSON byte for byte, and whose it is."""

    provider: str
    raw: bytes
    label: str | None = None
    extra: dict[str, Any] | None = None


AnyMessage = Message | Native
"""The types that can be stored as one message."""

Piece = str | Text | Thinking | ToolCall | ToolResult | Media | Opaque


def texts(blocks: Iterable[Block]) -> list[str]:
    """The texts in `blocks`, in order."""
    words: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            words.append(block.text)
        elif isinstance(block, ToolResult):
            words.extend(texts(block.content))
    return words


def user(*content: Piece, label: str | None = None, extra: dict[str, Any] | None = None) -> Message:
    """A message from the user: strings become text blocks."""
    return Message("user", _blocks(content), label=label, extra=extra)


def system(*content: Piece, label: str | None = None, extra: dict[str, Any] | None = None) -> Message:
    """Instructions to the model."""
    return Message("system", _blocks(content), label=label, extra=extra)


def assistant(
    *content: Piece,
    model: str | None = None,
    usage: Usage | None = None,
    label: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Message:
    """An answer of the model, with its cost if known."""
    return Message("assistant", _blocks(content), model=model, usage=usage, label=label, extra=extra)


def tool(
    *content: str | Text | Media | Opaque,
    call_id: str,
    is_error: bool = False,
    label: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Message:
    """A message with the result of the tool call `call_id`."""
    inner = tuple(Text(text=piece) if isinstance(piece, str) else piece for piece in content)
    return Message("tool", (ToolResult(call_id=call_id, content=inner, is_error=is_error),), label=label, extra=extra)


def native(
    provider: str,
    raw: bytes | str | dict[str, Any],
    *,
    label: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Native:
    """A provider's own message as JSON, stored byte for byte. A str is encoded as UTF-8, and a dict as JSON."""
    if isinstance(raw, dict):
        try:
            raw = msgspec.json.encode(raw)
        except (TypeError, ValueError, OverflowError) as error:
            raise Invalid(f"the native message is not JSON: {error}") from None
    if isinstance(raw, str):
        try:
            raw = raw.encode()
        except UnicodeEncodeError:
            raise Invalid(
                "the native message has a lone surrogate", hint="Pass the bytes as the provider sent them."
            ) from None
    if not isinstance(raw, bytes | bytearray | memoryview):
        raise Invalid(f"a native message must be bytes or text, not {type(raw).__name__}")
    return Native(provider, bytes(raw), label, extra)


def as_message(given: str | dict[str, Any]) -> Message:
    """A text as a message of the user; ``{"role": …, "content": text}`` as a message. Invalid."""
    if isinstance(given, str):
        return user(given)
    unknown = given.keys() - {"role", "content"}
    role, content = given.get("role"), given.get("content")
    if unknown or role not in ROLES or not isinstance(content, str):
        wrong = f"it has the key {min(map(str, unknown))}" if unknown else "one of them is missing or of another type"
        raise Invalid(
            f"a message as a dict has a role and a text as content; {wrong}",
            hint="Use clew.native(provider, message) for a provider's own message.",
        )
    return Message(role, (Text(text=content),))


def _blocks(content: tuple[Piece, ...]) -> tuple[Block, ...]:
    return tuple(Text(text=piece) if isinstance(piece, str) else piece for piece in content)
