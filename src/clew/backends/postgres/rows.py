"""The rows of a store in PostgreSQL: `Tx`, statement by statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from clew.backends.postgres.connection import Connection
from clew.backends.sql import queries
from clew.errors import Conflict, Tampered

SQL = {name: statement.replace("?", "%s").encode() for name, statement in queries("postgres").items()}
REMEMBERED = 100_000
"""Deletions that a search index may have missed and still catch up with; one that missed more is built anew."""
TABLES = ("runs", "nodes", "refs", "log", "blobs", "chunks", "quarantine")
_BODIES = {"nodes": "set_body", "log": "set_log_body", "chunks": "set_chunk", "quarantine": "set_quarantined"}
_FOREVER = (1 << 62, 1 << 62)


class PostgresTx:
    """A transaction on one connection; what it means is written at `clew.backends.Tx`."""

    __slots__ = ("_cursor", "_run", "conn", "epoch", "store")

    def __init__(self, conn: Connection, store: int) -> None:
        self.conn = conn
        # One cursor for all, so every method takes its rows whole before it runs the next statement.
        self._cursor = conn.cursor(binary=True)
        self._run = self._cursor.execute
        self.store = store
        """The number under which the store is locked."""
        self.epoch = 0
        """Number of the epoch that it began in, if it writes."""

    def begin(self) -> int:
        """Opens a write transaction, when no other is open, and returns the number of the epoch it is in."""
        # In one message; each statement sees what was committed when the one before it was done.
        cursor = self.conn.execute(SQL["begin_write"] % self.store, prepare=False)
        while cursor.nextset():
            pass
        (self.epoch,) = cursor.fetchone() or (0,)
        return self.epoch

    def _one(self, name: str, *values: Any) -> Any:
        return self._run(SQL[name], values).fetchone()

    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> int:
        """Runs a statement for each row, sent together; how many rows it changed."""
        if len(rows) == 1:
            return self._run(SQL[name], rows[0]).rowcount
        if not rows:
            return 0
        self._cursor.executemany(SQL[name], rows)
        return self._cursor.rowcount

    # -- whole tables, for copying a store

    def run_sql(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Runs a statement in which a parameter is a question mark."""
        self._run(sql.replace("?", "%s").encode(), values)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Stores rows as they are, with the numbers they have."""
        marks = ", ".join(["%s"] * len(columns))
        named = ", ".join(columns)
        self._cursor.executemany(
            f"INSERT INTO {table} ({named}) OVERRIDING SYSTEM VALUE VALUES ({marks})".encode(), rows
        )

    def set_counters(self, counters: Mapping[str, int]) -> None:
        """No number up to these is given again."""
        sequences = {"trees": "trees_tree_seq", "refs": "refs_ref_seq", "blobs": "blobs_blob_seq",
                     "forgotten": "forgotten_number_seq", "ords": "ords"}  # fmt: skip
        highest = {sequences[name]: number for name, number in counters.items() if name in sequences}
        highest["run_numbers"] = (counters["runs"] >> 8) + 1
        for name, number in highest.items():
            self._run(b"SELECT setval(to_regclass(%s), greatest(%s, 1), %s)", (name, number, number > 0))

    # -- the store itself

    def state(self) -> State:
        row = self._one("state")
        if row is None:
            raise Tampered("the epoch", "its row is missing")
        return State._make(row)

    def header(self, name: str) -> bytes | None:
        row = self._one("header", name)
        return row[0] if row else None

    def headers(self, prefix: str) -> dict[str, bytes]:
        return dict(self._run(SQL["headers"], (prefix, prefix)).fetchall())

    def set_header(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._run(SQL["drop_header"], (name,))
        else:
            self._run(SQL["set_header"], (name, value))

    def set_state(self, state: str, key_id: bytes | None) -> None:
        self._run(SQL["set_state"], (state, key_id))

    def empty(self) -> bool:
        return bool(self._one("empty")[0])

    def growth(self, ord: int) -> Growth:
        return Growth._make(self._one("growth", ord))

    def ord_id(self, ord: int) -> bytes | None:
        row = self._one("ord_id", ord)
        return row[0] if row else None

    # -- nodes and runs

    def node(self, id: bytes) -> Place | None:
        row = self._one("node", id)
        return Place(row[0], row[1], row[2], row[3], row[4], row[5:]) if row else None

    def node_at(self, pos: int) -> Place | None:
        row = self._one("node_at", pos)
        return Place(row[0], row[1], row[2], row[3], row[4], row[5:]) if row else None

    def nodes_at(self, positions: Sequence[int]) -> dict[int, Place]:
        rows = self._run(SQL["nodes_at"], (list(positions),)).fetchall() if positions else []
        return {row[5]: Place(row[0], row[1], row[2], row[3], row[4], row[5:]) for row in rows}

    def ground(self, id: bytes) -> Ground | None:
        row = self._one("ground", id)
        return Ground._make(row) if row else None

    def ids_between(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._run(SQL["ids_between"], (low, high, limit))]

    def id_beside(self, id: bytes) -> list[bytes]:
        found = [self._one(name, id) for name in ("id_before", "id_after")]
        return [row[0] for row in found if row]

    def lineage(self, pos: int) -> list[tuple[RunRow, int]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(SQL["lineage"], (pos, pos))]

    def stretch(self, low: int, high: int) -> list[NodeRow]:
        return self._run(SQL["stretch"], (low, high)).fetchall()

    def tail(self, workspace: str, kind: str, key: bytes, count: int) -> list[tuple[Any, ...]]:
        """A ref's head and the `count` nodes before it in its run, last first; beside the head stand ref and run."""
        return self._run(SQL["tail"], (count, workspace, kind, key)).fetchall()

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
        row = self._one("run", run)
        return RunRow._make(row) if row else None

    def runs_from(self, low: int, high: int) -> list[RunRow]:
        return [RunRow._make(row) for row in self._run(SQL["runs_from"], (low, high, low, high))]

    def last_seq(self, run: int) -> int:
        low = run << SEQ_BITS
        found = self._one("last_pos", low, low | MAX_SEQ)[0]
        return -1 if found is None else found & MAX_SEQ

    def add_tree(self, workspace: str, created_at: int) -> int:
        return int(self._one("add_tree", workspace, created_at)[0])

    def tree_workspace(self, tree: int) -> str | None:
        row = self._one("tree_workspace", tree)
        return row[0] if row else None

    def add_run(self, row: RunRow) -> int:
        return int(self._one("add_run", *row[1:])[0])

    def set_run(self, row: RunRow) -> None:
        self._run(SQL["set_run"], (row.parent, row.derived, row.tip, row.closed, row.wrapped_key, row.mac, row.run))

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        if self._many("add_node", rows) != len(rows):
            raise Conflict("a message with this id is already stored")

    def body_bytes(self, low: int, high: int) -> int:
        return int(self._one("body_bytes", low, high, low, high)[0])

    def delete_nodes(self, low: int, high: int) -> int:
        number = int(self._one("forget", low, high)[0])
        self._run(SQL["forget_old"], (number - REMEMBERED,))
        self.drop_quarantined(low, high)
        gone = self._run(SQL["delete_nodes"], (low, high)).rowcount
        self._run(SQL["drop_words"], (low, high))  # now that nobody can add any
        return gone

    def forgotten(self, after: int, limit: int) -> list[tuple[int, int, int]]:
        return self._run(SQL["forgotten"], (after, limit)).fetchall()

    def delete_run(self, run: int) -> None:
        self._run(SQL["delete_run"], (run,))

    def delete_tree_if_empty(self, tree: int) -> bool:
        if self._one("tree_in_use", tree, tree)[0]:
            return False
        for (blob,) in self._run(SQL["tree_blobs"], (tree,)).fetchall():
            self.delete_blob(blob)
        self._run(SQL["delete_tree"], (tree,))
        return True

    # -- exchanging keys: rows in order of their numbers, and their bytes anew

    def sizes(self) -> dict[str, int]:
        return dict(zip(TABLES, self._one("sizes"), strict=True))

    def runs_after(self, run: int, limit: int) -> list[tuple[RunRow, bytes | None]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(SQL["runs_after"], (run, limit))]

    def rekey_runs(self, keys: Sequence[tuple[bytes | None, bytes, int]]) -> None:
        self._many("rekey_run", keys)

    def keys_otherwise(self, head: bytes | None, size: int) -> bool:
        length = 0 if head is None else len(head)
        return bool(self._one("keys_otherwise", *(length, head, size) * 3)[0])

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
        self._many(_BODIES[table], bodies)

    # -- quarantine

    def quarantined(self, pos: int) -> QuarantineRow | None:
        row = self._one("quarantined", pos)
        return QuarantineRow._make(row) if row else None

    def quarantined_after(self, pos: int, limit: int) -> list[QuarantineRow]:
        return [QuarantineRow._make(row) for row in self._run(SQL["quarantined_after"], (pos, limit))]

    def add_quarantined(self, row: QuarantineRow) -> None:
        if self._run(SQL["add_quarantined"], row).rowcount != 1:
            raise Conflict("this message is in quarantine")

    def drop_quarantined(self, low: int, high: int) -> None:
        self._run(SQL["drop_quarantined"], (low, high))

    # -- refs

    def tip(self, ref: int) -> Tip | None:
        row = self._one("tip", ref)
        return Tip._make(row) if row else None

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None:
        row = self._one("ref", workspace, kind, key)
        return RefRow._make(row) if row else None

    def refs_named(self, kind: str, key: bytes) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(SQL["refs_named"], (kind, key))]

    def ref_at(self, ref: int) -> RefRow | None:
        row = self._one("ref_at", ref)
        return RefRow._make(row) if row else None

    def keys_between(self, workspace: str, kind: str, low: bytes, high: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._run(SQL["keys_between"], (workspace, kind, low, high, limit))]

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
        return int(self._one("count_refs", workspace, kind, now, now, look, look, label, label)[0])

    def refs_owned(self, ref: int) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(SQL["refs_owned"], (ref,))]

    def refs_in_tree(self, tree: int, low: int, high: int) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(SQL["refs_in_tree"], (tree, low, high))]

    def top_rank(self, workspace: str, kind: str) -> int:
        return int(self._one("top_rank", workspace, kind)[0])

    def add_ref(self, row: RefRow) -> int:
        made = self._one("add_ref", *row[1:])
        if made is None:
            raise Conflict(f"a {row.kind} with this id is already stored")
        return int(made[0])

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
        (done,) = self._one("advance", *bounds(self.store, ref, seen, move))
        return bool(done)

    def delete_ref(self, ref: int) -> None:
        self._run(SQL["delete_log"], (ref << SEQ_BITS, ref << SEQ_BITS | MAX_SEQ))
        self.delete_uses(-ref, -ref)
        self._run(SQL["delete_ref"], (ref,))

    def labels(self, ref: int) -> list[bytes]:
        return [row[0] for row in self._run(SQL["labels"], (ref,))]

    def set_labels(self, ref: int, looks: Iterable[bytes]) -> None:
        self._run(SQL["clear_labels"], (ref,))
        self._many("add_label", [(look, ref) for look in looks])

    # -- log

    def log_next(self, ref: int) -> int:
        low = ref << SEQ_BITS
        found = self._one("log_last", low, low | MAX_SEQ)[0]
        return low if found is None else found + 1

    def log_range(self, low: int, high: int, limit: int) -> list[LogRow]:
        return [LogRow._make(row) for row in self._run(SQL["log_range"], (low, high, limit))]

    def log_by_id(self, id: bytes) -> LogRow | None:
        row = self._one("log_by_id", id)
        return LogRow._make(row) if row else None

    def add_log(self, rows: Sequence[LogRow]) -> None:
        if self._many("add_log", rows) != len(rows):
            raise Conflict("an entry with this id is already stored")

    # -- blobs

    def blob(self, tree: int, look: bytes) -> BlobRow | None:
        row = self._one("blob", tree, look)
        return BlobRow._make(row) if row else None

    def blob_by_number(self, blob: int) -> BlobRow | None:
        row = self._one("blob_by_number", blob)
        return BlobRow._make(row) if row else None

    def blobs_between(self, tree: int, low: bytes, high: bytes) -> list[BlobRow]:
        return [BlobRow._make(row) for row in self._run(SQL["blobs_between"], (tree, low, high))]

    def blobs_unused(self, tree: int) -> list[BlobRow]:
        return [BlobRow._make(row) for row in self._run(SQL["blobs_unused"], (tree,))]

    def add_blob(self, row: BlobRow) -> int:
        return int(self._one("add_blob", *row[1:])[0])

    def set_blob(self, row: BlobRow) -> None:
        self._run(SQL["set_blob"], (row.look, row.size, row.chunks, row.wrapped_key, row.mac, row.blob))

    def add_chunk(self, pos: int, body: bytes) -> None:
        self._run(SQL["add_chunk"], (pos, body))

    def chunk(self, pos: int) -> bytes | None:
        row = self._one("chunk", pos)
        return row[0] if row else None

    def add_uses(self, user: int, blobs: Iterable[int]) -> None:
        self._many("add_use", [(blob, user) for blob in blobs])

    def delete_uses(self, low: int, high: int) -> None:
        used = self._run(SQL["blobs_used"], (low, high)).fetchall()
        if not used:
            return
        self._run(SQL["delete_uses"], (low, high))
        for (blob,) in used:
            if not self._one("blob_in_use", blob)[0]:
                self.delete_blob(blob)

    def delete_blob(self, blob: int) -> None:
        self._run(SQL["delete_chunks"], (blob << SEQ_BITS, blob << SEQ_BITS | MAX_SEQ))
        self._run(SQL["delete_blob"], (blob,))

    # -- words, for the search index of a plain store

    def search_edge(self, workspace: str, mode: str) -> int:
        """Up to which number everything of a workspace is in the index."""
        return int(self._one("search_edge", workspace, mode)[0])

    def add_words(self, workspace: str, mode: str, rows: Sequence[Sequence[Any]], edge: int) -> None:
        """Adds words of messages that are still there: position, id, role, time and lexemes of each."""
        if rows:
            self._run(SQL["add_words"], (workspace, mode, *map(list, zip(*rows, strict=True))))
        self._run(SQL["move_edge"], (workspace, mode, edge))

    def find_words(
        self, workspace: str, mode: str, query: str, filters: dict[str, Any], limit: int, offset: int
    ) -> list[tuple[int, bytes, float]]:
        """Position, id and rank of what matches, best first; newest first if there is no query."""
        role, spans = filters.get("role"), filters.get("spans")
        lows, highs = (None, None) if spans is None else ([low for low, _ in spans], [high for _, high in spans])
        since, until = filters.get("since", -(1 << 62)), filters.get("until", 1 << 62)
        rest = (workspace, mode, role, role, since, until, lows, lows, highs, limit, offset)
        found = self._run(SQL["find_words"], (query, *rest)) if query else self._run(SQL["find_all"], rest)
        return found.fetchall()

    def clear_words(self) -> None:
        """Takes all of them away."""
        self._run(SQL["clear_words"])
        self._run(SQL["clear_edges"])


def bounds(store: int, ref: int, seen: Tip, move: Move) -> tuple[Any, ...]:
    """What the server's `advance` is given: what was seen, and what is to be."""
    return (
        store, seen.epoch, ref, seen.version, seen.pos, seen.id, seen.mac, seen.ref_key, seen.wrapped_key,
        move.head, move.head_id, move.version, move.active_at, move.rank, move.mac,
    )  # fmt: skip
