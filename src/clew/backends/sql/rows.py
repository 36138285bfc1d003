"""`Tx`, implemented with the named statements. Each dialect has a subclass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from clew.backends import (
    MAX_SEQ,
    SEQ_BITS,
    BodyRow,
    HeadState,
    InsertPoint,
    LogRow,
    Move,
    NodeLocation,
    NodeRow,
    RefRow,
    RunRow,
    State,
)
from clew.backends.sql.blob_rows import SqlBlobTx
from clew.backends.sql.maintenance_rows import SqlMaintenanceTx
from clew.backends.sql.statements import T, locate
from clew.backends.tables import COPIED
from clew.errors import Conflict, Corrupted

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
