"""Documents: values beside the conversations, as units of work read and write them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from clew.backends import RefRow, creation_counter
from clew.base import ids
from clew.engine.blobs import Blobs
from clew.engine.log import Log
from clew.engine.node import moment
from clew.store.parts import Parts
from clew.store.session import Session

if TYPE_CHECKING:
    from clew.engine.receipts import Receipt


class Document:
    """A value under a key beside the conversations, owned by a session or by the store. As of its last read."""

    __slots__ = ("_parts", "_row")

    def __init__(self, parts: Parts, row: RefRow) -> None:
        self._parts = parts
        self._row = row

    @property
    def kind(self) -> str:
        """Its kind."""
        return self._row.kind

    @property
    def id(self) -> str:
        """Its key."""
        return ids.text(self._row.key)

    @property
    def handle(self) -> str:
        """A short name that is easy to type."""
        return self._parts.refs.handle(self._row)

    @property
    def data(self) -> bytes:
        """Its value. Corrupted."""
        return self.payload[1:]

    @property
    def payload(self) -> bytes:
        """Its value, with the tag before it. Corrupted."""
        return self._parts.refs.data(self._parts.refs.verify(self._row))

    @property
    def trashed(self) -> bool:
        """True if its session is in the trash."""
        return self._row.trashed_at is not None

    @property
    def at(self) -> str | None:
        """The message it stands at."""
        return None if self._row.head_id is None else ids.text(self._row.head_id)

    @property
    def owner(self) -> Session | None:
        """The session that owns it, also in the trash; None if the store owns it, or if the session was deleted."""
        number = self._row.owner
        row = None if number is None else self._parts.engine.read(lambda tx: tx.ref_at(number), single=True)
        return None if row is None else Session(self._parts, row)

    @property
    def version(self) -> int:
        """Grows with every change. Corrupted."""
        return self._parts.refs.verify(self._row).version

    @property
    def order(self) -> int:
        """Grows with every document that is created."""
        return creation_counter(self._row.ref)

    @property
    def stamp(self) -> tuple[int, bytes]:
        """Equal as long as the document was not changed."""
        return self._row.ref, self._row.mac

    @property
    def created_at(self) -> datetime:
        """When it was created."""
        return moment(self._row.created_at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and self._row == other._row

    def __hash__(self) -> int:
        return hash(self._row.key)

    @property
    def log(self) -> Log:
        """Its log."""
        return Log(self._parts.engine, lambda: self._row)

    @property
    def blobs(self) -> Blobs:
        """The blobs of the session that owns it."""
        return Blobs(self._parts.engine, self._owner_tree)

    def _owner_tree(self) -> int:
        owner = self._parts.engine.read(lambda tx: tx.ref_at(self._row.owner or 0), single=True)
        return 0 if owner is None else owner.tree or 0

    def purge(self) -> Receipt:
        """Deletes it, and clears every trace of it. A hold of its session is a failure in the receipt."""
        return self._parts.purger.purge([self._row], reason="user-requested")
