"""Encrypted images of the parts of a sealed store's search index, in the place of a plain store's index.

The index of a sealed store is in memory. An image saves a process from indexing a part that another one has indexed.
What an image has is encrypted before it comes here. The file can be deleted at any time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from clew.backends.fts_images import Images
from clew.backends.sqlite.fts import IndexFile
from clew.errors import ClewError

T = TypeVar("T")

FORMAT = 0x10001
"""Differs from the versions of a plain index, so each replaces the other after sealing and unsealing."""


class FtsImages(IndexFile):
    """The images of one store. Errors of the file mean that there are no images."""

    version = FORMAT

    def _lay_out(self, conn: sqlite3.Connection) -> None:
        Images(conn).create(self._store_id)

    def read(self, work: Callable[[Images], T]) -> T | None:
        """Runs `work` on images that do not change meanwhile; None if there are none."""
        return self._run("BEGIN", work) if os.path.exists(self._path) else None

    def write(self, work: Callable[[Images], T]) -> T | None:
        """Runs `work` in a transaction, which a killed process undoes. None if the file cannot be written."""
        return self._run("BEGIN IMMEDIATE", work)

    def shred(self, drop: Callable[[Images], object]) -> bool:
        """Removes images that have words of deleted messages; `drop` drops them."""

        def erase(conn: sqlite3.Connection) -> None:
            conn.execute("BEGIN IMMEDIATE")
            with conn:
                drop(Images(conn))

        return self._clear(erase)

    def _run(self, begin: str, work: Callable[[Images], T]) -> T | None:
        try:
            with self.open() as conn:
                conn.execute(begin)
                return work(Images(conn))
        except (sqlite3.Error, ClewError, OSError):
            self.close()
            return None
