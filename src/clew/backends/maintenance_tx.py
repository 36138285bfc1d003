"""The contract of a transaction for work on the whole store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from clew.backends.rows import BlobRow, Growth, LogRow, NodeLocation, QuarantineRow, RefRow, RunRow


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
