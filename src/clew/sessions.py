"""Sessions: created, found, listed, forked, put in the trash and brought back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from clew import ids
from clew.backends import RefRow, Tx
from clew.engine import Engine, whole_number
from clew.errors import Ambiguous, Conflict, Invalid, NotFound
from clew.loading import loading
from clew.node import microseconds
from clew.refs import Refs, expiry
from clew.session import Session
from clew.session_data import SessionData, directory, label_set, pack, unpack

if TYPE_CHECKING:
    from clew.purge import Purger
    from clew.receipts import Reason, Receipt, Receipts

SESSION, SUBAGENT = "session", "subagent"
_TRASHED = "session in the trash"
SCAN = 200
"""Sessions read at a time when a filter has to look into them."""

Edge = tuple[int, int]
"""Rank, or when it went to the trash, and number of the last session of a page."""

SessionList = list[Session]  # inside `Sessions`, list is its method
Rows = list[RefRow]


class Page(NamedTuple):
    """Some sessions, and where the rest begins; `next_cursor` is None on the last page, `total` if not asked for."""

    items: SessionList
    next_cursor: str | None
    total: int | None = None


class Sessions:
    """The sessions of a store."""

    def __init__(self, engine: Engine, refs: Refs, purger: Callable[[], Purger]) -> None:
        self._engine = engine
        self._refs = refs
        self._purger = purger

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
        at: str | None = None,
    ) -> Session:
        """A new session, empty, or with `at` going on from any stored message. Conflict if the id is taken. NotFound.

        With `agent` it is the trace of a subagent: never picked by `latest`; with `owner` it goes when its owner goes.
        """
        if owner is not None and agent is None:
            raise Invalid("only a subagent's session has an owner", hint="Name the agent.")
        if owner is not None and not isinstance(owner, Session):
            raise Invalid(f"an owner is a Session, not {type(owner).__name__}")
        data = SessionData(title, directory(cwd), model, label_set(labels), agent, extra=extra)
        payload, look, labelled = self._pack(data)
        key, engine = self._engine.fresh_id(id), self._engine
        target = None if at is None else engine.resolve_node(at)

        def work(tx: Tx) -> RefRow:
            ground = None if target is None else tx.ground(target)
            if target is not None and (ground is None or tx.tree_workspace(ground.tree) != engine.workspace):
                raise NotFound("node", ids.text(target))
            above = None if owner is None else self._refs.get(tx, owner._row.kind, owner._row.key).ref
            self._vacant(tx, key)
            tree = tx.add_tree(engine.workspace, engine.clock()) if ground is None else ground.tree
            kind = SESSION if agent is None else SUBAGENT
            row = self._refs.add(tx, kind, key, payload, tree=tree, at=ground, owner=above, look=look)
            tx.set_labels(row.ref, labelled)
            self._note(tx, "create", key)
            return row

        return Session(self, self._refs.write_one(work))

    def get(self, key: str) -> Session:
        """The session with this id or handle. NotFound, also if it is in the trash; Ambiguous."""
        return self._named(key)

    def latest(self, cwd: str | os.PathLike[str] | None = None) -> Session:
        """The session that was last active, in exactly this directory if one is given; never a subagent's. NotFound."""
        look = self._look(directory(cwd))
        now = self._engine.clock()
        edge: Edge | None = None
        while rows := self._recent(SESSION, edge, look, None, 1):
            if not _expired(rows[0], now):
                return Session(self, rows[0])
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
    ) -> Page:
        """Sessions, last active first; filtered by exact directory, by label, by words in the title.

        `cursor` is the `next_cursor` of the page before; it stays good when sessions change. With `subagents` the
        traces of subagents are listed instead. `total` counts all that the filters let through.
        """
        whole_number("limit", limit, 1)
        if title is not None and not isinstance(title, str):
            raise Invalid(f"a title is text, not {type(title).__name__}")
        kind = SUBAGENT if subagents else SESSION
        look = self._look(directory(cwd))
        mark = None if label is None else self._label_look(label)
        edge = None if cursor is None else self._read_cursor(cursor)
        now = self._engine.clock()
        wanted = None if title is None else title.casefold()
        items: SessionList = []
        step = limit + 1 if wanted is None else SCAN
        while len(items) <= limit:
            rows = self._recent(kind, edge, look, mark, step)
            for row in rows:
                session = Session(self, row)
                if (include_expired or not _expired(row, now)) and (
                    wanted is None or wanted in (session.title or "").casefold()
                ):
                    items.append(session)
            if len(rows) < step:
                break
            edge = rows[-1].rank, rows[-1].ref
        more = len(items) > limit
        items = items[:limit]
        count = self._count(kind, look, mark, wanted, include_expired, now) if total else None
        last = items[-1]._row if more else None
        return Page(items, None if last is None else self._cursor(last.rank, last.ref), count)

    def fork(
        self, source: Session | str, *, at: str | None = None, title: str | None = None, id: str | None = None
    ) -> Session:
        """A new session at a message of the source's tree, or at its last one. Nothing is copied.

        NotFound if there is no such message; Conflict if the id is taken.
        """
        session = source if isinstance(source, Session) else self.get(source)
        target = None if at is None else self._engine.resolve_node(at)
        key = self._engine.fresh_id(id)

        def work(tx: Tx) -> RefRow:
            row = self._refs.get(tx, session._row.kind, session._row.key)
            assert row.tree is not None
            wanted = row.head_id if target is None else target
            ground = None if wanted is None else tx.ground(wanted)
            if wanted is not None and (ground is None or ground.tree != row.tree):
                raise NotFound("node", ids.text(wanted), hint="A fork begins at a message of the same tree.")
            old = Session(self, row).data
            data = SessionData(
                old.title if title is None else title, old.cwd, old.model, old.labels, None,
                ids.text(row.key), None if wanted is None else ids.text(wanted), old.extra, moved=old.moved,
            )  # fmt: skip
            payload, look, labelled = self._pack(data)
            self._vacant(tx, key)
            made = self._refs.add(tx, SESSION, key, payload, tree=row.tree, at=ground, look=look)
            tx.set_labels(made.ref, labelled)
            self._note(tx, "create", key)
            return made

        return Session(self, self._refs.write_one(work))

    def rename(self, key: str, title: str | None) -> Session:
        """Gives a session another title."""
        return self.get(key).rename(title)

    def label(self, key: str, *add: str, remove: Iterable[str] = ()) -> Session:
        """Adds labels to a session, and takes others away."""
        return self.get(key).label(*add, remove=tuple(remove))

    def delete(self, key: str) -> Receipt:
        """Deletes a session and every message that no other needs. Says how much went, and what is left. Conflict."""
        return self.get(key).delete()

    def hold(self, key: str, reason: str | None = None) -> Session:
        """Keeps a session from being deleted or put in the trash, by whatever way, until `release`."""
        return self.get(key).hold(reason)

    def release(self, key: str) -> Session:
        """Ends a session's hold."""
        return self.get(key).release()

    def retain(self, key: str, *, days: int | None = None, until: datetime | None = None) -> Session:
        """Gives a session a retention of its own: `days` after its last activity, or `until` a moment; or none."""
        return self.get(key).retain(days=days, until=until)

    # -- the trash

    def trash(self, key: str) -> Session:
        """Puts a session in the trash, with all it owns; one that is there already stays there. Conflict if it is held.

        It is not found, listed, searched or talked in until `restore`; messages that others share stay with them.
        """
        return self._anywhere(key).trash()

    def trashed(self, *, limit: int = 50, cursor: str | None = None) -> Page:
        """What is in the trash, last put there first. What went with its owner comes back with it, and is not listed.

        These sessions can be read, and nothing else: `restore` first.
        """
        whole_number("limit", limit, 1)
        edge = None if cursor is None else self._read_cursor(cursor, "trash")
        workspace = self._engine.workspace
        rows = self._engine.read(lambda tx: tx.refs_trashed(workspace, before=edge, limit=limit + 1), single=True)
        items = [Session(self, row) for row in rows[:limit]]
        last = items[-1]._row if len(rows) > limit else None
        return Page(items, None if last is None else self._cursor(last.trashed_at or 0, last.ref, "trash"))

    def restore(self, key: str) -> Session:
        """Brings a session back from the trash with all that went there with it, to its old place among the others.

        NotFound if it is not in the trash; Conflict if it is a subagent's and its owner is there.
        """
        with loading:
            from clew import trash

        row = self._named(key, trashed=True)._row

        def work(tx: Tx) -> RefRow:
            now = self._refs.get(tx, row.kind, row.key, trashed=True)
            if now.trashed_at is None:
                raise NotFound(_TRASHED, key)
            self._note(tx, "restore", now.key)
            return trash.take_back(self._refs, tx, now)

        return Session(self, self._engine.write(work))

    # -- gone for good

    def purge(
        self,
        keys: str | Iterable[str] | None = None,
        *,
        trashed: bool = False,
        everything: bool = False,
        before: datetime | None = None,
        reason: Reason = "user-requested",
        dry_run: bool = False,
    ) -> Receipt:
        """Deletes sessions for good, in the trash or not, and clears every trace of them: rows, keys, index, files.

        Those with these ids or handles; or with `trashed` all that are in the trash, with `everything` all there are,
        of either only those that were last active, or put in the trash, `before` a moment. What other sessions share
        stays. One that is held is a failure in the receipt, and the others go; so is one whose own row is damaged,
        unless ``reason="corruption-detected"`` says that this is known. The receipt is kept in the store; with
        `dry_run` it only says what would be. NotFound, and nothing is purged, if there is no such session.
        """
        if (keys is not None) + bool(trashed) + bool(everything) != 1:
            raise Invalid("a purge takes ids, or all that is in the trash, or everything", hint="Say which.")
        if keys is not None:
            if before is not None:
                raise Invalid("sessions that are named are purged whenever they were active", hint="Leave out before.")
            if not isinstance(keys, Iterable):
                raise Invalid(f"sessions are named by ids, not {type(keys).__name__}")
            names = [keys] if isinstance(keys, str) else dict.fromkeys(keys)
            rows = list({row.ref: row for row in (self._anywhere(name)._row for name in names)}.values())
        else:
            edge = None if before is None else microseconds(before)
            rows = self._engine.read(lambda tx: self._all(tx, live=everything, before=edge))
        return self._purger().purge(rows, reason=reason, dry_run=dry_run)

    def receipts(self) -> Receipts:
        """What was purged and when, oldest first."""
        return self._purger().receipts()

    # -- inside

    def _anywhere(self, key: str) -> Session:
        """A session, in the trash or not. NotFound."""
        try:
            return self.get(key)
        except NotFound as missing:
            try:
                return self._named(key, trashed=True)
            except NotFound:
                raise missing from None

    def _all(self, tx: Tx, *, live: bool, before: int | None) -> Rows:
        """Those in the trash that did not go there with an owner; with `live` all that have none, there or not."""
        found: Rows = []
        at = 0
        while rows := tx.refs_after(at, SCAN):
            at = rows[-1].ref
            found += [
                row
                for row in rows
                if row.kind in (SESSION, SUBAGENT)
                and row.workspace == self._engine.workspace
                and (row.owner is None if live else self._in_trash(tx, row))
                and (before is None or (row.trashed_at or row.active_at) < before)
            ]
        return found

    def _in_trash(self, tx: Tx, row: RefRow) -> bool:
        """True for a session in the trash that did not go there with its owner."""
        owner = None if row.owner is None else tx.ref_at(row.owner)
        return row.trashed_at is not None and (owner is None or owner.trashed_at is None)

    def _standing(self, tx: Tx) -> Rows:
        """Every session that goes by itself, in the trash or not; traces before their owners."""
        traces = [row for row in self._all(tx, live=False, before=None) if row.owner is not None]
        return traces + self._all(tx, live=True, before=None)

    def _recent(
        self, kind: str, before: Edge | None, look: bytes | None, label: bytes | None, limit: int
    ) -> Sequence[RefRow]:
        workspace = self._engine.workspace
        return self._engine.read(
            lambda tx: tx.refs_recent(workspace, kind, before=before, look=look, label=label, limit=limit), single=True
        )

    def _note(self, tx: Tx, deed: str, key: bytes) -> None:
        """Has the audit say so, if the store was opened with ``audit=True``."""
        if self._engine.audits:
            with loading:
                from clew import audit

            audit.note(self._engine, self._refs, tx, deed, ids.text(key))

    def _vacant(self, tx: Tx, key: bytes) -> None:
        """Conflict if a session of either kind has this id: `get` must never have to choose."""
        if any(tx.ref(self._engine.workspace, kind, key) is not None for kind in (SESSION, SUBAGENT)):
            raise Conflict("a session with this id is already stored")

    def _named(self, typed: str, *, trashed: bool = False) -> Session:
        """The session with this id or handle, among those in the trash or the others. NotFound, Ambiguous."""
        found: SessionList = []
        hint = ""
        for kind in (SESSION, SUBAGENT):
            try:
                key = self._refs.resolve(kind, typed, trashed=trashed)
            except NotFound as error:
                hint = error.hint
                continue
            row = self._row(kind, key)
            if row is not None and (row.trashed_at is not None) == trashed:
                found.append(Session(self, row))
        if not found:
            raise NotFound(_TRASHED if trashed else SESSION, typed, hint=hint)
        if len(found) > 1:
            raise Ambiguous(SESSION, typed, [one.id for one in found])
        return found[0]

    def _row(self, kind: str, key: bytes) -> RefRow | None:
        workspace = self._engine.workspace
        return self._engine.read(lambda tx: tx.ref(workspace, kind, key), single=True)

    def _pack(self, data: SessionData) -> tuple[bytes, bytes | None, Sequence[bytes]]:
        """A session's data as it is stored, redacted; and the keyed hashes of its directory and of its labels."""
        payload = pack(data)
        redacted = self._engine.redacted(payload[1:], own=True)
        if redacted != payload[1:]:
            data = unpack(payload[:1] + redacted)
            data = msgspec.structs.replace(data, labels=label_set(data.labels))
            payload = pack(data)
        return payload, self._look(data.cwd), self._label_looks(data.labels)

    def _look(self, cwd: str | None) -> bytes | None:
        if cwd is None:
            return None
        try:
            return self._engine.look("cwd", cwd.encode())
        except UnicodeEncodeError:
            raise Invalid("the directory's name is not valid Unicode") from None

    def _label_looks(self, labels: Iterable[str]) -> Sequence[bytes]:
        return [self._label_look(label) for label in labels]

    def _label_look(self, label: str) -> bytes:
        try:
            return self._engine.look("label", label.encode())
        except (AttributeError, UnicodeEncodeError):
            raise Invalid("a label is text, and valid Unicode") from None

    def _count(
        self, kind: str, look: bytes | None, mark: bytes | None, wanted: str | None, include_expired: bool, now: int
    ) -> int:
        engine = self._engine
        if wanted is None:
            since = -1 if include_expired else now
            return engine.read(lambda tx: tx.count_refs(engine.workspace, kind, look=look, label=mark, now=since))
        count, edge = 0, None
        while True:
            rows = self._recent(kind, edge, look, mark, SCAN)
            count += sum(
                (include_expired or not _expired(row, now)) and wanted in (Session(self, row).title or "").casefold()
                for row in rows
            )
            if len(rows) < SCAN:
                return count
            edge = rows[-1].rank, rows[-1].ref

    def _cursor(self, at: int, ref: int, of: str = "cursor") -> str:
        place = f"{at:x}.{ref:x}"
        return f"{place}.{self._engine.look(of, place.encode()).hex()}"

    def _read_cursor(self, cursor: str, of: str = "cursor") -> Edge:
        try:
            place, _, proof = cursor.rpartition(".")
            at, _, ref = place.partition(".")
            if self._engine.look(of, place.encode()).hex() != proof:
                raise ValueError
            return int(at, 16), int(ref, 16)
        except (ValueError, AttributeError, TypeError):
            raise Invalid("this cursor was not made by this list", hint="Pass next_cursor as it came.") from None


def _expired(row: RefRow, now: int) -> bool:
    at = expiry(row)
    return not row.hold and at is not None and at <= now
