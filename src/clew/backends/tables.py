"""The tables of a store and their columns, and the number of their format."""

from collections.abc import Mapping
from typing import NamedTuple

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
