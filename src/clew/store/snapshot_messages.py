"""The messages of a stored snapshot, and how each is written as a node and read again."""

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
"""The kind of the opaque block that stands for what is no provider's message."""
_encode = msgspec.json.Encoder().encode


def draft(engine: Engine, provider: str, raw: bytes, *, blobs: bool) -> Draft:
    """A message to be stored: the provider's, or if no provider would send it, bytes that mean nothing to clew.

    One in clew's own form is stored as such, but if it shows blobs only where these are.
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
    """The message in clew's own form that these bytes are, and would be again; None if there is none."""
    try:
        said = codec.decode(b"\x01" + raw, "")
    except Corrupted:
        return None
    return said if isinstance(said, Message) and _encode(said) == raw else None


def raw_of(node: Node) -> bytes:
    """A message as it stands in a snapshot."""
    said = node.said
    if isinstance(said, Native):
        return said.raw
    block = said.blocks[0] if len(said.blocks) == 1 else None
    if isinstance(block, Opaque) and block.kind == _RAW and isinstance(block.data, str):
        return block.data.encode()
    return _encode(said)


def conversation(nodes: Sequence[Node]) -> tuple[str, str, int]:
    """The provider of a session's messages, its system prompt, and how many of the first messages are that alone."""
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
        return neutral(said).role == "system"
    except (Invalid, Corrupted, msgspec.MsgspecError, RecursionError):
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
                raise Corrupted("a snapshot", f"it has {len(found)} messages instead of {self._size}")
            self._found = [raw_of(node) for node in found]
        return self._found

    def _read(self, tx: Tx) -> list[Node]:
        """NotFound if the snapshot was deleted, or saved again, since it was loaded: that must not pass for damage."""
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
