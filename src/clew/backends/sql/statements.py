"""Runs named statements on one connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from clew.backends import NodeLocation

T = TypeVar("T")


def locate(row: Any) -> NodeLocation:
    """A node, from the columns of its location followed by those of its own row."""
    return NodeLocation(row[0], row[1], row[2], row[3], row[4], row[5:])


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

    def _row(self, make: Callable[[Any], T], name: str, *values: Any) -> T | None:
        row = self._run(self._sql[name], values).fetchone()
        return make(row) if row else None

    def _rows(self, make: Callable[[Any], T], name: str, *values: Any) -> list[T]:
        return [make(row) for row in self._run(self._sql[name], values)]

    @abstractmethod
    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> int:
        """Runs a statement for each row; returns how many rows it changed."""

    @abstractmethod
    def _store(self, name: str, rows: Sequence[Sequence[Any]], taken: str) -> None:
        """Stores new rows. Conflict with the message `taken` if one exists already."""

    @abstractmethod
    def _insert(self, name: str, row: Sequence[Any], taken: str = "") -> int:
        """Stores a new row and returns its number. Conflict as in `_store`."""
