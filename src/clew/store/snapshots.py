"""Snapshots in a store. Each is a ref at a message, so that messages shared by several snapshots are stored once.

The elements of a snapshot's array are stored as native messages. Saving a conversation again stores only its new
messages: the store remembers how much of each client's `Messages` it has saved, and does not read that part again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import NamedTuple, overload
from weakref import WeakKeyDictionary

import msgspec

from clew.backends import ID, POS, InsertPoint, RefRow, Tx
from clew.base import codec, ids
from clew.base.messages import Message, Native, Opaque, Text, system
from clew.engine import deletion, paths
from clew.engine.append import append_chain
from clew.engine.engine import Draft, Engine
from clew.engine.node import Node, node_row
from clew.engine.receipts import Reason, Receipt
from clew.errors import Corrupted, Invalid, NotFound
from clew.providers.neutral import neutral
from clew.providers.registry import canonical, prompt_is_message
from clew.snapshots.media import count_tokens
from clew.snapshots.raw_json import Frame, frame, join
from clew.snapshots.types import (
    SNAPSHOT_VERSION,
    MessageParts,
    Messages,
    Snapshot,
    SnapshotSummary,
    ToolSnapshot,
    a_snapshot,
    new_snapshot,
    validate_snapshot_id,
)
from clew.store.session import Session, row_of
from clew.store.session_table import SessionParts
from clew.store.sessions import Sessions
from clew.store.setup import Setup, setup_of, with_setup

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


TRIES = 5
"""How often a save is tried. All tries but the last are optimistic; the last one blocks other writers."""
PAGE = 200

Summaries = list[SnapshotSummary]  # inside `Snapshots`, list is its method


class SnapshotData(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The data of a snapshot's ref."""

    provider: str
    model: str = ""
    system_prompt: str = ""
    tools: tuple[ToolSnapshot, ...] = ()
    metadata: dict[str, str] = {}
    created_at: datetime
    version: int = SNAPSHOT_VERSION
    message_count: int = 0
    token_count: int = 0
    size: int = 0
    """The number of nodes of its messages: one if they are not a JSON array."""
    prompted: bool = False
    """True if the system prompt is also stored as a node before the messages."""
    frame: Frame | None = None


class _Fields(msgspec.Struct, frozen=True):
    """The fields of a snapshot, apart from its messages, that are redacted."""

    model: str
    system_prompt: str
    tools: tuple[ToolSnapshot, ...]
    metadata: dict[str, str]


class Mark(NamedTuple):
    """How many messages of a client are stored."""

    size: int
    head: bytes
    """The id of the last one."""
    tokens: int
    prompt: str = ""
    """The system prompt stored before them, or empty."""


class _Plan(NamedTuple):
    """The state that a save starts from: the ref, and the messages that are stored already."""

    seen: tuple[int, int] | None
    mark: Mark | None


class Snapshots:
    """The snapshots of a store. A `SnapshotStore` that stores messages shared with sessions or snapshots once."""

    def __init__(self, parts: SessionParts, sessions: Sessions) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._refs = parts.refs
        self._sessions = sessions
        self._marks: WeakKeyDictionary[Sequence[bytes], Mark] = WeakKeyDictionary()

    def save(self, snapshot: Snapshot) -> None:
        """Saves a snapshot and replaces the one with the same id, if any. Durable on return.

        Stores only the messages of a client that are new since its last save.
        """
        validate_snapshot_id(a_snapshot(snapshot).id)
        snapshot = self._check_and_redact(snapshot)
        self._save(snapshot, leading_prompt(snapshot, _split(snapshot)[0]))

    def _save(self, snapshot: Snapshot, prompt: str, tree: int | None = None) -> None:
        """Stores a snapshot, and `prompt`, unless it is empty, as a system message before the others.

        Stores them in `tree` if given and still there: that tree has the blobs that the messages refer to.
        """
        key = ids.parse(snapshot.id)
        parts, frame = _split(snapshot)
        for left in reversed(range(TRIES)):
            # The last try holds the write lock, so that no other save can come first.
            with nullcontext() if left else self._engine.transaction():
                if self._try_save(key, snapshot, parts, frame, prompt, tree):
                    return
        raise AssertionError("another writer changed the snapshot during a transaction")

    def _try_save(
        self, key: bytes, snapshot: Snapshot, parts: MessageParts, frame: Frame | None, prompt: str, tree: int | None
    ) -> bool:
        """Stores the messages that are not stored yet. False, without a change, if another save came first."""
        plan = self._engine.read(lambda tx: self._plan(tx, key, parts, prompt))
        fresh = parts[plan.mark.size if plan.mark else 0 :]
        drafts = [self._engine.draft(system(prompt))] if prompt and plan.mark is None else []
        drafts += [draft(self._engine, snapshot.provider, raw, blobs=tree is not None) for raw in fresh]
        tokens = (plan.mark.tokens if plan.mark else 0) + sum(map(count_tokens, fresh))
        payload = _pack(snapshot, len(parts), tokens, frame, prompted=bool(prompt))
        head = self._put(key, plan, drafts, payload, tree)
        if head and isinstance(parts.source, Messages | StoredMessages):
            self._marks[parts.source] = Mark(len(parts), head, tokens, prompt)
        return head is not None

    def load(self, id: str) -> Snapshot:
        """The snapshot; its messages are read on first access. NotFound; Corrupted."""
        row = self._row(id)
        data = self._unpack(row)
        source = StoredMessages(self._engine, row, data.size, data.prompted)
        parts = MessageParts(source, data.size)
        if row.head_id is not None:
            other_tokens = count_tokens(*_prompt_and_tools(data.system_prompt, data.tools))
            prompt = data.system_prompt if data.prompted else ""
            self._marks[source] = Mark(data.size, row.head_id, data.token_count - other_tokens, prompt)
        return Snapshot(
            id=id, provider=data.provider, model=data.model, system_prompt=data.system_prompt,
            messages=parts if data.frame is None else join(data.frame, parts), tools=data.tools,
            metadata=data.metadata, created_at=data.created_at, version=data.version,
        )  # fmt: skip

    def list(self) -> Summaries:
        """All snapshots, newest first. Corrupted if one is not what was saved."""
        found = [_summary(row, self._unpack(row)) for row in self._rows()]
        return sorted(found, key=lambda one: (one.created_at, one.id), reverse=True)

    def delete(self, id: str) -> Receipt:
        """Deletes a snapshot and each message that nothing else needs. NotFound.

        Traces stay in the files until they are overwritten, as the receipt reports; `purge` clears them.
        """
        return self._parts.purger.delete(SNAPSHOT, ids.parse(validate_snapshot_id(id)))

    def purge(self, id: str, *, reason: Reason = "user-requested") -> Receipt:
        """Deletes a snapshot permanently and clears every trace of it: rows, keys, index, files. NotFound.

        Messages shared with sessions or other snapshots stay, and the receipt lists these.
        """
        return self._parts.purger.purge([self._row(id)], reason=reason)

    # -- sessions

    def take(
        self,
        session: Session | str,
        *,
        model: str | None = None,
        system_prompt: str | None = None,
        tools: Iterable[ToolSnapshot] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """Saves and returns a snapshot of the present session. Its provider is that of the session's messages.

        Messages are shared with the session; they are copied only after a compaction or a conversion, so that the
        snapshot does not keep the replaced messages. System prompt and tools are those of the session, unless given.
        Neutral messages make a snapshot of the provider ``clew``. Invalid if the messages are of several providers:
        convert them with `clew.convert.convert_session`.
        """
        source_session = session if isinstance(session, Session) else self._sessions.get(session)
        nodes = source_session.path()
        provider, prompt, count = conversation(nodes)
        source = Messages(map(raw_of, nodes[count:]))
        leading = prompt if count == 1 and is_prompt(nodes[0], prompt) and system_prompt in (None, prompt) else ""
        shared = bool(nodes) and bool(leading) == bool(count) and not self._is_derived(nodes[-1])
        if shared:
            self._marks[source] = Mark(len(source), node_row(nodes[-1])[ID], sum(map(count_tokens, source)), leading)
        snapshot = new_snapshot(
            provider=provider, messages=source, model=source_session.model or "" if model is None else model,
            system_prompt=prompt if system_prompt is None else system_prompt,
            tools=setup_of(source_session).tools if tools is None else tools, metadata=metadata,
        )  # fmt: skip
        snapshot = self._check_and_redact(snapshot)
        self._save(snapshot, leading if shared else leading_prompt(snapshot, source), row_of(source_session).tree)
        return snapshot

    def resume(self, id: str, *, title: str | None = None) -> Session:
        """Creates a session that continues from a snapshot, with its system prompt and tools. NotFound.

        The system prompt is the first message of the session. Copies no messages, unless `take` was given a system
        prompt that differs from the session's.
        """
        with self._engine.transaction():
            row, snapshot = self._row(id), self.load(id)
            data, prompt = self._unpack(row), leading_prompt(snapshot, _split(snapshot)[0])
            if data.system_prompt and not data.prompted and prompt:  # `take` shared messages stored without the prompt
                self._save(self._check_and_redact(snapshot), prompt, row.tree)
            head = self._row(id).head_id
            setup = Setup(tools=data.tools)
            at = None if head is None else ids.text(head)
            return self._sessions.create(title=title, model=data.model or None, at=at, extra=with_setup({}, setup))

    # -- inside

    def _is_derived(self, head: Node) -> bool:
        """True if a compaction or conversion created the path: sharing it would keep the replaced messages."""
        return len(self._engine.read(lambda tx: paths.origins(self._engine, tx, node_row(head)[POS]))) > 1

    def _rows(self) -> Iterator[RefRow]:
        edge = None
        while rows := self._parts.table.recent(SNAPSHOT, edge, None, None, PAGE):
            yield from rows
            edge = rows[-1].rank, rows[-1].ref

    def _row(self, id: str) -> RefRow:
        key = ids.parse(validate_snapshot_id(id))
        return self._engine.read(lambda tx: self._refs.get(tx, SNAPSHOT, key))

    def _unpack(self, row: RefRow) -> SnapshotData:
        try:
            return _decode(self._refs.data(row)[1:])
        except msgspec.DecodeError as error:
            why = f"its data does not decode ({type(error).__name__})"
            raise Corrupted(f"snapshot {ids.text(row.key)}", why) from None

    def _check_and_redact(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot, checked, with everything but its messages redacted: `draft` redacts those."""
        snapshot.check()
        if self._engine.rules is None:
            return snapshot
        fields = codec.to_json(_Fields(snapshot.model, snapshot.system_prompt, snapshot.tools, snapshot.metadata))
        redacted = self._engine.redacted(fields, own=True)
        return snapshot if redacted == fields else snapshot.replace(**msgspec.structs.asdict(_decode_fields(redacted)))

    def _plan(self, tx: Tx, key: bytes, parts: MessageParts, prompt: str) -> _Plan:
        row = tx.ref(self._engine.workspace, SNAPSHOT, key)
        seen = None if row is None else (row.ref, row.version)
        mark = self._marks.get(parts.source) if isinstance(parts.source, Messages | StoredMessages) else None
        point = None if mark is None or mark.prompt != prompt else tx.insert_point(mark.head)
        if mark is None or point is None or tx.tree_workspace(point.tree) != self._engine.workspace:
            return _Plan(seen, None if row is None or row.head is None else self._common(tx, row.head, parts, prompt))
        if mark.size <= len(parts):
            return _Plan(seen, mark)
        assert point.pos is not None
        return _Plan(seen, self._common(tx, point.pos, parts, prompt))

    def _common(self, tx: Tx, head: int, parts: MessageParts, prompt: str) -> Mark | None:
        """The leading messages that the path to `head` has, too, after the same system prompt."""
        mark, tokens = None, 0
        nodes = paths.whole(self._engine, tx, head)
        if prompt:
            if not is_prompt(nodes[0], prompt):
                return None
            mark = Mark(0, node_row(nodes.pop(0))[ID], 0, prompt)
        for size, (node, raw) in enumerate(zip(nodes, parts, strict=False), 1):
            if raw_of(node) != raw:
                break
            tokens += count_tokens(raw)
            mark = Mark(size, node_row(node)[ID], tokens, prompt)
        return mark

    def _put(
        self, key: bytes, plan: _Plan, drafts: Sequence[Draft], payload: bytes, preferred_tree: int | None
    ) -> bytes | None:
        """Appends the drafts and updates the ref. The id of the head, or b""; None if another save came first."""
        engine = self._engine

        def work(tx: Tx) -> bytes | None:
            row = tx.ref(engine.workspace, SNAPSHOT, key)
            point = None if plan.mark is None else tx.insert_point(plan.mark.head)
            if (row and (row.ref, row.version)) != plan.seen or (plan.mark and point is None):
                return None
            if row is not None:
                self._refs.verify(row)
            if point is None:
                tree = preferred_tree if row is None or row.tree is None else row.tree
                if tree is None or tx.tree_workspace(tree) != engine.workspace:
                    tree = tx.add_tree(engine.workspace, engine.clock())
                point = InsertPoint(tree)
            self._refs.ensure_sound(tx, point.pos if drafts else None)
            at = _last(point, append_chain(engine, tx, point, drafts)) if drafts else point
            if row is None or row.tree != at.tree:
                self._replace_ref(tx, key, payload, row, at)
            else:
                self._move(tx, row, payload, at)
            return at.id or b""

        def settle(tx: Tx) -> bytes | None:
            row = tx.ref(engine.workspace, SNAPSHOT, key)
            head = drafts[-1].id if drafts else plan.mark.head if plan.mark else None
            same = row is not None and row.head_id == head and self._refs.data(row) == payload
            return (head or b"") if same else None

        return engine.write(work, settle)

    def _replace_ref(self, tx: Tx, key: bytes, payload: bytes, row: RefRow | None, at: InsertPoint) -> None:
        """Adds a ref, and deletes the old one, which is in another tree."""
        if row is not None:
            deletion.delete_ref(self._engine, tx, row)
        self._refs.add(tx, SNAPSHOT, key, payload, tree=at.tree, at=at if at.pos is not None else None)

    def _move(self, tx: Tx, row: RefRow, payload: bytes, at: InsertPoint) -> None:
        now = self._engine.clock()
        rank = max(now, tx.top_rank(row.workspace, SNAPSHOT) + 1)
        self._refs.change(tx, row, payload, look=None, head=at.pos, head_id=at.id, active_at=now, rank=rank)
        if row.head is not None and row.head != at.pos:
            deletion.prune(self._engine, tx, row.head)


_decode = msgspec.json.Decoder(SnapshotData).decode
_decode_fields = msgspec.json.Decoder(_Fields).decode


def _split(snapshot: Snapshot) -> tuple[MessageParts, Frame | None]:
    """The messages of a snapshot, and the bytes between them."""
    if snapshot.lazy:
        return snapshot.parts, None
    try:
        return snapshot.parts, frame(snapshot.messages, snapshot.parts)
    except Invalid:
        return MessageParts([snapshot.messages], 1), ("", "")


def _prompt_and_tools(system_prompt: str, tools: Sequence[ToolSnapshot]) -> tuple[bytes, bytes]:
    return system_prompt.encode(), _encode(tools) if tools else b""


def _pack(snapshot: Snapshot, size: int, tokens: int, frame: Frame | None, *, prompted: bool) -> bytes:
    data = SnapshotData(
        provider=snapshot.provider, model=snapshot.model, system_prompt=snapshot.system_prompt, tools=snapshot.tools,
        metadata=snapshot.metadata, created_at=snapshot.created_at, version=snapshot.version,
        message_count=snapshot.message_count, size=size, prompted=prompted, frame=frame,
        token_count=tokens + count_tokens(*_prompt_and_tools(snapshot.system_prompt, snapshot.tools)),
    )  # fmt: skip
    return b"\x01" + codec.to_json(data)


def _summary(row: RefRow, data: SnapshotData) -> SnapshotSummary:
    return SnapshotSummary(
        id=ids.text(row.key), provider=data.provider, model=data.model, created_at=data.created_at,
        message_count=data.message_count, token_count=data.token_count,
    )  # fmt: skip


def _last(point: InsertPoint, nodes: Sequence[Node]) -> InsertPoint:
    row = node_row(nodes[-1])
    return InsertPoint(point.tree, row[POS], row[ID])
