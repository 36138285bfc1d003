"""Reads the last messages of a session in one round trip. A transaction would take five."""

from __future__ import annotations

from typing import NoReturn

from clew.backends import NodeRow, RefRow, RunRow, Tail
from clew.backends.postgres.optimistic import NeedsLock
from clew.backends.postgres.tx import PostgresTx
from clew.backends.sql import COLUMNS

_NODE = len(COLUMNS["{node}"].split(","))
_REF = _NODE + len(RefRow._fields)


class TailRead:
    """Takes the place of a transaction that reads only a ref and the end of its run. Other calls raise NeedsLock."""

    def __init__(self, tx: PostgresTx, tail: Tail) -> None:
        self._tail = tail
        rows = tx.tail(*tail)
        if not rows or rows[0][_NODE] is None:  # there is no head, or it is damaged
            raise NeedsLock
        # Only the first row, the head, includes the ref and the run.
        self._ref = RefRow._make(rows[0][_NODE:_REF])
        self._run = RunRow._make(rows[0][_REF:])
        self._rows = [row[:_NODE] for row in reversed(rows)]

    def ref(self, workspace: str, kind: str, key: bytes) -> RefRow:
        if (workspace, kind, key) != self._tail[:3]:
            raise NeedsLock
        return self._ref

    def run(self, run: int) -> RunRow:
        if run != self._run.run:
            raise NeedsLock
        return self._run

    def nodes_between(self, low: int, high: int) -> list[NodeRow]:
        """The fetched nodes, if they cover this range. The caller detects missing ones by their number."""
        if high != self._ref.head or low < high - self._tail[3]:
            raise NeedsLock
        return [row for row in self._rows if row[0] >= low]

    def __getattr__(self, name: str) -> NoReturn:
        """Any other method of a transaction."""
        raise NeedsLock
