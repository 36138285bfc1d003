"""Prepares one append without the lock; it is not done if anything has changed since it was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from clew.backends import HeadState, Move, NodeRow
from clew.backends.postgres.rows import Append


class NeedsLock(BaseException):
    """Control flow: the work needs a transaction of its own. Nothing was done yet."""


class OptimisticAppend:
    """Stands in for a transaction while a piece of work may still turn out to be an append, and nothing else.

    It takes down what is to be done instead of doing it; whatever an append does not need raises NeedsLock. `seen` is
    what the ref was found to be, either by an earlier append of this process or, if it is one of the `stale` ones, by a
    look now; then it is none of them any more.
    """

    __slots__ = ("_epoch", "_move", "_read_head", "_ref", "_rows", "_seen", "_stale")

    def __init__(self, epoch: int, read_head: Callable[[int], HeadState | None], stale: set[int]) -> None:
        self._epoch = epoch
        self._read_head: Callable[[int], HeadState | None] | None = read_head
        self._seen: HeadState | None = None
        self._stale = stale
        self._ref = 0
        self._move: Move | None = None
        self._rows: Sequence[NodeRow] | None = None

    def advance(self, ref: int, seen: HeadState, move: Move, top: int) -> bool:
        """Believed for now; False if an earlier try has shown that it is not so."""
        if ref in self._stale:
            return False
        if self._move is not None or seen.epoch != self._epoch:
            raise NeedsLock
        self._ref, self._seen, self._move = ref, seen, move
        return True

    def head_state(self, ref: int) -> HeadState | None:
        """Read now, and checked again by the server when the head moves."""
        if self._read_head is None or self._move is not None:
            raise NeedsLock
        state = self._read_head(ref)
        if state is None or state.epoch != self._epoch or not state.open:
            raise NeedsLock
        self._ref, self._seen, self._read_head = ref, state, None
        self._stale.discard(ref)
        return state

    def add_nodes(self, rows: Sequence[NodeRow]) -> None:
        if self._rows is not None or self._seen is None:
            raise NeedsLock
        self._rows = rows

    def move_ref(self, ref: int, move: Move, *, up: bool) -> None:
        if self._move is not None or self._seen is None or ref != self._ref:
            raise NeedsLock
        self._move = move

    def __getattr__(self, name: str) -> NoReturn:
        """Whatever else a transaction can do."""
        raise NeedsLock

    def append(self) -> Append | None:
        """What is to be done; None if that is nothing. NeedsLock if it is not an append."""
        seen, move, rows = self._seen, self._move, self._rows
        if move is None and rows is None:
            return None
        if seen is None or move is None or not rows or move.head != rows[-1][0]:
            raise NeedsLock
        return Append(self._ref, seen, move, rows)
