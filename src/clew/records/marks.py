"""Recovery marks: a ref that a session owns, at the last message that was committed. What follows it is pending."""

from __future__ import annotations

import msgspec

from clew import codec, ids
from clew.backends import RefRow, Tx
from clew.engine import Engine
from clew.errors import Tampered
from clew.records.shapes import ConversationSummary, PartialMetrics
from clew.refs import Refs

RECOVERY = "recovery"
"""Kind of the ref."""


class Marked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a mark carries; the messages themselves are the session's."""

    session_id: str
    last_interaction_at: str
    updated_at: str
    summary: ConversationSummary | None = None
    metrics: PartialMetrics | None = None


class Marks:
    """Makes and reads marks. Methods with `tx` are steps of a transaction that the caller runs."""

    def __init__(self, engine: Engine, refs: Refs) -> None:
        self._engine = engine
        self._refs = refs

    def row(self, tx: Tx, session: bytes) -> RefRow | None:
        """The mark of the session with this key."""
        return tx.ref(self._engine.workspace, RECOVERY, self._key(session))

    def said(self, mark: RefRow) -> Marked:
        """What a mark carries. Tampered."""
        payload = self._refs.data(self._refs.checked(mark))
        try:
            return msgspec.json.decode(payload[1:], type=Marked)
        except msgspec.DecodeError:
            raise Tampered(f"{RECOVERY} {ids.text(mark.key)}", "it does not decode") from None

    def sound(self, mark: RefRow) -> bool:
        """True if it can be read."""
        try:
            self.said(mark)
        except Tampered:
            return False
        return True

    def set(self, tx: Tx, session: RefRow, said: Marked) -> RefRow:
        """Marks a session at its head; one that is marked already, and soundly, stays marked where it is. The mark."""
        payload = b"\x01" + self._engine.redacted(codec.to_json(said), own=True)
        mark = self.row(tx, session.key)
        if mark is not None and self.sound(mark):
            return self._refs.change(tx, mark, payload, look=None)
        if mark is not None:
            tx.delete_ref(mark.ref)
        ground = None if session.head_id is None else tx.ground(session.head_id)
        key = self._key(session.key)
        return self._refs.add(tx, RECOVERY, key, payload, tree=session.tree, at=ground, owner=session.ref)

    def take(self, tx: Tx, session: bytes) -> Marked | None:
        """Takes a mark away; returns what it carried, if that can be read."""
        mark = self.row(tx, session)
        if mark is None:
            return None
        tx.delete_ref(mark.ref)
        return self.said(mark) if self.sound(mark) else None

    def sessions(self, tx: Tx, before: tuple[int, int] | None, limit: int) -> tuple[list[RefRow], list[RefRow]]:
        """Some marks that are not in the trash, last made first, and the sessions that own them."""
        marks = tx.refs_recent(self._engine.workspace, RECOVERY, before=before, limit=limit)
        owners = (tx.ref_at(mark.owner or 0) for mark in marks)
        return marks, [row for row in owners if row is not None]

    def _key(self, session: bytes) -> bytes:
        # Not the session's own: a signature does not say of which kind a ref is.
        return self._engine.look(RECOVERY, session)
