"""A session: its messages, branches and forks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, overload

from clew.backends import ID, POS, SEQ_BITS, InsertPoint, Move, RefRow, Tx, current_call
from clew.base import ids
from clew.base.loading import loading
from clew.base.messages import AnyMessage, Message, Native, as_message
from clew.base.values import whole_number
from clew.engine import paths
from clew.engine.append import Appended, append_chain
from clew.engine.engine import Draft
from clew.engine.node import Node, microseconds, moment, node_row, run_info
from clew.engine.refs import BRANCH
from clew.errors import Corrupted, Invalid, NotFound
from clew.store.session_changes import UNSET, SessionChanges

if TYPE_CHECKING:
    from clew.engine.receipts import Receipt
    from clew.engine.watch import Watch


_ONE = (Message, Native, Draft, str, dict)


class Branch(NamedTuple):
    """Messages that were after the head when it moved back. They stay stored and can be read."""

    id: str
    head_id: str
    created_at: datetime


class Session(SessionChanges):
    """A conversation. The object's fields are as of its last read; its methods act on the stored session."""

    __slots__ = ()

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

    def iter(self) -> Iterator[Node]:
        """Its messages, root first, read in small batches: memory use does not grow with the session."""
        head = self._engine.read(self._current_row).head
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
            return self._refs.move(tx, self._row.ref, state, point.pos, point.id), left

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
            return Appended(nodes, self._refs.move(tx, self._row.ref, state, last[POS], last[ID]))

        self._refs.ensure_sound_head(self._row)
        done = self._engine.write(work, lambda tx: self._refs.find_appended(tx, self._row, drafts))
        if done.move is not None:
            self._engine.rollback_steps.on_rollback(self, self._restorer)
            self._move = done.move
        return done.nodes

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

    # -- inside

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
