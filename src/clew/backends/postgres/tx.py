"""`Tx` for PostgreSQL: statements that differ from SQLite, and appends without the lock."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from clew.backends import MAX_SEQ, SEQ_BITS, HeadState, Move, NodeLocation, NodeRow, RunRow, Table, creation_counter
from clew.backends.postgres.connection import Connection, Numbers, Strings
from clew.backends.sql import queries
from clew.backends.sql.tx import SqlTx, locate
from clew.errors import Conflict

_BOUNDS = (
    Numbers, Numbers, Numbers, Numbers, Strings, Strings, Strings, Strings,
    Numbers, Strings, Numbers, Numbers, Numbers, Strings,
)  # fmt: skip
_NODE = (Numbers, Strings, Strings, Strings)
_REF = attrgetter("ref")

SQL = {name: statement.replace("?", "%s").encode() for name, statement in queries("postgres").items()}


class Append(NamedTuple):
    """An append that takes effect only if the ref is still as it was `seen`."""

    ref: int
    seen: HeadState
    move: Move
    rows: Sequence[NodeRow]

    @property
    def run(self) -> int:
        """The run to which it adds nodes."""
        return (self.seen.pos or 0) >> SEQ_BITS

    @property
    def size(self) -> int:
        """Size of the bodies in bytes."""
        return sum([len(body) for _, _, _, body in self.rows])

    def follows(self, other: Append) -> bool:
        """True if it continues where the other ends."""
        seen, move, first = self.seen, other.move, other.seen
        return (
            self.ref == other.ref
            and (seen.version, seen.pos, seen.id, seen.mac) == (move.version, move.head, move.head_id, move.mac)
            and (seen.epoch, seen.ref_key, seen.wrapped_key) == (first.epoch, first.ref_key, first.wrapped_key)
        )

    def bounds(self) -> tuple[Any, ...]:
        """The expected state and the new one, as parameters of the SQL function `extend`."""
        seen, move = self.seen, self.move
        return (
            seen.epoch, self.ref, seen.version, seen.pos, seen.id, seen.mac, seen.ref_key, seen.wrapped_key,
            move.head, move.head_id, move.version, move.active_at, move.rank, move.mac,
        )  # fmt: skip


def join(chain: Sequence[Append]) -> Append:
    """Combines appends, each of which follows the previous one."""
    first, last = chain[0], chain[-1]
    return Append(first.ref, first.seen, last.move, [row for append in chain for row in append.rows])


def columns(appends: Sequence[Append]) -> list[bytes]:
    """The parameters of the SQL function `extend_all`, for appends to different refs."""
    appends = sorted(appends, key=_REF)
    rows = [row for append in appends for row in append.rows]
    bounds = zip(*[append.bounds() for append in appends], strict=True)
    nodes = zip(*rows, strict=True) if rows else ((),) * len(_NODE)
    return [
        *[kind(column) for kind, column in zip(_BOUNDS, bounds, strict=True)],
        *[kind(column) for kind, column in zip(_NODE, nodes, strict=True)],
    ]


class PostgresTx(SqlTx):
    """See `clew.backends.Tx`."""

    __slots__ = ("_cursor", "conn", "epoch", "store")
    _sql = SQL

    def __init__(self, conn: Connection, store: int) -> None:
        self.conn = conn
        # All methods share one cursor, so every method fetches all rows before it runs the next statement.
        self._cursor = conn.shared_cursor
        self._run = self._cursor.execute
        self.store = store
        """The number of the store's advisory lock."""
        self.epoch = 0
        """The number of the epoch in which a write transaction began."""

    def begin(self) -> int:
        """Waits for the lock, begins a write transaction, and returns the number of the epoch."""
        began = time.monotonic()
        # Sent in one message; each statement sees everything that was committed before the previous one ended.
        cursor = self.conn.execute(SQL["begin_write"] % self.store, prepare=False)
        while cursor.nextset():
            pass
        (self.epoch,) = cursor.fetchone() or (0,)
        self.conn.note("lock", began)
        return self.epoch

    def owns_store(self) -> bool:
        return bool(self._run("SELECT has_table_privilege('epoch', 'UPDATE')").fetchone()[0])

    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> int:
        if len(rows) == 1:
            return int(self._run(self._sql[name], rows[0]).rowcount)
        if not rows:
            return 0
        self._cursor.executemany(self._sql[name], rows)
        return self._cursor.rowcount

    def _store(self, name: str, rows: Sequence[Sequence[Any]], taken: str) -> None:
        if self._many(name, rows) != len(rows):
            raise Conflict(taken)

    def _insert(self, name: str, row: Sequence[Any], taken: str = "") -> int:
        made = self._one(name, *row)
        if made is None:
            raise Conflict(taken)
        return int(made[0])

    # -- whole tables, for copying a store

    def run_sql(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Runs a statement with question marks for parameters."""
        self._run(sql.replace("?", "%s").encode(), values)

    def insert_rows(self, table: Table, rows: Sequence[Sequence[object]]) -> None:
        columns, marks = ", ".join(table.columns), ", ".join(["%s"] * len(table.columns))
        sql = f"INSERT INTO {table.name} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({marks})"
        self._cursor.executemany(sql.encode(), rows)

    def set_counters(self, counters: Mapping[str, int]) -> None:
        highest = {"trees_tree_seq": counters.get("trees", 0), "forgotten_number_seq": counters.get("forgotten", 0),
                   "ords": counters["ords"], "run_numbers": creation_counter(counters.get("runs", 0)),
                   "ref_numbers": creation_counter(counters.get("refs", 0)),
                   "blob_numbers": creation_counter(counters.get("blobs", 0))}  # fmt: skip
        for name, number in highest.items():
            self._run(b"SELECT setval(to_regclass(%s), greatest(%s, 1), %s)", (name, number, number > 0))

    def run_named(self, name: str, *values: Any) -> Any:
        """Runs a named statement; its rows must be read before the next one."""
        return self._run(SQL[name], values)

    def sizes(self) -> dict[str, int]:
        self._run(b"SET LOCAL statement_timeout = 0")  # counting many rows takes long
        return super().sizes()

    # -- nodes and refs

    def nodes_at(self, positions: Sequence[int]) -> dict[int, NodeLocation]:
        rows = self._run(SQL["nodes_at"], (list(positions),)).fetchall() if positions else []
        return {row[5]: locate(row) for row in rows}

    def existing_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        return {id for (id,) in self._run(SQL["stored"], (list(ids),))} if ids else set()

    def existing_log_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        return {id for (id,) in self._run(SQL["stored_log"], (list(ids),))} if ids else set()

    def tree_states(self, trees: Sequence[int]) -> dict[int, tuple[str, bool]]:
        return {
            tree: (workspace, trashed) for tree, workspace, trashed in self._run(SQL["tree_states"], (list(trees),))
        }

    def runs_at(self, numbers: Sequence[int]) -> dict[int, RunRow]:
        rows = self._run(SQL["runs_at"], (list(numbers),)).fetchall() if numbers else []
        return {row[0]: RunRow._make(row) for row in rows}

    def keys_beside(self, workspace: str, kind: str, keys: Sequence[bytes]) -> dict[bytes, list[bytes]]:
        values = (workspace, kind, workspace, kind, list(keys))
        rows = self._run(SQL["keys_beside"], values).fetchall() if keys else []
        return {row[0]: [key for key in row[1:] if key is not None] for row in rows}

    def tail(self, workspace: str, kind: str, key: bytes, count: int) -> list[tuple[Any, ...]]:
        """A ref's head and the `count` nodes before it in its run, last first. The row of the head has ref and run."""
        return list(self._run(SQL["tail"], (min(count, MAX_SEQ) + 1, workspace, kind, key)))

    def delete_nodes(self, low: int, high: int) -> int:
        gone = super().delete_nodes(low, high)
        self._run(SQL["drop_words"], (low, high))  # last, because no words can be added once the nodes are deleted
        return gone

    def replace_body(self, pos: int, body: bytes) -> None:
        super().replace_body(pos, body)
        self._run(SQL["drop_words"], (pos, pos))
        self._run(SQL["lower_edge"], (pos, pos))

    def advance(self, ref: int, seen: HeadState, move: Move, top: int) -> bool:
        (moved,) = self._one("extend_all", self.store, *columns([Append(ref, seen, move, ())]))
        return moved is not None

    def delete_ref(self, ref: int) -> None:
        self._run(SQL["tell_gone"], (ref,))  # first: without the row, a tenant could not read its watchers
        super().delete_ref(ref)
