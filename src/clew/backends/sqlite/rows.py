"""The rows of a store in SQLite: `Tx`, statement by statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from clew.backends import (
    MAX_SEQ,
    SEQ_BITS,
    BlobRow,
    Ground,
    Growth,
    LogRow,
    Move,
    NodeRow,
    Place,
    QuarantineRow,
    RefRow,
    RunRow,
    State,
    Tip,
)
from clew.backends.sql import queries
from clew.errors import Conflict, Tampered

SQL = queries()
_TIP, _ADD_NODE, _ADVANCE = SQL["tip"], SQL["add_node"], SQL["advance"]
_NODES_AT = SQL["node_at"].removesuffix("= ?") + "IN (%s?)"
REMEMBERED = 100_000
"""Deletions that a search index may have missed and still catch up with; one that missed more is built anew."""
TABLES = ("runs", "nodes", "refs", "log", "blobs", "chunks", "quarantine")
_BODIES = {"nodes": "set_body", "log": "set_log_body", "chunks": "set_chunk", "quarantine": "set_quarantined"}
_ODD = "a column has a value of the wrong kind"
_FOREVER = (1 << 62, 1 << 62)


class SQLiteTx:
    """A transaction on one connection; what it means is written at `clew.backends.Tx`."""

    __slots__ = ("_run", "conn", "epoch", "run_sql")

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        # One cursor for all: making one for each statement costs more than some statements. So every method takes
        # its rows whole before it runs the next statement.
        self._run = self.run_sql = conn.cursor().execute
        self.epoch: int | None = None
        """Number of the epoch that this transaction began in, once it has read it."""

    def begin(self) -> None:
        """Opens a write transaction; what the last one knew is forgotten."""
        self.epoch = None
        self._run("BEGIN IMMEDIATE")

    def current_epoch(self) -> int:
        """The epoch's number, read once in a transaction, with whatever first needs it."""
        if self.epoch is None:
            (self.epoch,) = self._run(SQL["epoch"]).fetchone()
        return self.epoch

    # -- whole tables, for copying a store

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Stores rows as they are, with the numbers they have."""
        marks = ", ".join("?" * len(columns))
        self.conn.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def set_counters(self, counters: Mapping[str, int]) -> None:
        """No number up to these is given again."""
        for name in ("trees", "runs", "refs", "blobs", "forgotten"):
            self._run("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            self._run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, counters.get(name, 0)))
        self._run("UPDATE epoch SET ord_floor = ?", (counters["ords"],))

    # -- the store itself

    def state(self) -> State:
        row = self._run(SQL["state"]).fetchone()
        if row is None:
            raise Tampered("the epoch", "its row is missing")
        state = State._make(row)
        if not (isinstance(state.number, int) and isinstance(state.format, int) and isinstance(state.state, str)):
            raise Tampered("the epoch", _ODD)
        return state

    def header(self, name: str) -> bytes | None:
        row = self._run(SQL["header"], (name,)).fetchone()
        if row is not None and not isinstance(row[0], bytes):
            raise Tampered(f"the value {name} of the header", _ODD)
        return row[0] if row else None

    def headers(self, prefix: str) -> dict[str, bytes]:
        return dict(self._run(SQL["headers"], (prefix, prefix)).fetchall())

    def set_header(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._run(SQL["drop_header"], (name,))
        else:
            self._run(SQL["set_header"], (name, value))

    def set_state(self, state: str, key_id: bytes | None) -> None:
        self.current_epoch()  # the one that this transaction began in
        self._run(SQL["set_state"], (state, key_id))

    def empty(self) -> bool:
        return bool(self._run(SQL["empty"]).fetchone()[0])

    def growth(self, ord: int) -> Growth:
        return Growth._make(self._run(SQL["growth"], (ord,)).fetchone())

    def ord_id(self, ord: int) -> bytes | None:
        row = self._run(SQL["ord_id"], (ord,)).fetchone()
        return row[0] if row else None

    # -- nodes and runs

    def node(self, id: bytes) -> Place | None:
        row = self._run(SQL["node"], (id,)).fetchone()
        return Place(row[0], row[1], row[2], row[3], row[4], row[5:]) if row else None

    def node_at(self, pos: int) -> Place | None:
        row = self._run(SQL["node_at"], (pos,)).fetchone()
        return Place(row[0], row[1], row[2], row[3], row[4], row[5:]) if row else None

    def nodes_at(self, positions: Sequence[int]) -> dict[int, Place]:
        found: dict[int, Place] = {}
        for start in range(0, len(positions), 500):
            some = positions[start : start + 500]
            for row in self._run(_NODES_AT % ("?, " * (len(some) - 1)), some).fetchall():
                found[row[5]] = Place(row[0], row[1], row[2], row[3], row[4], row[5:])
        return found

    def ground(self, id: bytes) -> Ground | None:
        row = self._run(SQL["ground"], (id,)).fetchone()
        return Ground._make(row) if row else None

    def ids_between(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._run(SQL["ids_between"], (low, high, limit))]

    def id_beside(self, id: bytes) -> list[bytes]:
        found = [self._run(SQL[name], (id,)).fetchone() for name in ("id_before", "id_after")]
        return [row[0] for row in found if row]

    def lineage(self, pos: int) -> list[tuple[RunRow, int]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(SQL["lineage"], (pos, pos))]

    def stretch(self, low: int, high: int) -> list[NodeRow]:
        return self._run(SQL["stretch"], (low, high)).fetchall()

    def by_ord(
        self,
        after: int | None,
        before: int | None,
        *,
        newest: bool,
        limit: int,
        offset: int = 0,
        workspace: str | None = None,
    ) -> list[tuple[int, Place]]:
        bounds = (-1 if after is None else after, 1 << 62 if before is None else before, workspace, limit, offset)
        rows = self._run(SQL["by_ord_down" if newest else "by_ord_up"], bounds)
        return [(row[-1], Place(row[0], row[1], row[2], row[3], row[4], row[5:-1])) for row in rows]

    def run(self, run: int) -> RunRow | None:
        row = self._run(SQL["run"], (run,)).fetchone()
        return RunRow._make(row) if row else None

    def runs_from(self, low: int, high: int) -> list[RunRow]:
        return [RunRow._make(row) for row in self._run(SQL["runs_from"], (low, high, low, high))]

    def last_seq(self, run: int) -> int:
        low = run << SEQ_BITS
        found = self._run(SQL["last_pos"], (low, low | MAX_SEQ)).fetchone()[0]
        return -1 if found is None else found & MAX_SEQ

    def add_tree(self, workspace: str, created_at: int) -> int:
        return _number(self._run(SQL["add_tree"], (workspace, created_at)))

    def tree_workspace(self, tree: int) -> str | None:
        row = self._run(SQL["tree_workspace"], (tree,)).fetchone()
        return row[0] if row else None

    def add_run(self, row: RunRow) -> int:
        return _number(self._run(SQL["add_run"], row[1:]))

    def set_run(self, row: RunRow) -> None:
        self._run(SQL["set_run"], (row.parent, row.derived, row.tip, row.closed, row.wrapped_key, row.mac, row.run))

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        try:
            if len(rows) == 1:
                self._run(_ADD_NODE, rows[0])
            else:
                self.conn.executemany(SQL["add_node"], rows)
        except sqlite3.IntegrityError:
            raise Conflict("a message with this id is already stored") from None

    def body_bytes(self, low: int, high: int) -> int:
        return int(self._run(SQL["body_bytes"], (low, high, low, high)).fetchone()[0])

    def delete_nodes(self, low: int, high: int) -> int:
        self._run(SQL["raise_floor"])
        number = _number(self._run(SQL["forget"], (low, high)))
        self._run(SQL["forget_old"], (number - REMEMBERED,))
        self.drop_quarantined(low, high)
        return self._run(SQL["delete_nodes"], (low, high)).rowcount

    def forgotten(self, after: int, limit: int) -> list[tuple[int, int, int]]:
        return self._run(SQL["forgotten"], (after, limit)).fetchall()

    def delete_run(self, run: int) -> None:
        self._run(SQL["delete_run"], (run,))

    def delete_tree_if_empty(self, tree: int) -> bool:
        if self._run(SQL["tree_in_use"], (tree, tree)).fetchone()[0]:
            return False
        for (blob,) in self._run(SQL["tree_blobs"], (tree,)).fetchall():
            self.delete_blob(blob)
        self._run(SQL["delete_tree"], (tree,))
        return True

    # -- exchanging keys: rows in order of their numbers, and their bytes anew

    def sizes(self) -> dict[str, int]:
        return dict(zip(TABLES, self._run(SQL["sizes"]).fetchone(), strict=True))

    def runs_after(self, run: int, limit: int) -> list[tuple[RunRow, bytes | None]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(SQL["runs_after"], (run, limit))]

    def rekey_runs(self, keys: Sequence[tuple[bytes | None, bytes, int]]) -> None:
        self.conn.executemany(SQL["rekey_run"], keys)

    def keys_otherwise(self, head: bytes | None, size: int) -> bool:
        length = 0 if head is None else len(head)
        return bool(self._run(SQL["keys_otherwise"], (length, head, size) * 3).fetchone()[0])

    def places_after(self, pos: int, limit: int) -> list[Place]:
        rows = self._run(SQL["places_after"], (pos, limit))
        return [Place(row[0], row[1], row[2], row[3], row[4], row[5:]) for row in rows]

    def refs_after(self, ref: int, limit: int) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(SQL["refs_after"], (ref, limit))]

    def log_after(self, pos: int, limit: int) -> list[LogRow]:
        return [LogRow._make(row) for row in self._run(SQL["log_after"], (pos, limit))]

    def blobs_after(self, blob: int, limit: int) -> list[BlobRow]:
        return [BlobRow._make(row) for row in self._run(SQL["blobs_after"], (blob, limit))]

    def chunks_after(self, pos: int, limit: int) -> list[tuple[int, bytes]]:
        return self._run(SQL["chunks_after"], (pos, limit)).fetchall()

    def lengths_after(self, table: str, after: int, limit: int) -> list[int]:
        return [row[0] for row in self._run(SQL[f"lengths_{table}"], (after, limit))]

    def rekey_ref(self, row: RefRow) -> None:
        self._run(SQL["rekey_ref"], (row.wrapped_key, row.mac, row.data, row.ref))

    def set_bodies(self, table: str, bodies: Sequence[tuple[bytes, int]]) -> None:
        self.conn.executemany(SQL[_BODIES[table]], bodies)

    # -- quarantine

    def quarantined(self, pos: int) -> QuarantineRow | None:
        row = self._run(SQL["quarantined"], (pos,)).fetchone()
        return QuarantineRow._make(row) if row else None

    def quarantined_after(self, pos: int, limit: int) -> list[QuarantineRow]:
        return [QuarantineRow._make(row) for row in self._run(SQL["quarantined_after"], (pos, limit))]

    def add_quarantined(self, row: QuarantineRow) -> None:
        try:
            self._run(SQL["add_quarantined"], row)
        except sqlite3.IntegrityError:
            raise Conflict("this message is in quarantine") from None

    def drop_quarantined(self, low: int, high: int) -> None:
        self._run(SQL["drop_quarantined"], (low, high))

    # -- refs

    def tip(self, ref: int) -> Tip | None:
        row = self._run(_TIP, (ref,)).fetchone()
        if row is None:
            return None
        if self.epoch is None:  # else it may have been changed here, by another job
            self.epoch = row[0]
        return Tip._make(row)

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None:
        row = self._run(SQL["ref"], (workspace, kind, key)).fetchone()
        return RefRow._make(row) if row else None

    def refs_named(self, kind: str, key: bytes) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(SQL["refs_named"], (kind, key))]

    def ref_at(self, ref: int) -> RefRow | None:
        row = self._run(SQL["ref_at"], (ref,)).fetchone()
        return RefRow._make(row) if row else None

    def keys_between(self, workspace: str, kind: str, low: bytes, high: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._run(SQL["keys_between"], (workspace, kind, low, high, limit))]

    def key_beside(self, workspace: str, kind: str, key: bytes) -> list[bytes]:
        found = [self._run(SQL[name], (workspace, kind, key)).fetchone() for name in ("key_before", "key_after")]
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
            rows = self._run(SQL["refs_label"], (workspace, kind, rank, ref, label, look, look, limit))
        elif look is not None:
            rows = self._run(SQL["refs_look"], (workspace, kind, look, rank, ref, limit))
        else:
            rows = self._run(SQL["refs_recent"], (workspace, kind, rank, ref, limit))
        return [RefRow._make(row) for row in rows]

    def refs_trashed(self, workspace: str, *, before: tuple[int, int] | None = None, limit: int) -> list[RefRow]:
        rows = self._run(SQL["refs_trashed"], (workspace, *(before or _FOREVER), limit))
        return [RefRow._make(row) for row in rows]

    def count_refs(self, workspace: str, kind: str, *, look: bytes | None, label: bytes | None, now: int) -> int:
        bounds = (workspace, kind, now, now, look, look, label, label)
        return int(self._run(SQL["count_refs"], bounds).fetchone()[0])

    def refs_owned(self, ref: int) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(SQL["refs_owned"], (ref,))]

    def refs_in_tree(self, tree: int, low: int, high: int) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(SQL["refs_in_tree"], (tree, low, high))]

    def top_rank(self, workspace: str, kind: str) -> int:
        return int(self._run(SQL["top_rank"], (workspace, kind)).fetchone()[0])

    def add_ref(self, row: RefRow) -> int:
        try:
            return _number(self._run(SQL["add_ref"], row[1:]))
        except sqlite3.IntegrityError:
            raise Conflict(f"a {row.kind} with this id is already stored") from None

    def set_ref(self, row: RefRow) -> None:
        done = self._run(
            SQL["set_ref"],
            (row.owner, row.head, row.head_id, row.version, row.active_at, row.rank, row.trashed_at, row.expires_at,
             row.hold, row.look, row.wrapped_key, row.mac, row.data, row.ref, row.version - 1),
        )  # fmt: skip
        if done.rowcount != 1:
            raise Conflict(f"the {row.kind} was changed by someone else")

    def move_ref(self, ref: int, move: Move, *, up: bool) -> None:
        head, head_id, version, active_at, rank, mac = move
        if up:
            done = self._run(SQL["move_ref_up"], (head, head_id, version, active_at, rank, mac, ref, version - 1))
        else:
            done = self._run(SQL["move_ref"], (head, head_id, version, active_at, mac, ref, version - 1))
        if done.rowcount != 1:
            raise Conflict("the ref was changed by someone else")

    def advance(self, ref: int, seen: Tip, move: Move, top: int) -> bool:
        head, head_id, version, active_at, rank, mac = move
        epoch, pos = seen.epoch, seen.pos
        assert pos is not None
        bounds = (
            head, head_id, version, active_at, mac, ref, seen.version, pos, seen.id, seen.mac, seen.ref_key, top, epoch,
            pos >> SEQ_BITS, seen.wrapped_key, pos + 1,
        )  # fmt: skip
        done = self._run(_ADVANCE, bounds) if rank == seen.rank else self._run(SQL["advance_up"], (rank, *bounds))
        if done.rowcount != 1:
            return False
        if self.epoch is None:
            self.epoch = epoch
        return True

    def delete_ref(self, ref: int) -> None:
        self._run(SQL["delete_log"], (ref << SEQ_BITS, ref << SEQ_BITS | MAX_SEQ))
        self.delete_uses(-ref, -ref)
        self._run(SQL["delete_ref"], (ref,))

    def labels(self, ref: int) -> list[bytes]:
        return [row[0] for row in self._run(SQL["labels"], (ref,))]

    def set_labels(self, ref: int, looks: Iterable[bytes]) -> None:
        self._run(SQL["clear_labels"], (ref,))
        self.conn.executemany(SQL["add_label"], [(look, ref) for look in looks])

    # -- log

    def log_next(self, ref: int) -> int:
        low = ref << SEQ_BITS
        found = self._run(SQL["log_last"], (low, low | MAX_SEQ)).fetchone()[0]
        return low if found is None else found + 1

    def log_range(self, low: int, high: int, limit: int) -> list[LogRow]:
        return [LogRow._make(row) for row in self._run(SQL["log_range"], (low, high, limit))]

    def log_by_id(self, id: bytes) -> LogRow | None:
        row = self._run(SQL["log_by_id"], (id,)).fetchone()
        return LogRow._make(row) if row else None

    def add_log(self, rows: Sequence[LogRow]) -> None:
        try:
            self.conn.executemany(SQL["add_log"], rows)
        except sqlite3.IntegrityError:
            raise Conflict("an entry with this id is already stored") from None

    # -- blobs

    def blob(self, tree: int, look: bytes) -> BlobRow | None:
        row = self._run(SQL["blob"], (tree, look)).fetchone()
        return BlobRow._make(row) if row else None

    def blob_by_number(self, blob: int) -> BlobRow | None:
        row = self._run(SQL["blob_by_number"], (blob,)).fetchone()
        return BlobRow._make(row) if row else None

    def blobs_between(self, tree: int, low: bytes, high: bytes) -> list[BlobRow]:
        return [BlobRow._make(row) for row in self._run(SQL["blobs_between"], (tree, low, high))]

    def blobs_unused(self, tree: int) -> list[BlobRow]:
        return [BlobRow._make(row) for row in self._run(SQL["blobs_unused"], (tree,))]

    def add_blob(self, row: BlobRow) -> int:
        return _number(self._run(SQL["add_blob"], row[1:]))

    def set_blob(self, row: BlobRow) -> None:
        self._run(SQL["set_blob"], (row.look, row.size, row.chunks, row.wrapped_key, row.mac, row.blob))

    def add_chunk(self, pos: int, body: bytes) -> None:
        self._run(SQL["add_chunk"], (pos, body))

    def chunk(self, pos: int) -> bytes | None:
        row = self._run(SQL["chunk"], (pos,)).fetchone()
        return row[0] if row else None

    def add_uses(self, user: int, blobs: Iterable[int]) -> None:
        self.conn.executemany(SQL["add_use"], [(blob, user) for blob in blobs])

    def delete_uses(self, low: int, high: int) -> None:
        used = self._run(SQL["blobs_used"], (low, high)).fetchall()
        if not used:
            return
        self._run(SQL["delete_uses"], (low, high))
        for (blob,) in used:
            if not self._run(SQL["blob_in_use"], (blob,)).fetchone()[0]:
                self.delete_blob(blob)

    def delete_blob(self, blob: int) -> None:
        self._run(SQL["delete_chunks"], (blob << SEQ_BITS, blob << SEQ_BITS | MAX_SEQ))
        self._run(SQL["delete_blob"], (blob,))


def _number(cursor: sqlite3.Cursor) -> int:
    number = cursor.lastrowid
    assert number is not None
    return number
