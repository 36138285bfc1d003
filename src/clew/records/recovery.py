"""Recovery marks: documents at the last committed message of a session. The messages after it are pending."""

from __future__ import annotations

import msgspec

from clew.base import codec, ids
from clew.errors import Corrupted
from clew.records.redactor import Redactor
from clew.records.schema import ConversationSummary, PartialMetrics
from clew.store.session import Session
from clew.store.store import Store
from clew.store.unit import Document, Unit

RECOVERY = "recovery"
"""Kind of the document."""


class PendingMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of a mark. The messages belong to the session."""

    session_id: str
    last_interaction_at: str
    updated_at: str
    summary: ConversationSummary | None = None
    metrics: PartialMetrics | None = None


class Marks:
    """Creates and reads marks, in the caller's unit of work."""

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor

    def find(self, unit: Unit, session: str) -> Document | None:
        """The mark of the session with this id."""
        return unit.document(RECOVERY, self._key(session))

    def read_mark(self, mark: Document) -> PendingMark:
        """The data of a mark. Raises Corrupted."""
        try:
            return msgspec.json.decode(mark.data, type=PendingMark)
        except msgspec.DecodeError:
            raise Corrupted(f"{RECOVERY} {mark.id}", "it does not decode") from None

    def sound(self, mark: Document) -> bool:
        """True if the mark can be read."""
        try:
            self.read_mark(mark)
        except Corrupted:
            return False
        return True

    def set(self, unit: Unit, session: Session, at: str | None, pending: PendingMark) -> None:
        """Marks a session at a message. A readable mark that exists stays where it is."""
        data = self._store.redacted(self._redactor.own_json(codec.to_json(pending)), own=True)
        key, mark = self._key(session.id), self.find(unit, session.id)
        if mark is not None and self.sound(mark):
            unit.put(RECOVERY, key, data, exact=True, before=mark)
            return
        if mark is not None:
            unit.discard(mark)
        unit.put(RECOVERY, key, data, exact=True, new=True, owner=session, at=at)

    def take(self, unit: Unit, session: str) -> PendingMark | None:
        """Deletes a mark; returns its data if it can be read."""
        mark = self.find(unit, session)
        if mark is None:
            return None
        unit.discard(mark)
        return self.read_mark(mark) if self.sound(mark) else None

    def sessions(self, unit: Unit, after: Document | None, limit: int) -> tuple[list[Document], list[Session]]:
        """Marks that are not in the trash, newest first, and the sessions that own them."""
        marks = unit.documents(RECOVERY, after=after, limit=limit)
        return marks, [owner for mark in marks if (owner := mark.owner) is not None]

    def _key(self, session: str) -> bytes:
        # Differs from the session's key, because a signature does not include the kind of a ref.
        return self._store.lookup_hash(RECOVERY, ids.parse(session))
