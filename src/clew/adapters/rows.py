"""Keyed sessions and documents as rows, for the adapters that use rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from clew.backends import SEQ_BITS, InsertPoint, NodeLocation, RefRow, Tx
from clew.base import ids
from clew.engine.log import Log, append_in
from clew.engine.refs import Refs
from clew.engine.session_data import SOURCE, SessionData, label_set
from clew.errors import Conflict, Corrupted, Invalid
from clew.sources.contract import join_names
from clew.sources.writing import session_id
from clew.store.parts import Parts
from clew.store.session import Session
from clew.store.session_table import SESSION, SUBAGENT
from clew.store.store import Store
from clew.store.store import open as open_store

Target = str | os.PathLike[str] | Store
"""Where an adapter keeps its sessions: a path or a URL to open, or an open store."""


class Keyed:
    """The sessions of one framework. Methods with `tx` are steps of the caller's transaction."""

    def __init__(self, target: Target, tool: str, options: dict[str, Any]) -> None:
        self._opened = not isinstance(target, Store)
        self.store = target if isinstance(target, Store) else open_store(target, **options)
        self.tool = tool
        self.parts = Parts.of(self.store)
        self.engine = self.parts.engine
        self.refs: Refs = self.parts.refs

    def close(self) -> None:
        """Closes the store, unless the adapter was made with an open one."""
        if self._opened:
            self.store.close()

    # -- keys

    def key(self, *names: str) -> bytes:
        """The keyed hash of a framework's names: the key of a ref, or a lookup hash."""
        return self.engine.lookup_hash("adapter", msgspec.json.encode([self.tool, *names]))

    def session_id(self, *names: str) -> str:
        """The id of the session with these names."""
        return ids.text(self.key(*names))

    def message_id(self, tx: Tx, *names: str) -> bytes:
        """The id of the message with these names. Other workspaces have another id for it.

        A message that was stored before workspaces had ids of their own keeps its id.
        """
        old, workspace = self.key(*names), self.engine.workspace
        return old if not workspace or self.location(tx, old) is not None else self.key(*names, workspace)

    def entry_id(self, tx: Tx, row: RefRow, *names: str) -> bytes:
        """`message_id` for an entry in the log of a ref."""
        old, workspace = self.key(*names), self.engine.workspace
        if not workspace or ((found := tx.log_by_id(old)) is not None and found.pos >> SEQ_BITS == row.ref):
            return old
        return self.key(*names, workspace)

    # -- messages

    def location(self, tx: Tx, id: bytes) -> NodeLocation | None:
        """Where a message of this workspace is; None for any other."""
        found = tx.node(id)
        return None if found is None or tx.tree_workspace(found.tree) != self.engine.workspace else found

    # -- sessions

    def row(self, tx: Tx, *names: str, kind: str = SESSION) -> RefRow | None:
        """The row of a session; None if there is none, or if it is in the trash."""
        row = self.find_row(tx, *names, kind=kind)
        return None if row is None or row.trashed_at is not None else row

    def find(self, *names: str) -> Session | None:
        """The session with these names; None if there is none, or if it is in the trash."""
        row = self.engine.read(lambda tx: self.row(tx, *names), single=True)
        return None if row is None else Session(self.parts, row)

    def ensure(
        self,
        tx: Tx,
        *names: str,
        about: dict[str, Any] | None = None,
        labels: Sequence[str] = (),
        title: str | None = None,
        agent: str | None = None,
        owner: int | None = None,
        at: InsertPoint | None = None,
        model: str | None = None,
    ) -> RefRow:
        """The row of a session, which is created if there is none. Conflict if it is in the trash.

        `about` goes into its free data. With `agent` it is the trace of a subagent.
        """
        kind = SESSION if agent is None else SUBAGENT
        found = self.find_row(tx, *names, kind=kind)
        if found is not None:
            if found.trashed_at is not None:
                raise Conflict(
                    f"session {ids.text(found.key)} is in the trash", hint="Restore it or purge it, then try again."
                )
            return found
        origin = {"tool": self.tool, "id": join_names(*names), **(about or {})}
        data = SessionData(title, model=model, labels=label_set(labels), agent=agent, extra={SOURCE: origin})
        return self.parts.table.add_at(tx, data, self.key(*names), kind, at=at, owner=owner)

    def owns(self, row: RefRow) -> bool:
        """True if a session belongs to this framework. Corrupted."""
        origin = (self.parts.table.data(row).extra or {}).get(SOURCE)
        return isinstance(origin, dict) and origin.get("tool") == self.tool

    def find_row(self, tx: Tx, *names: str, kind: str = SESSION) -> RefRow | None:
        """The row of a session, in the trash or not; else that of an import of the framework's own store."""
        row = tx.ref(self.engine.workspace, kind, self.key(*names))
        if row is not None:
            return row
        for imported in dict.fromkeys((join_names(*names), "/".join(names))):  # the second one as clew once imported it
            row = tx.ref(self.engine.workspace, kind, ids.parse(session_id(self.tool, imported)))
            if row is not None and self._imported_names(tx, row) == names:
                return row
        return None

    def _imported_names(self, tx: Tx, row: RefRow) -> tuple[str, ...]:
        """The names of an imported session; none if it is not one of this framework."""
        extra = self.parts.table.data(row).extra or {}
        origin, own = extra.get(SOURCE), extra.get(self.tool)
        if not isinstance(origin, dict) or origin.get("tool") != self.tool or not isinstance(origin.get("id"), str):
            return ()
        if isinstance(own, dict) and isinstance(own.get("names"), list | tuple):
            return tuple(own["names"])
        name: str = origin["id"]
        above = None if row.owner is None else tx.ref_at(row.owner)
        if above is None:
            return (name,)
        names = self._imported_names(tx, above)
        return (*names, name.removeprefix(f"{names[0]}/")) if len(names) == 1 else ()

    def labelled(self, label: str) -> Iterator[Session]:
        """The sessions with a label, last active first."""
        return iter(self.store.sessions.list(label=label, limit=200, include_expired=True).all())

    def purge(self, *names: str) -> bool:
        """Deletes a session, in the trash or not, and clears every trace of it. False if there is none.

        Conflict if it is held.
        """
        row = self.engine.read(lambda tx: self.find_row(tx, *names))
        if row is not None:
            self.purge_session(Session(self.parts, row))
        return row is not None

    def purge_session(self, session: Session) -> None:
        """Deletes a session with all it owns, and clears every trace of it. Conflict if it is held."""
        for failure in session.purge().failures:
            raise Conflict(failure.error)


class Adapter:
    """What all adapters have: a store, and a way to close it."""

    _keyed: Keyed

    @property
    def store(self) -> Store:
        """The store that has the sessions."""
        return self._keyed.store

    def close(self) -> None:
        """Closes the store, unless the adapter was made with an open one."""
        self._keyed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def unchanged(keyed: Keyed) -> None:
    """Invalid if the store redacts: for frameworks whose state must be read back as it was written."""
    if keyed.engine.rules is not None:
        raise Invalid(
            f"{keyed.tool} needs its state back unchanged, and this store redacts",
            hint="Open the store without redaction rules.",
        )


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
            tx.set_labels(row.ref, [self._keyed.key("group", *group) for group in groups])
            return row
        if row.trashed_at is not None:
            raise Conflict("the session of this document is in the trash", hint="Restore it or purge it.")
        return self._keyed.refs.change(tx, self._keyed.refs.verify(row), payload, look=None)

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
