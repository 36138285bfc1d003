"""The contract of a transaction for work on the whole store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from clew.backends.rows import BlobRow, Growth, LogRow, NodeLocation, QuarantineRow, RefRow, RunRow


class MaintenanceTx(Protocol):
    """Walks all rows in order of their numbers, for verify, key changes, quarantine and the search index."""

    def sizes(self) -> dict[str, int]:
        """How many rows there are of runs, nodes, refs, log, blobs, chunks, quarantine and objects."""
        ...

    def empty(self) -> bool:
        """True while nothing was ever put into the store, or everything is gone again."""
        ...

    def headers(self, prefix: str) -> dict[str, bytes]:
        """Those whose names begin so."""
        ...

    def set_state(self, state: str, key_id: bytes | None) -> None:
        """Begins a new epoch: each process reads the state of the store again before its next write is kept."""
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

    def places_after(self, pos: int, limit: int) -> list[NodeLocation]:
        """Nodes at higher positions, in order."""
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

    def quarantine_row(self, pos: int) -> QuarantineRow | None:
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

    def refs_named(self, kind: str, key: bytes) -> list[RefRow]:
        """The refs of a kind with a key, of every workspace."""
        ...

    def labels(self, ref: int) -> list[bytes]:
        """The keyed hashes of a ref's labels."""
        ...

    def growth(self, ord: int) -> Growth:
        """The state of the store for a reader that has read up to the node with this number."""
        ...

    def ord_id(self, ord: int) -> bytes | None:
        """The id of the node with this number."""
        ...

    def deletions_after(self, after: int, limit: int) -> list[tuple[int, int, int]]:
        """Deletions after number `after`, as (number, low, high)."""
        ...
