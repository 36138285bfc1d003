"""After a fork: what a child does with the connections that it has from its parent.

SQLite in the child believes that it has their locks, which the system gives to the parent alone. Who opens the same
file there would go without locks, too; and one that is closed as the last would remove the write-ahead log, whoever's
that is by then. So they are closed before the child opens a store or ends, in an order in which SQLite leaves the log
alone.
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
        """The one that writes, if there is one; whether it may be at work; and those that read and are not."""
        ...


_open: set[ref[Holder]] = set()
_inherited: list[sqlite3.Connection] = []


def register(store: Holder) -> None:
    """To be called once a store is open."""
    _open.add(ref(store, _open.discard))


def close_inherited() -> None:
    """Closes what this process has from its parent; what was at work when it was forked stays.

    Those that write are the first: while this process has others on the same file, SQLite does not take the log away.
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
    """Nothing closes it, not even the end of the process: that would undo a transaction which is the parent's."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(conn))


atexit.register(close_inherited)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
