"""The common base of backends: forked processes, current transactions of threads, and defaults for capabilities."""

from __future__ import annotations

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, ClassVar, Generic, TypeVar, cast

from clew.backends import Backend, HeadState, Job, Loader, Move, NodeRow, Partitions, State, Tenants, Tx, Words
from clew.backends.timing import Timing
from clew.errors import Closed, Invalid, SchemaTooNew, Unavailable

TxT = TypeVar("TxT")


class ThreadState(threading.local):
    """What a backend remembers for each thread.

    Defaults are in the class, where reading them takes 0.1 µs; `getattr` with a default takes 1.2 µs.
    """

    tx: Any = None
    """Its current transaction."""
    frame: FrameType | None = None
    """The frame of its current write."""
    jobs: list[Job]
    """The writes of the current transaction."""
    apart: bool
    """True if each write of the current transaction has its own savepoint."""


class OpenBackend(ABC, Generic[TxT]):
    """An open backend. Knows whether this process may use it, and the current transaction of each thread."""

    path: str
    newest: int
    """The newest format that it supports."""
    _forks: ClassVar[int] = 0
    """Number of forks between the process that loaded clew and this one."""

    def __init__(self) -> None:
        self.on_epoch: Callable[[Tx], object] = lambda tx: None
        self.timing = Timing(self.path)
        self._local = ThreadState()
        self._closed = False
        self._forks_at_open = OpenBackend._forks

    def in_transaction(self) -> bool:
        return self._current_tx() is not None

    @property
    def tenants(self) -> Tenants | None:
        return None

    @property
    def partitions(self) -> Partitions | None:
        return None

    @property
    def words(self) -> Words | None:
        return None

    @property
    def extendable(self) -> int:
        return 0

    def extend(self, ref: int, seen: HeadState, move: Move, row: NodeRow) -> bool:
        return False

    def scratch_copy(self) -> Backend | None:
        return None

    @contextmanager
    def load(self) -> Iterator[Loader]:
        with self.transaction():
            yield cast(Loader, self._current_tx())

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """See `clew.backends.Backend`."""

    def allow_changes(self) -> None:
        pass

    def hurry(self) -> None:
        pass

    @property
    def _forked(self) -> bool:
        """True in a child of the process that opened it. The child must neither use nor close it."""
        return self._forks_at_open != OpenBackend._forks

    def _current_tx(self) -> TxT | None:
        """The current transaction of this thread, if any. Closed if this process cannot use the store."""
        if self._closed or self._forks_at_open != OpenBackend._forks:
            why = "was opened before this process was forked" if self._forked else "is closed"
            raise Closed(f"the store {why}")
        current: TxT | None = self._local.tx
        return current

    def _ensure_closable(self) -> None:
        """Invalid if this thread is in a transaction of the store."""
        if self._local.tx is not None:
            raise Invalid("a store cannot be closed inside its own transaction")

    def _forbid_reentry(self) -> None:
        """Marks the caller as the current write of this thread, until it returns or sets `frame` to None.

        Unavailable if the thread is in the middle of another write: a signal handler must not write inside it.
        """
        here = sys._getframe(1)
        outer = self._local.frame
        if outer is not None:
            above = here.f_back
            while above is not None:
                if above is outer:
                    raise Unavailable(
                        "this thread is in the middle of another write",
                        hint="A signal handler or __del__ must not write; let it set a flag.",
                    )
                above = above.f_back
        self._local.frame = here  # if an interrupt prevents clearing it, the frame is no longer on the stack

    def _load_epoch(self, tx: Tx) -> State:
        """Reads the epoch and calls `on_epoch`. SchemaTooNew."""
        state = tx.state()
        if state.format > self.newest:
            raise SchemaTooNew(self.path, state.format, self.newest)
        self.on_epoch(tx)
        return state


def forks() -> int:
    """The number of forks between the process that loaded clew and this one."""
    return OpenBackend._forks


def _after_fork() -> None:
    """Runs in the child: backends that were opened before belong to the parent."""
    OpenBackend._forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
