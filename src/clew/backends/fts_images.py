"""The tables with encrypted images of the parts of a sealed store's search index.

Such an index is in memory, because no word may reach the disk. A part that one process has indexed is saved as an
image, so that others need not index it.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from clew.backends.fts_tables import Mode, Part

MAX_IMAGE = 64 << 20
"""The maximum size of an image in bytes; a longer part has none."""
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE images (mode TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, done INTEGER NOT NULL,
    wrapped_key BLOB NOT NULL, body BLOB NOT NULL, UNIQUE (mode, low));
"""


class Image(NamedTuple):
    """A part of the index, encrypted."""

    part: Part
    wrapped_key: bytes = b""
    """Its data key."""
    body: bytes = b""
    """Empty if the part has no image, and must be indexed."""


class Images:
    """The images in one transaction on their file."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def create(self, store_id: bytes) -> None:
        """Creates the tables in an empty database, inside a transaction."""
        for statement in _TABLES.split(";")[:-1]:
            self._conn.execute(statement)
        self._conn.execute("INSERT INTO meta VALUES ('store_id', ?)", (store_id,))

    @property
    def deletion(self) -> int | None:
        """The number of the last deletion that was applied to all images; None if there never was an image."""
        row = self._conn.execute("SELECT value FROM meta WHERE name = 'forgotten'").fetchone()
        return None if row is None else int(row[0])

    @deletion.setter
    def deletion(self, number: int) -> None:
        self._conn.execute("INSERT OR REPLACE INTO meta VALUES ('forgotten', ?)", (number,))

    def parts(self, mode: Mode) -> dict[int, Part]:
        """The parts of a mode that have an image, by their first number."""
        rows = self._conn.execute("SELECT mode, low, high, done FROM images WHERE mode = ? ORDER BY low", (mode,))
        return {row[1]: Part._make(row) for row in rows}

    def get(self, part: Part) -> Image:
        """The image of a part."""
        sql = "SELECT wrapped_key, body FROM images WHERE mode = ? AND low = ?"
        return Image(part, *self._conn.execute(sql, (part.mode, part.low)).fetchone())

    def put(self, image: Image) -> None:
        """Adds an image, or replaces that of the same part."""
        row = (*image.part, image.wrapped_key, image.body)
        self._conn.execute("INSERT OR REPLACE INTO images VALUES (?, ?, ?, ?, ?, ?)", row)

    def drop(self, part: Part) -> None:
        """Removes the image of a part, which must be indexed again."""
        self.put(Image(part._replace(done=part.low - 1)))

    def clear(self, mode: Mode) -> None:
        """Forgets all parts of a mode."""
        self._conn.execute("DELETE FROM images WHERE mode = ?", (mode,))
