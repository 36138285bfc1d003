"""The contract of a transaction for blobs, and for the external objects that hold their chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from clew.backends.rows import BlobRow, ObjectRow


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
