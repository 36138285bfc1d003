"""The contract of a transaction for blobs, and for the objects outside that have their pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from clew.backends.rows import BlobRow, ObjectRow


class BlobTx(Protocol):
    """Blobs, their pieces, who uses them, and objects in object storage."""

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

    def delete_blob(self, blob: int) -> None:
        """Deletes a blob with its pieces; the objects that it had, whole or not, are needed by nothing from now on."""
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

    def blobs_used(self, low: int, high: int) -> list[int]:
        """The blobs that users from `low` to `high` use."""
        ...

    def delete_uses(self, low: int, high: int) -> None:
        """Forgets what the users between two numbers show, and deletes the blobs that nothing else shows."""
        ...

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
