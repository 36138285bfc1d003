"""Cleanup that could not run at once, and the mark in the store that says so."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from clew.backends import Tx
from clew.errors import ClewError

RETRY_SECONDS = 1.0
"""Time between two attempts: an attempt with every write would slow each of them down."""
_MARK = "unclean"
"""Header that exists while files may hold traces of deleted data."""


class PendingCleanup:
    """Cleanup that one process still has to do. `after_write` retries it until it succeeds."""

    def __init__(self, in_transaction: Callable[[], bool]) -> None:
        self.marked = False
        """True if the store had the mark when its header was last read."""
        self._in_transaction = in_transaction
        self._finish: Callable[[], bool] | None = None
        self._last_try = 0.0

    @property
    def pending(self) -> bool:
        """True while scheduled cleanup has not succeeded."""
        return self._finish is not None

    def schedule(self, finish: Callable[[], bool]) -> None:
        """Retries `finish` after later writes until it returns True."""
        self._finish, self._last_try = finish, time.monotonic()

    def cancel(self) -> None:
        """Forgets what is scheduled. The mark stays in the store."""
        self._finish = None

    def after_write(self) -> None:
        """Retries the cleanup, if one is pending and the last attempt is long enough ago. Never raises ClewError."""
        finish = self._finish
        if finish is None or time.monotonic() - self._last_try <= RETRY_SECONDS or self._in_transaction():
            return
        self._last_try = time.monotonic()
        with suppress(ClewError):  # the write is committed, whether or not the cleanup succeeds
            if finish():
                self.cancel()


def cleanup_mark(tx: Tx) -> bytes | None:
    """The mark, or None if no traces of deleted data are left."""
    return tx.header(_MARK)


def mark_dirty(tx: Tx) -> None:
    """Sets a new mark. Each one differs, so that a cleanup removes only the mark it started with."""
    tx.set_header(_MARK, os.urandom(8))


def clear_mark(tx: Tx) -> None:
    """Removes the mark."""
    tx.set_header(_MARK, None)
