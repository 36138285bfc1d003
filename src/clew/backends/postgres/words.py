"""The search index of an unencrypted store on a server: a table with the words of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clew.backends.postgres.tx import PostgresTx


class ServerWords:
    """See `clew.backends.Words`."""

    def __init__(self, transaction: Callable[[Callable[[PostgresTx], Any]], Any]) -> None:
        self._transaction = transaction

    def edge(self, workspace: str, mode: str) -> int:
        (number,) = self._run("search_edge", workspace, mode)[0]
        return int(number)

    def add(self, workspace: str, mode: str, rows: Sequence[Sequence[Any]], edge: int) -> None:
        def work(tx: PostgresTx) -> None:
            if rows:
                tx.run_named("add_words", workspace, mode, *map(list, zip(*rows, strict=True)))
            tx.run_named("move_edge", workspace, mode, edge)

        self._transaction(work)

    def find(
        self, workspace: str, mode: str, query: str, filters: dict[str, Any], limit: int, offset: int
    ) -> list[tuple[int, bytes, float]]:
        role, spans = filters.get("role"), filters.get("spans")
        lows, highs = (None, None) if spans is None else ([low for low, _ in spans], [high for _, high in spans])
        since, until = filters.get("since", -(1 << 62)), filters.get("until", 1 << 62)
        rest = (workspace, mode, role, role, since, until, lows, lows, highs, limit, offset)
        if not query:
            return self._run("find_all", *rest)
        return self._run("find_words", filters.get("newest", False), query, *rest)

    def clear(self) -> None:
        def work(tx: PostgresTx) -> None:
            tx.run_named("clear_words")
            tx.run_named("clear_edges")

        self._transaction(work)

    def _run(self, name: str, *values: Any) -> list[Any]:
        rows: list[Any] = self._transaction(lambda tx: list(tx.run_named(name, *values)))
        return rows
