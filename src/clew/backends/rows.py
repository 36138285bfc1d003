"""The rows of a store, as backends and engine pass them to each other. Their columns are explained with the schema."""

# No `from __future__ import annotations` here: the type of each field would be compiled by itself, at every start.
from typing import Final, NamedTuple

SEQ_BITS = 24
MAX_SEQ = (1 << SEQ_BITS) - 1
"""A position is ``run << 24 | seq``: 16 million messages in one stretch, then a new run goes on."""

COUNTER_BITS = 31
SHARDS = 256
"""On a server the number of a run, a ref or a blob is ``shard << 31 | counter``, and its shard is that of its tree: so
everything of one tree lies together, and a table can be cut by its key. In a file there are no shards, and so all of it
is in shard 0; once copied there, numbers stay what they are."""
MAX_COUNTER = (1 << COUNTER_BITS) - 1
MAX_POS = (SHARDS << COUNTER_BITS + SEQ_BITS) - 1


def creation_counter(number: int) -> int:
    """Tells which of two runs, refs or blobs was made first; the numbers themselves do not."""
    return number & MAX_COUNTER


NodeRow = tuple[int, bytes, bytes, bytes]
"""A node as stored: pos, facts, id, body."""

POS: Final = 0
FACTS: Final = 1
ID: Final = 2
BODY: Final = 3


class NodeLocation(NamedTuple):
    """Where a node stands, beside its own row."""

    tree: int
    run_depth: int
    """Depth of the first node of its run."""
    carried: int
    wrapped_key: bytes | None
    """Of its run."""
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
    """Where a chain may grow: a node, and what its next one has to know of it. Without a node: a tree for a root."""

    tree: int
    pos: int | None = None
    id: bytes | None = None
    run_depth: int | None = None
    carried: int | None = None
    facts: bytes | None = None
    open: int | None = None
    """1 if the chain may go on in the node's run: it is the last there, and the run is not closed."""
    wrapped_key: bytes | None = None
    """Of the node's run."""


class HeadState(NamedTuple):
    """All that an append after a ref's head has to know, in one read. From `tree` on, it is the `InsertPoint`."""

    epoch: int
    key: bytes
    version: int
    active_at: int
    rank: int
    trashed_at: int | None
    mac: bytes
    head_id: bytes | None
    ref_key: bytes | None
    """The ref's own data key, wrapped."""
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
        """Where the head stands."""
        return InsertPoint._make(self[10:])


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


class ObjectRow(NamedTuple):
    """An object outside of the store, as it is noted there."""

    name: bytes
    blob: int | None
    """Whose pieces it has; None once nothing needs it."""
    size: int
    """Bytes; 0 until it is whole."""
    created_at: int


class LogRow(NamedTuple):
    """An entry of a ref's log, as stored; pos is ``ref << 24 | seq``."""

    pos: int
    created_at: int
    id: bytes
    body: bytes


class QuarantineRow(NamedTuple):
    """What is known of a message in quarantine, as stored."""

    pos: int
    created_at: int
    why: str
    body: bytes


class Growth(NamedTuple):
    """How far a store has grown, and what was deleted from it."""

    id: bytes | None
    """Of the node that was asked about."""
    last: int
    """The highest number that a stored node has, 0 if there is none."""
    first_forgotten: int
    """The first deletion that is still remembered, and the last there was: 1 and 0 if there was none."""
    last_forgotten: int


class State(NamedTuple):
    """The epoch: how the store is written at this moment."""

    number: int
    format: int
    state: str
    key_id: bytes | None

    @property
    def change(self) -> int:
        """Counts the changes of state, key and holds. A migration, which has no key, adds one to both numbers."""
        return self.number - self.format
