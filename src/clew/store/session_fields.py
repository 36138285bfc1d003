"""The fields of a session, and the row they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from clew.backends import POS, SEQ_BITS, Move, RefRow, Tx
from clew.base import ids
from clew.base.loading import loading
from clew.engine.engine import Engine
from clew.engine.node import Counters, moment
from clew.engine.refs import Refs, expiry
from clew.engine.session_data import SessionData, read_plain, unpack
from clew.errors import ClewError, Corrupted

if TYPE_CHECKING:
    from clew.engine.blobs import Blobs
    from clew.engine.log import Log
    from clew.store.session_table import SessionParts

T = TypeVar("T")


class SessionFields:
    """The fields of a session as of its last read. Corrupted if the stored bytes are not what was written."""

    __slots__ = ("_data", "_engine", "_move", "_parts", "_read", "_refs")

    def __init__(self, parts: SessionParts, row: RefRow) -> None:
        self._parts = parts
        self._engine: Engine = parts.engine
        self._refs: Refs = parts.refs
        self._read = row
        self._move: Move | None = None
        self._data: SessionData | None = None

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
