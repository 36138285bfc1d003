"""`BlobTx`, implemented with the named statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clew.backends import MAX_SEQ, SEQ_BITS, BlobRow, ObjectRow
from clew.backends.sql.statements import Statements


class SqlBlobTx(Statements):
    """See `clew.backends.BlobTx`."""

    __slots__ = ()

    def blob(self, tree: int, look: bytes) -> BlobRow | None:
        return self._row(BlobRow._make, "blob", tree, look)

    def blob_by_number(self, blob: int) -> BlobRow | None:
        return self._row(BlobRow._make, "blob_by_number", blob)

    def blobs_between(self, tree: int, low: bytes, high: bytes) -> list[BlobRow]:
        return self._rows(BlobRow._make, "blobs_between", tree, low, high)

    def blobs_unused(self, tree: int) -> list[BlobRow]:
        return self._rows(BlobRow._make, "blobs_unused", tree)

    def add_blob(self, row: BlobRow) -> int:
        return self._insert("add_blob", row[1:])

    def set_blob(self, row: BlobRow) -> None:
        self._run(self._sql["set_blob"], (row.look, row.size, row.chunks, row.wrapped_key, row.mac, row.blob))

    def delete_blob(self, blob: int) -> None:
        self._run(self._sql["delete_chunks"], (blob << SEQ_BITS, blob << SEQ_BITS | MAX_SEQ))
        self._run(self._sql["leave_object"], (blob,))
        self._run(self._sql["delete_blob"], (blob,))

    def add_chunk(self, pos: int, body: bytes) -> None:
        self._run(self._sql["add_chunk"], (pos, body))

    def chunk(self, pos: int) -> bytes | None:
        row = self._one("chunk", pos)
        return row[0] if row else None

    def add_uses(self, user: int, blobs: Iterable[int]) -> None:
        self._many("add_use", [(blob, user) for blob in blobs])

    def blobs_used(self, low: int, high: int) -> list[int]:
        return [blob for (blob,) in self._run(self._sql["blobs_used"], (low, high)).fetchall()]

    def delete_uses(self, low: int, high: int) -> None:
        used = self.blobs_used(low, high)
        if not used:
            return
        self._run(self._sql["delete_uses"], (low, high))
        for blob in used:
            if not self._one("blob_in_use", blob)[0]:
                self.delete_blob(blob)

    def add_object(self, row: ObjectRow) -> None:
        self._run(self._sql["add_object"], row)

    def object(self, blob: int) -> ObjectRow | None:
        return self._row(ObjectRow._make, "object", blob)

    def objects_after(self, blob: int, limit: int) -> list[ObjectRow]:
        return self._rows(ObjectRow._make, "objects_after", blob, limit)

    def whole_object(self, name: bytes, blob: int, size: int) -> bool:
        if self._run(self._sql["whole_object"], (size, name, blob)).rowcount != 1:
            return False
        self._run(self._sql["leave_others"], (blob, name))
        return True

    def objects_unfinished(self, before: int) -> list[ObjectRow]:
        return self._rows(ObjectRow._make, "objects_unfinished", before)

    def leave_unfinished(self, before: int) -> None:
        self._run(self._sql["leave_unfinished"], (before,))

    def objects_left(self, limit: int) -> list[ObjectRow]:
        return self._rows(ObjectRow._make, "objects_left", limit)

    def bytes_left(self) -> int:
        return int(self._one("bytes_left")[0])

    def object_named(self, name: bytes) -> bool:
        return bool(self._one("object_named", name)[0])

    def drop_objects(self, names: Sequence[bytes]) -> None:
        self._many("drop_object", [(name,) for name in names])
