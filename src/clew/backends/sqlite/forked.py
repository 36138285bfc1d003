"""Closes the connections that a forked child inherits from its parent.

SQLite in the child assumes that it holds their locks, but only the parent does. So a store that the child opens on the
same file would have no locks either, and closing the last inherited connection would delete the write-ahead log while
others use it. The child closes them before it opens a store or exits, in an order in which SQLite keeps the log.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
from _weakref import ref  # `weakref` takes longer to import than the rest of this
from contextlib import suppress
from typing import Protocol


class Holder(Protocol):
    """An open store."""

    def connections(self) -> tuple[sqlite3.Connection | None, bool, list[sqlite3.Connection]]:
        """The write connection, if any; whether it may be in use; and the idle read-only connections."""


_open: set[ref[Holder]] = set()
_inherited: list[sqlite3.Connection] = []


def register(store: Holder) -> None:
    """Must be called for each opened store."""
    _open.add(ref(store, _open.discard))


def close_inherited() -> None:
    """Closes inherited connections, except those that were in use during the fork.

    Write connections come first: while there are others on the same file, SQLite does not delete the log.
    """
    while _inherited:
        with suppress(sqlite3.Error):
            _inherited.pop(0).close()


def _after_fork() -> None:
    writing: list[sqlite3.Connection] = []
    reading: list[sqlite3.Connection] = []
    for store in filter(None, [known() for known in _open]):
        writer, at_work, readers = store.connections()
        reading += readers
        if writer is not None and at_work:
            _never_close(writer)
        elif writer is not None:
            writing.append(writer)
    _inherited[:] = [*writing, *reading]


def _never_close(conn: sqlite3.Connection) -> None:
    """Prevents the connection from being closed, even at exit: that would roll back a transaction of the parent."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(conn))


atexit.register(close_inherited)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
