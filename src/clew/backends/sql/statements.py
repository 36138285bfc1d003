"""Named statements on one connection, whatever the dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar


class Statements(ABC):
    """One connection; a dialect adds the three ways to store rows."""

    __slots__ = ("_run",)

    _sql: ClassVar[Mapping[str, Any]]
    """The named statements, as the driver takes them."""
    run_sql: Callable[..., Any]
    """Runs a statement with `?` for parameters."""
    _run: Callable[..., Any]
    """Runs one on the cursor that all share: so every method takes its rows whole before it runs the next."""

    def _one(self, name: str, *values: Any) -> Any:
        return self._run(self._sql[name], values).fetchone()

    @abstractmethod
    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> int:
        """Runs a statement for each row; how many rows it changed."""

    @abstractmethod
    def _store(self, name: str, rows: Sequence[Sequence[Any]], taken: str) -> None:
        """Stores new rows. Conflict, in the words of `taken`, if one is there already."""

    @abstractmethod
    def _insert(self, name: str, row: Sequence[Any], taken: str = "") -> int:
        """Stores a new row and returns its number; Conflict as `_store` has it."""
