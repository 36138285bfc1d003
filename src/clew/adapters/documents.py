"""Documents of a framework: JSON values under its own keys, beside its conversations, such as a user's settings.

A document is a ref of kind ``document``. Its key, and its labels, which are the groups it belongs to, are keyed
hashes. So a look-up is one indexed read, and the list of a group is an index scan. Its log can hold bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from clew.adapters.keyed import Keyed
from clew.backends import RefRow, Tx
from clew.engine.log import Log, append_in
from clew.errors import Conflict, Corrupted

DOCUMENT = "document"
"""Kind of the refs that hold a framework's own values."""
PAGE = 100


class Documents:
    """The documents of one framework. Methods with `tx` are steps of the caller's transaction."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._engine = keyed.engine

    # -- reading

    def row(self, tx: Tx, *names: str) -> RefRow | None:
        """The row of a document; None if it does not exist, or if its session is in the trash."""
        row = tx.ref(self._engine.workspace, DOCUMENT, self._keyed.key(DOCUMENT, *names))
        return None if row is None or row.trashed_at is not None else row

    def find(self, *names: str) -> RefRow | None:
        """`row`, in a transaction of its own."""
        return self._engine.read(lambda tx: self.row(tx, *names), single=True)

    def value(self, row: RefRow | None, default: Any = None) -> Any:
        """The value of a document; `default` if there is none. Corrupted."""
        if row is None:
            return default
        try:
            return msgspec.json.decode(self._keyed.refs.data(row)[1:])
        except msgspec.MsgspecError as error:
            raise Corrupted("a document", f"its data does not decode ({type(error).__name__})") from None

    def group(self, *names: str) -> Iterator[RefRow]:
        """`group_in`, in a transaction of its own."""
        return iter(self._engine.read(lambda tx: list(self.group_in(tx, *names))))

    def group_in(self, tx: Tx, *names: str) -> Iterator[RefRow]:
        """The documents of a group, the newest first."""
        label, before = self._keyed.key("group", *names), None
        while rows := self._page(tx, label, before):
            yield from (row for row in rows if row.trashed_at is None)
            before = rows[-1].rank, rows[-1].ref

    def entry(self, row: RefRow, number: int) -> bytes:
        """The bytes that were added as entry `number`. Corrupted if they are missing."""
        for entry in Log(self._engine, lambda: row).read(number, number + 1):
            return entry.data[1:]
        raise Corrupted(f"entry {number} of a document", "it is missing")

    # -- writing

    def put(
        self,
        tx: Tx,
        names: Sequence[str],
        value: Any,
        *,
        groups: Sequence[Sequence[str]] = (),
        owner: RefRow | None = None,
    ) -> RefRow:
        """Stores a value, or replaces the one under these names. With `owner` it is deleted with that session.

        The groups and the owner are those of the first value.
        """
        key, payload = self._keyed.key(DOCUMENT, *names), b"\x01" + msgspec.json.encode(value)
        row = tx.ref(self._engine.workspace, DOCUMENT, key)
        if row is None:
            above = None if owner is None else owner.ref
            row = self._keyed.refs.add(tx, DOCUMENT, key, payload, tree=None, at=None, owner=above)
            self.set_groups(tx, row, groups)
            return row
        if row.trashed_at is not None:
            raise Conflict("the session of this document is in the trash", hint="Restore it or purge it.")
        return self._keyed.refs.change(tx, self._keyed.refs.verify(row), payload, look=None)

    def set_groups(self, tx: Tx, row: RefRow, groups: Sequence[Sequence[str]]) -> None:
        """Moves a document to other groups."""
        tx.set_labels(row.ref, [self._keyed.key("group", *group) for group in groups])

    def add_entry(self, tx: Tx, row: RefRow, data: bytes) -> None:
        """Adds bytes to a document."""
        append_in(self._engine, tx, row, [(self._engine.new_id(), b"\x01" + data)])

    def purge(self, *names: str) -> bool:
        """Deletes a document, and clears every trace of it. False if there is none. Conflict if its session is held."""
        row = self.find(*names)
        if row is not None:
            for failure in self._keyed.parts.purger.purge([row], reason="user-requested").failures:
                raise Conflict(failure.error)
        return row is not None

    def _page(self, tx: Tx, label: bytes, before: tuple[int, int] | None) -> list[RefRow]:
        return tx.refs_recent(self._engine.workspace, DOCUMENT, label=label, before=before, limit=PAGE)
