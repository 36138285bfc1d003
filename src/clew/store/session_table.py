"""Finds, lists, counts, creates and forks rows of sessions. A `Session` wraps one row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from clew.backends import InsertPoint, RefRow, Tx
from clew.base import ids
from clew.base.loading import loading
from clew.engine.engine import Engine
from clew.engine.refs import Refs, expiry
from clew.engine.session_data import SessionData, label_set, note_changes, pack, unpack
from clew.errors import Ambiguous, Conflict, Corrupted, Invalid, NotFound

if TYPE_CHECKING:
    from clew.engine.node import Node
    from clew.upkeep.purge import Purger

SESSION, SUBAGENT = "session", "subagent"
TRASHED = "session in the trash"
SCAN = 200
"""The number of sessions to read at a time when a filter needs their data."""

Edge = tuple[int, int]
"""The rank, or the time of trashing, and the number of the last session of a page."""
T = TypeVar("T")


class SessionTable:
    """The rows of the sessions of one workspace. Methods with `tx` are steps of the caller's transaction."""

    def __init__(self, engine: Engine, refs: Refs) -> None:
        self._engine = engine
        self._refs = refs

    # -- one

    def get(self, kind: str, key: bytes) -> RefRow | None:
        """The row with this key, in the trash or not."""
        workspace = self._engine.workspace
        return self._engine.read(lambda tx: tx.ref(workspace, kind, key), single=True)

    def find(self, typed: str, *, trashed: bool = False) -> RefRow:
        """The row of the session with this id or handle; with `trashed`, of one in the trash. NotFound, Ambiguous."""
        found: list[RefRow] = []
        hint = ""
        for kind in (SESSION, SUBAGENT):
            try:
                key = self._refs.resolve(kind, typed, trashed=trashed)
            except NotFound as error:
                hint = error.hint
                continue
            row = self.get(kind, key)
            if row is not None and (row.trashed_at is not None) == trashed:
                found.append(row)
        if not found:
            raise NotFound(TRASHED if trashed else SESSION, typed, hint=hint)
        if len(found) > 1:
            raise Ambiguous(SESSION, typed, [ids.text(row.key) for row in found])
        return found[0]

    def find_anywhere(self, typed: str) -> RefRow:
        """The row of a session, in the trash or not. NotFound, Ambiguous."""
        try:
            return self.find(typed)
        except NotFound as missing:
            try:
                return self.find(typed, trashed=True)
            except NotFound:
                raise missing from None

    def data(self, row: RefRow) -> SessionData:
        """The data of a row. Corrupted."""
        return self.read_sound(row, lambda row: unpack(self._refs.data(row)))

    def read_sound(self, row: RefRow, read: Callable[[RefRow], T]) -> T:
        """Calls `read` with the row, and again with the present row if its data key has changed. Corrupted."""
        try:
            return read(row)
        except Corrupted:
            now = self._engine.read(lambda tx: self.current(tx, row))
            if now.wrapped_key == row.wrapped_key:
                raise
            return read(now)

    def current(self, tx: Tx, row: RefRow) -> RefRow:
        """The present row; a row that was in the trash may still be there. NotFound."""
        return self._refs.get(tx, row.kind, row.key, trashed=row.trashed_at is not None)

    def ensure_vacant(self, tx: Tx, key: bytes) -> None:
        """Conflict if a session of either kind has this id, so that ids stay unique across both."""
        if any(tx.ref(self._engine.workspace, kind, key) is not None for kind in (SESSION, SUBAGENT)):
            raise Conflict("a session with this id is already stored")

    # -- many

    def recent(
        self, kind: str, before: Edge | None, cwd_hash: bytes | None, label_hash: bytes | None, limit: int
    ) -> Sequence[RefRow]:
        """The sessions last active before an edge, newest first; filtered by lookup hashes."""
        workspace = self._engine.workspace
        return self._engine.read(
            lambda tx: tx.refs_recent(workspace, kind, before=before, look=cwd_hash, label=label_hash, limit=limit),
            single=True,
        )

    def all(self, tx: Tx, *, live: bool, before: int | None) -> list[RefRow]:
        """Every session that `is_wanted`."""
        found: list[RefRow] = []
        at = 0
        while rows := tx.refs_after(at, SCAN):
            at = rows[-1].ref
            mine = (row for row in rows if row.kind in (SESSION, SUBAGENT) and row.workspace == self._engine.workspace)
            found += [row for row in mine if self.is_wanted(tx, row, live=live, before=before)]
        return found

    def is_wanted(self, tx: Tx, row: RefRow, *, live: bool, before: int | None) -> bool:
        """True for a session in the trash, unless it was trashed with its owner; with `live`, for any without an owner.

        With `before`, only if it was trashed, or else last active with its subagents, before that time.
        """
        if not (row.owner is None if live else _in_trash(tx, row)):
            return False
        if before is None or row.trashed_at is not None:
            return before is None or (row.trashed_at or 0) < before
        with loading:
            from clew.engine import deletion

        return row.active_at < before and all(one.active_at < before for one in deletion.family(tx, row))

    def purgeable(self, tx: Tx) -> list[RefRow]:
        """Every session that can be purged on its own, in the trash or not; subagents before their owners."""
        traces = [row for row in self.all(tx, live=False, before=None) if row.owner is not None]
        return traces + self.all(tx, live=True, before=None)

    def count(
        self,
        kind: str,
        cwd_hash: bytes | None,
        label_hash: bytes | None,
        title: str | None,
        *,
        include_expired: bool,
        now: int,
    ) -> int:
        """The number of sessions that match; `title` in casefolded form."""
        engine = self._engine
        if title is None:
            since = -1 if include_expired else now
            return engine.read(
                lambda tx: tx.count_refs(engine.workspace, kind, look=cwd_hash, label=label_hash, now=since)
            )
        count, edge = 0, None
        while True:
            rows = self.recent(kind, edge, cwd_hash, label_hash, SCAN)
            count += sum((include_expired or not expired(row, now)) and self.has_title(row, title) for row in rows)
            if len(rows) < SCAN:
                return count
            edge = rows[-1].rank, rows[-1].ref

    def has_title(self, row: RefRow, title: str | None) -> bool:
        """True if its casefolded title contains `title`, or if that is None. Corrupted."""
        return title is None or title in (self.data(row).title or "").casefold()

    # -- cursors

    def cursor(self, at: int, ref: int, of: str = "cursor") -> str:
        """The end of a page as text for `read_cursor`; `of` is the name of the list."""
        place = f"{at:x}.{ref:x}"
        return f"{place}.{self._engine.lookup_hash(of, place.encode()).hex()}"

    def read_cursor(self, cursor: str, of: str = "cursor") -> Edge:
        """The end of a page from its cursor. Invalid if `cursor` was not called for this list."""
        try:
            place, _, proof = cursor.rpartition(".")
            at, _, ref = place.partition(".")
            if self._engine.lookup_hash(of, place.encode()).hex() != proof:
                raise ValueError
            return int(at, 16), int(ref, 16)
        except (ValueError, AttributeError, TypeError):
            raise Invalid("the cursor is not one of this list", hint="Pass next_cursor unchanged.") from None

    # -- writing

    def pack(self, data: SessionData) -> tuple[bytes, bytes | None, Sequence[bytes]]:
        """The redacted data of a session as bytes, and the lookup hashes of its directory and its labels."""
        payload = pack(data)
        redacted = self._engine.redacted(payload[1:], own=True)
        if redacted != payload[1:]:
            data = unpack(payload[:1] + redacted)
            data = msgspec.structs.replace(data, labels=label_set(data.labels))
            payload = pack(data)
        return payload, self.cwd_hash(data.cwd), [self.label_hash(label) for label in data.labels]

    def cwd_hash(self, cwd: str | None) -> bytes | None:
        """The lookup hash of a directory."""
        if cwd is None:
            return None
        try:
            return self._engine.lookup_hash("cwd", cwd.encode())
        except UnicodeEncodeError:
            raise Invalid("the directory's name is not valid Unicode") from None

    def label_hash(self, label: str) -> bytes:
        """The lookup hash of a label."""
        try:
            return self._engine.lookup_hash("label", label.encode())
        except (AttributeError, UnicodeEncodeError):
            raise Invalid("a label must be text in valid Unicode") from None

    def create(
        self, data: SessionData, key: bytes, kind: str, *, at: bytes | None, owner: tuple[str, bytes] | None
    ) -> RefRow:
        """Adds a session, empty or at a message. Conflict if the id is in use; NotFound."""
        return self._refs.write_one(lambda tx: self.add(tx, data, key, kind, at=at, owner=owner))

    def add(
        self,
        tx: Tx,
        data: SessionData,
        key: bytes,
        kind: str,
        *,
        at: bytes | None,
        owner: tuple[str, bytes] | None,
        active_at: int | None = None,
    ) -> RefRow:
        """`create`; with `active_at` for a session whose last activity is in the past."""
        point = None if at is None else tx.insert_point(at)
        if at is not None and (point is None or tx.tree_workspace(point.tree) != self._engine.workspace):
            raise NotFound("node", ids.text(at))
        above = None if owner is None else self._refs.get(tx, *owner).ref
        return self.add_at(tx, data, key, kind, at=point, owner=above, active_at=active_at)

    def change(self, tx: Tx, row: RefRow, data: SessionData, **columns: int | None) -> RefRow:
        """Replaces the data and columns of a session. Conflict if the row was changed."""
        before = self.data(row)
        payload, cwd_hash, label_hashes = self.pack(note_changes(before, data, row.version + 1, columns))
        row = self._refs.change(tx, row, payload, look=cwd_hash, **columns)
        if data.labels != before.labels:
            tx.set_labels(row.ref, label_hashes)
        return row

    def add_at(
        self,
        tx: Tx,
        data: SessionData,
        key: bytes,
        kind: str,
        *,
        at: InsertPoint | None,
        owner: int | None,
        active_at: int | None = None,
    ) -> RefRow:
        """`add` for an insertion point and the number of the owner."""
        engine = self._engine
        payload, cwd_hash, label_hashes = self.pack(data)
        self.ensure_vacant(tx, key)
        tree = tx.add_tree(engine.workspace, engine.clock()) if at is None else at.tree
        point = None if at is None or at.pos is None else at
        row = self._refs.add(
            tx, kind, key, payload, tree=tree, at=point, owner=owner, look=cwd_hash, active_at=active_at
        )  # fmt: skip
        tx.set_labels(row.ref, label_hashes)
        self.record_event(tx, "create", key)
        return row

    def fork(self, source: RefRow, *, at: Node | str | None, title: str | None, id: str | None) -> RefRow:
        """Adds a session at a message of the source's tree, or at its head. NotFound; Conflict if the id is in use."""
        target = None if at is None else self._engine.resolve_node(at)
        key = self._engine.fresh_id(id)

        def work(tx: Tx) -> RefRow:
            row = self._refs.get(tx, source.kind, source.key)
            assert row.tree is not None
            wanted = row.head_id if target is None else target
            point = None if wanted is None else tx.insert_point(wanted)
            if wanted is not None and (point is None or point.tree != row.tree):
                raise NotFound("node", ids.text(wanted), hint="A fork begins at a message of the same tree.")
            old = self.data(row)
            data = SessionData(
                old.title if title is None else title, old.cwd, old.model, old.labels, None,
                ids.text(row.key), None if wanted is None else ids.text(wanted), old.extra, moved=old.moved,
            )  # fmt: skip
            payload, cwd_hash, label_hashes = self.pack(data)
            self.ensure_vacant(tx, key)
            fork = self._refs.add(tx, SESSION, key, payload, tree=row.tree, at=point, look=cwd_hash)
            tx.set_labels(fork.ref, label_hashes)
            self.record_event(tx, "create", key)
            return fork

        return self._refs.write_one(work)

    def record_event(self, tx: Tx, kind: str, key: bytes) -> None:
        """Records an audit event of a session if the store was opened with ``audit=True``."""
        if self._engine.audits:
            with loading:
                from clew.engine import audit

            audit.note(self._engine, self._refs, tx, kind, ids.text(key))


def expired(row: RefRow, now: int) -> bool:
    """True if its own retention has ended and it is not held."""
    at = expiry(row)
    return not row.hold and at is not None and at <= now


def _in_trash(tx: Tx, row: RefRow) -> bool:
    """True for a session in the trash whose owner is not in the trash."""
    owner = None if row.owner is None else tx.ref_at(row.owner)
    return row.trashed_at is not None and (owner is None or owner.trashed_at is None)


class SessionParts(ABC):
    """The parts of a store that a session uses: see `clew.store.parts.Parts`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.refs = Refs(engine)
        self.table = SessionTable(engine, self.refs)
        """The rows of its sessions."""

    @property
    @abstractmethod
    def purger(self) -> Purger:
        """Deletes and purges."""
