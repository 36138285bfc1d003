"""The rows of a store in tables: `Tx` by the named statements, whatever the dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from clew.backends import (
    MAX_SEQ,
    SEQ_BITS,
    BlobRow,
    Ground,
    Growth,
    LogRow,
    Move,
    NodeRow,
    ObjectRow,
    Place,
    QuarantineRow,
    RefRow,
    RunRow,
    State,
    Tip,
)
from clew.errors import Conflict, Tampered

REMEMBERED = 100_000
"""Deletions that a search index may have missed and still catch up with; one that missed more is built anew."""
TABLES = ("runs", "nodes", "refs", "log", "blobs", "chunks", "quarantine", "objects")
_BODIES = {"nodes": "set_body", "log": "set_log_body", "chunks": "set_chunk", "quarantine": "set_quarantined"}
_ODD = "a column has a value of the wrong kind"
_FOREVER = (1 << 62, 1 << 62)


class SqlTx(ABC):
    """A transaction on one connection, but for what a dialect says in its own way; see `clew.backends.Tx`."""

    __slots__ = ("_run",)

    _sql: ClassVar[Mapping[str, Any]]
    """The named statements, as the driver takes them."""
    _run: Callable[..., Any]
    """Runs one on the cursor that all share: so every method takes its rows whole before it runs the next."""

    def _one(self, name: str, *values: Any) -> Any:
        return self._run(self._sql[name], values).fetchone()

    @abstractmethod
    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> int:
        """Runs a statement for each row; how many rows it changed."""

    @abstractmethod
    def _store(self, name: str, rows: Sequence[Sequence[Any]], taken: str) -> None:
        """Stores new rows. Conflict, in the words of `taken`, if one is there already."""

    @abstractmethod
    def _added(self, name: str, row: Sequence[Any], taken: str = "") -> int:
        """Stores a new row and returns its number; Conflict as `_store` has it."""

    # -- the store itself

    def state(self) -> State:
        row = self._one("state")
        if row is None:
            raise Tampered("the epoch", "its row is missing")
        state = State._make(row)
        if not (isinstance(state.number, int) and isinstance(state.format, int) and isinstance(state.state, str)):
            raise Tampered("the epoch", _ODD)
        return state

    def header(self, name: str) -> bytes | None:
        row = self._one("header", name)
        if row is not None and not isinstance(row[0], bytes):
            raise Tampered(f"the value {name} of the header", _ODD)
        return row[0] if row else None

    def headers(self, prefix: str) -> dict[str, bytes]:
        return dict(self._run(self._sql["headers"], (prefix, prefix)).fetchall())

    def set_header(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._run(self._sql["drop_header"], (name,))
        else:
            self._run(self._sql["set_header"], (name, value))

    def set_state(self, state: str, key_id: bytes | None) -> None:
        self._run(self._sql["set_state"], (state, key_id))

    def owns_store(self) -> bool:
        return True

    def empty(self) -> bool:
        return bool(self._one("empty")[0])

    def growth(self, ord: int) -> Growth:
        found = Growth._make(self._one("growth", ord))
        if not isinstance(found.last, int):
            raise Tampered("a node", "its number in the order of storing is not a number")
        return found

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

    def ground(self, id: bytes) -> Ground | None:
        row = self._one("ground", id)
        return Ground._make(row) if row else None

    def ids_between(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        return [row[0] for row in self._run(self._sql["ids_between"], (low, high, limit))]

    def id_beside(self, id: bytes) -> list[bytes]:
        found = [self._one(name, id) for name in ("id_before", "id_after")]
        return [row[0] for row in found if row]

    def lineage(self, pos: int) -> list[tuple[RunRow, int]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(self._sql["lineage"], (pos, pos))]

    def stretch(self, low: int, high: int) -> list[NodeRow]:
        rows: list[NodeRow] = self._run(self._sql["stretch"], (low, high)).fetchall()
        return rows

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
        rows = self._run(self._sql["by_ord_down" if newest else "by_ord_up"], bounds)
        return [(row[-1], Place(row[0], row[1], row[2], row[3], row[4], row[5:-1])) for row in rows]

    def run(self, run: int) -> RunRow | None:
        row = self._one("run", run)
        return RunRow._make(row) if row else None

    def runs_from(self, low: int, high: int) -> list[RunRow]:
        return [RunRow._make(row) for row in self._run(self._sql["runs_from"], (low, high, low, high))]

    def last_seq(self, run: int) -> int:
        low = run << SEQ_BITS
        found = self._one("last_pos", low, low | MAX_SEQ)[0]
        return -1 if found is None else found & MAX_SEQ

    def add_tree(self, workspace: str, created_at: int) -> int:
        return self._added("add_tree", (workspace, created_at))

    def tree_workspace(self, tree: int) -> str | None:
        row = self._one("tree_workspace", tree)
        return row[0] if row else None

    def add_run(self, row: RunRow) -> int:
        return self._added("add_run", row[1:])

    def set_run(self, row: RunRow) -> None:
        self._run(
            self._sql["set_run"], (row.parent, row.derived, row.tip, row.closed, row.wrapped_key, row.mac, row.run)
        )

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        self._store("add_node", rows, "a message with this id is already stored")

    def body_bytes(self, low: int, high: int) -> int:
        return int(self._one("body_bytes", low, high, low, high)[0])

    def delete_nodes(self, low: int, high: int) -> int:
        number = self._added("forget", (low, high))
        self._run(self._sql["forget_old"], (number - REMEMBERED,))
        self.drop_quarantined(low, high)
        return int(self._run(self._sql["delete_nodes"], (low, high)).rowcount)

    def forgotten(self, after: int, limit: int) -> list[tuple[int, int, int]]:
        rows: list[tuple[int, int, int]] = self._run(self._sql["forgotten"], (after, limit)).fetchall()
        return rows

    def delete_run(self, run: int) -> None:
        self._run(self._sql["delete_run"], (run,))

    def delete_tree_if_empty(self, tree: int) -> bool:
        if self._one("tree_in_use", tree, tree)[0]:
            return False
        for (blob,) in self._run(self._sql["tree_blobs"], (tree,)).fetchall():
            self.delete_blob(blob)
        self._run(self._sql["delete_tree"], (tree,))
        return True

    # -- exchanging keys: rows in order of their numbers, and their bytes anew

    def sizes(self) -> dict[str, int]:
        return dict(zip(TABLES, self._one("sizes"), strict=True))

    def runs_after(self, run: int, limit: int) -> list[tuple[RunRow, bytes | None]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(self._sql["runs_after"], (run, limit))]

    def rekey_runs(self, keys: Sequence[tuple[bytes | None, bytes, int]]) -> None:
        self._many("rekey_run", keys)

    def keys_otherwise(self, head: bytes | None, size: int) -> bool:
        length = 0 if head is None else len(head)
        return bool(self._one("keys_otherwise", *(length, head, size) * 3)[0])

    def places_after(self, pos: int, limit: int) -> list[Place]:
        rows = self._run(self._sql["places_after"], (pos, limit))
        return [Place(row[0], row[1], row[2], row[3], row[4], row[5:]) for row in rows]

    def refs_after(self, ref: int, limit: int) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(self._sql["refs_after"], (ref, limit))]

    def log_after(self, pos: int, limit: int) -> list[LogRow]:
        return [LogRow._make(row) for row in self._run(self._sql["log_after"], (pos, limit))]

    def blobs_after(self, blob: int, limit: int) -> list[BlobRow]:
        return [BlobRow._make(row) for row in self._run(self._sql["blobs_after"], (blob, limit))]

    def chunks_after(self, pos: int, limit: int) -> list[tuple[int, bytes]]:
        rows: list[tuple[int, bytes]] = self._run(self._sql["chunks_after"], (pos, limit)).fetchall()
        return rows

    def lengths_after(self, table: str, after: int, limit: int) -> list[int]:
        return [row[0] for row in self._run(self._sql[f"lengths_{table}"], (after, limit))]

    def rekey_ref(self, row: RefRow) -> None:
        self._run(self._sql["rekey_ref"], (row.wrapped_key, row.mac, row.data, row.ref))

    def set_bodies(self, table: str, bodies: Sequence[tuple[bytes, int]]) -> None:
        self._many(_BODIES[table], bodies)

    # -- quarantine

    def quarantined(self, pos: int) -> QuarantineRow | None:
        row = self._one("quarantined", pos)
        return QuarantineRow._make(row) if row else None

    def quarantined_after(self, pos: int, limit: int) -> list[QuarantineRow]:
        return [QuarantineRow._make(row) for row in self._run(self._sql["quarantined_after"], (pos, limit))]

    def add_quarantined(self, row: QuarantineRow) -> None:
        self._store("add_quarantined", [row], "this message is in quarantine")

    def drop_quarantined(self, low: int, high: int) -> None:
        self._run(self._sql["drop_quarantined"], (low, high))

    # -- refs

    def tip(self, ref: int) -> Tip | None:
        row = self._one("tip", ref)
        return Tip._make(row) if row else None

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None:
        row = self._one("ref", workspace, kind, key)
        return RefRow._make(row) if row else None

    def refs_named(self, kind: str, key: bytes) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(self._sql["refs_named"], (kind, key))]

    def ref_at(self, ref: int) -> RefRow | None:
        row = self._one("ref_at", ref)
        return RefRow._make(row) if row else None

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
            rows = self._run(self._sql["refs_label"], (workspace, kind, rank, ref, label, look, look, limit))
        elif look is not None:
            rows = self._run(self._sql["refs_look"], (workspace, kind, look, rank, ref, limit))
        else:
            rows = self._run(self._sql["refs_recent"], (workspace, kind, rank, ref, limit))
        return [RefRow._make(row) for row in rows]

    def refs_trashed(self, workspace: str, *, before: tuple[int, int] | None = None, limit: int) -> list[RefRow]:
        rows = self._run(self._sql["refs_trashed"], (workspace, *(before or _FOREVER), limit))
        return [RefRow._make(row) for row in rows]

    def count_refs(self, workspace: str, kind: str, *, look: bytes | None, label: bytes | None, now: int) -> int:
        return int(self._one("count_refs", workspace, kind, now, now, look, look, label, label)[0])

    def refs_owned(self, ref: int) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(self._sql["refs_owned"], (ref,))]

    def refs_in_tree(self, tree: int, low: int, high: int) -> list[RefRow]:
        return [RefRow._make(row) for row in self._run(self._sql["refs_in_tree"], (tree, low, high))]

    def top_rank(self, workspace: str, kind: str) -> int:
        return int(self._one("top_rank", workspace, kind)[0])

    def add_ref(self, row: RefRow) -> int:
        return self._added("add_ref", row[1:], f"a {row.kind} with this id is already stored")

    def set_ref(self, row: RefRow) -> None:
        done = self._run(
            self._sql["set_ref"],
            (row.owner, row.head, row.head_id, row.version, row.active_at, row.rank, row.trashed_at, row.expires_at,
             row.hold, row.look, row.wrapped_key, row.mac, row.data, row.ref, row.version - 1),
        )  # fmt: skip
        if done.rowcount != 1:
            raise Conflict(f"the {row.kind} was changed by someone else")

    def move_ref(self, ref: int, move: Move, *, up: bool) -> None:
        head, head_id, version, active_at, rank, mac = move
        if up:
            done = self._run(self._sql["move_ref_up"], (head, head_id, version, active_at, rank, mac, ref, version - 1))
        else:
            done = self._run(self._sql["move_ref"], (head, head_id, version, active_at, mac, ref, version - 1))
        if done.rowcount != 1:
            raise Conflict("the ref was changed by someone else")

    def delete_ref(self, ref: int) -> None:
        self._run(self._sql["delete_log"], (ref << SEQ_BITS, ref << SEQ_BITS | MAX_SEQ))
        self.delete_uses(-ref, -ref)
        self._run(self._sql["delete_ref"], (ref,))

    def labels(self, ref: int) -> list[bytes]:
        return [row[0] for row in self._run(self._sql["labels"], (ref,))]

    def set_labels(self, ref: int, looks: Iterable[bytes]) -> None:
        self._run(self._sql["clear_labels"], (ref,))
        self._many("add_label", [(look, ref) for look in looks])

    # -- log

    def log_next(self, ref: int) -> int:
        low = ref << SEQ_BITS
        found = self._one("log_last", low, low | MAX_SEQ)[0]
        return low if found is None else found + 1

    def log_range(self, low: int, high: int, limit: int) -> list[LogRow]:
        return [LogRow._make(row) for row in self._run(self._sql["log_range"], (low, high, limit))]

    def log_by_id(self, id: bytes) -> LogRow | None:
        row = self._one("log_by_id", id)
        return LogRow._make(row) if row else None

    def add_log(self, rows: Sequence[LogRow]) -> None:
        self._store("add_log", rows, "an entry with this id is already stored")

    # -- blobs

    def blob(self, tree: int, look: bytes) -> BlobRow | None:
        row = self._one("blob", tree, look)
        return BlobRow._make(row) if row else None

    def blob_by_number(self, blob: int) -> BlobRow | None:
        row = self._one("blob_by_number", blob)
        return BlobRow._make(row) if row else None

    def blobs_between(self, tree: int, low: bytes, high: bytes) -> list[BlobRow]:
        return [BlobRow._make(row) for row in self._run(self._sql["blobs_between"], (tree, low, high))]

    def blobs_unused(self, tree: int) -> list[BlobRow]:
        return [BlobRow._make(row) for row in self._run(self._sql["blobs_unused"], (tree,))]

    def add_blob(self, row: BlobRow) -> int:
        return self._added("add_blob", row[1:])

    def set_blob(self, row: BlobRow) -> None:
        self._run(self._sql["set_blob"], (row.look, row.size, row.chunks, row.wrapped_key, row.mac, row.blob))

    def add_chunk(self, pos: int, body: bytes) -> None:
        self._run(self._sql["add_chunk"], (pos, body))

    def chunk(self, pos: int) -> bytes | None:
        row = self._one("chunk", pos)
        return row[0] if row else None

    def add_uses(self, user: int, blobs: Iterable[int]) -> None:
        self._many("add_use", [(blob, user) for blob in blobs])

    def delete_uses(self, low: int, high: int) -> None:
        used = self._run(self._sql["blobs_used"], (low, high)).fetchall()
        if not used:
            return
        self._run(self._sql["delete_uses"], (low, high))
        for (blob,) in used:
            if not self._one("blob_in_use", blob)[0]:
                self.delete_blob(blob)

    def delete_blob(self, blob: int) -> None:
        self._run(self._sql["delete_chunks"], (blob << SEQ_BITS, blob << SEQ_BITS | MAX_SEQ))
        self._run(self._sql["leave_object"], (blob,))
        self._run(self._sql["delete_blob"], (blob,))

    # -- objects

    def add_object(self, row: ObjectRow) -> None:
        self._run(self._sql["add_object"], row)

    def object(self, blob: int) -> ObjectRow | None:
        row = self._one("object", blob)
        return ObjectRow._make(row) if row else None

    def objects_after(self, blob: int, limit: int) -> list[ObjectRow]:
        return [ObjectRow._make(row) for row in self._run(self._sql["objects_after"], (blob, limit))]

    def whole_object(self, name: bytes, blob: int, size: int) -> bool:
        if self._run(self._sql["whole_object"], (size, name, blob)).rowcount != 1:
            return False
        self._run(self._sql["leave_others"], (blob, name))
        return True

    def objects_unfinished(self, before: int) -> list[ObjectRow]:
        return [ObjectRow._make(row) for row in self._run(self._sql["objects_unfinished"], (before,))]

    def leave_unfinished(self, before: int) -> None:
        self._run(self._sql["leave_unfinished"], (before,))

    def objects_left(self, limit: int) -> list[ObjectRow]:
        return [ObjectRow._make(row) for row in self._run(self._sql["objects_left"], (limit,))]

    def bytes_left(self) -> int:
        return int(self._one("bytes_left")[0])

    def object_named(self, name: bytes) -> bool:
        return bool(self._one("object_named", name)[0])

    def drop_objects(self, names: Sequence[bytes]) -> None:
        self._many("drop_object", [(name,) for name in names])
