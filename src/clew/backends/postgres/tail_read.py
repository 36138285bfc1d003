"""A session's last messages with one visit to the server, where a transaction would take five."""

from __future__ import annotations

from typing import NoReturn

from clew.backends import NodeRow, RefRow, RunRow, Tail
from clew.backends.postgres.optimistic import NeedsLock
from clew.backends.postgres.rows import PostgresTx
from clew.backends.sql import COLUMNS

_NODE = len(COLUMNS["{node}"].split(","))
_REF = _NODE + len(RefRow._fields)


class TailRead:
    """A transaction that reads only a ref and the end of its run. Every other call raises NeedsLock."""

    def __init__(self, tx: PostgresTx, tail: Tail) -> None:
        self._tail = tail
        rows = tx.tail(*tail)
        if not rows or rows[0][_NODE] is None:  # no head, or not where it should be
            raise NeedsLock
        # The head comes first, and it alone has the ref and the run beside it.
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
        """The nodes, if they are those that were fetched; if some are missing, that shows by their number."""
        if high != self._ref.head or low < high - self._tail[3]:
            raise NeedsLock
        return [row for row in self._rows if row[0] >= low]

    def __getattr__(self, name: str) -> NoReturn:
        """Whatever else a transaction can do."""
        raise NeedsLock
