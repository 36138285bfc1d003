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

from clew.adapters.chains import place
from clew.adapters.langgraph.messages import KnownMessages, are_messages, content, from_native, to_native
from clew.adapters.langgraph.states import ChannelValue
from clew.adapters.natives import native_message
from clew.adapters.rows import Keyed
from clew.backends import ID, POS, InsertPoint, RefRow, Tx
from clew.base import ids
from clew.engine import paths
from clew.engine.blobs import Blobs, put_in
from clew.engine.engine import Draft
from clew.engine.node import Node, node_row
from clew.errors import NotFound

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


class Channels:
    """Stores and loads values."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._engine = keyed.engine
        self._lists: OrderedDict[tuple[str, str], KnownMessages] = OrderedDict()
        """For each thread and namespace: the messages of the last list that was stored."""
        self._homes: dict[str, RefRow] = {}
        """The sessions of threads. They may have been deleted: `place` checks that."""

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
        self, tx: Tx, serde: SerializerProtocol, packed: PackedValues, thread: str, ns: str
    ) -> tuple[RefRow, dict[str, ChannelValue]]:
        """Stores new messages as a step of the caller's transaction. Returns the thread's session, and the values.

        NotFound if a cached part of the thread was deleted meanwhile: then call `forget` and try again.
        """
        home = self._homes.get(thread) if packed.messages is not None and not ns else None
        if home is None:
            home = self._keyed.ensure(tx, thread)
            if len(self._homes) >= REMEMBERED:
                self._homes.clear()
            self._homes[thread] = home
        values = dict(packed.values)
        assert home.tree is not None
        tree = home.tree
        for channel, (version, kind, data) in packed.large.items():
            blob = put_in(Blobs(self._engine, lambda: tree), tx, tree, data)
            values[channel] = ChannelValue(version, kind, blob=blob.digest)
        if packed.messages is not None:
            node = self._store_messages(tx, serde, packed.messages, home, thread, ns)
            version = values[MESSAGES].version
            values[MESSAGES] = ChannelValue(version, "messages", node=ids.text(node))
        return home, values

    def use_blobs(self, tx: Tx, row: RefRow, home: RefRow, values: Mapping[str, ChannelValue]) -> None:
        """Notes which blobs a checkpoint needs. NotFound if one was deleted meanwhile."""
        used = set()
        for value in values.values():
            if value.blob is not None:
                tree = home.tree or 0
                blob = tx.blobs.blob(tree, self._engine.blob_hash(tree, value.blob))
                if blob is None:
                    raise NotFound("blob", value.blob)
                used.add(blob.blob)
        if used:
            tx.blobs.add_uses(-row.ref, used)

    def load(self, serde: SerializerProtocol, tree: int, value: ChannelValue) -> Any:
        """The value of a channel of a thread with this tree. NotFound, Corrupted."""
        if value.node is not None:
            node = value.node
            stored = self._engine.read(lambda tx: self._path(tx, node))
            return [from_native(native_message(one), serde) for one in stored]
        if value.blob is not None:
            return serde.loads_typed((value.type, Blobs(self._engine, lambda: tree).get(value.blob)))
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
        self, tx: Tx, serde: SerializerProtocol, found: NewMessages, home: RefRow, thread: str, ns: str
    ) -> bytes:
        messages, known, count = found
        shown = home
        if ns:
            assert home.tree is not None
            agent = ns.rpartition("|")[2].partition(":")[0]
            shown = self._keyed.ensure(tx, thread, ns, agent=agent, owner=home.ref, at=InsertPoint(home.tree))
        before = self._lists.get((thread, ns)) or self._messages_at_head(tx, serde, shown)
        if before is not known:
            count = before.count_shared(messages)
        stored = [to_native(one, serde) for one in messages[count:]]
        drafts: list[Draft] = [self._engine.draft(one.native, seen=one.seen) for one in stored]
        new = [draft.id for draft in drafts]
        place(self._keyed, tx, shown, before.ids[count - 1] if count else None, drafts)
        self._remember((thread, ns), before.replace_from(count, messages[count:], [one.content for one in stored], new))
        return new[-1] if new else before.ids[count - 1]

    def forget(self, threads: Collection[str]) -> None:
        """Empties the cache, after a failed write and after a deletion."""
        for thread in threads:
            self._homes.pop(thread, None)
        for key in list(self._lists):
            if key[0] in threads:
                self._lists.pop(key, None)

    def _remember(self, key: tuple[str, str], messages: KnownMessages) -> None:
        self._lists[key] = messages
        self._lists.move_to_end(key)
        if len(self._lists) > REMEMBERED:
            self._lists.popitem(last=False)

    def _messages_at_head(self, tx: Tx, serde: SerializerProtocol, shown: RefRow) -> KnownMessages:
        """The messages at the head of a session."""
        head = self._keyed.refs.head_state(tx, shown).id
        found = [] if head is None else self._path(tx, ids.text(head))
        messages = [from_native(native_message(one), serde) for one in found]
        none = KnownMessages([], [], [], plain=True)
        return none.replace_from(0, messages, list(map(content, messages)), [node_row(one)[ID] for one in found])

    def _path(self, tx: Tx, node: str) -> list[Node]:
        location = tx.node(ids.parse(node))
        if location is None:
            raise NotFound("message", node, hint="It was deleted; use an earlier checkpoint.")
        return paths.whole(self._engine, tx, location.row[POS])
