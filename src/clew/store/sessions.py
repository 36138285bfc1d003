"""The sessions of a store: create, find, list, fork, trash, restore and purge them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from clew.backends import RefRow, Tx
from clew.base import ids
from clew.base.loading import loading
from clew.base.values import Page, whole_number
from clew.engine.node import Node, microseconds
from clew.engine.session_data import SessionData, directory, label_set
from clew.errors import Conflict, Invalid, NotFound
from clew.store.parts import Parts
from clew.store.session import Session, row_of
from clew.store.session_table import SCAN, SESSION, SUBAGENT, TRASHED, Edge, SessionParts, expired

if TYPE_CHECKING:
    from clew.engine.receipts import Reason, Receipt, Receipts
    from clew.store.unit import Unit

Rows = list[RefRow]


class Sessions:
    """The sessions of a store."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._refs = parts.refs
        self._table = parts.table

    def create(
        self,
        *,
        title: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        labels: Iterable[str] = (),
        extra: dict[str, Any] | None = None,
        id: str | None = None,
        agent: str | None = None,
        owner: Session | None = None,
        at: Node | str | None = None,
    ) -> Session:
        """Creates a session: empty, or with `at` continuing from any stored message. Conflict if the id is taken.
        NotFound.

        With `agent` it is the trace of a subagent, which `latest` never returns; with `owner` it is deleted with its
        owner.
        """
        if owner is not None and agent is None:
            raise Invalid("only a subagent's session has an owner", hint="Pass agent as well.")
        if owner is not None and not isinstance(owner, Session):
            raise Invalid(f"an owner is a Session, not {type(owner).__name__}")
        data = SessionData(title, directory(cwd), model, label_set(labels), agent, extra=extra)
        target = None if at is None else self._engine.resolve_node(at)
        above = None if owner is None else (row_of(owner).kind, row_of(owner).key)
        kind = SESSION if agent is None else SUBAGENT
        return Session(self._parts, self._table.create(data, self._engine.fresh_id(id), kind, at=target, owner=above))

    def open(
        self,
        *key: str,
        title: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        labels: Iterable[str] = (),
        extra: dict[str, Any] | None = None,
    ) -> Session:
        """The session with a key of your own, such as an application and a user; created if there is none.

        Safe from any number of processes. The other arguments are for a new session. Keys are compared part by part.
        Conflict if it is in the trash.
        """
        with loading:
            from clew.store import unit as units

        if not key or not all(isinstance(one, str) for one in key):
            raise Invalid("a key is one or more texts")
        parts = Parts.of(self)
        id = self._engine.lookup_hash("adapter", msgspec.json.encode(("open", *key)))

        def find(unit: Unit) -> Session | None:
            found = unit.session(id, trashed=True)
            if found is not None and found.trashed_at is not None:
                raise Conflict(f"session {found.id} is in the trash", hint="Restore it or purge it.")
            return found

        def find_or_create(unit: Unit) -> Session:
            return find(unit) or unit.create(data, id)

        data = SessionData(title, directory(cwd), model, label_set(labels), extra={"key": list(key), **(extra or {})})
        return units.read(parts, find, single=True) or units.write(parts, find_or_create)

    def get(self, key: Session | str) -> Session:
        """The session with this id or handle. NotFound, also if it is in the trash; Ambiguous."""
        return Session(self._parts, self._table.find(_name(key)))

    def find_anywhere(self, key: Session | str) -> Session:
        """The session with this id or handle, in the trash or not. NotFound, Ambiguous."""
        return Session(self._parts, self._table.find_anywhere(_name(key)))

    def with_message(self, node: Node, *, branches: bool = False) -> Session | None:
        """The most recently active session that contains a message, or contained it before a compaction.

        With `branches`, if there is none, a session that has it in a branch.
        """
        search = Parts.of(self).search
        return search.session_with(node) if branches else search.session_of(node)

    def latest(self, cwd: str | os.PathLike[str] | None = None) -> Session:
        """The session that was last active, in exactly this directory if one is given; never a subagent's. NotFound."""
        cwd_hash = self._table.cwd_hash(directory(cwd))
        now = self._engine.clock()
        edge: Edge | None = None
        while rows := self._table.recent(SESSION, edge, cwd_hash, None, 1):
            if not expired(rows[0], now):
                return Session(self._parts, rows[0])
            edge = rows[0].rank, rows[0].ref
        where = "" if cwd is None else f" in {os.fspath(cwd)}"
        raise NotFound("session", f"latest{where}", hint="Create one first.")

    def list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        label: str | None = None,
        title: str | None = None,
        include_expired: bool = False,
        subagents: bool = False,
        total: bool = False,
    ) -> Page[Session]:
        """Sessions, last active first; filtered by exact directory, by label, by a part of the title.

        `cursor` is the `next_cursor` of the previous page; it stays valid when sessions change. With `subagents` lists
        the traces of subagents instead. With `total` the page has the number of all sessions that match.
        """
        whole_number("limit", limit, 1)
        if title is not None and not isinstance(title, str):
            raise Invalid(f"a title is text, not {type(title).__name__}")
        kind = SUBAGENT if subagents else SESSION
        table, now = self._table, self._engine.clock()
        cwd_hash = table.cwd_hash(directory(cwd))
        label_hash = None if label is None else table.label_hash(label)
        edge = None if cursor is None else table.read_cursor(cursor)
        wanted = None if title is None else title.casefold()
        found: Rows = []
        step = limit + 1 if wanted is None else SCAN
        while len(found) <= limit:
            rows = table.recent(kind, edge, cwd_hash, label_hash, step)
            live = [row for row in rows if row.expires_at is None or include_expired or not expired(row, now)]
            found += live if wanted is None else [row for row in live if table.has_title(row, wanted)]
            if len(rows) < step:
                break
            edge = rows[-1].rank, rows[-1].ref
        last = found[limit - 1] if len(found) > limit else None
        count = None
        if total:
            count = table.count(kind, cwd_hash, label_hash, wanted, include_expired=include_expired, now=now)
        items = [Session(self._parts, row) for row in found[:limit]]
        return Page(
            items,
            None if last is None else table.cursor(last.rank, last.ref),
            count,
            fetch=lambda cursor: self.list(
                limit=limit,
                cursor=cursor,
                cwd=cwd,
                label=label,
                title=title,
                include_expired=include_expired,
                subagents=subagents,
            ),
        )

    def fork(
        self, source: Session | str, *, at: Node | str | None = None, title: str | None = None, id: str | None = None
    ) -> Session:
        """Creates a session at a message of the source's tree, by default its last one. Copies nothing.

        NotFound if there is no such message; Conflict if the id is taken.
        """
        row = row_of(source) if isinstance(source, Session) else self._table.find(source)
        return Session(self._parts, self._table.fork(row, at=at, title=title, id=id))

    def hold(self, key: Session | str, reason: str | None = None) -> Session:
        """Prevents every kind of deletion of a session, including the trash, until `release`."""
        return self.get(key).hold(reason)

    def release(self, key: Session | str) -> Session:
        """Ends a session's hold."""
        return self.get(key).release()

    # -- the trash

    def trash(self, key: Session | str) -> Session:
        """Moves a session to the trash, with all it owns. Idempotent. Conflict if it is held.

        It cannot be found, listed, searched or continued until `restore`. Messages shared with other sessions stay.
        """
        return Session(self._parts, self._table.find_anywhere(_name(key))).trash()

    def trashed(self, *, limit: int = 50, cursor: str | None = None) -> Page[Session]:
        """The sessions in the trash, last trashed first, except those trashed with their owner. They are read-only."""
        whole_number("limit", limit, 1)
        edge = None if cursor is None else self._table.read_cursor(cursor, "trash")
        workspace = self._engine.workspace
        rows = self._engine.read(lambda tx: tx.refs_trashed(workspace, before=edge, limit=limit + 1), single=True)
        items = [Session(self._parts, row) for row in rows[:limit]]
        last = rows[limit - 1] if len(rows) > limit else None
        following = None if last is None else self._table.cursor(last.trashed_at or 0, last.ref, "trash")
        return Page(items, following, fetch=lambda cursor: self.trashed(limit=limit, cursor=cursor))

    def delete(self, key: Session | str) -> Session:
        """`trash`: it can be restored. `purge` deletes it for good."""
        return self.trash(key)

    def restore(self, key: Session | str) -> Session:
        """Restores a session from the trash, with all that was trashed with it, to its old place in the list.

        NotFound if it is not in the trash; Conflict if it is a subagent's and its owner is in the trash.
        """
        with loading:
            from clew.engine import trash

        row = self._table.find(_name(key), trashed=True)

        def work(tx: Tx) -> RefRow:
            now = self._refs.get(tx, row.kind, row.key, trashed=True)
            if now.trashed_at is None:
                raise NotFound(TRASHED, _name(key))
            self._table.record_event(tx, "restore", now.key)
            return trash.restore(self._refs, tx, now)

        return Session(self._parts, self._engine.write(work))

    # -- purge

    def purge(
        self,
        keys: Session | str | Iterable[Session | str] | None = None,
        *,
        trashed: bool = False,
        everything: bool = False,
        label: str | None = None,
        before: datetime | None = None,
        reason: Reason = "user-requested",
        dry_run: bool = False,
    ) -> Receipt:
        """Deletes sessions permanently, in the trash or not, and clears every trace of them: rows, keys, index, files.

        Pass ids or handles, `trashed` for all in the trash, `everything`, or a `label`, for all sessions and documents
        that have it, such as those of a user; `before` limits `trashed` and `everything` to sessions that were last
        active, with their subagents, or trashed before that time. Messages shared with other sessions
        stay. A held session is listed as a failure in the receipt and the others are purged; so is one whose row is
        damaged, unless ``reason="corruption-detected"``, and with `trashed` or `before` one that another writer changes
        meanwhile. The store keeps the receipt; with `dry_run` nothing changes, and the receipt lists what would be
        deleted. NotFound, and nothing is purged, if one of the sessions does not exist.
        """
        if (keys is not None) + bool(trashed) + bool(everything) + (label is not None) != 1:
            raise Invalid("purge takes one of ids, trashed, everything and label", hint="Pass exactly one of them.")
        if before is not None and not (trashed or everything):
            raise Invalid("before cannot be combined with ids or a label", hint="Leave out before.")
        if label is not None:
            return self._purge_label(self._table.label_hash(label), reason, dry_run)
        if keys is not None:
            if not isinstance(keys, Iterable):
                raise Invalid(f"purge takes ids of sessions, not {type(keys).__name__}")
            names = [keys] if isinstance(keys, str | Session) else keys
            found = map(self._table.find_anywhere, dict.fromkeys(map(_name, names)))
            rows = list({row.ref: row for row in found}.values())
            return self._parts.purger.purge(rows, reason=reason, dry_run=dry_run)
        chosen = trashed or before is not None
        edge = None if before is None else microseconds(before)
        with loading:
            from clew.engine.deletion import family, refuse_changed

        def choose(tx: Tx) -> tuple[list[RefRow], dict[int, int]]:
            rows = self._table.all(tx, live=everything, before=edge)
            return rows, {one.ref: one.version for row in rows if chosen for one in family(tx, row)}

        rows, seen = self._engine.read(choose)

        def check(tx: Tx, row: RefRow) -> None:
            if not self._table.is_wanted(tx, row, live=everything, before=edge):
                raise Conflict(f"session {ids.text(row.key)} was restored or continued meanwhile")
            if chosen:
                refuse_changed(tx, row, seen)

        return self._parts.purger.purge(rows, reason=reason, dry_run=dry_run, check=check)

    def _purge_label(self, label: bytes, reason: Reason, dry_run: bool) -> Receipt:
        space = self._engine.workspace

        def choose(tx: Tx) -> list[RefRow]:
            found: list[RefRow] = []
            for kind in _LABELLED:
                edge = None
                while rows := tx.refs_recent(space, kind, label=label, before=edge, limit=SCAN):
                    found += rows
                    edge = rows[-1].rank, rows[-1].ref
            edge = None
            while rows := tx.refs_trashed(space, before=edge, limit=SCAN):
                found += [row for row in rows if row.kind in _LABELLED and label in tx.maintenance.labels(row.ref)]
                edge = rows[-1].trashed_at or 0, rows[-1].ref
            return found

        def check(tx: Tx, row: RefRow) -> None:
            if label not in tx.maintenance.labels(row.ref):
                raise Conflict(f"{row.kind} {ids.text(row.key)} lost its label meanwhile")

        return self._parts.purger.purge(self._engine.read(choose), reason=reason, dry_run=dry_run, check=check)

    def __iter__(self) -> Iterator[Session]:
        """All of `list`, last active first."""
        return self.list().all()

    def receipts(self) -> Receipts:
        """The receipts of all purges, oldest first."""
        return self._parts.purger.receipts()


_LABELLED = (SESSION, "document")
"""Kinds of refs that a label of a user can be on. What they own goes with them."""


def _name(key: Session | str) -> str:
    return key.id if isinstance(key, Session) else key
