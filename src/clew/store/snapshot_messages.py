"""The messages of a stored snapshot: writes each as a node and reads it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import msgspec

from clew.backends import RefRow, Tx
from clew.base import codec, ids
from clew.base.messages import Message, Native, Opaque, Text
from clew.engine import paths
from clew.engine.engine import Draft, Engine
from clew.engine.node import Node
from clew.errors import Corrupted, Invalid, NotFound
from clew.providers.neutral import neutral
from clew.providers.registry import canonical, prompt_is_message
from clew.snapshots.types import Snapshot

SNAPSHOT = "snapshot"
NEUTRAL = "clew"
"""The provider of a snapshot whose messages are in clew's own form."""
_RAW = "clew/raw"
"""The kind of the opaque block that holds bytes which are not a valid message of the provider."""
_encode = msgspec.json.Encoder().encode


def draft(engine: Engine, provider: str, raw: bytes, *, blobs: bool) -> Draft:
    """A draft of a message: native, or opaque bytes if it is not a valid message of the provider.

    A message in clew's neutral form is stored in that form. If it refers to blobs, only with `blobs`: where they are.
    """
    try:
        own = _neutral(raw) if provider == NEUTRAL else None
        if own is not None:
            made = engine.draft(own)
            if blobs or not made.encoded.blobs:
                return made
        return engine.draft(Native(provider, raw))
    except Invalid:
        return engine.draft(Message("user", (Opaque(kind=_RAW, data=raw.decode()),)))


def _neutral(raw: bytes) -> Message | None:
    """The neutral message that encodes to exactly these bytes; None if there is none."""
    try:
        message = codec.decode(b"\x01" + raw, "")
    except Corrupted:
        return None
    return message if isinstance(message, Message) and _encode(message) == raw else None


def raw_of(node: Node) -> bytes:
    """The bytes of a message in a snapshot."""
    message = node.said
    if isinstance(message, Native):
        return message.raw
    block = message.blocks[0] if len(message.blocks) == 1 else None
    if isinstance(block, Opaque) and block.kind == _RAW and isinstance(block.data, str):
        return block.data.encode()
    return _encode(message)


def conversation(nodes: Sequence[Node]) -> tuple[str, str, int]:
    """The provider of a session's messages, its system prompt, and how many leading messages are only the prompt."""
    count = next((at for at, node in enumerate(nodes) if node.role != "system"), len(nodes))
    providers = {_provider(node) for node in nodes[count:] or nodes[:1]} or {NEUTRAL}
    if len(providers) > 1:
        hint = "Convert it to one of them first, with clew.convert.convert_session."
        raise Invalid(f"the session has messages of several providers: {', '.join(sorted(providers))}", hint=hint)
    provider = providers.pop()
    prompt = "\n\n".join(node.text for node in nodes[:count])
    own = all(_provider(node) == provider for node in nodes[:count])
    return provider, prompt, 0 if own and (provider == NEUTRAL or prompt_is_message(provider)) else count


def _provider(node: Node) -> str:
    return NEUTRAL if node.native is None else canonical(node.native.provider)


def leading_prompt(snapshot: Snapshot, parts: Sequence[bytes]) -> str:
    """The system prompt, if it must be stored before the first message; empty if it is one of the messages already.

    It is stored so that a session which continues from the snapshot's last message has it, too.
    """
    prompt, provider = snapshot.system_prompt, snapshot.provider
    if prompt and parts and (provider == NEUTRAL or prompt_is_message(provider)) and _is_system(provider, parts[0]):
        return ""
    return prompt


def is_prompt(node: Node, prompt: str) -> bool:
    """True if a message is exactly this system prompt."""
    return node.role == "system" and node.text == prompt and all(isinstance(one, Text) for one in node.message.blocks)


def _is_system(provider: str, raw: bytes) -> bool:
    try:
        message = codec.decode(b"\x01" + raw, "") if provider == NEUTRAL else Native(provider, raw)
        return neutral(message).role == "system"
    except (Invalid, Corrupted, msgspec.MsgspecError, RecursionError):
        return False


class StoredMessages(Sequence[bytes]):
    """The messages of a stored snapshot, read on first access.

    If the snapshot is `prompted`, the first node is its system prompt, which is not one of the messages.
    """

    def __init__(self, engine: Engine, row: RefRow, size: int, prompted: bool) -> None:
        self._engine = engine
        self._row = row
        self._size = size
        self._prompted = prompted
        self._found: list[bytes] | None = None

    def _items(self) -> list[bytes]:
        if self._found is None:
            found = self._engine.read(self._read)[int(self._prompted) :]
            if len(found) != self._size:
                raise Corrupted("a snapshot", f"it has {len(found)} messages instead of {self._size}")
            self._found = [raw_of(node) for node in found]
        return self._found

    def _read(self, tx: Tx) -> list[Node]:
        """NotFound if the snapshot was deleted or saved again after it was loaded: that is not corruption."""
        head = self._row.head
        try:
            return [] if head is None else paths.whole(self._engine, tx, head)
        except Corrupted:
            now = tx.ref(self._row.workspace, SNAPSHOT, self._row.key)
            if now is None or now.head != head:
                hint = "It was deleted, or saved again, after it was loaded."
                raise NotFound(SNAPSHOT, ids.text(self._row.key), hint=hint) from None
            raise

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        return self._items()[at]

    def __len__(self) -> int:
        return self._size
