"""Detects commits to a file: SQLite's `data_version` changes after commits of any other connection, in any process.
Commits of this process are reported at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from contextlib import suppress
from queue import Empty, SimpleQueue

from clew.backends.sqlite.connection import DRIVER, translate
from clew.backends.sqlite.tx import SQLiteTx

SHORTEST, USUAL, LONGEST = 0.02, 0.2, 1.0
"""Seconds between two polls: after a change, soon afterwards, and after `CALM` seconds without one. A poll takes about
10 µs, and waking the thread takes longer: a page that stays open all day must use almost no processor time."""
CALM = 30.0


class MemoryListener:
    """See `clew.backends.listeners.ChangeListener`. Only this process can commit to a store in memory."""

    def __init__(self, versions: Callable[[Collection[int]], dict[int, int]]) -> None:
        self.versions = versions
        self._woken: SimpleQueue[None] = SimpleQueue()

    def wait(self) -> None:
        self._sleep(None)

    def _sleep(self, seconds: float | None) -> bool:
        """True if `wake` was called."""
        try:
            self._woken.get(timeout=seconds)
        except Empty:
            return False
        with suppress(Empty):
            while True:
                self._woken.get_nowait()
        return True

    def wake(self) -> None:
        self._woken.put(None)

    def close(self) -> None:
        """Does nothing: there are no resources."""


class FileListener(MemoryListener):
    """See `clew.backends.listeners.ChangeListener`. Opens its own connection when it is first used."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str) -> None:
        super().__init__(self._versions)
        self._connect = connect
        self._path = path
        self._tx: SQLiteTx | None = None
        self._seen = 0

    def wait(self) -> None:
        assert self._tx is not None  # `versions` was called before
        pause, quiet = SHORTEST, 0.0
        while not self._sleep(pause) and self._data_version(self._tx) == self._seen:
            quiet += pause
            pause = min(2 * pause, USUAL if quiet < CALM else LONGEST)

    def close(self) -> None:
        if self._tx is not None:
            self._tx.conn.close()

    def _versions(self, refs: Collection[int]) -> dict[int, int]:
        try:
            if self._tx is None:
                self._tx = SQLiteTx(self._connect())
            self._seen = self._data_version(self._tx)  # read first, so that commits during the query are seen again
            return self._tx.versions(refs)
        except DRIVER as error:
            raise translate(error, self._path) from error

    def _data_version(self, tx: SQLiteTx) -> int:
        try:
            ((version,),) = tx.run_sql("PRAGMA data_version").fetchall()
        except DRIVER as error:
            raise translate(error, self._path) from error
        return int(version)
