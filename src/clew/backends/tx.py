"""The contract of one transaction. Reads see one moment of the store, and the transaction's own writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from clew.backends.blob_tx import BlobTx
from clew.backends.maintenance_tx import MaintenanceTx
from clew.backends.rows import (
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


class Tx(Protocol):
    """One transaction. Reads see one moment of the store, and what the transaction itself has written."""

    @property
    def blobs(self) -> BlobTx:
        """The same transaction, for blobs and the objects outside that have their pieces."""
        ...

    @property
    def maintenance(self) -> MaintenanceTx:
        """The same transaction, for work on the whole store: verify, key changes, quarantine, the search index."""
        ...

    # -- the store itself

    def state(self) -> State:
        """The epoch as it is now."""
        ...

    def header(self, name: str) -> bytes | None:
        """A value that holds for the whole store."""
        ...

    def set_header(self, name: str, value: bytes | None) -> None:
        """Stores a value for the whole store, or with None removes it."""
        ...

    def owns_store(self) -> bool:
        """True if the connected user may change the header and the epoch."""
        ...

    # -- nodes and runs

    def node(self, id: bytes) -> NodeLocation | None:
        """A node by id."""
        ...

    def existing_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        """Those of these ids that nodes have."""
        ...

    def node_at(self, pos: int) -> NodeLocation | None:
        """A node by position."""
        ...

    def nodes_at(self, positions: Sequence[int]) -> dict[int, NodeLocation]:
        """The nodes that are at these positions, by position."""
        ...

    def ground(self, id: bytes) -> InsertPoint | None:
        """What a chain that grows after this node has to know."""
        ...

    def ids_between(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        """Ids of nodes from `low` to `high`, in id order."""
        ...

    def id_beside(self, id: bytes) -> list[bytes]:
        """The ids next to `id` in id order, of which there are up to two: its handle must differ from theirs."""
        ...

    def lineage(self, pos: int) -> list[tuple[RunRow, int]]:
        """The runs on the path down to `pos`, root first, each with the highest seq on the path."""
        ...

    def stretch(self, low: int, high: int) -> list[NodeRow]:
        """Nodes from position `low` to `high`, in order."""
        ...

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
        """Nodes by order of commit, each after its number in it, strictly between `after` and `before`.

        Of one workspace, or with None of all.
        """
        ...

    def run(self, run: int) -> RunRow | None:
        """A run by number."""
        ...

    def runs_at(self, numbers: Sequence[int]) -> dict[int, RunRow]:
        """The runs with these numbers, by number."""
        ...

    def runs_from(self, low: int, high: int) -> list[RunRow]:
        """Runs that grew, or were derived, from a position between `low` and `high`."""
        ...

    def last_seq(self, run: int) -> int:
        """The highest seq in a run, -1 if it is empty."""
        ...

    def add_tree(self, workspace: str, created_at: int) -> int:
        """A new tree; returns its number."""
        ...

    def add_run(self, row: RunRow) -> int:
        """A new run; returns its number. Sign it with `set_run` once the number is known."""
        ...

    def set_run(self, row: RunRow) -> None:
        """Replaces what can change of a run."""
        ...

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        """Stores nodes. Conflict if a position or an id is in use."""
        ...

    def body_bytes(self, low: int, high: int) -> int:
        """Bytes of the bodies between two positions, with what of them is in quarantine."""
        ...

    def delete_nodes(self, low: int, high: int) -> int:
        """Deletes the nodes between two positions, with what of them is in quarantine; returns how many."""
        ...

    def tree_workspace(self, tree: int) -> str | None:
        """The workspace of a tree."""
        ...

    def tree_states(self, trees: Sequence[int]) -> dict[int, tuple[str, bool]]:
        """The workspace of each of these trees, and whether something of it is in the trash."""
        ...

    def delete_run(self, run: int) -> None:
        """Deletes a run that has no nodes left."""
        ...

    def delete_tree_if_empty(self, tree: int) -> bool:
        """Deletes a tree that no run and no ref is in, with its blobs."""
        ...

    def refs_after(self, ref: int, limit: int) -> list[RefRow]:
        """Refs with higher numbers, in order."""
        ...

    # -- refs

    def tip(self, ref: int) -> HeadState | None:
        """All that an append after the ref's head has to know."""
        ...

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None:
        """A ref by key."""
        ...

    def ref_at(self, ref: int) -> RefRow | None:
        """A ref by number."""
        ...

    def keys_between(self, workspace: str, kind: str, low: bytes, high: bytes, limit: int) -> list[bytes]:
        """Keys of refs from `low` to `high`, in key order."""
        ...

    def key_beside(self, workspace: str, kind: str, key: bytes) -> list[bytes]:
        """The keys next to `key` among its kind, of which there are up to two."""
        ...

    def keys_beside(self, workspace: str, kind: str, keys: Sequence[bytes]) -> dict[bytes, list[bytes]]:
        """`key_beside` of each."""
        ...

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
        """Refs not in the trash, last active first, those after the (rank, ref) `before`."""
        ...

    def refs_trashed(self, workspace: str, *, before: tuple[int, int] | None = None, limit: int) -> list[RefRow]:
        """Refs in the trash whose owner is not, last trashed first, those after the (trashed_at, ref) `before`."""
        ...

    def count_refs(self, workspace: str, kind: str, *, look: bytes | None, label: bytes | None, now: int) -> int:
        """How many refs are neither in the trash nor expired at `now`; what is held does not expire."""
        ...

    def refs_owned(self, ref: int) -> list[RefRow]:
        """The refs that a ref owns, oldest first."""
        ...

    def refs_in_tree(self, tree: int, low: int, high: int) -> list[RefRow]:
        """The refs of a tree whose head lies between two positions."""
        ...

    def top_rank(self, workspace: str, kind: str) -> int:
        """The highest rank among the refs of a kind, 0 if there is none."""
        ...

    def add_ref(self, row: RefRow) -> int:
        """A new ref; returns its number. Conflict if its key is taken."""
        ...

    def set_ref(self, row: RefRow) -> None:
        """Replaces a ref whose stored version is ``row.version - 1``. Conflict if it is not."""
        ...

    def move_ref(self, ref: int, move: Move, *, up: bool) -> None:
        """`set_ref` for what moves with the head alone; `up` if the rank changes too."""
        ...

    def advance(self, ref: int, seen: HeadState, move: Move, top: int) -> bool:
        """`move_ref` without a look before, for a ref that was `seen` with a head that can be extended.

        False, and nothing is changed, if it is no longer so: the ref, its head, the end and the key of its run, the
        epoch, or `top`, the highest rank of its kind.
        """
        ...

    def delete_ref(self, ref: int) -> None:
        """Deletes a ref with its labels, its log, and the blobs that nothing else shows."""
        ...

    def set_labels(self, ref: int, looks: Iterable[bytes]) -> None:
        """Replaces them."""
        ...

    # -- log

    def log_next(self, ref: int) -> int:
        """The position of a ref's next entry."""
        ...

    def log_range(self, low: int, high: int, limit: int) -> list[LogRow]:
        """Entries between two positions, in order."""
        ...

    def log_by_id(self, id: bytes) -> LogRow | None:
        """An entry by id."""
        ...

    def existing_log_ids(self, ids: Sequence[bytes]) -> set[bytes]:
        """Those of these ids that log entries have."""
        ...

    def add_log(self, rows: Sequence[LogRow]) -> None:
        """Stores entries. Conflict if a position or an id is in use."""
        ...
