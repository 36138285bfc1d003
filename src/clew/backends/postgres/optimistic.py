"""Prepares an append without the lock. The server rejects it if anything has changed since it was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from clew.backends import HeadState, Move, NodeRow
from clew.backends.postgres.tx import Append


class NeedsLock(BaseException):
    """Control flow: the work needs a transaction with the lock. Nothing was stored yet."""


class OptimisticAppend:
    """Takes the place of a transaction for work that may be only an append.

    It records the writes of the work instead of sending them; calls that an append does not need raise NeedsLock. The
    state of the ref comes from an earlier append of this process. For a `stale` ref, it is read again, and the ref is
    removed from `stale`.
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
        """Assumes that nothing has changed. False if an earlier attempt has shown otherwise."""
        if ref in self._stale:
            return False
        if self._move is not None or seen.epoch != self._epoch:
            raise NeedsLock
        self._ref, self._seen, self._move = ref, seen, move
        return True

    def head_state(self, ref: int) -> HeadState | None:
        """Reads the state now. The server checks it again when the head moves."""
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
        """Any other method of a transaction."""
        raise NeedsLock

    def append(self) -> Append | None:
        """The recorded append; None if the work writes nothing. NeedsLock if it is not an append."""
        seen, move, rows = self._seen, self._move, self._rows
        if move is None and rows is None:
            return None
        if seen is None or move is None or not rows or move.head != rows[-1][0]:
            raise NeedsLock
        return Append(self._ref, seen, move, rows)
