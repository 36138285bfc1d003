"""A session: a ref whose head follows the talk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, overload

import msgspec

from clew import ids, paths
from clew.backends import ID, POS, SEQ_BITS, Ground, Move, RefRow, Tx, running
from clew.engine import Draft, Engine, whole_number
from clew.errors import ClewError, Invalid, NotFound, Tampered
from clew.loading import loading
from clew.model import RECORD, SETUP, Media, Message, Modality, Native, Said
from clew.node import Counters, Node, microseconds, moment
from clew.refs import BRANCH, Appended, Refs, expiry
from clew.session_data import (
    DAY,
    SessionData,
    directory,
    is_record,
    label_set,
    record_end,
    relocated,
    retention_days,
    unpack,
)

if TYPE_CHECKING:
    from clew.blobs import Blob, Blobs
    from clew.log import Log
    from clew.receipts import Receipt
    from clew.sessions import Sessions
    from clew.watching import Watch


T = TypeVar("T")
_UNSET: Any = object()
_OWN = (SETUP, RECORD)
"""What clew itself keeps in free data."""
_ONE = (Message, Native)


class Branch(NamedTuple):
    """What a session left behind when its head moved elsewhere: still there, still readable."""

    id: str
    head_id: str
    created_at: datetime


class Session:
    """A conversation. The object shows the session as it was read; what it does acts on the session as it is now."""

    __slots__ = ("_data", "_engine", "_move", "_read", "_refs", "_sessions")

    def __init__(self, sessions: Sessions, row: RefRow) -> None:
        self._sessions = sessions
        self._engine: Engine = sessions._engine
        self._refs: Refs = sessions._refs
        self._read = row
        self._move: Move | None = None
        self._data: SessionData | None = None

    # -- what it says of itself

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return ids.text(self._row.key)

    @property
    def handle(self) -> str:
        """The short name people type for it."""
        return self._refs.handle(self._row)

    @property
    def data(self) -> SessionData:
        """Everything it carries. Tampered if the bytes are not what was written."""
        if self._data is None:
            self._data = unpack(self._sound(self._refs.data))
        return self._data

    @property
    def title(self) -> str | None:
        """Its title."""
        return self.data.title

    @property
    def cwd(self) -> str | None:
        """The directory it belongs to."""
        return self.data.cwd

    @property
    def model(self) -> str | None:
        """The model it talks to."""
        return self.data.model

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, sorted."""
        return self.data.labels

    @property
    def agent(self) -> str | None:
        """The agent whose trace it is, if it is a subagent's."""
        return self.data.agent

    @property
    def is_subagent(self) -> bool:
        """True for the trace of a subagent: it is never continued by `latest`."""
        return self._row.kind != "session"

    @property
    def owner_id(self) -> str | None:
        """The id of the session that it goes with, if it is a subagent's; None if it stands alone."""
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
        """The id of its last message; None while it has none. Tampered if the row is not what was written."""
        head = self._sound(self._refs.checked).head_id
        return None if head is None else ids.text(head)

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._sound(self._refs.checked).version

    @property
    def created_at(self) -> datetime:
        """When it was created. Tampered if the row is not what was written."""
        return moment(self._bound.created_at)

    @property
    def updated_at(self) -> datetime:
        """When its head last moved."""
        return moment(self._sound(self._refs.checked).active_at)

    @property
    def held(self) -> bool:
        """True if it must not be deleted: see `hold`. Tampered if the row is not what was written."""
        return bool(self._bound.hold)

    @property
    def hold_reason(self) -> str | None:
        """Why it is held."""
        return self.data.hold_reason

    @property
    def expires_at(self) -> datetime | None:
        """When its own retention ends: see `retain`. None if it has none of its own. Tampered as in `held`."""
        at = expiry(self._refs.checked(self._row)) if self.data is not None else None
        return None if at is None else moment(at)

    @property
    def trashed_at(self) -> datetime | None:
        """When it was put in the trash; None if it is not there. Tampered if the row is not what was written."""
        at = self._bound.trashed_at
        return None if at is None else moment(at)

    @property
    def counters(self) -> Counters:
        """Messages, turns, tokens and cost, as its head has them now."""
        return self._engine.read(self._counters)

    @property
    def blobs(self) -> Blobs:
        """The attachments of its tree."""
        with loading:
            from clew.blobs import Blobs

        return Blobs(self._engine, lambda: self._now().tree or 0)

    @property
    def log(self) -> Log:
        """Entries beside its messages: a transcript, an audit."""
        with loading:
            from clew.log import Log

        return Log(self._engine, self._now)

    def refresh(self) -> Session:
        """Reads it again. NotFound if it is gone."""
        return self._saw(self._engine.read(self._here))

    # -- talking

    @overload
    def append(
        self,
        messages: Said,
        *,
        id: str | None = None,
        created_at: datetime | None = None,
        expect_head: str | None = _UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> Node: ...
    @overload
    def append(
        self,
        messages: Sequence[Said],
        *,
        id: Sequence[str] | None = None,
        created_at: datetime | None = None,
        expect_head: str | None = _UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> list[Node]: ...
    def append(
        self,
        messages: Said | Sequence[Said],
        *,
        id: str | Sequence[str] | None = None,
        created_at: datetime | None = None,
        expect_head: str | None = _UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> Node | list[Node]:
        """Adds a message, or several in one transaction, after whatever is last now. Durable when it returns.

        With `expect_head` only if that is the last message (None: if there is none): else Conflict, or with
        ``on_conflict="branch"`` the messages become a branch after it. An `id` makes the call safe to repeat: the same
        message under the same id is stored once.
        """
        at = None if created_at is None else microseconds(created_at)
        one = isinstance(messages, _ONE)
        if one:
            drafts = [self._engine.draft(messages, id, at)]  # type: ignore[arg-type]
        else:
            drafts = self._drafts(messages, id, at)
            if not drafts:
                return []
        if expect_head is _UNSET:
            done = self._refs.append(self._read, drafts)
        else:
            if on_conflict not in ("raise", "branch"):
                raise Invalid(f"on_conflict is 'raise' or 'branch', not {on_conflict!r}")
            expect = None if expect_head is None else self._engine.resolve_node(expect_head)
            done = self._refs.append(self._read, drafts, expect=expect, branch=on_conflict == "branch")
        if done.move is not None:
            call = running()
            self._engine.undoing.if_undone(self, self._as_before)
            if call is None:
                self._move = done.move
            else:  # it shares a commit that is still to come
                call.steps.append(partial(setattr, self, "_move", done.move))
        return done.nodes[0] if one else done.nodes

    def path(self, *, last: int | None = None, until: str | None = None) -> list[Node]:
        """Its messages, root first: all, the `last` ones, or those up to and with `until`. NotFound without it."""
        if last is not None:
            whole_number("last", last, 0)
        stop = None if until is None else self._engine.resolve_node(until)

        def work(tx: Tx) -> list[Node]:
            head = self._here(tx).head
            pos = head if stop is None else self._on_path(tx, head, stop).pos
            if pos is None:
                return []
            return paths.whole(self._engine, tx, pos) if last is None else paths.last(self._engine, tx, pos, last)

        row = self._read
        tail = (row.workspace, row.kind, row.key, last) if last is not None and stop is None else None
        return self._engine.read(work, tail=tail)

    def iter(self) -> Iterator[Node]:
        """Its messages, root first, a few at a time: the memory used does not grow with the session."""
        head = self._engine.read(self._here).head
        return iter(()) if head is None else self._walk(head)

    def history(self) -> Iterator[Node]:
        """`iter`, and before it everything that compactions left behind."""
        heads = self._engine.read(lambda tx: paths.origins(self._engine, tx, self._here(tx).head))
        for head in reversed(heads):
            yield from self._walk(head)

    def watch(self, *, after: str | None = _UNSET, timeout: float | None = None) -> Watch:
        """Its messages as they come, whoever appends them and on whatever machine: waits for each, and gives it once.

        From now on; or with `after` those after that message, with None from the first on. NotFound if it is not in
        the session's tree. When the head moves elsewhere, it goes on with what is new on the way there: a message whose
        `parent_id` is not the one before. What was taken back before it was given is not given. It ends when nothing
        has come for `timeout` seconds; NotFound once the session is deleted or in the trash, Closed with the store.
        """
        with loading:
            from clew.watching import Watch

        row, trashed = self._row, self._row.trashed_at is not None  # now: this object may go to the trash meanwhile

        def here(tx: Tx) -> RefRow:
            return self._refs.get(tx, row.kind, row.key, trashed=trashed)

        return Watch(self._engine, row.ref, here, False if after is _UNSET else after, timeout)

    # -- going elsewhere

    def fork(self, *, at: str | None = None, title: str | None = None, id: str | None = None) -> Session:
        """A new session that shares everything up to `at`, or up to the last message. Nothing is copied."""
        return self._sessions.fork(self, at=at, title=title, id=id)

    def rewind(self, to: str | None) -> Branch | None:
        """Goes back to a message, or with None to before the first. What is left stays, and is returned as a branch.

        NotFound if `to` is not among its messages.
        """
        target = None if to is None else self._engine.resolve_node(to)

        def work(tx: Tx) -> tuple[Move | None, RefRow | None]:
            tip = self._refs.tip(tx, self._row)
            ground = None if target is None else self._on_path(tx, tip.pos, target)
            if tip.id == target:
                return None, None
            left = self._refs.branch(tx, self._row.ref, tip.ground)
            head = (None, None) if ground is None else (ground.pos, ground.id)
            return self._refs.move(tx, self._row.ref, tip, *head), left

        move, left = self._engine.write(work)
        if move is not None:
            self._engine.undoing.if_undone(self, self._as_before)
            self._move = move
        return None if left is None else _branch(left)

    def branches(self) -> list[Branch]:
        """What it has left behind, oldest first."""
        return [_branch(row) for row in self._owned(BRANCH) if self._refs.data(row)]

    def subagents(self) -> list[Session]:
        """The traces of its subagents, oldest first."""
        return [Session(self._sessions, row) for row in self._owned("subagent")]

    def compact(self, messages: Said | Sequence[Said], *, expect_head: str | None = _UNSET) -> list[Node]:
        """Goes on from a summary: `messages` become a new root that stands for everything before.

        `path` begins there; `history` still has the rest, and the counters go on. Invalid if there is nothing yet.
        """
        many = [messages] if isinstance(messages, Message | Native) else messages
        drafts = self._drafts(many, None, None)
        if not drafts:
            raise Invalid("a compaction needs at least one message to go on from")
        expect = _UNSET if expect_head is _UNSET else expect_head and self._engine.resolve_node(expect_head)

        def work(tx: Tx) -> Appended:
            tip = self._refs.tip(tx, self._row)
            if tip.pos is None:
                raise Invalid("a session without messages has nothing to compact")
            if expect is not _UNSET and expect != tip.id:
                raise self._refs.moved(self._row)
            carried = (tip.carried or 0) + (tip.run_depth or 0) + (tip.pos & ((1 << SEQ_BITS) - 1)) + 1
            ground = tip.ground._replace(pos=None, id=None, run_depth=0, carried=carried, open=0)
            nodes = self._engine.grow(tx, ground, drafts, derived=tip.pos)
            last = nodes[-1]._row
            return Appended(nodes, self._refs.move(tx, self._row.ref, tip, last[POS], last[ID]))

        self._refs.ensure_sound_head(self._row)
        done = self._engine.write(work, lambda tx: self._refs.appended(tx, self._row, drafts))
        if done.move is not None:
            self._engine.undoing.if_undone(self, self._as_before)
            self._move = done.move
        return done.nodes

    # -- changing what it says of itself

    def rename(self, title: str | None) -> Session:
        """Gives it another title."""
        return self._change(lambda data: msgspec.structs.replace(data, title=title))

    def label(self, *add: str, remove: Sequence[str] = ()) -> Session:
        """Adds labels, and takes others away."""
        return self._change(
            lambda data: msgspec.structs.replace(
                data, labels=label_set({*data.labels, *label_set(add)} - {*label_set(remove)})
            )
        )

    def update(
        self, *, model: str | None = _UNSET, cwd: str | None = _UNSET, extra: dict[str, Any] | None = _UNSET
    ) -> Session:
        """Changes its model, its directory or its free data.

        `extra` replaces what was there, but for what `clew.records` keeps in it, and what `clew.chat` does unless it is
        given.
        """
        given = {
            name: value for name, value in (("model", model), ("cwd", cwd), ("extra", extra)) if value is not _UNSET
        }
        if cwd is not _UNSET:
            given["cwd"] = directory(cwd)

        def change(data: SessionData) -> SessionData:
            if isinstance(extra, dict | None):
                setup, record = ({name: had for name, had in (data.extra or {}).items() if name == own} for own in _OWN)
                given["extra"] = {**setup, **(extra or {}), **record} or extra
            return msgspec.structs.replace(data, **given)

        return self._change(change)

    def relocate(self, old: str, new: str) -> Session:
        """Follows a moved project: its directory, if it is in there, and its checkpoints. Both paths are absolute."""
        return self._change(lambda data: relocated(data, old, new))

    def attach(
        self, source: bytes | IO[bytes], *, mime_type: str, modality: Modality = "document", name: str | None = None
    ) -> Media:
        """Stores a file as a blob of this session, and returns the block that shows it in a message."""
        blob: Blob = self.blobs.put(source)
        return Media(mime_type=mime_type, modality=modality, blob=blob.digest, name=name)

    # -- going away

    def hold(self, reason: str | None = None) -> Session:
        """Keeps it from being deleted or put in the trash, by whatever way, until `release`.

        The hold covers its branches, its subagents, its log, and every message that any of them has said. The session
        may still be talked in, renamed and labelled.
        """
        return self._change(
            lambda data: data if reason is None else msgspec.structs.replace(data, hold_reason=reason), "hold", hold=1
        )

    def release(self) -> Session:
        """Ends its hold."""
        return self._change(lambda data: msgspec.structs.replace(data, hold_reason=None), "release", hold=0)

    def retain(self, *, days: int | None = None, until: datetime | None = None) -> Session:
        """Gives it a retention of its own: `days` after its last activity, or `until` a moment.

        That of a conversation record ends 7 to 180 days after its last activity. With neither, the store's policy
        counts again. Once it has expired it is not listed or picked by `latest`, and the next sweep purges it, unless
        it is held. Invalid for a trace that goes with its owner.
        """
        if days is not None and until is not None:
            raise Invalid("a retention is a number of days or a moment", hint="Give one.")
        if self._row.owner is not None:
            raise Invalid("a trace goes with the session that owns it", hint="Give that one a retention.")
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

    def trash(self) -> Session:
        """Puts it in the trash with its branches and subagents: not found, listed or searched until it is restored.

        Messages that other sessions share stay with them. Conflict if it, its owner or a subagent's trace is held.
        """
        with loading:
            from clew import audit, trash

        row = self._row

        def work(tx: Tx) -> RefRow:
            now = self._refs.get(tx, row.kind, row.key, trashed=True)
            if now.trashed_at is not None:
                return now
            audit.may_note(self._engine, self._refs, tx, "trash", self.id)
            return trash.put(self._engine, self._refs, tx, now)

        return self._saw(self._engine.write(work))

    def delete(self) -> Receipt:
        """Deletes it with its branches, log and subagents, and each message nobody else needs.

        The receipt says how much went and what is left; `Sessions.purge` clears that too. Conflict if it, its owner or
        a subagent's trace is held.
        """
        return self._sessions._purger().delete(self._row.kind, self._row.key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """A session has nothing to close: what was appended is stored."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and self._row.key == other._row.key

    def __hash__(self) -> int:
        return hash(self._row.key)

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    # -- inside

    def _now(self) -> RefRow:
        """Its row as it is now. NotFound if it is gone: nothing may be hung on what is no longer there."""
        row = self._row
        return self._engine.read(lambda tx: self._refs.get(tx, row.kind, row.key))

    def _here(self, tx: Tx) -> RefRow:
        """Its row as it is now, to look at: if it was in the trash when it was read, it may still be there."""
        return self._refs.get(tx, self._row.kind, self._row.key, trashed=self._row.trashed_at is not None)

    def _sound(self, look: Callable[[RefRow], T]) -> T:
        """What `look` finds in its row; it is read again if the data key was exchanged since. Tampered."""
        try:
            return look(self._row)
        except Tampered:
            now = self._engine.read(self._here)
            if now.wrapped_key == self._row.wrapped_key:
                raise
            return look(self._saw(now)._row)

    def _owned(self, kind: str) -> Iterator[RefRow]:
        rows = self._engine.read(lambda tx: tx.refs_owned(self._row.ref))
        return (self._refs.checked(row) for row in rows if row.kind == kind and row.trashed_at is None)

    def _walk(self, head: int) -> Iterator[Node]:
        """The messages down to `head`. NotFound if the session is deleted meanwhile, which must not pass for damage."""
        try:
            yield from paths.walk(self._engine, head)
        except Tampered:
            self._engine.read(self._here)
            raise

    def _counters(self, tx: Tx) -> Counters:
        head = self._here(tx).head_id
        place = None if head is None else tx.node(head)
        if place is None and head is not None:
            raise Tampered(f"session {self.id}", "its head is missing")
        if place is None:
            return Counters()
        run = tx.run(place.row[POS] >> SEQ_BITS)
        assert run is not None  # the place was found through it
        self._engine.checked(tx, run)
        return self._engine.node(place).counters

    @property
    def _row(self) -> RefRow:
        """The ref as it was last seen. What an append moved is put in when someone looks: most appends are not."""
        if self._move is not None:
            self._read, self._move = self._read._replace(**self._move._asdict()), None
        return self._read

    @property
    def _bound(self) -> RefRow:
        """The ref, for what its data is bound to. Tampered if the data does not open under it."""
        _ = self.data
        return self._row

    def _saw(self, row: RefRow) -> Session:
        self._engine.undoing.if_undone(self, self._as_before)
        self._read, self._move, self._data = row, None, None
        return self

    def _as_before(self) -> Callable[[], object]:
        """What brings the object back to what it shows now, and then to what is stored, if that can be read."""
        before = self._row

        def restore() -> None:
            self._read, self._move, self._data = before, None, None
            with suppress(ClewError):  # it was made in the transaction, or the store cannot be read now
                self.refresh()

        return restore

    def _drafts(self, messages: Any, id: str | Sequence[str] | None, at: int | None) -> list[Draft]:
        if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
            raise Invalid(f"this takes a message or a list of messages, not {type(messages).__name__}")
        if id is not None and (not isinstance(id, Sequence) or isinstance(id, str) or len(id) != len(messages)):
            raise Invalid("there must be as many ids as messages")
        return [self._engine.draft(said, id[n] if id else None, at) for n, said in enumerate(messages)]

    def _on_path(self, tx: Tx, head: int | None, id: bytes) -> Ground:
        """Where a message of this session stands. NotFound if it is not among them."""
        ground = tx.ground(id)
        if ground is None or head is None or ground.pos is None or not paths.on_path(tx, head, ground.pos):
            raise NotFound("node", ids.text(id), hint=f"It is not among the messages of session {self.id}.")
        return ground

    def _change(
        self, change: Callable[[SessionData], SessionData], deed: str | None = None, **columns: int | None
    ) -> Session:
        def work(tx: Tx) -> RefRow:
            row = self._refs.get(tx, self._row.kind, self._row.key)
            data = change(Session(self._sessions, row).data)
            payload, look, labelled = self._sessions._pack(data)
            row = self._refs.change(tx, row, payload, look=look, **columns)
            tx.set_labels(row.ref, labelled)
            if deed is not None:
                with loading:
                    from clew import audit

                audit.note(self._engine, self._refs, tx, deed, self.id)
            return row

        return self._saw(self._engine.write(work))


def _branch(row: RefRow) -> Branch:
    assert row.head_id is not None
    return Branch(ids.text(row.key), ids.text(row.head_id), moment(row.created_at))
