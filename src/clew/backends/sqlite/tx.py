"""`Tx` for SQLite: statements that differ from other databases, and faster versions of frequent ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from clew.backends import SEQ_BITS, HeadState, Move, NodeLocation, NodeRow, RunRow, Table
from clew.backends.sql import queries
from clew.backends.sql.tx import SqlTx
from clew.errors import Conflict

SQL = queries()
ADD_NODE, EXTEND, DATA_VERSION = SQL["add_node"], SQL["extend"], "PRAGMA data_version"
_HEAD_STATE, _ADVANCE = SQL["head_state"], SQL["advance"]
_LABEL_COUNT, _REFS_LABEL_FEW = SQL["label_count"], SQL["refs_label_few"]
FEW_REFS = 500
"""A label of fewer refs is looked up and its refs are sorted. Others are found among the most recent refs."""
_TAKEN = "a message with this id is already stored"
_NODES_AT = SQL["nodes_at"].replace("(?)", "%s(?)")  # faster than IN, which sorts its values
_RUNS_AT, _TREE_STATES, _VERSIONS = (
    SQL[name].removesuffix("= ?") + "IN (%s?)" for name in ("run", "tree_state", "version")
)
_STORED, _STORED_LOG = (f"SELECT id FROM {table} WHERE id IN (%s?)" for table in ("nodes", "log"))
_KEYS_BESIDE = (
    "WITH wanted (key) AS (VALUES %s(?)) SELECT w.key, "
    "(SELECT r.key FROM refs r WHERE r.workspace = ? AND r.kind = ? AND r.key < w.key ORDER BY r.key DESC LIMIT 1), "
    "(SELECT r.key FROM refs r WHERE r.workspace = ? AND r.kind = ? AND r.key > w.key ORDER BY r.key LIMIT 1) "
    "FROM wanted w"
)


class SQLiteTx(SqlTx):
    """See `clew.backends.Tx`."""

    __slots__ = ("conn", "epoch", "last_append", "run_sql")
    _sql = SQL

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        # All methods share one cursor, because creating one costs more than some statements. So every method fetches
        # all rows before it runs the next statement.
        self._run = self.run_sql = conn.cursor().execute
        self.epoch: int | None = None
        """The number of the epoch in which this transaction began, if it was read."""
        self.last_append = (0, 0, 0)
        """The ref of the last append, if that was one message; `data_version` and `total_changes` after it."""

    def begin(self) -> None:
        """Begins a write transaction."""
        self.epoch = None
        self._run("BEGIN IMMEDIATE")

    def undo(self, savepoint: str = "") -> None:
        """Rolls back the transaction, if there is one, or to a savepoint."""
        self.last_append = (0, 0, 0)
        if self.conn.in_transaction:
            self.conn.execute(f"ROLLBACK TO {savepoint}" if savepoint else "ROLLBACK")

    def current_epoch(self) -> int:
        """The number of the epoch, read once per transaction."""
        if self.epoch is None:
            (self.epoch,) = self._run(SQL["epoch"]).fetchone()
        return self.epoch

    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> int:
        return self.conn.executemany(SQL[name], rows).rowcount

    def _store(self, name: str, rows: Sequence[Sequence[Any]], taken: str) -> None:
        try:
            self._many(name, rows)
        except sqlite3.IntegrityError:
            raise Conflict(taken) from None

    def _insert(self, name: str, row: Sequence[Any], taken: str = "") -> int:
        try:
            number = self._run(SQL[name], row).lastrowid
        except sqlite3.IntegrityError:
            if not taken:
                raise
            raise Conflict(taken) from None
        return int(number)

    # -- whole tables, for copying a store

    def insert_rows(self, table: Table, rows: Sequence[Sequence[object]]) -> None:
        columns, marks = ", ".join(table.columns), ", ".join("?" * len(table.columns))
        self.conn.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({marks})", rows)

    def set_counters(self, counters: Mapping[str, int]) -> None:
        for name in ("trees", "runs", "refs", "blobs", "forgotten"):
            self._run("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            self._run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, counters.get(name, 0)))
        self._run("UPDATE epoch SET ord_floor = ?", (counters["ords"],))

    # -- nodes and refs

    def set_state(self, state: str, key_id: bytes | None) -> None:
        self.current_epoch()  # remember the epoch in which this transaction began
        super().set_state(state, key_id)

    def nodes_at(self, positions: Sequence[int]) -> dict[int, NodeLocation]:
        return {
            pos: NodeLocation._make((tree, depth, carried, key, parent, (pos, facts, id, body)))
            for tree, depth, carried, key, parent, pos, facts, id, body in self._among(_NODES_AT, positions, "(?), ")
        }

    def existing_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        return {id for (id,) in self._among(_STORED, ids)}

    def existing_log_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        return {id for (id,) in self._among(_STORED_LOG, ids)}

    def tree_states(self, trees: Sequence[int]) -> dict[int, tuple[str, bool]]:
        return {tree: (workspace, bool(trashed)) for tree, workspace, trashed in self._among(_TREE_STATES, trees)}

    def _among(self, sql: str, values: Sequence[int] | Sequence[bytes], one: str = "?, ") -> list[Any]:
        """The rows that any of these values finds; `one` is how the statement has each but the last."""
        found: list[Any] = []
        for start in range(0, len(values), 500):
            some = values[start : start + 500]
            found += self._run(sql % (one * (len(some) - 1)), some).fetchall()
        return found

    def versions(self, refs: Collection[int]) -> dict[int, int]:
        """The versions of these refs, without deleted ones."""
        return dict(self._among(_VERSIONS, list(refs)))

    def runs_at(self, numbers: Sequence[int]) -> dict[int, RunRow]:
        return {row[0]: RunRow._make(row) for row in self._among(_RUNS_AT, numbers)}

    def keys_beside(self, workspace: str, kind: str, keys: Sequence[bytes]) -> dict[bytes, list[bytes]]:
        found: dict[bytes, list[bytes]] = {}
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            values = (*some, workspace, kind, workspace, kind)
            rows = self._run(_KEYS_BESIDE % ("(?), " * (len(some) - 1)), values).fetchall()
            found.update((row[0], [key for key in row[1:] if key is not None]) for row in rows)
        return found

    def _labelled(self, label: bytes, page: tuple[str, str, int, int], look: bytes | None, limit: int) -> Any:
        if self._run(_LABEL_COUNT, (label, FEW_REFS)).fetchone()[0] < FEW_REFS:
            return self._run(_REFS_LABEL_FEW, (label, *page, look, look, limit))
        return super()._labelled(label, page, look, limit)

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        if len(rows) != 1:
            super().add_nodes(rows)
            return
        try:
            self._run(ADD_NODE, rows[0])
        except sqlite3.IntegrityError:
            raise Conflict(_TAKEN) from None

    def delete_nodes(self, low: int, high: int) -> int:
        self._run(SQL["raise_floor"])
        return super().delete_nodes(low, high)

    def head_state(self, ref: int) -> HeadState | None:
        row = self._run(_HEAD_STATE, (ref,)).fetchone()
        if row is None:
            return None
        if self.epoch is None:  # otherwise another job of this transaction may have changed it
            self.epoch = row[0]
        return HeadState._make(row)

    def advance(self, ref: int, seen: HeadState, move: Move, top: int) -> bool:
        head, head_id, version, active_at, rank, mac = move
        epoch, pos = seen.epoch, seen.pos
        assert pos is not None
        bounds = (
            head, head_id, version, active_at, mac, ref, seen.version, pos, seen.id, seen.mac, seen.ref_key, top, epoch,
            pos >> SEQ_BITS, seen.wrapped_key, pos + 1,
        )  # fmt: skip
        same = rank == seen.rank
        done = self._run(_ADVANCE, bounds) if same else self._run(SQL["advance_up"], (rank, *bounds))
        if done.rowcount != 1:
            return False
        if self.epoch is None:
            self.epoch = epoch
        if same:
            # If others have written since the last append they probably will again, and an attempt of `extend` that
            # fails waits for the lock twice. The changes are counted with the node that the caller adds next.
            now = self._run(DATA_VERSION).fetchone()[0]
            self.last_append = (ref if now == self.last_append[1] else 0, now, self.conn.total_changes + 1)
        return True
