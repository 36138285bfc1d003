"""The messages of a stored snapshot, and how each is written as a node and read again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import msgspec

from clew import codec, ids, paths
from clew.backends import RefRow, Tx
from clew.engine import Draft, Engine
from clew.errors import Invalid, NotFound, Tampered
from clew.model import Message, Native, Opaque, Text
from clew.node import Node
from clew.provider_names import prompt_is_message
from clew.snapshots.types import Snapshot

SNAPSHOT = "snapshot"
NEUTRAL = "clew"
"""The provider of a snapshot whose messages are in clew's own form."""
_RAW = "clew/raw"
"""The kind of the opaque block that stands for what is no provider's message."""
_encode = msgspec.json.Encoder().encode


def draft(engine: Engine, provider: str, raw: bytes) -> Draft:
    """A message to be stored: the provider's, or if no provider would send it, bytes that mean nothing to clew."""
    try:
        return engine.draft(Native(provider, raw))
    except Invalid:
        return engine.draft(Message("user", (Opaque(kind=_RAW, data=raw.decode()),)))


def raw_of(node: Node) -> bytes:
    """A message as it stands in a snapshot."""
    said = node.said
    if isinstance(said, Native):
        return said.raw
    block = said.blocks[0] if len(said.blocks) == 1 else None
    if isinstance(block, Opaque) and block.kind == _RAW and isinstance(block.data, str):
        return block.data.encode()
    return _encode(said)


def leading_prompt(snapshot: Snapshot, parts: Sequence[bytes]) -> str:
    """The system prompt, if it is not one of the messages already: it is then stored before the first of them.

    So a session at the last message of the snapshot has it, too.
    """
    prompt, provider = snapshot.system_prompt, snapshot.provider
    if prompt and parts and (provider == NEUTRAL or prompt_is_message(provider)) and _is_system(provider, parts[0]):
        return ""
    return prompt


def is_prompt(node: Node, prompt: str) -> bool:
    """True if a message is this system prompt, and nothing else."""
    return node.role == "system" and node.text == prompt and all(isinstance(one, Text) for one in node.message.blocks)


def _is_system(provider: str, raw: bytes) -> bool:
    try:
        said = codec.decode(b"\x01" + raw, "") if provider == NEUTRAL else Native(provider, raw)
        return codec.neutral(said).role == "system"
    except (Invalid, Tampered, msgspec.MsgspecError, RecursionError):
        return False


class StoredMessages(Sequence[bytes]):
    """The messages of a stored snapshot, read when one is first asked for.

    If the snapshot is `prompted`, the first node is its system prompt, and not one of them.
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
                raise Tampered("a snapshot", f"it has {len(found)} messages instead of {self._size}")
            self._found = [raw_of(node) for node in found]
        return self._found

    def _read(self, tx: Tx) -> list[Node]:
        """NotFound if the snapshot was deleted, or saved again, since it was loaded: that must not pass for damage."""
        head = self._row.head
        try:
            return [] if head is None else paths.whole(self._engine, tx, head)
        except Tampered:
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
