"""Databases that store rows in transactions; they know nothing about blocks, keys or policy.

Several threads may use one backend. A transaction (`Tx`) belongs to the thread that runs it, and ends when the function
that received it returns. Every method raises the errors of `clew.errors`, never those of a driver.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from clew.backends.problems import BROKEN, Problem
from clew.backends.rows import (
    BODY,
    FACTS,
    FORMAT,
    ID,
    MAX_POS,
    MAX_SEQ,
    POS,
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
    Table,
    creation_counter,
)
from clew.backends.timing import Resources, Timing
from clew.errors import Unavailable

__all__ = [
    "BODY",
    "BROKEN",
    "FACTS",
    "FORMAT",
    "ID",
    "MAX_POS",
    "MAX_SEQ",
    "POS",
    "SEQ_BITS",
    "Backend",
    "BackendOptions",
    "Backup",
    "BlobRow",
    "BlobTx",
    "BodyRow",
    "Call",
    "Durability",
    "EpochChanged",
    "Growth",
    "HeadState",
    "InsertPoint",
    "Job",
    "Loader",
    "LogRow",
    "Maintenance",
    "MaintenanceTx",
    "Move",
    "NodeLocation",
    "NodeRow",
    "ObjectRow",
    "Partitions",
    "Problem",
    "Progress",
    "QuarantineRow",
    "Reader",
    "RefRow",
    "Resources",
    "RunRow",
    "State",
    "Table",
    "Tail",
    "Tenants",
    "Tx",
    "Words",
    "creation_counter",
    "current_call",
]


class BlobTx(Protocol):
    """Blobs, their chunks, their users, and objects in object storage."""

    def blob(self, tree: int, look: bytes) -> BlobRow | None:
        """A blob of a tree by its lookup hash."""

    def blob_by_number(self, blob: int) -> BlobRow | None:
        """A blob by its number."""

    def blobs_between(self, tree: int, low: bytes, high: bytes) -> list[BlobRow]:
        """The blobs of a tree with lookup hashes from `low` to `high`."""

    def blobs_unused(self, tree: int) -> list[BlobRow]:
        """The blobs of a tree that nothing uses, complete or not."""

    def add_blob(self, row: BlobRow) -> int:
        """Adds a blob and returns its number."""

    def set_blob(self, row: BlobRow) -> None:
        """Updates the columns that change until a blob is complete."""

    def delete_blob(self, blob: int) -> None:
        """Deletes a blob and its chunks. Its objects, complete or not, become unneeded."""

    def add_chunk(self, pos: int, body: bytes) -> None:
        """Stores a chunk of a blob."""

    def chunk(self, pos: int) -> bytes | None:
        """A chunk of a blob."""

    def add_uses(self, user: int, blobs: Iterable[int]) -> None:
        """Records that a node (its position) or a ref (its number, negated) uses blobs."""

    def blobs_used(self, low: int, high: int) -> list[int]:
        """The blobs that users from `low` to `high` use."""
        ...

    def delete_uses(self, low: int, high: int) -> None:
        """Removes the uses of all users between two numbers, and deletes the blobs that nothing else uses."""

    def add_object(self, row: ObjectRow) -> None:
        """Records an object before its upload begins."""

    def object(self, blob: int) -> ObjectRow | None:
        """The object that holds the chunks of a blob."""

    def objects_after(self, blob: int, limit: int) -> list[ObjectRow]:
        """Complete objects of blobs with higher numbers, in order."""

    def whole_object(self, name: bytes, blob: int, size: int) -> bool:
        """Marks an object as complete: it now holds the chunks of its blob, and other objects of the blob are unneeded.

        Changes nothing and returns False if the object was given up meanwhile.
        """

    def objects_unfinished(self, before: int) -> list[ObjectRow]:
        """Incomplete objects that were begun before a time."""

    def leave_unfinished(self, before: int) -> None:
        """Gives up the `objects_unfinished`."""

    def objects_left(self, limit: int) -> list[ObjectRow]:
        """Unneeded objects that may still exist in object storage."""

    def bytes_left(self) -> int:
        """The total size of the unneeded objects."""

    def object_named(self, name: bytes) -> bool:
        """True if an object is recorded."""

    def drop_objects(self, names: Sequence[bytes]) -> None:
        """Removes the records of deleted objects."""


class MaintenanceTx(Protocol):
    """Reads all rows in order of their numbers, for verify, key changes, quarantine and the search index."""

    def sizes(self) -> dict[str, int]:
        """The number of runs, nodes, refs, log entries, blobs, chunks, quarantine entries and objects."""

    def empty(self) -> bool:
        """True if the store has no trees and no refs."""

    def headers(self, prefix: str) -> dict[str, bytes]:
        """The header values whose names begin with `prefix`."""

    def set_state(self, state: str, key_id: bytes | None) -> None:
        """Begins a new epoch: each process reads the state of the store again before its next commit."""

    def runs_after(self, run: int, limit: int) -> list[tuple[RunRow, bytes | None]]:
        """Runs with higher numbers, in order, each with the id of the node at its `tip`."""

    def rekey_runs(self, keys: Sequence[tuple[bytes | None, bytes, int]]) -> None:
        """Stores data keys and signatures of runs, as (data key, signature, run)."""

    def keys_otherwise(self, head: bytes | None, size: int) -> bool:
        """True if any run, ref or blob has no data key, or one of another size or that does not begin with `head`.
        With `head` None: True if any has a data key.
        """

    def places_after(self, pos: int, limit: int) -> list[NodeLocation]:
        """Nodes at higher positions, in order."""

    def log_after(self, pos: int, limit: int) -> list[LogRow]:
        """Log entries at higher positions, in order."""

    def blobs_after(self, blob: int, limit: int) -> list[BlobRow]:
        """Blobs with higher numbers, in order."""

    def chunks_after(self, pos: int, limit: int) -> list[tuple[int, bytes]]:
        """Chunks of blobs at higher positions, in order, as (position, body)."""

    def lengths_after(self, table: str, after: int, limit: int) -> list[int]:
        """The sizes of the bodies in the next rows of `nodes`, `quarantine`, `refs`, `log` or `chunks`."""

    def rekey_ref(self, row: RefRow) -> None:
        """Stores the data key, signature and data of a ref, without a new version."""

    def set_bodies(self, table: str, bodies: Sequence[tuple[bytes, int]]) -> None:
        """Replaces bodies, given as (body, position), in `nodes`, `log`, `chunks` or `quarantine`."""

    def replace_body(self, pos: int, body: bytes) -> None:
        """Replaces the body of a node. Search indexes read the new one."""

    def quarantine_row(self, pos: int) -> QuarantineRow | None:
        """The quarantine entry of the node at a position."""

    def quarantined_after(self, pos: int, limit: int) -> list[QuarantineRow]:
        """Quarantine entries at higher positions, in order."""

    def add_quarantined(self, row: QuarantineRow) -> None:
        """Puts the node at a position in quarantine. Conflict if it is there already."""

    def drop_quarantined(self, low: int, high: int) -> None:
        """Deletes the quarantine entries between two positions."""

    def refs_named(self, kind: str, key: bytes) -> list[RefRow]:
        """The refs with this kind and key in all workspaces."""

    def labels(self, ref: int) -> list[bytes]:
        """The lookup hashes of a ref's labels."""

    def growth(self, ord: int) -> Growth:
        """What was added and deleted, for a reader that has read up to the node with this number."""

    def ord_id(self, ord: int) -> bytes | None:
        """The id of the node with this number."""

    def deletions_after(self, after: int, limit: int) -> list[tuple[int, int, int]]:
        """Deletions after number `after`, as (number, low, high). If `low` is above `high`, the body of the node at
        `high` was replaced.
        """


T = TypeVar("T")


class Tx(Protocol):
    """One transaction. Reads see a snapshot of the store, and the transaction's own writes."""

    @property
    def blobs(self) -> BlobTx:
        """The same transaction, for blobs and the external objects that hold their chunks."""

    @property
    def maintenance(self) -> MaintenanceTx:
        """The same transaction, for work on the whole store: verify, key changes, quarantine, the search index."""

    # -- the store itself

    def state(self) -> State:
        """The current epoch."""

    def header(self, name: str) -> bytes | None:
        """A value of the whole store."""

    def set_header(self, name: str, value: bytes | None) -> None:
        """Stores a value of the whole store; None removes it."""

    def owns_store(self) -> bool:
        """True if the connected user may change the header and the epoch."""

    # -- nodes and runs

    def node(self, id: bytes) -> NodeLocation | None:
        """A node by id."""

    def existing_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        """Those of these ids that nodes have."""
        ...

    def node_at(self, pos: int) -> NodeLocation | None:
        """A node by position."""

    def nodes_at(self, positions: Sequence[int]) -> dict[int, NodeLocation]:
        """The existing nodes at these positions, by position."""

    def insert_point(self, id: bytes) -> InsertPoint | None:
        """Where to insert a chain after this node."""

    def ids_between(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        """Node ids from `low` to `high`, in id order."""

    def id_beside(self, id: bytes) -> list[bytes]:
        """The previous and the next id in id order, if they exist. The handle of `id` must differ from theirs."""

    def lineage(self, pos: int) -> list[tuple[RunRow, int]]:
        """The runs on the path down to `pos`, root first, each with the highest seq on the path."""

    def nodes_between(self, low: int, high: int) -> list[NodeRow]:
        """Nodes from position `low` to `high`, in order."""

    def scan_bodies(self, low: int, high: int, read: Callable[[Iterable[BodyRow]], T]) -> T:
        """`read` of the same nodes, which need not be in memory all at once. `read` must not use the transaction."""

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
        """(number, node) pairs in commit order, with numbers strictly between `after` and `before`.

        `workspace` None means all workspaces.
        """

    def run(self, run: int) -> RunRow | None:
        """A run by number."""

    def runs_at(self, numbers: Sequence[int]) -> dict[int, RunRow]:
        """The runs with these numbers, by number."""

    def runs_from(self, low: int, high: int) -> list[RunRow]:
        """Runs whose parent, or whose origin before a compaction, is at a position from `low` to `high`."""

    def last_seq(self, run: int) -> int:
        """The highest seq in a run, -1 if it is empty."""

    def add_tree(self, workspace: str, created_at: int) -> int:
        """Adds a tree and returns its number."""

    def add_run(self, row: RunRow) -> int:
        """Adds a run and returns its number. The caller then signs it and stores it again with `set_run`."""

    def set_run(self, row: RunRow) -> None:
        """Updates the columns of a run that can change."""

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        """Stores nodes. Conflict if a position or an id is in use."""

    def body_bytes(self, low: int, high: int) -> int:
        """Size in bytes of the bodies between two positions, including those in quarantine."""

    def delete_nodes(self, low: int, high: int) -> int:
        """Deletes the nodes between two positions, including their quarantine entries. Returns how many."""

    def tree_workspace(self, tree: int) -> str | None:
        """The workspace of a tree."""

    def tree_states(self, trees: Sequence[int]) -> dict[int, tuple[str, bool]]:
        """The workspace of each of these trees, and whether a ref of it is in the trash."""

    def delete_run(self, run: int) -> None:
        """Deletes a run that has no nodes."""

    def delete_tree_if_empty(self, tree: int) -> bool:
        """Deletes a tree that has no runs and no refs, and its blobs."""

    def refs_after(self, ref: int, limit: int) -> list[RefRow]:
        """Refs with higher numbers, in order."""

    # -- refs

    def head_state(self, ref: int) -> HeadState | None:
        """The state of a ref and its head, for an append after the head."""

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None:
        """A ref by key."""

    def ref_at(self, ref: int) -> RefRow | None:
        """A ref by number."""

    def keys_between(self, workspace: str, kind: str, low: bytes, high: bytes, limit: int) -> list[bytes]:
        """Ref keys from `low` to `high`, in key order."""

    def key_beside(self, workspace: str, kind: str, key: bytes) -> list[bytes]:
        """The previous and the next key of the same kind, if they exist."""

    def keys_beside(self, workspace: str, kind: str, keys: Sequence[bytes]) -> dict[bytes, list[bytes]]:
        """`key_beside` for each of the keys."""

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
        """Refs that are not in the trash, most recently active first, starting after the (rank, ref) `before`."""

    def refs_trashed(self, workspace: str, *, before: tuple[int, int] | None = None, limit: int) -> list[RefRow]:
        """Refs in the trash whose owner is not, last trashed first, starting after the (trashed_at, ref) `before`."""

    def count_refs(self, workspace: str, kind: str, *, look: bytes | None, label: bytes | None, now: int) -> int:
        """How many refs are neither in the trash nor expired at `now`. Refs on hold do not expire."""

    def refs_owned(self, ref: int) -> list[RefRow]:
        """The refs that a ref owns, oldest first."""

    def refs_in_tree(self, tree: int, low: int, high: int) -> list[RefRow]:
        """The refs of a tree whose head is between two positions."""

    def top_rank(self, workspace: str, kind: str) -> int:
        """The highest rank among the refs of a kind, 0 if there is none."""

    def add_ref(self, row: RefRow) -> int:
        """Adds a ref and returns its number. Conflict if its key is in use."""

    def set_ref(self, row: RefRow) -> None:
        """Replaces a ref. Conflict if its stored version is not ``row.version - 1``."""

    def move_ref(self, ref: int, move: Move, *, up: bool) -> None:
        """`set_ref` for a move of the head; `up` means that the rank changes too."""

    def advance(self, ref: int, seen: HeadState, move: Move, top: int) -> bool:
        """`move_ref` without a read before it, for a ref that was last `seen` with a head that can be extended.

        Changes nothing and returns False if any of these has changed since: the ref, its head, the end or the key of
        its run, the epoch, or `top`, the highest rank of its kind.
        """

    def delete_ref(self, ref: int) -> None:
        """Deletes a ref, its labels, its log, and the blobs that nothing else uses."""

    def set_labels(self, ref: int, looks: Iterable[bytes]) -> None:
        """Replaces the labels of a ref, given as lookup hashes."""

    # -- log

    def log_next(self, ref: int) -> int:
        """The position of a ref's next entry."""

    def log_range(self, low: int, high: int, limit: int) -> list[LogRow]:
        """Entries between two positions, in order."""

    def log_by_id(self, id: bytes) -> LogRow | None:
        """An entry by id."""

    def existing_log_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        """Those of these ids that log entries have."""
        ...

    def add_log(self, rows: Sequence[LogRow]) -> None:
        """Stores entries. Conflict if a position or an id is in use."""


class EpochChanged(Unavailable):
    """The epoch has changed since the store was opened: work that was prepared for the old one must be repeated."""

    hint = "Make the same calls again."

    def __init__(self) -> None:
        super().__init__("another process has changed the keys, format or holds of the store")


class Job:
    """A `write` that shares a transaction with others, and its outcome: a result or an error."""

    __slots__ = ("done", "error", "result", "settle", "work")

    def __init__(self, work: Callable[[Any], Any], settle: Callable[[Any], Any] | None = None) -> None:
        self.work = work
        self.settle = settle
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def finish(self, result: Any) -> None:
        """Stores the result of the finished work."""
        self.result, self.error, self.done = result, None, True

    def reset(self) -> None:
        """Removes the outcome, after its transaction was rolled back."""
        self.result, self.error, self.done = None, None, False

    def outcome(self) -> Any:
        """Returns the result or raises the error. Unavailable if the thread that should run it was interrupted."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise Unavailable("the write was interrupted", hint="Make the same call again.")
        return self.result


class _Local(threading.local):
    """Per thread. The class has the default: `getattr` with one raises and catches an error inside, at each call."""

    call: Call | None = None


_local = _Local()


def current_call() -> Call | None:
    """The call of a batch that this thread is running, if any."""
    return _local.call


class Call:
    """A function to run in a `batch`, its outcome, and its writes (`jobs`)."""

    __slots__ = ("error", "function", "jobs", "result", "steps")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.jobs: list[Job] = []
        self.result: Any = None
        self.error: BaseException | None = None
        self.steps: list[Callable[[], object]] = []
        """Functions to call after the commit."""

    def run(self) -> None:
        """Runs the function and stores its outcome. Discards the outcome of an earlier attempt."""
        self.result = self.error = None
        self.jobs.clear()
        self.steps.clear()
        _local.call = self
        try:
            self.result = self.function()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self.error = error
        finally:
            _local.call = None


Durability = Literal["full", "relaxed"]
Progress = Callable[[int, int], object]
"""Called with the amount done and the total."""
Tail = tuple[str, str, bytes, int]
"""Workspace, kind and key of a ref, and a number of nodes."""


class BackendOptions(NamedTuple):
    """How a backend is opened; `clew.open` explains the fields."""

    durability: Durability = "full"
    timeout: float = 60.0
    create: bool = True
    network: bool = False
    """Used only for files."""
    pool_size: int = 8
    """Used only for servers."""
    read_only: bool = False
    """Only for files, like `immutable`."""
    immutable: bool = False


class Backup(NamedTuple):
    """A complete copy of a store, synced to disk."""

    path: str
    """The path of the file."""
    size: int
    """In bytes."""


class Reader(Protocol):
    """Reads a snapshot of a whole store, for verify and copies. Statements use `?` for parameters."""

    @property
    def tx(self) -> Tx:
        """A transaction on the same snapshot."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Iterable[Any]:
        """Runs a statement with few rows."""

    def stream(self, sql: str, values: Sequence[Any] = (), /) -> Iterator[Any]:
        """Runs a statement with many rows, which are fetched as they are needed."""

    def counters(self) -> dict[str, int]:
        """The highest numbers ever assigned, by table; `ords` for the commit order of nodes."""

    def inspect(self) -> Iterator[Problem]:
        """Checks the storage itself: file, log, schema, epoch row and counters."""


class Loader(Tx, Protocol):
    """A transaction that fills an empty store with the rows of another store."""

    def clear(self) -> None:
        """Deletes all rows except headers."""

    def insert_rows(self, table: Table, rows: Sequence[Sequence[object]]) -> None:
        """Stores rows unchanged, with their numbers."""

    def set_owners(self, rows: Iterable[tuple[int | None, int]]) -> None:
        """Stores the owners of refs, given as (owner, ref)."""

    def become(self, header: Mapping[str, bytes], counters: Mapping[str, int], state: State) -> None:
        """Stores the header, counters and state of the source. An unencrypted copy begins a new epoch."""


class Tenants(Protocol):
    """Row-level security: which database role can access which workspaces. See `clew.store.tenants`."""

    def isolate(self) -> None:
        """Enables row-level security."""

    def admit(self, role: str, workspace: str) -> None:
        """Gives a role access to a workspace."""

    def dismiss(self, role: str, workspace: str | None) -> None:
        """Removes a role's access to one workspace, or to all."""


class Partitions(Protocol):
    """Large tables in partitions. See `clew.store.partitions`."""

    def divide(self, parts: int) -> None:
        """Partitions the tables of an empty store."""


class Words(Protocol):
    """A search index in the same database. Each call is one transaction, which does not wait for other writers."""

    def edge(self, workspace: str, mode: str) -> int:
        """The number up to which the index contains every node of a workspace."""

    def add(self, workspace: str, mode: str, rows: Sequence[Sequence[Any]], edge: int) -> None:
        """Adds words of nodes that still exist, and sets the edge. A row: position, id, role, time, lexemes."""

    def find(
        self, workspace: str, mode: str, query: str, filters: dict[str, Any], limit: int, offset: int
    ) -> list[tuple[int, bytes, float]]:
        """Position, id and rank of matches: best first, or newest first if `filters` says so or `query` is empty."""

    def clear(self) -> None:
        """Removes all words that this role can access."""


class Maintenance(Protocol):
    """Operations on the storage as a whole."""

    @property
    def beyond(self) -> tuple[str, ...]:
        """Where copies of deleted data may remain that `clean` cannot remove."""

    @property
    def tenants(self) -> Tenants | None:
        """None if the backend cannot separate tenants."""

    @property
    def partitions(self) -> Partitions | None:
        """None if the backend has no partitions."""

    @property
    def words(self) -> Words | None:
        """None if the search index is not in the same database."""

    def reader(self) -> AbstractContextManager[Reader]:
        """A reader on a snapshot of the store. It may stay open for a long time."""

    def load(self) -> AbstractContextManager[Loader]:
        """A transaction for a copy, committed at the end, rolled back on an error."""

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copies the current state of the store to a new file, which can be opened as a store; `progress` gets pages.

        Conflict if the file exists. An error leaves no file. Invalid on a server.
        """

    def scratch_copy(self) -> Backend | None:
        """A temporary copy of the current state, deleted when it is closed; None if that is not possible."""

    def clean(self) -> tuple[str, ...]:
        """Removes all traces of deleted data. Returns the parts that could not be cleaned: ``wal`` if a reader prevents
        SQLite from truncating the log, or the server from removing rows. Other processes drop their caches at the next
        commit.
        """

    def make_room(self) -> None:
        """Frees space for deletions on a full disk. Deleted data may remain until the caller runs `clean`."""

    def allow_changes(self) -> None:
        """Called when the key was checked. Before that, the backend changes nothing in an existing store."""

    def hurry(self) -> None:
        """Called before the store closes: pending cleanup no longer waits for other processes."""


class Backend(Maintenance, Protocol):
    """The database that holds one store."""

    @property
    def path(self) -> str:
        """The path of the file, or the URL of the server without its password."""

    @property
    def file(self) -> str | None:
        """The path of the store's file, next to which clew may create others; None in memory or on a server, and for a
        file that was opened read-only.
        """

    @property
    def unencrypted(self) -> bool:
        """True if the store is on another host, and a connection has no TLS."""

    timing: Timing
    """Gets how long this process waits for the lock and for connections, and how long commits take."""

    on_epoch: Callable[[Tx], object]
    """Called when a write finds that a new epoch has begun since this process last read it. The backend rolls that
    transaction back; `write` and `batch` then repeat their work; `transaction` checks the epoch before it begins."""

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        """Runs `work` on a snapshot of the store and returns its result. `work` must not write.

        `single` promises that `work` runs one statement only, which needs no transaction. `tail` says that `work` reads
        a ref and the last nodes before its head, so that the backend can fetch them together.
        """

    def read_fresh(self, work: Callable[[Tx], T]) -> T:
        """`read` on a new connection, without caches. Returns invalid text as it is; `read` may raise Corrupted."""

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        """Runs `work` in a transaction that is durable when this returns; all or nothing.

        `work` may share its transaction with the work of other callers, each in its own savepoint. If the commit fails
        and its outcome is unknown, `settle` reads the store and returns the result if the work was stored, else None.
        `settle` is also called for work that never began, so it must not mistake rows of other callers for its own.
        Without `settle` the caller gets the error.
        """

    @property
    def extendable(self) -> int:
        """The ref of the last write, if that was an append and `extend` can repeat it; 0 inside a transaction."""

    def extend(self, ref: int, seen: HeadState, move: Move, row: NodeRow) -> bool:
        """A `write` of one node and of its ref, whose rank does not change: `Tx.advance` and `Tx.add_nodes`.

        False, and nothing is stored, unless the last write of any process was an append to this ref, and `seen` is the
        state after it. False also after a failed commit: `write` then finds out if the node was stored.
        """

    def batch(self, calls: Sequence[Call]) -> None:
        """Runs calls on this thread in one transaction. Each gets its own outcome; a failed call stores nothing."""

    def in_transaction(self) -> bool:
        """True inside `transaction`, on its thread."""

    def transaction(self) -> AbstractContextManager[None]:
        """Makes reads and writes of this thread one transaction, committed at the end, rolled back on an error."""

    def refresh_epoch(self) -> None:
        """Reads the epoch again. SchemaTooNew or an error of `on_epoch` if this process can no longer use the store."""

    def usage(self) -> Resources:
        """The size of the store, and the connections in use."""
        ...

    def settled_ord(self) -> int:
        """The current highest number of a node. No later commit adds a node with this number or a lower one."""

    def watch(self, ref: int, notify: Callable[[], object]) -> Callable[[], None]:
        """Calls `notify` after every change of a ref, in any process, until the returned function is called.

        Calls may be late, combined or spurious; there is one when the store is closed. `notify` runs on a thread of the
        backend and must return quickly. A finaliser may call the returned function.
        """

    def close(self) -> None:
        """Idempotent. Later calls raise Closed."""
