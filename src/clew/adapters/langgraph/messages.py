"""Messages of a LangGraph state as messages of a session, and back.

A message is stored as JSON, as LangChain's `message_to_dict` has it. If the message that this JSON gives is not equal,
for example because a tool returned an object, the message as the saver's serializer writes it is stored beside it.
"""

from __future__ import annotations

import base64
import copy
from typing import Any, NamedTuple

import msgspec
from langchain_core import messages as lc
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.base.messages import Native
from clew.errors import Corrupted

PROVIDER = "langchain"
_TYPED = "typed"
"""Where a message's free data has what its JSON does not carry: the serializer's type and bytes."""
_CLASSES: dict[str, type[lc.BaseMessage]] = {
    "human": lc.HumanMessage,
    "ai": lc.AIMessage,
    "system": lc.SystemMessage,
    "tool": lc.ToolMessage,
    "function": lc.FunctionMessage,
    "chat": lc.ChatMessage,
    "AIMessageChunk": lc.AIMessageChunk,
    "HumanMessageChunk": lc.HumanMessageChunk,
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def is_messages(value: object) -> bool:
    """True for a list of messages, or of dicts with a role and content."""
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(value: object) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("role"), str) and "content" in value
    return isinstance(value, lc.BaseMessage)


def to_native(message: Any, serde: SerializerProtocol) -> Native:
    """A message as it is stored."""
    extra: dict[str, Any] = {}
    try:
        if isinstance(message, lc.BaseMessage):
            raw = _encode({"type": message.type, "data": message.model_dump(exclude_defaults=True)})
            if (used := getattr(message, "usage_metadata", None)) is not None:
                extra["usage"] = {"input": used.get("input_tokens"), "output": used.get("output_tokens")}
        else:
            raw = _encode(message)
        exact = _same(_revive(_decode(raw)), message)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        exact = False
        text = message.text if isinstance(message, lc.BaseMessage) else str(message.get("content"))
        kind = message.type if isinstance(message, lc.BaseMessage) else message.get("role")
        raw = _encode({"type": kind, "data": {"content": text.encode(errors="replace").decode()}})
    if not exact:
        kind, data = serde.dumps_typed(message)
        extra[_TYPED] = [kind, base64.b64encode(data).decode()]
    return Native(PROVIDER, raw, extra=extra or None)


def from_native(stored: Any, serde: SerializerProtocol) -> Any:
    """The message that `to_native` was given. Corrupted."""
    typed = (stored.extra or {}).get(_TYPED)
    if typed is not None:
        return serde.loads_typed((typed[0], base64.b64decode(typed[1])))
    try:
        return _revive(_decode(stored.raw))
    except (msgspec.MsgspecError, AttributeError, TypeError, ValueError) as error:
        raise Corrupted("a message of a LangGraph thread", type(error).__name__) from None


def _revive(data: dict[str, Any]) -> Any:
    kind = data.get("type")
    if set(data) == {"type", "data"} and kind in _CLASSES:
        return _CLASSES[kind](**data["data"])
    return data


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


class Known(NamedTuple):
    """A message of a list that is stored: its content at that time, and its id in the store."""

    kind: type
    content: Any
    id: bytes


def remember(message: Any, id: bytes) -> Known:
    """Remembers a message. Messages can change after they were stored, so the content is a copy."""
    return Known(type(message), copy.deepcopy(content(message)), id)


def content(message: Any) -> Any:
    """What makes two messages of one class equal."""
    return message if isinstance(message, dict) else message.__dict__


def count_shared(before: list[Known], messages: list[Any]) -> int:
    """How many messages at the beginning of a list are those of a stored list."""
    count = 0
    for old, new in zip(before, messages, strict=False):
        if old.kind is not type(new) or old.content != content(new):
            break
        count += 1
    return count
