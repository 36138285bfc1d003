"""Runs named statements on one connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar


class Statements(ABC):
    """A connection. Each dialect implements `_many`, `_store` and `_insert`."""

    __slots__ = ("_run",)

    _sql: ClassVar[Mapping[str, Any]]
    """The named statements, in the syntax of the driver."""
    run_sql: Callable[..., Any]
    """Runs a statement with `?` for parameters."""
    _run: Callable[..., Any]
    """Runs a statement on the shared cursor. So every method fetches all rows before it runs the next one."""

    def _one(self, name: str, *values: Any) -> Any:
        return self._run(self._sql[name], values).fetchone()

    @abstractmethod
    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> int:
        """Runs a statement for each row; returns how many rows it changed."""

    @abstractmethod
    def _store(self, name: str, rows: Sequence[Sequence[Any]], taken: str) -> None:
        """Stores new rows. Conflict with the message `taken` if one exists already."""

    @abstractmethod
    def _insert(self, name: str, row: Sequence[Any], taken: str = "") -> int:
        """Stores a new row and returns its number. Conflict as in `_store`."""
