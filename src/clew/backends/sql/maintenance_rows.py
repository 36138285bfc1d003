"""`MaintenanceTx`, implemented with the named statements."""

from __future__ import annotations

from collections.abc import Sequence

from clew.backends import BlobRow, Growth, LogRow, NodeLocation, QuarantineRow, RefRow, RunRow
from clew.backends.sql.statements import Statements, locate
from clew.errors import Corrupted

TABLES = ("runs", "nodes", "refs", "log", "blobs", "chunks", "quarantine", "objects")
_BODIES = {"nodes": "set_body", "log": "set_log_body", "chunks": "set_chunk", "quarantine": "set_quarantined"}


class SqlMaintenanceTx(Statements):
    """See `clew.backends.MaintenanceTx`."""

    __slots__ = ()

    def sizes(self) -> dict[str, int]:
        return dict(zip(TABLES, self._one("sizes"), strict=True))

    def empty(self) -> bool:
        return bool(self._one("empty")[0])

    def headers(self, prefix: str) -> dict[str, bytes]:
        return dict(self._run(self._sql["headers"], (prefix, prefix)).fetchall())

    def set_state(self, state: str, key_id: bytes | None) -> None:
        self._run(self._sql["set_state"], (state, key_id))

    def runs_after(self, run: int, limit: int) -> list[tuple[RunRow, bytes | None]]:
        return [(RunRow._make(row[1:]), row[0]) for row in self._run(self._sql["runs_after"], (run, limit))]

    def rekey_runs(self, keys: Sequence[tuple[bytes | None, bytes, int]]) -> None:
        self._many("rekey_run", keys)

    def keys_otherwise(self, head: bytes | None, size: int) -> bool:
        length = 0 if head is None else len(head)
        return bool(self._one("keys_otherwise", *(length, head, size) * 3)[0])

    def places_after(self, pos: int, limit: int) -> list[NodeLocation]:
        return self._rows(locate, "places_after", pos, limit)

    def log_after(self, pos: int, limit: int) -> list[LogRow]:
        return self._rows(LogRow._make, "log_after", pos, limit)

    def blobs_after(self, blob: int, limit: int) -> list[BlobRow]:
        return self._rows(BlobRow._make, "blobs_after", blob, limit)

    def chunks_after(self, pos: int, limit: int) -> list[tuple[int, bytes]]:
        rows: list[tuple[int, bytes]] = self._run(self._sql["chunks_after"], (pos, limit)).fetchall()
        return rows

    def lengths_after(self, table: str, after: int, limit: int) -> list[int]:
        return [row[0] for row in self._run(self._sql[f"lengths_{table}"], (after, limit))]

    def rekey_ref(self, row: RefRow) -> None:
        self._run(self._sql["rekey_ref"], (row.wrapped_key, row.mac, row.data, row.ref))

    def set_bodies(self, table: str, bodies: Sequence[tuple[bytes, int]]) -> None:
        self._many(_BODIES[table], bodies)

    def quarantine_row(self, pos: int) -> QuarantineRow | None:
        return self._row(QuarantineRow._make, "quarantined", pos)

    def quarantined_after(self, pos: int, limit: int) -> list[QuarantineRow]:
        return self._rows(QuarantineRow._make, "quarantined_after", pos, limit)

    def add_quarantined(self, row: QuarantineRow) -> None:
        self._store("add_quarantined", [row], "this message is already in quarantine")

    def drop_quarantined(self, low: int, high: int) -> None:
        self._run(self._sql["drop_quarantined"], (low, high))

    def refs_named(self, kind: str, key: bytes) -> list[RefRow]:
        return self._rows(RefRow._make, "refs_named", kind, key)

    def labels(self, ref: int) -> list[bytes]:
        return [row[0] for row in self._run(self._sql["labels"], (ref,))]

    def growth(self, ord: int) -> Growth:
        found = Growth._make(self._one("growth", ord))
        if not isinstance(found.last, int) or found.last >= 1 << 62:
            raise Corrupted("a node", "its number in the commit order is impossible")
        return found

    def ord_id(self, ord: int) -> bytes | None:
        row = self._one("ord_id", ord)
        return row[0] if row else None

    def deletions_after(self, after: int, limit: int) -> list[tuple[int, int, int]]:
        rows: list[tuple[int, int, int]] = self._run(self._sql["forgotten"], (after, limit)).fetchall()
        return rows
