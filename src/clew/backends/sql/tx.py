"""`Tx`, implemented with the named statements. Each dialect has a subclass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

from clew.backends import (
    MAX_SEQ,
    SEQ_BITS,
    BlobRow,
    BodyRow,
    Growth,
    HeadState,
    InsertPoint,
    LogRow,
    Move,
    NodeLocation,
    NodeRow,
    ObjectRow,
    QuarantineRow,
    RefRow,
    RunRow,
    State,
)
from clew.backends.rows import COPIED
from clew.errors import Conflict, Corrupted

T = TypeVar("T")


def locate(row: Any) -> NodeLocation:
    """A node, from the columns of its location followed by those of its own row."""
    return NodeLocation(row[0], row[1], row[2], row[3], row[4], row[5:])


class Statements(ABC):
    """A connection. Each dialect implements `_many`, `_store` and `_insert`."""

    __slots__ = ("_run",)

    _sql: ClassVar[Mapping[str, Any]]
    """The named statements, in the syntax of the driver."""
    run_sql: Callable[..., Any]
    """Runs a statement with `?` for parameters."""
    _run: Callable[..., Any]
    """Runs a statement on the shared cursor. So every method fetches all rows before it runs the next one."""

    def _one(self, name: str, *values: Any) -> Any:
        return self._run(self._sql[name], values).fetchone()

    def _row(self, make: Callable[[Any], T], name: str, *values: Any) -> T | None:
        row = self._run(self._sql[name], values).fetchone()
        return make(row) if row else None

    def _rows(self, make: Callable[[Any], T], name: str, *values: Any) -> list[T]:
        return [make(row) for row in self._run(self._sql[name], values)]

    @abstractmethod
    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> int:
        """Runs a statement for each row; returns how many rows it changed."""

    @abstractmethod
    def _store(self, name: str, rows: Sequence[Sequence[Any]], taken: str) -> None:
        """Stores new rows. Conflict with the message `taken` if one exists already."""

    @abstractmethod
    def _insert(self, name: str, row: Sequence[Any], taken: str = "") -> int:
        """Stores a new row and returns its number. Conflict as in `_store`."""


class SqlBlobTx(Statements):
    """See `clew.backends.BlobTx`."""

    __slots__ = ()

    def blob(self, tree: int, look: bytes) -> BlobRow | None:
        return self._row(BlobRow._make, "blob", tree, look)

    def blob_by_number(self, blob: int) -> BlobRow | None:
        return self._row(BlobRow._make, "blob_by_number", blob)

    def blobs_between(self, tree: int, low: bytes, high: bytes) -> list[BlobRow]:
        return self._rows(BlobRow._make, "blobs_between", tree, low, high)

    def blobs_unused(self, tree: int) -> list[BlobRow]:
        return self._rows(BlobRow._make, "blobs_unused", tree)

    def add_blob(self, row: BlobRow) -> int:
        return self._insert("add_blob", row[1:])

    def set_blob(self, row: BlobRow) -> None:
        self._run(self._sql["set_blob"], (row.look, row.size, row.chunks, row.wrapped_key, row.mac, row.blob))

    def delete_blob(self, blob: int) -> None:
        self._run(self._sql["delete_chunks"], (blob << SEQ_BITS, blob << SEQ_BITS | MAX_SEQ))
        self._run(self._sql["leave_object"], (blob,))
        self._run(self._sql["delete_blob"], (blob,))

    def add_chunk(self, pos: int, body: bytes) -> None:
        self._run(self._sql["add_chunk"], (pos, body))

    def chunk(self, pos: int) -> bytes | None:
        row = self._one("chunk", pos)
        return row[0] if row else None

    def add_uses(self, user: int, blobs: Iterable[int]) -> None:
        self._many("add_use", [(blob, user) for blob in blobs])

    def blobs_used(self, low: int, high: int) -> list[int]:
        return [blob for (blob,) in self._run(self._sql["blobs_used"], (low, high)).fetchall()]

    def delete_uses(self, low: int, high: int) -> None:
        used = self.blobs_used(low, high)
        if not used:
            return
        self._run(self._sql["delete_uses"], (low, high))
        for blob in used:
            if not self._one("blob_in_use", blob)[0]:
                self.delete_blob(blob)

    def add_object(self, row: ObjectRow) -> None:
        self._run(self._sql["add_object"], row)

    def object(self, blob: int) -> ObjectRow | None:
        return self._row(ObjectRow._make, "object", blob)

    def objects_after(self, blob: int, limit: int) -> list[ObjectRow]:
        return self._rows(ObjectRow._make, "objects_after", blob, limit)

    def whole_object(self, name: bytes, blob: int, size: int) -> bool:
        if self._run(self._sql["whole_object"], (size, name, blob)).rowcount != 1:
            return False
        self._run(self._sql["leave_others"], (blob, name))
        return True

    def objects_unfinished(self, before: int) -> list[ObjectRow]:
        return self._rows(ObjectRow._make, "objects_unfinished", before)

    def leave_unfinished(self, before: int) -> None:
        self._run(self._sql["leave_unfinished"], (before,))

    def objects_left(self, limit: int) -> list[ObjectRow]:
        return self._rows(ObjectRow._make, "objects_left", limit)

    def bytes_left(self) -> int:
        return int(self._one("bytes_left")[0])

    def object_named(self, name: bytes) -> bool:
        return bool(self._one("object_named", name)[0])

    def drop_objects(self, names: Sequence[bytes]) -> None:
        self._many("drop_object", [(name,) for name in names])


TABLES = ("runs", "nodes", "refs", "log", "blobs", "chunks", "quarantine", "objects")
_BODIES = {"nodes": "set_body", "log": "set_log_body", "chunks": "set_chunk", "quarantine": "set_quarantined"}


class SqlMaintenanceTx(Statements):
    """See `clew.backends.MaintenanceTx`."""

    __slots__ = ()

    def sizes(self) -> dict[str, int]:
        return dict(zip(TABLES, self._one("sizes"), strict=True))

    def empty(self) -> bool:
        return bool(self._one("empty")[0])

    def headers(self, prefix: str) -> dict[str, bytes]:
        return dict(self._run(self._sql["headers"], (prefix, prefix)).fetchall())

    def set_state(self, state: str, key_id: bytes | None) -> None:
        self._run(self._sql["set_state"], (state, key_id))

    def runs_after(self, run: int, limit: int) -> list[tuple[RunRow, bytes | None]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(self._sql["runs_after"], (run, limit))]

    def rekey_runs(self, keys: Sequence[tuple[bytes | None, bytes, int]]) -> None:
        self._many("rekey_run", keys)

    def keys_otherwise(self, head: bytes | None, size: int) -> bool:
        length = 0 if head is None else len(head)
        return bool(self._one("keys_otherwise", *(length, head, size) * 3)[0])

    def places_after(self, pos: int, limit: int) -> list[NodeLocation]:
        return self._rows(locate, "places_after", pos, limit)

    def log_after(self, pos: int, limit: int) -> list[LogRow]:
        return self._rows(LogRow._make, "log_after", pos, limit)

    def blobs_after(self, blob: int, limit: int) -> list[BlobRow]:
        return self._rows(BlobRow._make, "blobs_after", blob, limit)

    def chunks_after(self, pos: int, limit: int) -> list[tuple[int, bytes]]:
        rows: list[tuple[int, bytes]] = self._run(self._sql["chunks_after"], (pos, limit)).fetchall()
        return rows

    def lengths_after(self, table: str, after: int, limit: int) -> list[int]:
        return [row[0] for row in self._run(self._sql[f"lengths_{table}"], (after, limit))]

    def rekey_ref(self, row: RefRow) -> None:
        self._run(self._sql["rekey_ref"], (row.wrapped_key, row.mac, row.data, row.ref))

    def set_bodies(self, table: str, bodies: Sequence[tuple[bytes, int]]) -> None:
        self._many(_BODIES[table], bodies)

    def quarantine_row(self, pos: int) -> QuarantineRow | None:
        return self._row(QuarantineRow._make, "quarantined", pos)

    def quarantined_after(self, pos: int, limit: int) -> list[QuarantineRow]:
        return self._rows(QuarantineRow._make, "quarantined_after", pos, limit)

    def add_quarantined(self, row: QuarantineRow) -> None:
        self._store("add_quarantined", [row], "this message is already in quarantine")

    def drop_quarantined(self, low: int, high: int) -> None:
        self._run(self._sql["drop_quarantined"], (low, high))

    def refs_named(self, kind: str, key: bytes) -> list[RefRow]:
        return self._rows(RefRow._make, "refs_named", kind, key)

    def labels(self, ref: int) -> list[bytes]:
        return [row[0] for row in self._run(self._sql["labels"], (ref,))]

    def growth(self, ord: int) -> Growth:
        found = Growth._make(self._one("growth", ord))
        if not isinstance(found.last, int) or found.last >= 1 << 62:
            raise Corrupted("a node", "its number in the commit order is impossible")
        return found

    def ord_id(self, ord: int) -> bytes | None:
        row = self._one("ord_id", ord)
        return row[0] if row else None

    def deletions_after(self, after: int, limit: int) -> list[tuple[int, int, int]]:
        rows: list[tuple[int, int, int]] = self._run(self._sql["forgotten"], (after, limit)).fetchall()
        return rows


REMEMBERED = 100_000
"""Number of recorded deletions. A search index that has missed more of them is rebuilt."""
_ODD = "a column has a value of a wrong type"
_FOREVER = (1 << 62, 1 << 62)
_as_ref: Callable[[Iterable[Any]], RefRow] = partial(tuple.__new__, RefRow)  # a third of the time of `_make`


class SqlTx(SqlBlobTx, SqlMaintenanceTx):
    """A transaction on one connection. See `clew.backends.Tx`."""

    __slots__ = ()

    @property
    def blobs(self) -> Self:
        return self

    @property
    def maintenance(self) -> Self:
        return self

    # -- `Loader`

    @abstractmethod
    def set_counters(self, counters: Mapping[str, int]) -> None:
        """Sets the highest assigned numbers, by table. Later rows get higher ones."""

    def clear(self) -> None:
        self.run_sql("DELETE FROM objects")
        for table in reversed(COPIED):
            self.run_sql(f"DELETE FROM {table.name}")

    def set_owners(self, rows: Iterable[tuple[int | None, int]]) -> None:
        for row in rows:
            self.run_sql("UPDATE refs SET owner = ? WHERE ref = ?", row)

    def become(self, header: Mapping[str, bytes], counters: Mapping[str, int], state: State) -> None:
        self.run_sql("DELETE FROM header")
        for name, value in header.items():
            self.set_header(name, value)
        self.set_counters(counters)
        self.set_state(state.state, state.key_id)
        # The encrypted secrets of the header are bound to this number: see `State.change`.
        self.run_sql("UPDATE epoch SET number = ? + format", (state.change + (state.state == "plain"),))

    # -- the store itself

    def state(self) -> State:
        row = self._one("state")
        if row is None:
            raise Corrupted("the epoch", "its row is missing")
        state = State._make(row)
        if not (isinstance(state.number, int) and isinstance(state.format, int) and isinstance(state.state, str)):
            raise Corrupted("the epoch", _ODD)
        return state

    def header(self, name: str) -> bytes | None:
        row = self._one("header", name)
        if row is not None and not isinstance(row[0], bytes):
            raise Corrupted(f"the value {name} of the header", _ODD)
        return row[0] if row else None

    def set_header(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._run(self._sql["drop_header"], (name,))
        else:
            self._run(self._sql["set_header"], (name, value))

    def owns_store(self) -> bool:
        return True

    # -- nodes and runs

    def node(self, id: bytes) -> NodeLocation | None:
        return self._row(locate, "node", id)

    def node_at(self, pos: int) -> NodeLocation | None:
        return self._row(locate, "node_at", pos)

    def insert_point(self, id: bytes) -> InsertPoint | None:
        return self._row(InsertPoint._make, "insert_point", id)

    def ids_between(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._run(self._sql["ids_between"], (low, high, limit))]

    def id_beside(self, id: bytes) -> list[bytes]:
        found = [self._one(name, id) for name in ("id_before", "id_after")]
        return [row[0] for row in found if row]

    def lineage(self, pos: int) -> list[tuple[RunRow, int]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(self._sql["lineage"], (pos, pos))]

    def nodes_between(self, low: int, high: int) -> list[NodeRow]:
        rows: list[NodeRow] = self._run(self._sql["nodes_between"], (low, high)).fetchall()
        return rows

    def scan_bodies(self, low: int, high: int, read: Callable[[Iterable[BodyRow]], T]) -> T:
        rows = self._run(self._sql["bodies_between"], (low, high))
        try:
            return read(rows)
        finally:
            rows.fetchall()  # an unfinished statement of an idle connection would keep the WAL from being truncated

    def by_ord(
        self,
        after: int | None,
        before: int | None,
        *,
        newest: bool,
        limit: int,
        offset: int = 0,
        workspace: str | None = None,
    ) -> list[tuple[int, NodeLocation]]:
        bounds = (-1 if after is None else after, 1 << 62 if before is None else before, workspace, limit, offset)
        rows = self._run(self._sql["by_ord_down" if newest else "by_ord_up"], bounds)
        return [(row[-1], locate(row[:-1])) for row in rows]

    def run(self, run: int) -> RunRow | None:
        return self._row(RunRow._make, "run", run)

    def runs_from(self, low: int, high: int) -> list[RunRow]:
        return self._rows(RunRow._make, "runs_from", low, high, low, high)

    def last_seq(self, run: int) -> int:
        low = run << SEQ_BITS
        found = self._one("last_pos", low, low | MAX_SEQ)[0]
        return -1 if found is None else found & MAX_SEQ

    def add_tree(self, workspace: str, created_at: int) -> int:
        return self._insert("add_tree", (workspace, created_at))

    def tree_workspace(self, tree: int) -> str | None:
        row = self._one("tree_workspace", tree)
        return row[0] if row else None

    def add_run(self, row: RunRow) -> int:
        return self._insert("add_run", row[1:])

    def set_run(self, row: RunRow) -> None:
        self._run(
            self._sql["set_run"], (row.parent, row.derived, row.tip, row.closed, row.wrapped_key, row.mac, row.run)
        )

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        self._store("add_node", rows, "a message with this id is already stored")

    def body_bytes(self, low: int, high: int) -> int:
        return int(self._one("body_bytes", low, high, low, high)[0])

    def delete_nodes(self, low: int, high: int) -> int:
        self._forget(low, high)
        self.drop_quarantined(low, high)
        return int(self._run(self._sql["delete_nodes"], (low, high)).rowcount)

    def replace_body(self, pos: int, body: bytes) -> None:
        self.set_bodies("nodes", [(body, pos)])
        self._forget(pos + 1, pos)  # not a range: see `deletions_after`

    def _forget(self, low: int, high: int) -> None:
        """Notes that the nodes between two positions are deleted or replaced, for search indexes."""
        number = self._insert("forget", (low, high))
        self._run(self._sql["forget_old"], (number - REMEMBERED,))

    def delete_run(self, run: int) -> None:
        self._run(self._sql["delete_run"], (run,))

    def delete_tree_if_empty(self, tree: int) -> bool:
        if self._one("tree_in_use", tree, tree)[0]:
            return False
        for (blob,) in self._run(self._sql["tree_blobs"], (tree,)).fetchall():
            self.delete_blob(blob)
        self._run(self._sql["delete_tree"], (tree,))
        return True

    def refs_after(self, ref: int, limit: int) -> list[RefRow]:
        return self._rows(RefRow._make, "refs_after", ref, limit)

    # -- refs

    def head_state(self, ref: int) -> HeadState | None:
        return self._row(HeadState._make, "head_state", ref)

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None:
        return self._row(RefRow._make, "ref", workspace, kind, key)

    def ref_at(self, ref: int) -> RefRow | None:
        return self._row(RefRow._make, "ref_at", ref)

    def keys_between(self, workspace: str, kind: str, low: bytes, high: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._run(self._sql["keys_between"], (workspace, kind, low, high, limit))]

    def key_beside(self, workspace: str, kind: str, key: bytes) -> list[bytes]:
        found = [self._one(name, workspace, kind, key) for name in ("key_before", "key_after")]
        return [row[0] for row in found if row]

    def refs_recent(
        self,
        workspace: str,
        kind: str,
        *,
        before: tuple[int, int] | None = None,
        look: bytes | None = None,
        label: bytes | None = None,
        limit: int,
    ) -> list[RefRow]:
        rank, ref = before or _FOREVER
        if label is not None:
            rows = self._labelled(label, (workspace, kind, rank, ref), look, limit)
        elif look is not None:
            rows = self._run(self._sql["refs_look"], (workspace, kind, look, rank, ref, limit))
        else:
            rows = self._run(self._sql["refs_recent"], (workspace, kind, rank, ref, limit))
        return list(map(_as_ref, rows.fetchall()))

    def _labelled(self, label: bytes, page: tuple[str, str, int, int], look: bytes | None, limit: int) -> Any:
        """The rows of `refs_recent` with a label."""
        return self._run(self._sql["refs_label"], (*page, label, look, look, limit))

    def refs_trashed(self, workspace: str, *, before: tuple[int, int] | None = None, limit: int) -> list[RefRow]:
        rows = self._run(self._sql["refs_trashed"], (workspace, *(before or _FOREVER), limit))
        return [RefRow._make(row) for row in rows]

    def count_refs(self, workspace: str, kind: str, *, look: bytes | None, label: bytes | None, now: int) -> int:
        values = (workspace, kind, now, now, look, look)
        found = self._one("count_refs", *values) if label is None else self._one("count_label", label, *values)
        return int(found[0])

    def refs_owned(self, ref: int) -> list[RefRow]:
        return self._rows(RefRow._make, "refs_owned", ref)

    def refs_in_tree(self, tree: int, low: int, high: int) -> list[RefRow]:
        return self._rows(RefRow._make, "refs_in_tree", tree, low, high)

    def top_rank(self, workspace: str, kind: str) -> int:
        return int(self._one("top_rank", workspace, kind)[0])

    def add_ref(self, row: RefRow) -> int:
        return self._insert("add_ref", row[1:], f"a {row.kind} with this id is already stored")

    def set_ref(self, row: RefRow) -> None:
        done = self._run(
            self._sql["set_ref"],
            (row.owner, row.head, row.head_id, row.version, row.active_at, row.rank, row.trashed_at, row.expires_at,
             row.hold, row.look, row.wrapped_key, row.mac, row.data, row.ref, row.version - 1),
        )  # fmt: skip
        if done.rowcount != 1:
            raise Conflict(f"another writer has changed the {row.kind}")

    def move_ref(self, ref: int, move: Move, *, up: bool) -> None:
        head, head_id, version, active_at, rank, mac = move
        if up:
            done = self._run(self._sql["move_ref_up"], (head, head_id, version, active_at, rank, mac, ref, version - 1))
        else:
            done = self._run(self._sql["move_ref"], (head, head_id, version, active_at, mac, ref, version - 1))
        if done.rowcount != 1:
            raise Conflict("another writer has changed the ref")

    def delete_ref(self, ref: int) -> None:
        self._run(self._sql["delete_log"], (ref << SEQ_BITS, ref << SEQ_BITS | MAX_SEQ))
        self.delete_uses(-ref, -ref)
        self._run(self._sql["delete_ref"], (ref,))

    def set_labels(self, ref: int, looks: Iterable[bytes]) -> None:
        self._run(self._sql["clear_labels"], (ref,))
        self._many("add_label", [(look, ref) for look in looks])

    # -- log

    def log_next(self, ref: int) -> int:
        low = ref << SEQ_BITS
        found = self._one("log_last", low, low | MAX_SEQ)[0]
        return low if found is None else found + 1

    def log_range(self, low: int, high: int, limit: int) -> list[LogRow]:
        return self._rows(LogRow._make, "log_range", low, high, limit)

    def log_by_id(self, id: bytes) -> LogRow | None:
        return self._row(LogRow._make, "log_by_id", id)

    def add_log(self, rows: Sequence[LogRow]) -> None:
        self._store("add_log", rows, "an entry with this id is already stored")
