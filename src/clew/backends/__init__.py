"""What a backend is: rows and bytes in transactions. It knows nothing of blocks, keys or policy.

One backend serves many threads. A transaction (`Tx`) belongs to the thread that runs it and ends with the function it
was given to. Every method raises the errors of `clew.errors`; no driver's error gets out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from clew.backends.rows import (
    BODY,
    FACTS,
    ID,
    MAX_POS,
    MAX_SEQ,
    POS,
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
    born,
)
from clew.backends.work import Call, Job, Renewed, running

__all__ = [
    "BODY",
    "FACTS",
    "ID",
    "MAX_POS",
    "MAX_SEQ",
    "POS",
    "SEQ_BITS",
    "Backend",
    "BlobRow",
    "Call",
    "Ground",
    "Growth",
    "Job",
    "LogRow",
    "Move",
    "NodeRow",
    "ObjectRow",
    "Place",
    "QuarantineRow",
    "RefRow",
    "Renewed",
    "RunRow",
    "State",
    "Tail",
    "Tip",
    "Tx",
    "born",
    "running",
]

T = TypeVar("T")
Tail = tuple[str, str, bytes, int]
"""Workspace, kind and key of a ref, and how many nodes."""


class Tx(Protocol):
    """One transaction. Reads see one moment of the store, and what the transaction itself has written."""

    # -- the store itself

    def state(self) -> State:
        """The epoch as it is now."""
        ...

    def header(self, name: str) -> bytes | None:
        """A value that holds for the whole store."""
        ...

    def headers(self, prefix: str) -> dict[str, bytes]:
        """Those whose names begin so."""
        ...

    def set_header(self, name: str, value: bytes | None) -> None:
        """Stores a value for the whole store, or with None removes it."""
        ...

    def set_state(self, state: str, key_id: bytes | None) -> None:
        """Begins a new epoch: every process looks at the store anew before its next write is kept."""
        ...

    def owns_store(self) -> bool:
        """True if whoever is connected may change the header and the epoch."""
        ...

    def empty(self) -> bool:
        """True while nothing was ever put into the store, or everything is gone again."""
        ...

    def growth(self, ord: int) -> Growth:
        """How the store stands for whoever has read it up to the node with this number."""
        ...

    def ord_id(self, ord: int) -> bytes | None:
        """The id of the node with this number."""
        ...

    # -- nodes and runs

    def node(self, id: bytes) -> Place | None:
        """A node by id."""
        ...

    def node_at(self, pos: int) -> Place | None:
        """A node by position."""
        ...

    def nodes_at(self, positions: Sequence[int]) -> dict[int, Place]:
        """The nodes that are at these positions, by position."""
        ...

    def ground(self, id: bytes) -> Ground | None:
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
    ) -> list[tuple[int, Place]]:
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

    def forgotten(self, after: int, limit: int) -> list[tuple[int, int, int]]:
        """Deletions after number `after`, as (number, low, high)."""
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

    # -- exchanging keys: rows in order of their numbers, and their bytes anew

    def sizes(self) -> dict[str, int]:
        """How many rows there are of runs, nodes, refs, log, blobs, chunks, quarantine and objects."""
        ...

    def runs_after(self, run: int, limit: int) -> list[tuple[RunRow, bytes | None]]:
        """Runs with higher numbers, in order, each with the id of the node at its tip."""
        ...

    def rekey_runs(self, keys: Sequence[tuple[bytes | None, bytes, int]]) -> None:
        """Stores data keys and signatures of runs, each with the run's number."""
        ...

    def keys_otherwise(self, head: bytes | None, size: int) -> bool:
        """True if a run, ref or blob has a data key that does not begin with `head`, or has another size, or has none;
        without `head`, if one has a data key.
        """
        ...

    def places_after(self, pos: int, limit: int) -> list[Place]:
        """Nodes at higher positions, in order."""
        ...

    def refs_after(self, ref: int, limit: int) -> list[RefRow]:
        """Refs with higher numbers, in order."""
        ...

    def log_after(self, pos: int, limit: int) -> list[LogRow]:
        """Log entries at higher positions, in order."""
        ...

    def blobs_after(self, blob: int, limit: int) -> list[BlobRow]:
        """Blobs with higher numbers, in order."""
        ...

    def chunks_after(self, pos: int, limit: int) -> list[tuple[int, bytes]]:
        """Pieces of blobs at higher positions, in order, each with its body."""
        ...

    def lengths_after(self, table: str, after: int, limit: int) -> list[int]:
        """How many bytes the bodies of the next rows of `nodes`, `quarantine`, `refs`, `log` or `chunks` have."""
        ...

    def rekey_ref(self, row: RefRow) -> None:
        """Stores a ref's data key, signature and data; it does not count as a change."""
        ...

    def set_bodies(self, table: str, bodies: Sequence[tuple[bytes, int]]) -> None:
        """Stores other bodies, each with its position, in `nodes`, `log`, `chunks` or `quarantine`."""
        ...

    # -- quarantine

    def quarantined(self, pos: int) -> QuarantineRow | None:
        """What is in quarantine of the node at a position."""
        ...

    def quarantined_after(self, pos: int, limit: int) -> list[QuarantineRow]:
        """What is in quarantine of nodes at higher positions, in order."""
        ...

    def add_quarantined(self, row: QuarantineRow) -> None:
        """Puts the node at a position in quarantine. Conflict if it is there."""
        ...

    def drop_quarantined(self, low: int, high: int) -> None:
        """Forgets what is in quarantine between two positions."""
        ...

    # -- refs

    def tip(self, ref: int) -> Tip | None:
        """All that an append after the ref's head has to know."""
        ...

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None:
        """A ref by key."""
        ...

    def refs_named(self, kind: str, key: bytes) -> list[RefRow]:
        """The refs of a kind with a key, of every workspace."""
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

    def advance(self, ref: int, seen: Tip, move: Move, top: int) -> bool:
        """`move_ref` without a look before, for a ref that was `seen` with a head that can be extended.

        False, and nothing is changed, if it is no longer so: the ref, its head, the end and the key of its run, the
        epoch, or `top`, the highest rank of its kind.
        """
        ...

    def delete_ref(self, ref: int) -> None:
        """Deletes a ref with its labels, its log, and the blobs that nothing else shows."""
        ...

    def labels(self, ref: int) -> list[bytes]:
        """The keyed hashes of a ref's labels."""
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

    def add_log(self, rows: Sequence[LogRow]) -> None:
        """Stores entries. Conflict if a position or an id is in use."""
        ...

    # -- blobs

    def blob(self, tree: int, look: bytes) -> BlobRow | None:
        """A tree's blob by its keyed hash."""
        ...

    def blob_by_number(self, blob: int) -> BlobRow | None:
        """A blob by its number."""
        ...

    def blobs_between(self, tree: int, low: bytes, high: bytes) -> list[BlobRow]:
        """A tree's blobs whose keyed hash lies between two."""
        ...

    def blobs_unused(self, tree: int) -> list[BlobRow]:
        """A tree's blobs that nothing shows, complete or not."""
        ...

    def add_blob(self, row: BlobRow) -> int:
        """A new blob; returns its number."""
        ...

    def set_blob(self, row: BlobRow) -> None:
        """Replaces what can change of a blob until it is complete."""
        ...

    def add_chunk(self, pos: int, body: bytes) -> None:
        """Stores a piece of a blob."""
        ...

    def chunk(self, pos: int) -> bytes | None:
        """A piece of a blob."""
        ...

    def add_uses(self, user: int, blobs: Iterable[int]) -> None:
        """Notes that a node (its position) or a ref (minus its number) shows blobs."""
        ...

    def delete_uses(self, low: int, high: int) -> None:
        """Forgets what the users between two numbers show, and deletes the blobs that nothing else shows."""
        ...

    def delete_blob(self, blob: int) -> None:
        """Deletes a blob with its pieces; the objects that it had, whole or not, are needed by nothing from now on."""
        ...

    # -- objects: pieces of blobs that lie outside, and what is to become of them

    def add_object(self, row: ObjectRow) -> None:
        """Notes an object before it is begun."""
        ...

    def object(self, blob: int) -> ObjectRow | None:
        """The object that has the pieces of a blob."""
        ...

    def objects_after(self, blob: int, limit: int) -> list[ObjectRow]:
        """Whole objects of blobs with higher numbers, in their order."""
        ...

    def whole_object(self, name: bytes, blob: int, size: int) -> bool:
        """An object is whole, and has the pieces of its blob from now on; any other that it had is needed no more.

        False, and nothing is changed, if the object was given up meanwhile.
        """
        ...

    def objects_unfinished(self, before: int) -> list[ObjectRow]:
        """Objects that were begun before a time and are not whole."""
        ...

    def leave_unfinished(self, before: int) -> None:
        """Gives them up."""
        ...

    def objects_left(self, limit: int) -> list[ObjectRow]:
        """Objects that nothing needs, and that may still be there."""
        ...

    def bytes_left(self) -> int:
        """How many bytes those have."""
        ...

    def object_named(self, name: bytes) -> bool:
        """True if an object is known."""
        ...

    def drop_objects(self, names: Sequence[bytes]) -> None:
        """Forgets objects that are gone."""
        ...


class Backend(Protocol):
    """A place where a store lives."""

    @property
    def path(self) -> str:
        """How the place is called."""
        ...

    @property
    def file(self) -> str | None:
        """The file it is in, beside which others may lie; None if it is in none of this machine's."""
        ...

    @property
    def beyond(self) -> tuple[str, ...]:
        """Where copies of what was deleted may be that `clean` cannot reach."""
        ...

    @property
    def keeps_words(self) -> bool:
        """True if an index of words can be kept with the rows: see `clew.serverindex`."""
        ...

    on_epoch: Callable[[Tx], object]
    """Told when a write finds that a new epoch has begun since this process last looked. That transaction is undone;
    `write` and `batch` then do their work again; `transaction` looks before it begins."""

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        """What `work` returns, from one moment of the store. It must not write.

        `single` promises that it asks one thing only, so that no transaction is needed to see one moment. `tail` says
        that it is going to ask for a ref and the last nodes before its head, which may be fetched together.
        """
        ...

    def read_anew(self, work: Callable[[Tx], T]) -> T:
        """`read` through a connection of its own: what was read before, and may be held in memory, is not believed.

        A text that is not valid is taken as it is; `read` may raise Tampered for it.
        """
        ...

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        """Runs `work` in a transaction that is durable when this returns; all or nothing.

        `work` may share its transaction with other callers' work, each in a savepoint of its own. If the commit fails
        and its outcome is unknown, `settle` says what a new look at the store makes of it: a result if the work was
        kept, None if it was not. It is also asked about work that was never begun, so it must not take what others
        have stored for its own. Without `settle` the caller is told that it failed.
        """
        ...

    def batch(self, calls: Sequence[Call]) -> None:
        """Runs calls on this thread in one transaction; each gets its outcome, and one that fails leaves no trace."""
        ...

    def in_transaction(self) -> bool:
        """True inside `transaction`, on its thread."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """What this thread reads and writes inside is one transaction, committed at the end, undone by an error."""
        ...

    def look_anew(self) -> None:
        """Takes note of the epoch. SchemaTooNew, or what `on_epoch` raises, if the store is no use any more."""
        ...

    def settled(self) -> int:
        """The highest number of a node now; no lower one, nor the same, will come after this has returned."""
        ...

    def watch(self, ref: int, tell: Callable[[], object]) -> Callable[[], None]:
        """Calls `tell` after every change of a ref, whoever makes it and wherever, until what is returned is called.

        It may be called late, once for several changes, or for nothing; and it is when the store is closed. It is
        called on a thread of the backend's, and must be brief. What is returned may be called by a finaliser.
        """
        ...

    def clean(self) -> tuple[str, ...]:
        """Sees to it that what was deleted is nowhere any more. What could not be done now: ``wal`` if a reader
        keeps the log from being emptied, or the server from giving up rows. Others drop what they hold in memory at
        the next commit.
        """
        ...

    def make_room(self) -> None:
        """Gives space to delete in, on a disk that is full: what was kept for that, and what is not needed. `clean`
        must follow: what is deleted before it may be left where it was.
        """
        ...

    def unlocked(self) -> None:
        """The key is proven: until then nothing of an existing store is changed."""
        ...

    def hurry(self) -> None:
        """The store is about to be closed: cleanup that is still pending waits for no other process from now on."""
        ...

    def close(self) -> None:
        """Idempotent. Later calls raise Closed."""
        ...
