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

from clew.base.messages import Message, Native
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
_ROLES: dict[type, str] = {lc.HumanMessage: "user", lc.AIMessage: "assistant", lc.SystemMessage: "system"}
_SEEN = {role: Message(role) for role in ("user", "assistant", "system")}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def are_messages(value: list[Any]) -> bool:
    """True if all of these are messages, or dicts with a role and content."""
    kinds = set(map(type, value))
    for kind in kinds:
        if kind is not dict and not issubclass(kind, lc.BaseMessage):
            return False
    if dict in kinds:
        for one in value:
            if type(one) is dict and ("content" not in one or not isinstance(one.get("role"), str)):
                return False
    return True


class StoredMessage(NamedTuple):
    """A message as it is stored, and a copy of its content: the message itself may change later."""

    native: Native
    content: Any
    seen: Message | None
    """Its role, if it is known without decoding the message."""


def to_native(message: Any, serde: SerializerProtocol) -> StoredMessage:
    """A message as it is to be stored."""
    extra: dict[str, Any] = {}
    revived = None
    try:
        if isinstance(message, lc.BaseMessage):
            raw = _encode({"type": message.type, "data": message.model_dump(exclude_defaults=True)})
            if (used := getattr(message, "usage_metadata", None)) is not None:
                extra["usage"] = {"input": used.get("input_tokens"), "output": used.get("output_tokens")}
        else:
            raw = _encode(message)
        revived = _revive(_decode(raw))
        exact = _same(revived, message)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        exact = False
        text = message.text if isinstance(message, lc.BaseMessage) else str(message.get("content"))
        kind = message.type if isinstance(message, lc.BaseMessage) else message.get("role")
        raw = _encode({"type": kind, "data": {"content": text.encode(errors="replace").decode()}})
    if not exact:
        kind, data = serde.dumps_typed(message)
        extra[_TYPED] = [kind, base64.b64encode(data).decode()]
    native = Native(PROVIDER, raw, extra=extra or None)
    return StoredMessage(native, content(revived) if exact else copied(message), None if extra else _neutral(message))


def _neutral(message: Any) -> Message | None:
    """The role of a simple message without token counts, as its neutral view has it; None for other messages."""
    if isinstance(message, dict):
        if type(message["content"]) is not str or "type" in message or "usage" in message:
            return None
        return _SEEN.get(message["role"])
    return _SEEN.get(_ROLES.get(type(message), "")) if type(message.content) is str else None


def from_native(stored: Native, serde: SerializerProtocol) -> Any:
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
    if len(data) == 2 and "data" in data and kind in _CLASSES:
        return _CLASSES[kind](**data["data"])
    return data


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


class KnownMessages:
    """The messages of a stored list: their classes, their content when it was stored, and their ids in the store."""

    __slots__ = ("_plain", "contents", "ids", "kinds")

    def __init__(self, kinds: list[type], contents: list[Any], ids: list[str], *, plain: bool) -> None:
        """`plain` says that all are dicts."""
        self.kinds = kinds
        self.contents = contents
        self.ids = ids
        self._plain = plain

    def count_shared(self, messages: list[Any]) -> int:
        """The number of messages at the beginning of a list that are stored."""
        kinds = list(map(type, messages[: len(self.kinds)]))
        count = len(kinds)
        if self.kinds[:count] != kinds:
            count = next(at for at in range(count) if self.kinds[at] is not kinds[at])
        contents = messages[:count] if self._plain else list(map(content, messages[:count]))
        if self.contents[:count] != contents:
            count = next(at for at in range(count) if self.contents[at] != contents[at])
        return count

    def replace_from(self, count: int, messages: list[Any], contents: list[Any], ids: list[str]) -> KnownMessages:
        """The list with other messages after the first `count`."""
        kinds = list(map(type, messages))
        return KnownMessages(
            self.kinds[:count] + kinds,
            self.contents[:count] + contents,
            self.ids[:count] + ids,
            plain=self._plain and set(kinds) <= {dict},
        )


def content(message: Any) -> Any:
    """What makes two messages of one class equal."""
    return message if isinstance(message, dict) else message.__dict__


def copied(message: Any) -> Any:
    """A copy of a message's content. Messages can change after they were stored."""
    return copy.deepcopy(content(message))
