"""The contract of a transaction: the store, nodes, runs, refs and the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from clew.backends.blob_tx import BlobTx
from clew.backends.maintenance_tx import MaintenanceTx
from clew.backends.rows import (
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
