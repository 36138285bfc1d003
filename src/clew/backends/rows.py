"""The rows of a store, its tables and their columns, and the number of their format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

# No `from __future__ import annotations` here: Python would compile the type of each field separately at every start.

SEQ_BITS = 24
MAX_SEQ = (1 << SEQ_BITS) - 1
"""A position is ``run << 24 | seq``. After 16 million messages, a chain continues in a new run."""

COUNTER_BITS = 31
SHARDS = 256
"""On a server the number of a run, a ref or a blob is ``shard << 31 | counter``, with the shard of its tree. So rows of
one tree are adjacent, and tables can be partitioned by their keys. New numbers in a file have shard 0; copying a store
keeps all numbers."""
MAX_COUNTER = (1 << COUNTER_BITS) - 1
MAX_POS = (SHARDS << COUNTER_BITS + SEQ_BITS) - 1


def creation_counter(number: int) -> int:
    """The creation order of runs, refs or blobs, which their numbers do not show because of the shard."""
    return number & MAX_COUNTER


NodeRow = tuple[int, bytes, bytes, bytes]
"""A node as stored: pos, facts, id, body."""
BodyRow = tuple[bytes, bytes, bytes]
"""A node without its position, for adjacent nodes in order."""

POS: Final = 0
FACTS: Final = 1
ID: Final = 2
BODY: Final = 3


class NodeLocation(NamedTuple):
    """A node's row, and the data about its run and parent that it does not contain."""

    tree: int
    run_depth: int
    """Depth of the first node of its run."""
    carried: int
    wrapped_key: bytes | None
    """The wrapped data key of its run."""
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


class InsertPoint(NamedTuple):
    """A node after which a chain can be inserted, with the data that the chain needs. Without a node: a new root."""

    tree: int
    pos: int | None = None
    id: bytes | None = None
    run_depth: int | None = None
    carried: int | None = None
    facts: bytes | None = None
    open: int | None = None
    """1 if the chain can continue the node's run: the node is the last of the run, and the run is not closed."""
    wrapped_key: bytes | None = None
    """The wrapped data key of the node's run."""


class HeadState(NamedTuple):
    """All data that an append after a ref's head needs, in one read. The fields from `tree` on are an `InsertPoint`."""

    epoch: int
    key: bytes
    version: int
    active_at: int
    rank: int
    trashed_at: int | None
    mac: bytes
    head_id: bytes | None
    ref_key: bytes | None
    """The wrapped data key of the ref."""
    top: int
    """The highest rank among the refs of its kind."""
    tree: int
    pos: int | None
    id: bytes | None
    run_depth: int | None
    carried: int | None
    facts: bytes | None
    open: int | None
    wrapped_key: bytes | None

    @property
    def insert_point(self) -> InsertPoint:
        """The head as an insert point."""
        return InsertPoint._make(self[10:])


class Move(NamedTuple):
    """The columns of a ref that change when its head moves."""

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


class ObjectRow(NamedTuple):
    """The record of an object in object storage."""

    name: bytes
    blob: int | None
    """The blob whose chunks it holds; None if it is unneeded."""
    size: int
    """In bytes; 0 until it is complete."""
    created_at: int


class LogRow(NamedTuple):
    """An entry of a ref's log, as stored. `pos` is ``ref << 24 | seq``."""

    pos: int
    created_at: int
    id: bytes
    body: bytes


class QuarantineRow(NamedTuple):
    """A quarantine entry, as stored."""

    pos: int
    created_at: int
    why: str
    body: bytes


class Growth(NamedTuple):
    """The last node of a store, and the deletions from it."""

    id: bytes | None
    """The id of the node with the number that was asked for."""
    last: int
    """The highest number of a stored node, 0 if there is none."""
    first_forgotten: int
    """The numbers of the first recorded deletion and of the last one; 1 and 0 if there are none."""
    last_forgotten: int


class State(NamedTuple):
    """The current epoch: format and key state of the store."""

    number: int
    format: int
    state: str
    key_id: bytes | None

    @property
    def change(self) -> int:
        """Counts changes of state, key and holds. A migration, which has no key, adds one to both numbers."""
        return self.number - self.format


FORMAT = 1
"""The newest supported format, for files and servers."""

Kinds = type | tuple[type, ...]
NULL = type(None)


class Table(NamedTuple):
    """A table and the allowed types of its columns."""

    name: str
    columns: Mapping[str, Kinds]
    """The first `keys` columns are the key."""
    keys: int = 1
    key_index: str | None = None
    """An index that contains every key, for tables that cannot be read because of damage."""


TREES = Table("trees", {"tree": int, "workspace": str, "created_at": int})
NODES = Table("nodes", {"pos": int, "facts": bytes, "id": bytes, "body": bytes, "ord": int}, key_index="nodes_ord")
RUNS = Table(
    "runs",
    {"run": int, "tree": int, "parent": (int, NULL), "derived": (int, NULL), "depth": int, "carried": int, "tip": int,
     "closed": int, "wrapped_key": (bytes, NULL), "mac": bytes},
    key_index="runs_tree",
)  # fmt: skip
QUARANTINE = Table("quarantine", {"pos": int, "created_at": int, "why": str, "body": bytes})
REFS = Table(
    "refs",
    {"ref": int, "workspace": str, "kind": str, "key": bytes, "owner": (int, NULL), "tree": (int, NULL),
     "head": (int, NULL), "head_id": (bytes, NULL), "version": int, "created_at": int, "active_at": int, "rank": int,
     "trashed_at": (int, NULL), "expires_at": (int, NULL), "hold": int, "look": (bytes, NULL),
     "wrapped_key": (bytes, NULL), "mac": bytes, "data": bytes},
    key_index="refs_key",
)  # fmt: skip
LABELS = Table("labels", {"ref": int, "look": bytes}, keys=2)
LOG = Table("log", {"pos": int, "created_at": int, "id": bytes, "body": bytes}, key_index="log_id")
BLOBS = Table(
    "blobs",
    {"blob": int, "tree": int, "look": bytes, "size": int, "chunks": int, "created_at": int,
     "wrapped_key": (bytes, NULL), "mac": bytes},
    key_index="blobs_look",
)  # fmt: skip
CHUNKS = Table("chunks", {"pos": int, "body": bytes})
USES = Table("uses", {"blob": int, '"user"': int}, keys=2)
FORGOTTEN = Table("forgotten", {"number": int, "low": int, "high": int})

COPIED = (TREES, NODES, RUNS, QUARANTINE, REFS, LABELS, LOG, BLOBS, CHUNKS, USES, FORGOTTEN)
"""The tables to copy, in an order in which no row refers to a later table. Objects are copied separately."""
