"""A session: its fields, its messages, branches and forks, and what changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, overload

import msgspec

from clew.backends import ID, POS, SEQ_BITS, InsertPoint, Move, RefRow, Tx, current_call
from clew.base import ids
from clew.base.loading import loading
from clew.base.messages import RECORD, SETUP, AnyMessage, Media, Message, Modality, Native, as_message
from clew.base.values import whole_number
from clew.engine import paths
from clew.engine.append import Appended, append_chain
from clew.engine.engine import Draft, Engine, OwnError
from clew.engine.node import Counters, Node, microseconds, moment, node_row, run_info
from clew.engine.refs import BRANCH, Refs, expiry
from clew.engine.session_data import (
    DAY,
    SessionData,
    directory,
    is_record,
    label_set,
    read_plain,
    record_end,
    relocated,
    retention_days,
    unpack,
)
from clew.errors import ClewError, Corrupted, Invalid, NotFound

if TYPE_CHECKING:
    from clew.engine.blobs import Blob, Blobs
    from clew.engine.log import Log
    from clew.engine.receipts import Reason, Receipt
    from clew.engine.watch import Watch
    from clew.store.session_table import SessionParts

T = TypeVar("T")
T_Session = TypeVar("T_Session", bound="Session")
UNSET: Any = object()
"""The default of an argument for which None has a meaning."""
_OWN = (SETUP, RECORD)
"""Keys in free data that are reserved for clew."""
_ONE = (Message, Native, Draft, str, dict)


class Branch(NamedTuple):
    """Messages that were after the head when it moved back. They stay stored and can be read."""

    id: str
    head_id: str
    created_at: datetime


class Session:
    """A conversation. The object's fields are as of its last read; its methods act on the stored session.

    Corrupted if the stored bytes are not what was written.
    """

    __slots__ = ("_data", "_engine", "_move", "_parts", "_read", "_refs")

    def __init__(self, parts: SessionParts, row: RefRow) -> None:
        self._parts = parts
        self._engine: Engine = parts.engine
        self._refs: Refs = parts.refs
        self._read = row
        self._move: Move | None = None
        self._data: SessionData | None = None

    # -- its fields

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return ids.text(self._row.key)

    @property
    def handle(self) -> str:
        """A short name that is easy to type."""
        return self._refs.handle(self._row)

    @property
    def data(self) -> SessionData:
        """All of its data."""
        data = self._data
        if data is None:
            row = self._read if self._move is None else self._row
            data = self._data = read_plain(self._engine.seal.seed, row) or unpack(self._check_row(self._refs.data))
        return data

    @property
    def title(self) -> str | None:
        """Its title."""
        return self.data.title

    @property
    def cwd(self) -> str | None:
        """Its working directory."""
        return self.data.cwd

    @property
    def model(self) -> str | None:
        """The model it uses."""
        return self.data.model

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, sorted."""
        return self.data.labels

    @property
    def agent(self) -> str | None:
        """The name of the subagent, if this is the trace of one."""
        return self.data.agent

    @property
    def is_subagent(self) -> bool:
        """True for the trace of a subagent, which `latest` never returns."""
        return self._row.kind != "session"

    @property
    def owner_id(self) -> str | None:
        """The id of the session that owns this trace of a subagent; None without an owner."""
        number = self._bound.owner
        owner = None if number is None else self._engine.read(lambda tx: tx.ref_at(number), single=True)
        return None if owner is None else ids.text(owner.key)

    @property
    def forked_from(self) -> str | None:
        """The id of the session it was forked from."""
        return self.data.forked_from

    @property
    def forked_at(self) -> str | None:
        """The id of the last message it shares with the session it was forked from."""
        return self.data.forked_at

    @property
    def extra(self) -> dict[str, Any]:
        """Free data."""
        return dict(self.data.extra or {})

    @property
    def head_id(self) -> str | None:
        """The id of its last message; None while it has none."""
        head = self._check_row(self._refs.verify).head_id
        return None if head is None else ids.text(head)

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return self._check_row(self._refs.verify).version

    @property
    def created_at(self) -> datetime:
        """When it was created."""
        return moment(self._bound.created_at)

    @property
    def updated_at(self) -> datetime:
        """When its head last moved."""
        return moment(self._check_row(self._refs.verify).active_at)

    @property
    def held(self) -> bool:
        """True if it cannot be deleted: see `hold`."""
        return bool(self._bound.hold)

    @property
    def hold_reason(self) -> str | None:
        """Why it is held."""
        return self.data.hold_reason

    @property
    def expires_at(self) -> datetime | None:
        """When its own retention ends: see `retain`. None if it has none."""
        at = expiry(self._refs.verify(self._row)) if self.data is not None else None
        return None if at is None else moment(at)

    @property
    def trashed_at(self) -> datetime | None:
        """When it was moved to the trash; None if it is not there."""
        at = self._bound.trashed_at
        return None if at is None else moment(at)

    @property
    def counters(self) -> Counters:
        """Messages, turns, tokens and cost up to its present last message."""
        return self._engine.read(self._counters)

    @property
    def blobs(self) -> Blobs:
        """The attachments of its tree."""
        with loading:
            from clew.engine.blobs import Blobs

        return Blobs(self._engine, lambda: self._live_row().tree or 0)

    @property
    def log(self) -> Log:
        """Its log: entries apart from its messages, such as a transcript."""
        with loading:
            from clew.engine.log import Log

        return Log(self._engine, self._live_row)

    def refresh(self) -> Self:
        """Reads it again. NotFound if it was deleted."""
        return self._update_row(self._engine.read(self._current_row))

    # -- messages

    @overload
    def append(
        self,
        messages: AnyMessage | Draft | str | dict[str, Any],
        *,
        id: str | None = None,
        created_at: datetime | None = None,
        expect_head: Node | str | None = UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> Node: ...
    @overload
    def append(
        self,
        messages: Sequence[AnyMessage | Draft],
        *,
        id: Sequence[str] | None = None,
        created_at: datetime | None = None,
        expect_head: Node | str | None = UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> list[Node]: ...
    def append(
        self,
        messages: AnyMessage | Draft | str | dict[str, Any] | Sequence[AnyMessage | Draft],
        *,
        id: str | Sequence[str] | None = None,
        created_at: datetime | None = None,
        expect_head: Node | str | None = UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> Node | list[Node]:
        """Adds a message, or several in one transaction, after the last message. Durable on return.

        A text is a message of the user; ``{"role": …, "content": text}`` is one, too.

        With `expect_head`, only if that is the last message (None: if there are no messages). Otherwise it raises
        Conflict, or with ``on_conflict="branch"`` stores the messages as a branch after `expect_head`. An `id` makes
        the call safe to repeat: the same message with the same id is stored once.
        """
        at = None if created_at is None else microseconds(created_at)
        one = isinstance(messages, _ONE)
        if one:
            drafts = [self._draft_one(messages, id, at)]
        else:
            drafts = self._drafts(messages, id, at)
            if not drafts:
                return []
        if expect_head is UNSET:
            done = self._refs.append(self._read, drafts)
        else:
            if on_conflict not in ("raise", "branch"):
                raise Invalid(f"on_conflict is 'raise' or 'branch', not {on_conflict!r}")
            expect = None if expect_head is None else self._engine.resolve_node(expect_head)
            done = self._refs.append(self._read, drafts, expect=expect, branch=on_conflict == "branch")
        if done.move is not None:
            call = current_call()
            self._engine.rollback_steps.on_rollback(self, self._restorer)
            if call is None:
                self._move = done.move
            else:  # the append is part of a group commit that is not done yet
                call.steps.append(partial(setattr, self, "_move", done.move))
        return done.nodes[0] if one else done.nodes

    def path(self, *, last: int | None = None, until: Node | str | None = None) -> list[Node]:
        """Its messages, root first: all, the `last` ones, or those up to and including `until`. NotFound."""
        if last is not None:
            whole_number("last", last, 0)
        stop = None if until is None else self._engine.resolve_node(until)

        def work(tx: Tx) -> list[Node]:
            head = self._current_row(tx).head
            pos = head if stop is None else self._on_path(tx, head, stop).pos
            if pos is None:
                return []
            return paths.whole(self._engine, tx, pos) if last is None else paths.last(self._engine, tx, pos, last)

        row = self._read
        tail = (row.workspace, row.kind, row.key, last) if last is not None and stop is None else None
        return self._engine.read(work, tail=tail)

    def messages(self, *, last: int | None = None, until: Node | str | None = None) -> list[Message]:
        """The messages of `path` in neutral form, without ids, times and totals: for all messages it is faster."""
        if last is not None or until is not None:
            return [node.message for node in self.path(last=last, until=until)]

        def work(tx: Tx) -> list[Message]:
            head = self._current_row(tx).head
            return [] if head is None else paths.messages(self._engine, tx, head)

        return self._engine.read(work)

    def iter(self, *, until: Node | str | None = None) -> Iterator[Node]:
        """Its messages, root first, up to and including `until`, read in small batches: memory use does not grow with
        the session. NotFound.
        """
        stop = None if until is None else self._engine.resolve_node(until)

        def work(tx: Tx) -> int | None:
            head = self._current_row(tx).head
            return head if stop is None else self._on_path(tx, head, stop).pos

        head = self._engine.read(work)
        return iter(()) if head is None else self._walk(head)

    def history(self) -> Iterator[Node]:
        """Like `iter`, but starts with the messages that compactions replaced."""
        heads = self._engine.read(lambda tx: paths.origins(self._engine, tx, self._current_row(tx).head))
        for head in reversed(heads):
            yield from self._walk(head)

    def watch(self, *, after: Node | str | None = UNSET, timeout: float | None = None) -> Watch:
        """Waits for new messages, from any process or machine, and yields each once.

        Starts with the next message; with `after`, after that message; with ``after=None``, at the first. NotFound if
        `after` is not in the session's tree. If the head moves elsewhere, continues with the new messages of that path:
        `parent_id` of the first is not the message yielded before. Messages removed before they are yielded are
        skipped. Ends when no message comes for `timeout` seconds. NotFound once the session is deleted or in the trash;
        Closed if the store is closed.
        """
        with loading:
            from clew.engine.watch import Watch, WatchState

        row, trashed = self._row, self._row.trashed_at is not None  # read now: `trash` may change this object later

        def here(tx: Tx) -> RefRow:
            return self._refs.get(tx, row.kind, row.key, trashed=trashed)

        return Watch(WatchState(self._engine, row.ref, here, False if after is UNSET else after, timeout))

    # -- forks and branches

    def fork(self, *, at: Node | str | None = None, title: str | None = None, id: str | None = None) -> Session:
        """Creates a session that shares the messages up to `at`, by default the last one. Copies nothing."""
        return Session(self._parts, self._parts.table.fork(self._row, at=at, title=title, id=id))

    def rewind(self, to: Node | str | None) -> Branch | None:
        """Moves the head back to a message, or with None before the first. The messages after it stay as a branch.

        Returns that branch: a new one, unless a branch of the session has them already. NotFound if `to` is not one of
        its messages.
        """
        target = None if to is None else self._engine.resolve_node(to)

        def work(tx: Tx) -> tuple[Move | None, RefRow | None]:
            state = self._refs.head_state(tx, self._row)
            point = InsertPoint(state.tree) if target is None else self._on_path(tx, state.pos, target)
            if state.id == target:
                return None, None
            left = self._refs.leave(tx, self._row, state, point)
            return self._refs.move(tx, self._row, state, point.pos, point.id), left

        def is_kept(tx: Tx, done: tuple[Move | None, RefRow | None]) -> bool:
            return done[0] is None or self._refs.is_moved(tx, self._row, done[0])

        move, left = self._engine.write_settled(work, is_kept)
        if move is not None:
            self._engine.rollback_steps.on_rollback(self, self._restorer)
            self._move = move
        return None if left is None else _branch(left)

    def branches(self) -> list[Branch]:
        """Its branches, oldest first."""
        return [_branch(row) for row in self._owned_rows(BRANCH) if self._refs.data(row)]

    def subagents(self) -> list[Session]:
        """The traces of its subagents, oldest first."""
        return [Session(self._parts, row) for row in self._owned_rows("subagent")]

    def compact(
        self, messages: AnyMessage | Sequence[AnyMessage], *, expect_head: Node | str | None = UNSET
    ) -> list[Node]:
        """Replaces all messages by a summary: `messages` become a new root, where `path` begins.

        `history` still returns the replaced messages, and the counters continue. Invalid if the session is empty.
        """
        many = [messages] if isinstance(messages, Message | Native) else messages
        drafts = self._drafts(many, None, None)
        if not drafts:
            raise Invalid("a compaction needs at least one message")
        expect = UNSET if expect_head is UNSET else expect_head and self._engine.resolve_node(expect_head)

        def work(tx: Tx) -> Appended:
            state = self._refs.head_state(tx, self._row)
            if state.pos is None:
                raise Invalid("a session without messages has nothing to compact")
            if expect is not UNSET and expect != state.id:
                raise self._refs.moved_error(self._row)
            carried = (state.carried or 0) + (state.run_depth or 0) + (state.pos & ((1 << SEQ_BITS) - 1)) + 1
            point = state.insert_point._replace(pos=None, id=None, run_depth=0, carried=carried, open=0)
            nodes = append_chain(self._engine, tx, point, drafts, derived=state.pos)
            last = node_row(nodes[-1])
            return Appended(nodes, self._refs.move(tx, self._row, state, last[POS], last[ID]))

        self._refs.ensure_sound_head(self._row)
        done = self._engine.write(work, lambda tx: self._refs.find_appended(tx, self._row, drafts))
        if done.move is not None:
            self._engine.rollback_steps.on_rollback(self, self._restorer)
            self._move = done.move
        return done.nodes

    # -- changes

    def rename(self, title: str | None) -> Self:
        """Changes its title."""
        return self._change(lambda data: msgspec.structs.replace(data, title=title))

    def label(self, *add: str, remove: Sequence[str] = ()) -> Self:
        """Adds labels, and removes others."""
        return self._change(
            lambda data: msgspec.structs.replace(
                data, labels=label_set({*data.labels, *label_set(add)} - {*label_set(remove)})
            )
        )

    def update(
        self, *, model: str | None = UNSET, cwd: str | None = UNSET, extra: dict[str, Any] | None = UNSET
    ) -> Self:
        """Changes its model, its directory or its free data.

        `extra` replaces the free data, except the entry of `clew.records`, and that of `clew.chat` unless given.
        """
        given = {
            name: value for name, value in (("model", model), ("cwd", cwd), ("extra", extra)) if value is not UNSET
        }
        if cwd is not UNSET:
            given["cwd"] = directory(cwd)

        def change(data: SessionData) -> SessionData:
            if isinstance(extra, dict | None):
                stored = data.extra or {}
                setup, record = ({name: stored[name]} if name in stored else {} for name in _OWN)
                given["extra"] = {**setup, **(extra or {}), **record} or extra
            return msgspec.structs.replace(data, **given)

        return self._change(change)

    def relocate(self, old: str, new: str) -> Self:
        """Updates its directory and checkpoints after a project moved from `old` to `new`. Both paths are absolute."""
        return self._change(lambda data: relocated(data, old, new))

    def attach(
        self, source: bytes | IO[bytes], *, mime_type: str, modality: Modality = "document", name: str | None = None
    ) -> Media:
        """Stores a file as a blob of this session. Returns the block to put into a message."""
        blob: Blob = self.blobs.put(source)
        return Media(mime_type=mime_type, modality=modality, blob=blob.digest, name=name)

    # -- hold, retention, trash, purge

    def hold(self, reason: str | None = None) -> Self:
        """Prevents every kind of deletion, including the trash, until `release`.

        The hold covers its branches, its subagents, its log, and all their messages. The session can still be
        continued, renamed and labelled.
        """
        return self._change(
            lambda data: data if reason is None else msgspec.structs.replace(data, hold_reason=reason), "hold", hold=1
        )

    def release(self) -> Self:
        """Ends its hold."""
        return self._change(lambda data: msgspec.structs.replace(data, hold_reason=None), "release", hold=0)

    def retain(self, *, days: int | None = None, until: datetime | None = None) -> Self:
        """Sets its own retention: `days` after its last activity, or `until` a time. With neither, the store's policy
        applies again.

        An expired session is not listed or returned by `latest`, and the next sweep purges it unless it is held. The
        retention of a conversation record must end 7 to 180 days after its last activity. Invalid for a trace with an
        owner: it is deleted with the owner.
        """
        if days is not None and until is not None:
            raise Invalid("retain takes days or until, not both", hint="Pass one of them.")
        if self._row.owner is not None:
            raise Invalid(
                "a subagent's trace has the retention of its owner", hint="Set the retention of the owner instead."
            )
        at = None
        if days is not None:
            at = -retention_days(days) * DAY
        elif until is not None:
            at = max(0, microseconds(until))

        def check(data: SessionData) -> SessionData:
            if is_record(data) and at is not None:
                record_end(self._row.active_at, self._row.active_at - at if at < 0 else at)
            return data

        return self._change(check, "retain", expires_at=at)

    def trash(self) -> Self:
        """Moves it to the trash with its branches and subagents. It cannot be found, listed or searched until restored.

        Messages shared with other sessions stay. Conflict if it, its owner or a subagent's trace is held.
        """
        with loading:
            from clew.engine import audit, trash

        row = self._row

        def work(tx: Tx) -> RefRow:
            now = self._refs.get(tx, row.kind, row.key, trashed=True)
            if now.trashed_at is not None:
                return now
            audit.note_if_enabled(self._engine, self._refs, tx, "trash", self.id)
            return trash.put(self._engine, self._refs, tx, now)

        return self._update_row(self._engine.write(work))

    def delete(self) -> Self:
        """`trash`: it can be restored. `purge` deletes it for good."""
        return self.trash()

    def purge(
        self,
        *,
        reason: Reason = "user-requested",
        dry_run: bool = False,
        check: Callable[[Self], object] | None = None,
    ) -> Receipt:
        """Deletes it permanently, in the trash or not, and clears every trace of it. See `Sessions.purge`.

        Messages shared with other sessions stay. If it is held, nothing is deleted and the receipt names the failure.
        With `dry_run` nothing changes, and the receipt lists what would be deleted. `check`
        raises if it may not be deleted: it gets the session as it is in the transaction that deletes it, and what it
        reads is read there. If it raises a ClewError, that is a failure in the receipt. NotFound if it does not exist.
        """
        row = self._row
        now = self._parts.table.get(row.kind, row.key)
        if now is None or now.ref != row.ref:
            raise NotFound("session", self.id)
        if check is None:
            return self._parts.purger.purge([row], reason=reason, dry_run=dry_run)
        return purge_if([self], check, reason=reason, dry_run=dry_run)

    def __iter__(self) -> Iterator[Node]:
        """`iter`."""
        return self.iter()

    def __len__(self) -> int:
        """The number of its messages, with those that compactions replaced."""
        return self.counters.messages

    def __bool__(self) -> bool:
        """True, also without messages."""
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: appended messages are already stored."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and self._row.key == other._row.key

    def __hash__(self) -> int:
        return hash(self._row.key)

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    # -- the row

    def _live_row(self) -> RefRow:
        """Its present row. NotFound if it was deleted or trashed: nothing may be added to it then."""
        row = self._row
        return self._engine.read(lambda tx: self._refs.get(tx, row.kind, row.key))

    def _current_row(self, tx: Tx) -> RefRow:
        """Its present row, for reading. If it was in the trash when it was read, it may still be there."""
        return self._parts.table.current(tx, self._row)

    def _check_row(self, check: Callable[[RefRow], T]) -> T:
        """Calls `check` with its row, and again with the present row if the data key was rotated. Corrupted."""
        try:
            return check(self._row)
        except Corrupted:
            now = self._engine.read(self._current_row)
            if now.wrapped_key == self._row.wrapped_key:
                raise
            return check(self._update_row(now)._row)

    def _owned_rows(self, kind: str) -> Iterator[RefRow]:
        rows = self._engine.read(lambda tx: tx.refs_owned(self._row.ref))
        return (self._refs.verify(row) for row in rows if row.kind == kind and row.trashed_at is None)

    def _counters(self, tx: Tx) -> Counters:
        head = self._current_row(tx).head_id
        if head is None:
            return Counters()
        place = tx.node(head)
        if place is None:
            raise Corrupted(f"session {self.id}", "its head is missing")
        run = tx.run(place.row[POS] >> SEQ_BITS)
        assert run is not None  # the place was found through it
        self._engine.verify_run(tx, run)
        return self._engine.node(place).counters

    @property
    def _row(self) -> RefRow:
        """Its row as of the last read or append. Merges the pending move here: after most appends no one reads it."""
        move = self._move
        if move is not None:
            self._read = self._read._replace(**move._asdict())
            if self._move is move:  # another thread may have merged it, or have appended
                self._move = None
        return self._read

    @property
    def _bound(self) -> RefRow:
        """Its row, verified by decrypting its data, which is bound to the row. Corrupted."""
        _ = self.data
        return self._row

    def _update_row(self, row: RefRow) -> Self:
        self._engine.rollback_steps.on_rollback(self, self._restorer)
        self._read, self._move, self._data = row, None, None
        return self

    def _restorer(self) -> Callable[[], object]:
        """A function that resets the object to its present fields, and then reads the stored ones if possible."""
        before = self._row

        def restore() -> None:
            self._read, self._move, self._data = before, None, None
            with suppress(ClewError):  # the transaction created the session, or the store cannot be read now
                self.refresh()

        return restore

    def _change(
        self, change: Callable[[SessionData], SessionData], event: str | None = None, **columns: int | None
    ) -> Self:
        table = self._parts.table

        def work(tx: Tx) -> RefRow:
            row = self._refs.get(tx, self._row.kind, self._row.key)
            row = table.change(tx, row, change(table.data(row)), **columns)
            if event is not None:
                with loading:
                    from clew.engine import audit

                audit.note(self._engine, self._refs, tx, event, self.id)
            return row

        return self._update_row(self._engine.write(work))

    # -- steps of its methods

    def _walk(self, head: int) -> Iterator[Node]:
        """The messages down to `head`. NotFound if the session was deleted meanwhile: that is not corruption."""
        try:
            yield from paths.walk(self._engine, head)
        except Corrupted:
            self._engine.read(self._current_row)
            raise

    def _drafts(self, messages: Any, id: str | Sequence[str] | None, at: int | None) -> list[Draft]:
        if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
            raise Invalid(f"this takes a message or a list of messages, not {type(messages).__name__}")
        if id is not None and (not isinstance(id, Sequence) or isinstance(id, str) or len(id) != len(messages)):
            raise Invalid("there must be as many ids as messages")
        return [self._draft(message, id[n] if id else None, at) for n, message in enumerate(messages)]

    def _draft(self, said: Any, id: Any, at: int | None) -> Draft:
        return said if type(said) is Draft else self._engine.draft(said, id, at)

    def _draft_one(self, said: Any, id: Any, at: int | None) -> Draft:
        return self._draft(as_message(said) if isinstance(said, str | dict) else said, id, at)

    def _on_path(self, tx: Tx, head: int | None, id: bytes) -> InsertPoint:
        """The insertion point after a message of this session. NotFound if it is not one of its messages."""
        point = tx.insert_point(id)
        if point is None or head is None or point.pos is None or not paths.on_path(tx, head, point.pos):
            raise NotFound("node", ids.text(id), hint=f"It is not a message of session {self.id}.")
        return point


def row_of(session: Session) -> RefRow:
    """The row of a session as of its last read. For modules of clew, not for users."""
    return session._row


def tree_of(what: Session | Node) -> int:
    """A number that is equal for sessions and messages of one tree. For modules of clew."""
    if isinstance(what, Node):
        return run_info(what).tree
    tree = row_of(what).tree
    assert tree is not None  # all sessions have one
    return tree


def is_same(one: Session, other: Session) -> bool:
    """True if two objects are of one stored session, not of another that has its id since. For modules of clew."""
    mine, theirs = one._row, other._row
    return (mine.ref, mine.key, mine.created_at) == (theirs.ref, theirs.key, theirs.created_at)


def purge_if(
    sessions: Sequence[T_Session],
    check: Callable[[T_Session], object],
    *,
    reason: Reason = "user-requested",
    dry_run: bool = False,
    remember: bool = True,
) -> Receipt:
    """Purges sessions of one store together, each as `Session.purge` with `check`. For modules of clew.

    A session that was deleted meanwhile is no failure. Imports leave out what was purged, unless `remember` is False.
    """
    parts, kind = sessions[0]._parts, type(sessions[0])

    def confirm(tx: Tx, now: RefRow) -> None:
        parts.engine.run_in(tx, lambda: check(kind(parts, now)))

    rows = [row_of(one) for one in sessions]
    try:
        return parts.purger.purge(rows, reason=reason, dry_run=dry_run, check=confirm, remember=remember)
    except OwnError as own:
        raise own.error from own.error.__cause__


def delete_session(session: Session) -> Receipt:
    """Deletes a session and each message that nothing else needs, without clearing traces. For modules of clew.

    May be part of a transaction. NotFound; Conflict if the session, its owner or a subagent's trace is held.
    """
    row = session._row
    return session._parts.purger.delete(row.kind, row.key)


def owned_rows(session: Session, kind: str) -> Iterator[RefRow]:
    """The rows of one kind that a session owns and that are not in the trash, oldest first. Corrupted."""
    return session._owned_rows(kind)


def _branch(row: RefRow) -> Branch:
    assert row.head_id is not None
    return Branch(ids.text(row.key), ids.text(row.head_id), moment(row.created_at))
