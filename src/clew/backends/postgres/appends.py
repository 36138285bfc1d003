"""Sends prepared appends to the server without the lock, one or several in one statement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import psycopg

from clew.backends import HeadState
from clew.backends.postgres.connection import is_lost
from clew.backends.postgres.optimistic import NeedsLock, OptimisticAppend
from clew.backends.postgres.transactions import Turns
from clew.backends.postgres.tx import SQL, Append, columns, join
from clew.errors import ClewError

T = TypeVar("T")
_EXTEND, _EXTEND_ALL = SQL["extend"], SQL["extend_all"]


class Appends:
    """Prepares and sends appends without the lock."""

    def __init__(self, turns: Turns, read_head: Callable[[int], HeadState | None]) -> None:
        self._turns = turns
        self._read_head = read_head

    def prepare(self, work: Callable[[Any], T], stale: set[int]) -> tuple[T, Append | None]:
        """Runs `work` without the lock. Returns its result and the append to send. NeedsLock."""
        ahead = OptimisticAppend(self._turns.epoch, self._read_head, stale)
        try:
            result = work(ahead)
        except ClewError:
            raise NeedsLock from None  # a transaction with the lock raises the real error
        return result, ahead.append()

    def send(self, append: Append) -> bool:
        """True if the append is stored durably; False if the ref or its run has changed.

        NeedsLock if an id is in use, or on a deadlock with another writer of the same ids. Lost.
        """
        return bool(self._send([append]))

    def send_all(self, appends: Sequence[Append]) -> list[bool]:
        """`send` for several appends, in one statement. On an error, none is stored.

        Consecutive appends to one ref are combined, so that its head moves once.
        """
        chains: dict[int, list[Append]] = {}
        runs: dict[int, int] = {}  # one run for each ref, because the answer contains only refs
        fit = []
        for append in appends:
            chain = chains.get(append.run)
            fit.append(
                runs.setdefault(append.ref, append.run) == append.run and (not chain or append.follows(chain[-1]))
            )
            if fit[-1]:
                chains.setdefault(append.run, []).append(append)
        moved = self._send([join(chain) if len(chain) > 1 else chain[0] for chain in chains.values()])
        return [yes and append.ref in moved for yes, append in zip(fit, appends, strict=True)]

    def _send(self, appends: Sequence[Append]) -> Collection[int]:
        """Sends appends to different runs; returns the refs that were moved. NeedsLock, Lost."""
        turns, first = self._turns, appends[0]
        one = len(appends) == len(first.rows) == 1
        values = (*first.bounds(), *first.rows[0]) if one else columns(appends)
        with turns.translate_errors, turns.connections.take(commits=True) as conn:
            try:
                answer = conn.shared_cursor.execute(_EXTEND if one else _EXTEND_ALL, (turns.store, *values)).fetchone()
            except (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
                raise NeedsLock from None
            except psycopg.Error as error:
                if is_lost(conn, error):
                    raise turns.lost_error(error, at_commit=True) from error
                raise
        moved = answer and answer[0]
        return (first.ref,) if moved is True else moved or ()
