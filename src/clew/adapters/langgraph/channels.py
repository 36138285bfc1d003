"""The values of a checkpoint's channels: each is stored once.

A list of messages in the channel ``messages`` is the path to a node: only messages that are new are stored, and the
session of the thread shows them. Other values are stored as the serializer writes them, small ones with the checkpoint,
larger ones as blobs of the thread, which checkpoints with the same value share.

A message is stored as JSON, as LangChain's `message_to_dict` has it. If the message that this JSON gives is not equal,
for example because a tool returned an object, the message as the saver's serializer writes it is stored beside it.
"""

from __future__ import annotations

import base64
import copy
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
from langchain_core import messages as lc
from langgraph.checkpoint.base import ChannelVersions
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.foreign import own_message
from clew.adapters.keyed import Keyed, native_message
from clew.adapters.langgraph.states import ChannelValue
from clew.base.messages import Message, Native
from clew.errors import Corrupted, NotFound
from clew.store.session import Session
from clew.store.unit import Document, Unit

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


MESSAGES = "messages"
"""The channel that is the conversation."""
INLINE = 512
"""Maximum bytes of a value that is stored with its checkpoint."""
REMEMBERED = 64
"""Threads whose last messages are remembered, so that a checkpoint need not read them."""


class NewMessages(NamedTuple):
    """The messages of a conversation, and how many of the stored messages `known` it begins with."""

    messages: list[Any]
    known: KnownMessages | None
    shared: int


class PackedValues(NamedTuple):
    """The values of a checkpoint before they are stored."""

    values: dict[str, ChannelValue]
    large: dict[str, tuple[ChannelVersions | Any, str, bytes]]
    """Values that become blobs: version, type and bytes."""
    messages: NewMessages | None
    """The conversation, if it is new."""


class StoredValues(NamedTuple):
    """What a unit has stored: the values of a checkpoint, the thread's session, and its messages, if they are new."""

    values: dict[str, ChannelValue]
    session: Session
    messages: KnownMessages | None


class Channels:
    """Stores and loads values."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._lists: OrderedDict[tuple[str, str], KnownMessages] = OrderedDict()
        """For each thread and namespace: the messages of the last list that was stored."""
        self._homes: dict[str, Session] = {}
        """The sessions of threads. They may have been deleted: `Unit.append` checks that."""

    def pack(
        self,
        serde: SerializerProtocol,
        values: Mapping[str, Any],
        versions: ChannelVersions,
        new: ChannelVersions,
        before: Mapping[str, ChannelValue],
        names: tuple[str, str],
    ) -> PackedValues:
        """Serializes the values that the checkpoint `before` of a thread and namespace does not have."""
        packed: dict[str, ChannelValue] = {}
        large: dict[str, tuple[Any, str, bytes]] = {}
        messages = None
        for channel, value in values.items():
            version, old = versions.get(channel), before.get(channel)
            if old is not None and channel not in new and old.version == version:
                packed[channel] = old
            elif channel == MESSAGES and (found := self._compare(value, names)) is not None:
                messages = found
                packed[channel] = ChannelValue(version, "messages")
            else:
                kind, data = serde.dumps_typed(value)
                if len(data) <= INLINE:
                    packed[channel] = ChannelValue(version, kind, data)
                else:
                    large[channel] = version, kind, data
        return PackedValues(packed, large, messages)

    def store(
        self,
        unit: Unit,
        serde: SerializerProtocol,
        packed: PackedValues,
        names: tuple[str, str],
        replaced: str | None = None,
    ) -> StoredValues:
        """Stores new messages and large values as a step of the caller's unit: then `remember` the result.

        `replaced` is the last message of the checkpoint that this one replaces. NotFound if a cached part of the thread
        was deleted meanwhile: then call `forget` and try again.
        """
        thread, ns = names
        home = self._homes.get(thread) if packed.messages is not None and not ns else None
        if home is None:
            home = self._keyed.ensure(unit, thread)
        values, known = dict(packed.values), None
        for channel, (version, kind, data) in packed.large.items():
            values[channel] = ChannelValue(version, kind, blob=unit.blob(home, data))
        if packed.messages is not None:
            known = self._store_messages(unit, serde, packed.messages, home, names, replaced)
            values[MESSAGES] = ChannelValue(values[MESSAGES].version, "messages", node=known.ids[-1])
        return StoredValues(values, home, known)

    def remember(self, thread: str, ns: str, stored: StoredValues) -> None:
        """Keeps the messages of a thread, so that the next checkpoint need not read them."""
        if thread not in self._homes and len(self._homes) >= REMEMBERED:
            self._homes.clear()
        self._homes[thread] = stored.session
        if stored.messages is not None:
            self._lists[thread, ns] = stored.messages
            self._lists.move_to_end((thread, ns))
            if len(self._lists) > REMEMBERED:
                self._lists.popitem(last=False)

    def load(self, serde: SerializerProtocol, document: Document, value: ChannelValue) -> Any:
        """The value of a channel of a checkpoint. NotFound, Corrupted."""
        if value.node is not None:
            node = value.node
            try:
                stored = self._keyed.read(lambda unit: unit.path(node))
            except NotFound:
                raise NotFound("message", node, hint="It was deleted; use an earlier checkpoint.") from None
            return [from_native(native_message(one), serde) for one in stored]
        if value.blob is not None:
            return serde.loads_typed((value.type, document.blobs.get(value.blob)))
        return serde.loads_typed((value.type, value.data or b""))

    # -- messages

    def _compare(self, value: object, names: tuple[str, str]) -> NewMessages | None:
        """Compares a list of messages with the cached one of a thread; None if it is not a list of messages."""
        if not isinstance(value, list) or not value:
            return None
        known = self._lists.get(names)
        shared = 0 if known is None else known.count_shared(value)
        return NewMessages(value, known, shared) if are_messages(value[shared:]) else None

    def _store_messages(
        self,
        unit: Unit,
        serde: SerializerProtocol,
        found: NewMessages,
        home: Session,
        names: tuple[str, str],
        replaced: str | None,
    ) -> KnownMessages:
        messages, known, count = found
        (thread, ns), shown = names, home
        if replaced is not None:
            same = self._read_messages(unit, serde, replaced)
            if len(same.ids) == len(messages) == same.count_shared(messages):
                return same
        if ns:
            agent = ns.rpartition("|")[2].partition(":")[0]
            shown = self._keyed.ensure(unit, thread, ns, agent=agent, owner=home, beside=home)
        before = self._lists.get(names) or self._read_messages(unit, serde, shown)
        if before is not known:
            count = before.count_shared(messages)
        stored = [to_native(one, serde) for one in messages[count:]]
        drafts = [self._keyed.draft(one.native, seen=one.seen) for one in stored]
        nodes = unit.append(shown, drafts, after=before.ids[count - 1] if count else None)
        new = [node.id for node in nodes]
        return before.replace_from(count, messages[count:], [one.content for one in stored], new)

    def forget(self, threads: Collection[str]) -> None:
        """Empties the cache, after a failed write and after a deletion."""
        for thread in threads:
            self._homes.pop(thread, None)
        for key in list(self._lists):
            if key[0] in threads:
                self._lists.pop(key, None)

    def _read_messages(self, unit: Unit, serde: SerializerProtocol, end: Session | str) -> KnownMessages:
        """The messages down to the head of a session, or to a message."""
        path = unit.path(end)
        # Those before the first message of another program, which is no part of a state.
        found = path[: next((at for at, one in enumerate(path) if own_message(one, PROVIDER) is None), len(path))]
        messages = [from_native(native_message(one), serde) for one in found]
        none = KnownMessages([], [], [], plain=True)
        return none.replace_from(0, messages, list(map(content, messages)), [one.id for one in found])
