"""Recovery marks: refs at the last committed message of a session. The messages after it are pending."""

from __future__ import annotations

import msgspec

from clew.backends import RefRow, Tx
from clew.base import codec, ids
from clew.engine.engine import Engine
from clew.engine.refs import Refs
from clew.errors import Corrupted
from clew.records.redactor import Redactor
from clew.records.schema import ConversationSummary, PartialMetrics

RECOVERY = "recovery"
"""Kind of the ref."""


class PendingMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of a mark. The messages belong to the session."""

    session_id: str
    last_interaction_at: str
    updated_at: str
    summary: ConversationSummary | None = None
    metrics: PartialMetrics | None = None


class Marks:
    """Creates and reads marks. Methods with `tx` run inside the caller's transaction."""

    def __init__(self, engine: Engine, refs: Refs, redactor: Redactor) -> None:
        self._engine = engine
        self._refs = refs
        self._redactor = redactor

    def row(self, tx: Tx, session: bytes) -> RefRow | None:
        """The mark of the session with this key."""
        return tx.ref(self._engine.workspace, RECOVERY, self._key(session))

    def read_mark(self, mark: RefRow) -> PendingMark:
        """The data of a mark. Raises Corrupted."""
        payload = self._refs.data(self._refs.verify(mark))
        try:
            return msgspec.json.decode(payload[1:], type=PendingMark)
        except msgspec.DecodeError:
            raise Corrupted(f"{RECOVERY} {ids.text(mark.key)}", "it does not decode") from None

    def sound(self, mark: RefRow) -> bool:
        """True if the mark can be read."""
        try:
            self.read_mark(mark)
        except Corrupted:
            return False
        return True

    def set(self, tx: Tx, session: RefRow, pending: PendingMark) -> RefRow:
        """Marks a session at its head and returns the mark. A readable mark that exists keeps its position."""
        payload = b"\x01" + self._engine.redacted(self._redactor.own_json(codec.to_json(pending)), own=True)
        mark = self.row(tx, session.key)
        if mark is not None and self.sound(mark):
            return self._refs.change(tx, mark, payload, look=None)
        if mark is not None:
            tx.delete_ref(mark.ref)
        point = None if session.head_id is None else tx.insert_point(session.head_id)
        key = self._key(session.key)
        return self._refs.add(tx, RECOVERY, key, payload, tree=session.tree, at=point, owner=session.ref)

    def take(self, tx: Tx, session: bytes) -> PendingMark | None:
        """Deletes a mark; returns its data if it can be read."""
        mark = self.row(tx, session)
        if mark is None:
            return None
        tx.delete_ref(mark.ref)
        return self.read_mark(mark) if self.sound(mark) else None

    def sessions(self, tx: Tx, before: tuple[int, int] | None, limit: int) -> tuple[list[RefRow], list[RefRow]]:
        """Marks that are not in the trash, newest first, and the sessions that own them."""
        marks = tx.refs_recent(self._engine.workspace, RECOVERY, before=before, limit=limit)
        owners = (tx.ref_at(mark.owner or 0) for mark in marks)
        return marks, [row for row in owners if row is not None]

    def _key(self, session: bytes) -> bytes:
        # Differs from the session's key, because a signature does not include the kind of a ref.
        return self._engine.lookup_hash(RECOVERY, session)
