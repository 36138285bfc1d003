"""What a backend is: rows and bytes in transactions. It knows nothing of blocks, keys or policy.

One backend serves many threads. A transaction (`Tx`) belongs to the thread that runs it and ends with the function it
was given to. Every method raises the errors of `clew.errors`; no driver's error gets out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

SEQ_BITS = 24
MAX_SEQ = (1 << SEQ_BITS) - 1
"""A position is ``run << 24 | seq``: 16 million messages in one stretch, then a new run goes on."""

NodeRow = tuple[int, int, int, int, int, int, int, int, int, int, bytes, bytes]
"""A node as stored: pos, ord, created_at, role, kind, turns, tokens_in, tokens_out, cost, gaps, id, body."""

POS, ORD, CREATED_AT, ROLE, KIND, TURNS, TOKENS_IN, TOKENS_OUT, COST, GAPS, ID, BODY = range(12)


class Place(NamedTuple):
    """Where a node stands, beside its own row."""

    tree: int
    run_depth: int
    """Depth of the first node of its run."""
    carried: int
    parent: bytes | None
    row: NodeRow


class RunRow(NamedTuple):
    """A run, as stored."""

    run: int
    tree: int
    parent: int | None
    derived: int | None
    depth: int
    carried: int
    tip: int
    closed: int
    wrapped_key: bytes | None
    mac: bytes


class RefRow(NamedTuple):
    """A ref, as stored."""

    ref: int
    workspace: str
    kind: str
    key: bytes
    owner: int | None
    tree: int | None
    head: int | None
    head_id: bytes | None
    version: int
    created_at: int
    active_at: int
    rank: int
    trashed_at: int | None
    expires_at: int | None
    hold: int
    look: bytes | None
    wrapped_key: bytes | None
    mac: bytes
    data: bytes


class Ground(NamedTuple):
    """Where a chain may grow: a node, and what its next one has to know of it. Without a node: a tree for a root."""

    tree: int
    pos: int | None = None
    id: bytes | None = None
    run_depth: int | None = None
    carried: int | None = None
    turns: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: int | None = None
    gaps: int | None = None
    open: int | None = None
    """1 if the chain may go on in the node's run: it is the last there, and the run is not closed."""


class Tip(NamedTuple):
    """All that an append after a ref's head has to know, in one read. From `tree` on, it is the `Ground`."""

    epoch: int
    last_ord: int
    key: bytes
    version: int
    active_at: int
    rank: int
    trashed_at: int | None
    mac: bytes
    head_id: bytes | None
    top: int
    """The highest rank among the refs of its kind."""
    tree: int
    pos: int | None
    id: bytes | None
    run_depth: int | None
    carried: int | None
    turns: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost: int | None
    gaps: int | None
    open: int | None

    @property
    def ground(self) -> Ground:
        """Where the head stands."""
        return Ground._make(self[10:])


class Move(NamedTuple):
    """What changes of a ref when its head moves."""

    head: int | None
    head_id: bytes | None
    version: int
    active_at: int
    rank: int
    mac: bytes


class BlobRow(NamedTuple):
    """A blob, as stored, without its chunks."""

    blob: int
    tree: int
    look: bytes
    size: int
    chunks: int
    created_at: int
    wrapped_key: bytes | None
    mac: bytes


class LogRow(NamedTuple):
    """An entry of a ref's log, as stored; pos is ``ref << 24 | seq``."""

    pos: int
    created_at: int
    id: bytes
    body: bytes


class State(NamedTuple):
    """The epoch: how the store is written at this moment."""

    number: int
    format: int
    state: str
    key_id: bytes | None


class Tx(Protocol):
    """One transaction. Reads see one moment of the store, and what the transaction itself has written."""

    # -- the store itself
    def state(self) -> State: ...
    def header(self, name: str) -> bytes | None: ...
    def next_ord(self) -> int:
        """A number above every one given before, in this or any committed transaction."""
        ...

    # -- nodes and runs
    def node(self, id: bytes) -> Place | None: ...
    def node_at(self, pos: int) -> Place | None: ...
    def ids_between(self, low: bytes, high: bytes, limit: int) -> list[bytes]: ...
    def id_beside(self, id: bytes) -> list[bytes]:
        """The ids next to `id` in id order, of which there are up to two: its handle must differ from theirs."""
        ...

    def lineage(self, pos: int) -> list[tuple[RunRow, int]]:
        """The runs on the path down to `pos`, root first, each with the highest seq on the path."""
        ...

    def stretch(self, low: int, high: int, limit: int) -> list[NodeRow]:
        """Nodes from position `low` to `high`, in order, `limit` at most."""
        ...

    def tail(self, low: int, high: int, count: int) -> list[NodeRow]:
        """The last `count` nodes from position `low` to `high`, in order."""
        ...

    def by_ord(self, after: int | None, before: int | None, *, newest: bool, limit: int, offset: int = 0) -> list[Place]:
        """Nodes by order of commit, strictly between `after` and `before`."""
        ...

    def run(self, run: int) -> RunRow | None: ...
    def runs_from(self, low: int, high: int) -> list[RunRow]:
        """Runs that grew, or were derived, from a position between `low` and `high`."""
        ...

    def last_seq(self, run: int) -> int:
        """The highest seq in a run, -1 if it is empty."""
        ...

    def add_tree(self, workspace: str, created_at: int) -> int: ...
    def add_run(self, run: RunRow) -> int:
        """A new run; its number and mac are set by `set_run` once the number is known."""
        ...

    def set_run(self, run: RunRow) -> None: ...
    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        """Conflict if a position or an id is in use."""
        ...

    def delete_nodes(self, low: int, high: int) -> int: ...
    def delete_run(self, run: int) -> None: ...
    def delete_tree_if_empty(self, tree: int) -> bool: ...

    # -- refs
    def tip(self, workspace: str, kind: str, key: bytes) -> Tip | None: ...
    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow | None: ...
    def ref_number(self, ref: int) -> RefRow | None: ...
    def keys_between(self, workspace: str, kind: str, low: bytes, high: bytes, limit: int) -> list[bytes]: ...
    def key_beside(self, workspace: str, kind: str, key: bytes) -> list[bytes]: ...
    def refs_recent(
        self,
        workspace: str,
        kind: str,
        *,
        before: tuple[int, int] | None,
        look: bytes | None,
        label: bytes | None,
        limit: int,
    ) -> list[RefRow]:
        """Refs not in the trash, last active first, after the (rank, ref) `before`."""
        ...

    def count_refs(self, workspace: str, kind: str, *, look: bytes | None, label: bytes | None) -> int: ...
    def refs_owned(self, ref: int) -> list[RefRow]: ...
    def refs_in_tree(self, tree: int, low: int, high: int) -> list[RefRow]:
        """Refs of a tree whose head lies between two positions."""
        ...

    def top_rank(self, workspace: str, kind: str) -> int: ...
    def add_ref(self, row: RefRow) -> int:
        """A new ref; Conflict if its key is taken. Its number is given here, so `mac` must not cover it."""
        ...

    def set_ref(self, row: RefRow) -> None:
        """Replaces a ref whose stored version is ``row.version - 1``. Conflict if it is not."""
        ...

    def move_ref(self, row: RefRow) -> None:
        """`set_ref` where only head, head_id, version, active_at, rank and mac differ: the hot path."""
        ...

    def delete_ref(self, ref: int) -> None:
        """Deletes a ref with its labels, log and uses of blobs."""
        ...

    def labels(self, ref: int) -> list[bytes]: ...
    def set_labels(self, ref: int, looks: Iterable[bytes]) -> None: ...

    # -- log
    def add_log(self, ref: int, rows: Sequence[tuple[int, bytes, bytes]]) -> None: ...
    def log_next(self, ref: int) -> int: ...
    def log_range(self, ref: int, start: int, stop: int, limit: int) -> list[LogRow]: ...
    def log_by_id(self, id: bytes) -> LogRow | None: ...
    def add_log_rows(self, rows: Sequence[LogRow]) -> None: ...

    # -- blobs
    def blob(self, tree: int, look: bytes) -> BlobRow | None: ...
    def add_blob(self, row: BlobRow) -> int: ...
    def set_blob(self, row: BlobRow) -> None: ...
    def add_chunk(self, pos: int, body: bytes) -> None: ...
    def chunk(self, pos: int) -> bytes | None: ...
    def add_uses(self, user: int, blobs: Iterable[int]) -> None: ...
    def unused_blobs(self, users: tuple[int, int]) -> list[int]: ...
    def delete_blob(self, blob: int) -> None: ...


class Backend(Protocol):
    """A place where stores live."""

    def read(self, work: Callable[[Tx], T]) -> T:
        """What `work` returns, from one moment of the store. It must not write."""
        ...

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        """Runs `work` in a transaction that is durable when this returns; all or nothing.

        `work` may share its transaction with other callers' work, each in a savepoint of its own. If the commit fails
        and its outcome is unknown, `settle` says what a new look at the store makes of it: a result if the work was
        kept, None if it was not. Without `settle` an unknown outcome is Unavailable.
        """
        ...

    def close(self) -> None:
        """Idempotent. Later calls raise Closed."""
        ...


