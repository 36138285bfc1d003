"""Snapshots in a store: each a ref at a message, so that what two of them have in common is stored once.

A snapshot's array is cut into its elements, each a native message. Saving a conversation that has grown stores what
came since; the store remembers how far it has saved each client's `Messages`, and only looks at the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from clew.backends import ID, POS, InsertPoint, RefRow, Tx
from clew.base import codec, ids
from clew.base.messages import system
from clew.engine import deletion, paths
from clew.engine.append import append_chain
from clew.engine.engine import Draft
from clew.engine.node import Node, node_row
from clew.engine.receipts import Reason, Receipt
from clew.errors import Corrupted, Invalid
from clew.snapshots.media import count_tokens
from clew.snapshots.message_array import Frame, frame, join
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
from clew.store.snapshot_messages import (
    SNAPSHOT,
    StoredMessages,
    conversation,
    draft,
    is_prompt,
    leading_prompt,
    raw_of,
)
from clew.store.snapshot_setup import Setup, setup_of, with_setup

TRIES = 5
"""How often a save is tried while others may be first; then they have to wait."""
PAGE = 200

Summaries = list[SnapshotSummary]  # inside `Snapshots`, list is its method


class Kept(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a snapshot's ref carries."""

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
    """How many messages it is stored as: one, if it is no array."""
    prompted: bool = False
    """True if the system prompt is stored, too, as a node before the messages."""
    frame: Frame | None = None


class _Around(msgspec.Struct, frozen=True):
    """What a snapshot has beside its messages that may be anybody's words."""

    model: str
    system_prompt: str
    tools: tuple[ToolSnapshot, ...]
    metadata: dict[str, str]


class Mark(NamedTuple):
    """How far the messages of a client are stored."""

    size: int
    head: bytes
    """Id of the last one."""
    tokens: int
    prompt: str = ""
    """The system prompt that is stored before them; empty if none is."""


class _Plan(NamedTuple):
    """What a save has found: the ref as it was, and how many of the messages are stored, and where."""

    seen: tuple[int, int] | None
    mark: Mark | None


class Snapshots:
    """The snapshots of a store. A `SnapshotStore`; what snapshots, and sessions, have in common is stored once."""

    def __init__(self, parts: SessionParts, sessions: Sessions) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._refs = parts.refs
        self._sessions = sessions
        self._marks: WeakKeyDictionary[Sequence[bytes], Mark] = WeakKeyDictionary()

    def save(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot, in place of the one with the same id if there is one. Durable when it returns.

        Of a client's messages only those are stored that came since the last time.
        """
        validate_snapshot_id(a_snapshot(snapshot).id)
        snapshot = self._ready(snapshot)
        self._keep(snapshot, leading_prompt(snapshot, _parted(snapshot)[0]))

    def _keep(self, snapshot: Snapshot, prompt: str, tree: int | None = None) -> None:
        """Stores a snapshot, with `prompt` as a system message before its own; with none if it is empty.

        In `tree`, if that is given and still there: it has the blobs that the messages show.
        """
        key = ids.parse(snapshot.id)
        parts, told = _parted(snapshot)
        for left in reversed(range(TRIES)):
            # The last time nobody else can be first.
            with nullcontext() if left else self._engine.transaction():
                if self._saved(key, snapshot, parts, told, prompt, tree):
                    return
        raise AssertionError("a transaction has seen another's changes")

    def _saved(
        self, key: bytes, snapshot: Snapshot, parts: MessageParts, told: Frame | None, prompt: str, tree: int | None
    ) -> bool:
        """Stores what is not stored yet; False, and nothing is done, if someone else has saved it meanwhile."""
        plan = self._engine.read(lambda tx: self._plan(tx, key, parts, prompt))
        fresh = parts[plan.mark.size if plan.mark else 0 :]
        drafts = [self._engine.draft(system(prompt))] if prompt and plan.mark is None else []
        drafts += [draft(self._engine, snapshot.provider, raw, blobs=tree is not None) for raw in fresh]
        tokens = (plan.mark.tokens if plan.mark else 0) + sum(map(count_tokens, fresh))
        payload = _pack(snapshot, len(parts), tokens, told, prompted=bool(prompt))
        head = self._put(key, plan, drafts, payload, tree)
        if head and isinstance(parts.source, Messages | StoredMessages):
            self._marks[parts.source] = Mark(len(parts), head, tokens, prompt)
        return head is not None

    def load(self, id: str) -> Snapshot:
        """The snapshot. Its messages are read when they are first asked for. NotFound; Corrupted."""
        row = self._row(id)
        kept = self._unpack(row)
        source = StoredMessages(self._engine, row, kept.size, kept.prompted)
        parts = MessageParts(source, kept.size)
        if row.head_id is not None:
            around = count_tokens(*_around(kept.system_prompt, kept.tools))
            prompt = kept.system_prompt if kept.prompted else ""
            self._marks[source] = Mark(kept.size, row.head_id, kept.token_count - around, prompt)
        return Snapshot(
            id=id, provider=kept.provider, model=kept.model, system_prompt=kept.system_prompt,
            messages=parts if kept.frame is None else join(kept.frame, parts), tools=kept.tools,
            metadata=kept.metadata, created_at=kept.created_at, version=kept.version,
        )  # fmt: skip

    def list(self) -> Summaries:
        """All there are, newest first. Corrupted if one is not what was saved."""
        found = [_summary(row, self._unpack(row)) for row in self._rows()]
        return sorted(found, key=lambda one: (one.created_at, one.id), reverse=True)

    def delete(self, id: str) -> Receipt:
        """Deletes a snapshot, and each message that nothing else needs. NotFound.

        Traces are left in the files until they are overwritten, and the receipt says so; `purge` clears them.
        """
        return self._parts.purger.delete(SNAPSHOT, ids.parse(validate_snapshot_id(id)))

    def purge(self, id: str, *, reason: Reason = "user-requested") -> Receipt:
        """Deletes a snapshot for good, and clears every trace of it: rows, keys, index, files. NotFound.

        What sessions or other snapshots share stays, and the receipt names them.
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
        """A snapshot of a session as it is now. Its provider is that of the session's messages.

        Messages are copied only after a compaction or a conversion: a snapshot keeps nothing that it does not show.
        The system prompt and the tools are those of the session, unless they are given: restored into a client, the
        snapshot sends what the session would. Messages in neutral form make a snapshot of the provider ``clew``.
        Invalid if they are of several providers: `clew.convert.convert_session` makes a session of one.
        """
        talk = session if isinstance(session, Session) else self._sessions.get(session)
        nodes = talk.path()
        provider, prompt, count = conversation(nodes)
        source = Messages(map(raw_of, nodes[count:]))
        leading = prompt if count == 1 and is_prompt(nodes[0], prompt) and system_prompt in (None, prompt) else ""
        shared = bool(nodes) and bool(leading) == bool(count) and not self._is_derived(nodes[-1])
        if shared:
            self._marks[source] = Mark(len(source), node_row(nodes[-1])[ID], sum(map(count_tokens, source)), leading)
        snapshot = new_snapshot(
            provider=provider, messages=source, model=talk.model or "" if model is None else model,
            system_prompt=prompt if system_prompt is None else system_prompt,
            tools=setup_of(talk).tools if tools is None else tools, metadata=metadata,
        )  # fmt: skip
        snapshot = self._ready(snapshot)
        self._keep(snapshot, leading if shared else leading_prompt(snapshot, source), row_of(talk).tree)
        return snapshot

    def resume(self, id: str, *, title: str | None = None) -> Session:
        """A new session that continues from a snapshot, with its system prompt and tools. NotFound.

        The system prompt is the first message of the session. No message is copied, unless `take` was given a system
        prompt that is not the session's own.
        """
        with self._engine.transaction():
            row, snapshot = self._row(id), self.load(id)
            kept, prompt = self._unpack(row), leading_prompt(snapshot, _parted(snapshot)[0])
            if kept.system_prompt and not kept.prompted and prompt:
                self._keep(
                    self._ready(snapshot), prompt, row.tree
                )  # its messages are stored without it: those of a session, or by an older clew
            head = self._row(id).head_id
            setup = Setup(tools=kept.tools)
            at = None if head is None else ids.text(head)
            return self._sessions.create(title=title, model=kept.model or None, at=at, extra=with_setup({}, setup))

    # -- inside

    def _is_derived(self, head: Node) -> bool:
        """True if a compaction or a conversion made the path: to share it would keep what it was made of."""
        return len(self._engine.read(lambda tx: paths.origins(self._engine, tx, node_row(head)[POS]))) > 1

    def _rows(self) -> Iterator[RefRow]:
        edge = None
        while rows := self._page(edge):
            yield from rows
            edge = rows[-1].rank, rows[-1].ref

    def _page(self, edge: tuple[int, int] | None) -> Sequence[RefRow]:
        workspace = self._engine.workspace
        return self._engine.read(
            lambda tx: tx.refs_recent(workspace, SNAPSHOT, before=edge, look=None, label=None, limit=PAGE)
        )

    def _row(self, id: str) -> RefRow:
        key = ids.parse(validate_snapshot_id(id))
        return self._engine.read(lambda tx: self._refs.get(tx, SNAPSHOT, key))

    def _unpack(self, row: RefRow) -> Kept:
        try:
            return _decode(self._refs.data(row)[1:])
        except msgspec.DecodeError as error:
            why = f"its data does not decode ({type(error).__name__})"
            raise Corrupted(f"snapshot {ids.text(row.key)}", why) from None

    def _ready(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot, checked; what is around its messages is redacted. These are when they are drafted."""
        snapshot.check()
        if self._engine.rules is None:
            return snapshot
        said = codec.to_json(_Around(snapshot.model, snapshot.system_prompt, snapshot.tools, snapshot.metadata))
        kept = self._engine.redacted(said, own=True)
        return snapshot if kept == said else snapshot.replace(**msgspec.structs.asdict(_around_of(kept)))

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
        """How many of the messages are those of the path to `head`, from its root on, after the same system prompt."""
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
        self, key: bytes, plan: _Plan, drafts: Sequence[Draft], payload: bytes, beside: int | None
    ) -> bytes | None:
        """Stores what is new, and points the ref at it. The id of the head, or b""; None if another was first."""
        engine = self._engine

        def work(tx: Tx) -> bytes | None:
            row = tx.ref(engine.workspace, SNAPSHOT, key)
            point = None if plan.mark is None else tx.insert_point(plan.mark.head)
            if (row and (row.ref, row.version)) != plan.seen or (plan.mark and point is None):
                return None
            if row is not None:
                self._refs.verify(row)
            if point is None:
                tree = beside if row is None or row.tree is None else row.tree
                if tree is None or tx.tree_workspace(tree) != engine.workspace:
                    tree = tx.add_tree(engine.workspace, engine.clock())
                point = InsertPoint(tree)
            self._refs.ensure_sound(tx, point.pos if drafts else None)
            at = _last(point, append_chain(engine, tx, point, drafts)) if drafts else point
            if row is None or row.tree != at.tree:
                self._refs_anew(tx, key, payload, row, at)
            else:
                self._move(tx, row, payload, at)
            return at.id or b""

        def settle(tx: Tx) -> bytes | None:
            row = tx.ref(engine.workspace, SNAPSHOT, key)
            head = drafts[-1].id if drafts else plan.mark.head if plan.mark else None
            same = row is not None and row.head_id == head and self._refs.data(row) == payload
            return (head or b"") if same else None

        return engine.write(work, settle)

    def _refs_anew(self, tx: Tx, key: bytes, payload: bytes, row: RefRow | None, at: InsertPoint) -> None:
        """A new ref; the one that stood in another tree goes."""
        if row is not None:
            deletion.delete_ref(self._engine, tx, row)
        self._refs.add(tx, SNAPSHOT, key, payload, tree=at.tree, at=at if at.pos is not None else None)

    def _move(self, tx: Tx, row: RefRow, payload: bytes, at: InsertPoint) -> None:
        now = self._engine.clock()
        rank = max(now, tx.top_rank(row.workspace, SNAPSHOT) + 1)
        self._refs.change(tx, row, payload, look=None, head=at.pos, head_id=at.id, active_at=now, rank=rank)
        if row.head is not None and row.head != at.pos:
            deletion.prune(self._engine, tx, row.head)


_decode = msgspec.json.Decoder(Kept).decode
_around_of = msgspec.json.Decoder(_Around).decode
_encode = msgspec.json.Encoder().encode


def _parted(snapshot: Snapshot) -> tuple[MessageParts, Frame | None]:
    """The messages of a snapshot one by one, and what is written around them."""
    if snapshot.lazy:
        return snapshot.parts, None
    try:
        return snapshot.parts, frame(snapshot.messages, snapshot.parts)
    except Invalid:
        return MessageParts([snapshot.messages], 1), ("", "")


def _around(system_prompt: str, tools: Sequence[ToolSnapshot]) -> tuple[bytes, bytes]:
    return system_prompt.encode(), _encode(tools) if tools else b""


def _pack(snapshot: Snapshot, size: int, tokens: int, told: Frame | None, *, prompted: bool) -> bytes:
    kept = Kept(
        provider=snapshot.provider, model=snapshot.model, system_prompt=snapshot.system_prompt, tools=snapshot.tools,
        metadata=snapshot.metadata, created_at=snapshot.created_at, version=snapshot.version,
        message_count=snapshot.message_count, size=size, prompted=prompted, frame=told,
        token_count=tokens + count_tokens(*_around(snapshot.system_prompt, snapshot.tools)),
    )  # fmt: skip
    return b"\x01" + codec.to_json(kept)


def _summary(row: RefRow, kept: Kept) -> SnapshotSummary:
    return SnapshotSummary(
        id=ids.text(row.key), provider=kept.provider, model=kept.model, created_at=kept.created_at,
        message_count=kept.message_count, token_count=kept.token_count,
    )  # fmt: skip


def _last(point: InsertPoint, nodes: Sequence[Node]) -> InsertPoint:
    row = node_row(nodes[-1])
    return InsertPoint(point.tree, row[POS], row[ID])
