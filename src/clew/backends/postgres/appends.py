"""Appends that do not wait for their turn, one or several with one visit to the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg

from clew.backends import Tip
from clew.backends.postgres.ahead import Ahead, Statement, Turn
from clew.backends.postgres.connection import lost, told
from clew.backends.postgres.rows import SQL
from clew.backends.postgres.turns import Turns
from clew.errors import ClewError

T = TypeVar("T")


class Appends:
    """Prepares a piece of work as one statement, if it is an append, and sends such statements."""

    def __init__(self, turns: Turns, look: Callable[[int], Tip | None]) -> None:
        self._turns = turns
        self._look = look

    def prepared(self, work: Callable[[Any], T], *, again: bool = False) -> tuple[T, Statement | None]:
        """What `work` returns if the statement beside it is done. Turn if it has to wait for its turn."""
        ahead = Ahead(self._turns.store, self._turns.epoch, self._look, again=again)
        try:
            result = work(ahead)
        except ClewError:
            raise Turn from None  # whatever it is, it is told by a transaction that sees one moment
        return result, ahead.statement()

    def send(self, statement: Statement) -> bool:
        """True if it was done, durably; False if something is not as it was seen. Lost."""
        turns = self._turns
        with told(turns.path), turns.connections.take() as conn:
            try:
                return _true(conn.kept.execute(*statement))
            except psycopg.errors.UniqueViolation:
                raise Turn from None
            except psycopg.Error as error:
                if lost(conn, error):
                    raise turns.lost(error, at_commit=True) from error
                raise

    def send_all(self, statements: Sequence[Statement]) -> list[bool]:
        """`send` for several, with one commit: if one fails, none is done."""
        if len(statements) == 1:
            return [self.send(statements[0])]
        turns = self._turns
        with told(turns.path), turns.connections.take() as conn:
            try:
                with conn.pipeline():
                    conn.execute(SQL["begin"])
                    cursors = [conn.execute(*statement) for statement in statements]
                    conn.execute("COMMIT")
            except psycopg.Error as error:
                if lost(conn, error):
                    raise turns.lost(error, at_commit=True) from error
                conn.execute("ROLLBACK")
                raise
        return [_true(cursor) for cursor in cursors]


def _true(cursor: psycopg.Cursor[tuple[Any, ...]]) -> bool:
    row = cursor.fetchone()
    return bool(row and row[0])
