"""The values of a checkpoint's channels: each is stored once.

A list of messages in the channel ``messages`` is the path to a node: only messages that are new are stored, and the
session of the thread shows them. Other values are stored as the serializer writes them, small ones with the checkpoint,
larger ones as blobs of the thread, which checkpoints with the same value share.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from langgraph.checkpoint.base import ChannelVersions
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.keyed import Keyed
from clew.adapters.langgraph.messages import KnownMessages, are_messages, content, from_native, to_native
from clew.adapters.langgraph.states import ChannelValue
from clew.adapters.natives import native_message
from clew.errors import NotFound
from clew.store.session import Session
from clew.store.unit import Document, Unit

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

    def store(self, unit: Unit, serde: SerializerProtocol, packed: PackedValues, thread: str, ns: str) -> StoredValues:
        """Stores new messages and large values as a step of the caller's unit: then `remember` the result.

        NotFound if a cached part of the thread was deleted meanwhile: then call `forget` and try again.
        """
        home = self._homes.get(thread) if packed.messages is not None and not ns else None
        if home is None:
            home = self._keyed.ensure(unit, thread)
        values, known = dict(packed.values), None
        for channel, (version, kind, data) in packed.large.items():
            values[channel] = ChannelValue(version, kind, blob=unit.blob(home, data))
        if packed.messages is not None:
            known = self._store_messages(unit, serde, packed.messages, home, thread, ns)
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
        self, unit: Unit, serde: SerializerProtocol, found: NewMessages, home: Session, thread: str, ns: str
    ) -> KnownMessages:
        messages, known, count = found
        shown = home
        if ns:
            agent = ns.rpartition("|")[2].partition(":")[0]
            shown = self._keyed.ensure(unit, thread, ns, agent=agent, owner=home, beside=home)
        before = self._lists.get((thread, ns)) or self._messages_at_head(unit, serde, shown)
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

    def _messages_at_head(self, unit: Unit, serde: SerializerProtocol, shown: Session) -> KnownMessages:
        """The messages at the head of a session."""
        found = unit.path(shown)
        messages = [from_native(native_message(one), serde) for one in found]
        none = KnownMessages([], [], [], plain=True)
        return none.replace_from(0, messages, list(map(content, messages)), [one.id for one in found])
