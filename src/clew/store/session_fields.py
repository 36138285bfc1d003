"""The fields of a session, and the row that they are read from."""

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
from clew.engine.session_data import SessionData, unpack
from clew.errors import ClewError, Corrupted

if TYPE_CHECKING:
    from clew.engine.blobs import Blobs
    from clew.engine.log import Log
    from clew.store.session_table import SessionParts

T = TypeVar("T")


class SessionFields:
    """The fields of a session, as it was last read."""

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
        """Its short name, for typing."""
        return self._refs.handle(self._row)

    @property
    def data(self) -> SessionData:
        """Everything it carries. Corrupted if the bytes are not what was written."""
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
        """The id of the session that owns it, if it is a subagent's; None without an owner."""
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
        """The id of its last message; None while it has none. Corrupted if the row is not what was written."""
        head = self._sound(self._refs.verify).head_id
        return None if head is None else ids.text(head)

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._sound(self._refs.verify).version

    @property
    def created_at(self) -> datetime:
        """When it was created. Corrupted if the row is not what was written."""
        return moment(self._bound.created_at)

    @property
    def updated_at(self) -> datetime:
        """When its head last moved."""
        return moment(self._sound(self._refs.verify).active_at)

    @property
    def held(self) -> bool:
        """True if it cannot be deleted: see `hold`. Corrupted if the row is not what was written."""
        return bool(self._bound.hold)

    @property
    def hold_reason(self) -> str | None:
        """Why it is held."""
        return self.data.hold_reason

    @property
    def expires_at(self) -> datetime | None:
        """When its own retention ends: see `retain`. None if it has none of its own. Corrupted as in `held`."""
        at = expiry(self._refs.verify(self._row)) if self.data is not None else None
        return None if at is None else moment(at)

    @property
    def trashed_at(self) -> datetime | None:
        """When it was put in the trash; None if it is not there. Corrupted if the row is not what was written."""
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
            from clew.engine.blobs import Blobs

        return Blobs(self._engine, lambda: self._now().tree or 0)

    @property
    def log(self) -> Log:
        """Entries beside its messages: a transcript, an audit."""
        with loading:
            from clew.engine.log import Log

        return Log(self._engine, self._now)

    def refresh(self) -> Self:
        """Reads it again. NotFound if it is gone."""
        return self._saw(self._engine.read(self._here))

    # -- the row

    def _now(self) -> RefRow:
        """Its row as it is now. NotFound if it is gone: nothing may be hung on what is no longer there."""
        row = self._row
        return self._engine.read(lambda tx: self._refs.get(tx, row.kind, row.key))

    def _here(self, tx: Tx) -> RefRow:
        """Its row as it is now, to look at: if it was in the trash when it was read, it may still be there."""
        return self._parts.table.current(tx, self._row)

    def _sound(self, look: Callable[[RefRow], T]) -> T:
        """What `look` finds in its row; it is read again if the data key was exchanged since. Corrupted."""
        try:
            return look(self._row)
        except Corrupted:
            now = self._engine.read(self._here)
            if now.wrapped_key == self._row.wrapped_key:
                raise
            return look(self._saw(now)._row)

    def _owned(self, kind: str) -> Iterator[RefRow]:
        rows = self._engine.read(lambda tx: tx.refs_owned(self._row.ref))
        return (self._refs.verify(row) for row in rows if row.kind == kind and row.trashed_at is None)

    def _counters(self, tx: Tx) -> Counters:
        head = self._here(tx).head_id
        place = None if head is None else tx.node(head)
        if place is None and head is not None:
            raise Corrupted(f"session {self.id}", "its head is missing")
        if place is None:
            return Counters()
        run = tx.run(place.row[POS] >> SEQ_BITS)
        assert run is not None  # the place was found through it
        self._engine.verify_run(tx, run)
        return self._engine.node(place).counters

    @property
    def _row(self) -> RefRow:
        """The ref as it was last seen. What an append moved is put in when someone looks: most appends are not."""
        if self._move is not None:
            self._read, self._move = self._read._replace(**self._move._asdict()), None
        return self._read

    @property
    def _bound(self) -> RefRow:
        """The ref, for what its data is bound to. Corrupted if the data does not open under it."""
        _ = self.data
        return self._row

    def _saw(self, row: RefRow) -> Self:
        self._engine.rollback_steps.on_rollback(self, self._as_before)
        self._read, self._move, self._data = row, None, None
        return self

    def _as_before(self) -> Callable[[], object]:
        """A function that resets the object to its present fields, and then to the stored ones if they can be read."""
        before = self._row

        def restore() -> None:
            self._read, self._move, self._data = before, None, None
            with suppress(ClewError):  # it was made in the transaction, or the store cannot be read now
                self.refresh()

        return restore
