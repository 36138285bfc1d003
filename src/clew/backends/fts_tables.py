"""The tables of a search index: FTS5 tables that each hold a part of the messages, in commit order.

FTS5 before SQLite 3.42 cannot erase the words of a deleted row: they stay in the file until it merges all segments. So
the index has parts, and a part with deleted messages is dropped and filled again. The words of a part are in tables of
their own, so none of them remain in the pages of another part.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

Mode = Literal["words", "substring"]
MODES: tuple[Mode, ...] = ("words", "substring")

PART = 8192
"""Messages in a part. The last part has up to twice as many, so that its word counts are enough to rank by.

With fewer, filling a part again after a purge is faster, but a search has more parts to look in: 9 µs for each.
"""
MARKS = 16
HASH_BYTES = 64 << 20
"""How much FTS5 holds in memory before it writes a segment. A part that is filled at once becomes one segment."""

_IMAGE = b"\x01"
"""The first byte of an image: its layout."""
_AVERAGES = 1
"""The row of FTS5's data that has the number of messages and the sum of their lengths."""

_OPTIONS: dict[Mode, str] = {
    # The text is not stored: it is in the store. That halves the index.
    "words": "text, content = '', tokenize = 'unicode61 remove_diacritics 2'",
    # The text is stored, because LIKE finds terms of one or two characters in it.
    "substring": "text, tokenize = 'trigram'",
}
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE marks (mode TEXT NOT NULL, ord INTEGER NOT NULL, id BLOB NOT NULL, PRIMARY KEY (mode, ord)) WITHOUT ROWID;
CREATE TABLE parts (mode TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, done INTEGER NOT NULL,
    stale INTEGER NOT NULL, PRIMARY KEY (mode, low)) WITHOUT ROWID;
CREATE TABLE messages (ord INTEGER PRIMARY KEY, pos INTEGER NOT NULL UNIQUE, id INTEGER NOT NULL,
    role INTEGER NOT NULL, created_at INTEGER NOT NULL);
"""
_STANDING = """
SELECT s.done, (SELECT id FROM marks WHERE mode = s.mode AND ord = s.done),
       (SELECT value FROM meta WHERE name = 'forgotten'),
       EXISTS (SELECT 1 FROM parts WHERE mode = s.mode AND done < high AND low < s.low)
FROM (SELECT max(mode) AS mode, max(done) AS done, max(low) AS low FROM parts WHERE mode = ?) s
"""
_MARK_STALE = """
UPDATE parts SET stale = 1 WHERE EXISTS
    (SELECT 1 FROM messages WHERE pos BETWEEN ? AND ? AND +ord BETWEEN parts.low AND parts.done)
"""


class Standing(NamedTuple):
    """How far a mode is indexed."""

    ord: int
    """The number of the last indexed node."""
    id: bytes | None
    """The id of that node."""
    deletion: int | None
    """The number of the last applied deletion."""
    complete: bool
    """False if there are messages before the last one that are not indexed."""


class Part(NamedTuple):
    """A part of the index: the messages from `low` to `high` in commit order, indexed up to `done`."""

    mode: Mode
    low: int
    high: int
    done: int

    @property
    def table(self) -> str:
        """The name of its FTS5 table."""
        return f"{self.mode}_{self.low}"


class IndexRow(NamedTuple):
    """The fields of a message that the index stores."""

    ord: int
    pos: int
    id: int
    role: int
    created_at: int
    text: str


def short_id(id: bytes) -> int:
    """The part of a node's id that the index stores. It shows if a position now has another node."""
    return int.from_bytes(id[:4], "big")


class FtsTables:
    """The tables on one connection."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn

    @classmethod
    def in_memory(cls) -> FtsTables:
        """Empty tables in memory."""
        tables = cls(sqlite3.connect(":memory:", isolation_level=None))
        tables.create(b"")
        return tables

    def close(self) -> None:
        """Closes the connection."""
        self.conn.close()

    def create(self, store_id: bytes) -> None:
        """Creates the tables in an empty database, inside a transaction."""
        for statement in _TABLES.split(";")[:-1]:
            self.conn.execute(statement)
        self.conn.execute("INSERT INTO meta VALUES ('store_id', ?)", (store_id,))

    def value(self, name: str) -> bytes | None:
        """A value of the whole index."""
        try:
            row = self.conn.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        except sqlite3.OperationalError:
            return None  # no such table yet
        return row[0] if row else None

    # -- progress

    def standing(self, mode: Mode) -> Standing:
        """How far a mode is indexed."""
        ord, id, deletion, gaps = self.conn.execute(_STANDING, (mode,)).fetchone()
        return Standing(ord or 0, id, _number(deletion), not gaps)

    def marks(self, mode: Mode) -> list[tuple[int, bytes]]:
        """Number and id of some indexed nodes, newest first."""
        return self.conn.execute("SELECT ord, id FROM marks WHERE mode = ? ORDER BY ord DESC", (mode,)).fetchall()

    def parts(self, mode: Mode) -> list[Part]:
        """The parts of a mode, oldest first."""
        sql = "SELECT mode, low, high, done FROM parts WHERE mode = ? ORDER BY low"
        return [Part._make(row) for row in self.conn.execute(sql, (mode,))]

    def indexed(self, mode: Mode) -> list[Part]:
        """The parts of a mode that have a table."""
        return [part for part in self.parts(mode) if part.done >= part.low]

    def occurrences(self, part: Part) -> Iterator[tuple[str, int, int]]:
        """Every word of a part with message and place, in a fixed order. Writes nothing."""
        self.conn.execute("DROP TABLE IF EXISTS temp.vocabulary")
        self.conn.execute(f"CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab (main, {part.table}, instance)")
        return self.conn.execute("SELECT term, doc, offset FROM temp.vocabulary")

    def size(self, part: Part) -> tuple[int, int]:
        """The number of messages in a part, and of their words, as FTS5 counts them to rank."""
        (record,) = self.conn.execute(f"SELECT block FROM {part.table}_data WHERE id = {_AVERAGES}").fetchone()
        numbers, number = [], 0
        for byte in record:
            number = number << 7 | byte & 0x7F
            if byte < 0x80:
                numbers.append(number)
                number = 0
        return (numbers[0], sum(numbers[1:])) if numbers else (0, 0)

    def count(self, part: Part, match: str) -> int:
        """The number of messages of a part that match an FTS5 query."""
        sql = f"SELECT count(*) FROM {part.table} WHERE {part.table} MATCH ?"
        return int(self.conn.execute(sql, (match,)).fetchone()[0])

    # -- filling

    def plan(self, mode: Mode, last: int, first_from: Callable[[int], int]) -> list[Part]:
        """Divides the messages up to number `last` into parts. Returns those that are not complete.

        `first_from` returns the number of the first message from a number on: a damaged number may be far away from
        the others, and there are no parts without messages between them.
        """
        self.conn.execute("BEGIN IMMEDIATE")
        with self.conn:
            parts = self.parts(mode)
            low = parts[-1].low if parts else 1
            while last - low + 1 >= 2 * PART:
                self.put(Part(mode, low, low + PART - 1, low - 1))
                low = first_from(low + PART)
            if not parts or low > parts[-1].low:
                self.put(Part(mode, low, low + 2 * PART - 1, low - 1))
        return [part for part in self.parts(mode) if part.done < min(part.high, last)]

    def put(self, part: Part) -> None:
        """Adds an empty part, or empties one."""
        self.conn.execute(f"DROP TABLE IF EXISTS {part.table}")
        self.conn.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, 0)", part)

    def fill(self, part: Part, last: int, batches: Iterable[Sequence[tuple[int, bytes, IndexRow | None]]]) -> None:
        """Adds messages of a part, up to number `last`, unless another process did.

        Each is given with number and id, and its row unless it is damaged. They are read while other processes cannot
        change the index, so a message that is deleted meanwhile is removed by the process that deleted it.
        """
        insert = f"INSERT INTO {part.table} (rowid, text) VALUES (?, ?)"
        self.conn.execute("BEGIN IMMEDIATE")
        with self.conn:
            if part not in self.parts(part.mode):
                return
            if part.done < part.low:
                options = _OPTIONS[part.mode]
                self.conn.execute(f"CREATE VIRTUAL TABLE {part.table} USING fts5 ({options})")
                self.conn.execute(f"INSERT INTO {part.table} ({part.table}, rank) VALUES ('hashsize', {HASH_BYTES})")
            ord, id, messages = last, None, []
            for batch in batches:
                rows = [row for _, _, row in batch if row is not None]
                self.conn.executemany(insert, [(row.ord, row.text) for row in rows])
                messages += [row[:5] for row in rows]
                ord, id, _ = batch[-1]
            # Not before: this statement makes FTS5 write a segment.
            self.conn.executemany("INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?)", messages)
            done = min(part.high, last) if id is None or part.high <= last else ord
            self.conn.execute("UPDATE parts SET done = ? WHERE mode = ? AND low = ?", (done, part.mode, part.low))
            if id is not None:
                self._mark(part.mode, ord, id)

    def _mark(self, mode: Mode, ord: int, id: bytes) -> None:
        self.conn.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", (mode, ord, id))
        self.conn.execute(
            "DELETE FROM marks WHERE mode = ? AND ord NOT IN"
            " (SELECT ord FROM marks WHERE mode = ? ORDER BY ord DESC LIMIT ?+0)",
            (mode, mode, MARKS),
        )

    # -- deletions

    def follow(self, deletions: Iterable[tuple[int, int, int]], done: int) -> None:
        """Removes deleted messages from the results. Their words stay until `drop_stale`.

        A deletion is (number, low, high), of positions; `done` is the last applied one.
        """
        for number, low, high in deletions:
            self.conn.execute(_MARK_STALE, (low, high))
            self.conn.execute("DELETE FROM messages WHERE pos BETWEEN ? AND ?", (low, high))
            done = max(done, number)
        self.conn.execute("INSERT OR REPLACE INTO meta VALUES ('forgotten', ?)", (done.to_bytes(8, "big"),))

    def stale(self) -> tuple[int, int]:
        """The number of parts with words of deleted messages, and of all parts."""
        stale, parts = self.conn.execute("SELECT total(stale), count(*) FROM parts").fetchone()
        return int(stale), parts

    def drop_stale(self) -> None:
        """Removes the words of parts with deleted messages. The next search fills these parts again."""
        sql = "SELECT mode, low, high, low - 1 FROM parts WHERE stale"
        for row in self.conn.execute(sql).fetchall():
            self.put(Part._make(row))

    def clear(self) -> None:
        """Removes everything but the id of the store."""
        self.conn.execute("UPDATE parts SET stale = 1")
        self.drop_stale()
        for table in ("parts", "marks", "messages"):
            self.conn.execute(f"DELETE FROM {table}")
        self.conn.execute("DELETE FROM meta WHERE name = 'forgotten'")

    # -- images

    def unchanged(self, mode: Mode) -> list[Part]:
        """The parts that have messages, and none that was deleted."""
        sql = "SELECT mode, low, high, done FROM parts WHERE mode = ? AND done >= low AND NOT stale ORDER BY low"
        return [Part._make(row) for row in self.conn.execute(sql, (mode,))]

    def image(self, part: Part) -> bytes:
        """A part as bytes, for `load`: the sorted positions of its messages, and a database with its tables."""
        within = f"ord BETWEEN {part.low} AND {part.done}"
        places = array(
            "q", (pos for (pos,) in self.conn.execute(f"SELECT pos FROM messages WHERE {within} ORDER BY pos"))
        )
        with self._attached():
            for table in self._shadows(part):
                self.conn.execute(f"CREATE TABLE image.{table} AS SELECT * FROM main.{table}")
            self.conn.execute(f"CREATE TABLE image.messages AS SELECT * FROM main.messages WHERE {within}")
            self.conn.execute(
                f"CREATE TABLE image.marks AS SELECT * FROM main.marks WHERE mode = '{part.mode}' AND {within}"
            )
            return _IMAGE + len(places).to_bytes(4, "little") + places.tobytes() + self.conn.serialize(name="image")

    def load(self, part: Part, image: bytes) -> bool:
        """Puts a part in place from its image; an empty one, and False, if the image has another layout."""
        empty = part._replace(done=part.low - 1)
        start = _places_end(image)
        if image[:1] != _IMAGE or start > len(image):
            self.put(empty)
            return False
        with self._attached():
            self.conn.deserialize(image[start:], name="image")
            self.conn.execute("BEGIN IMMEDIATE")
            with self.conn:
                self.put(empty)
                self.conn.execute(f"CREATE VIRTUAL TABLE {part.table} USING fts5 ({_OPTIONS[part.mode]})")
                for table in self._shadows(part):  # FTS5 has read none of them yet
                    self.conn.execute(f"DELETE FROM main.{table}")
                    self.conn.execute(f"INSERT INTO main.{table} SELECT * FROM image.{table}")
                for table in ("messages", "marks"):
                    self.conn.execute(f"INSERT OR REPLACE INTO main.{table} SELECT * FROM image.{table}")
                self.conn.execute(
                    "UPDATE parts SET done = ? WHERE mode = ? AND low = ?", (part.done, part.mode, part.low)
                )
        return True

    @contextmanager
    def _attached(self) -> Iterator[None]:
        """An empty database in memory under the name image, outside a transaction."""
        self.conn.execute("ATTACH ':memory:' AS image")
        try:
            yield
        finally:
            self.conn.execute("DETACH image")

    def _shadows(self, part: Part) -> list[str]:
        """The tables in which FTS5 stores a part."""
        sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name LIKE ? ESCAPE '\\' ORDER BY name"
        return [name for (name,) in self.conn.execute(sql, (part.table.replace("_", "\\_") + "\\_%",))]


def has_any(image: bytes, ranges: Iterable[tuple[int, int]]) -> bool:
    """True if the image of a part has a message in one of these ranges of positions, or another layout."""
    if image[:1] != _IMAGE or _places_end(image) > len(image):
        return True
    places = array("q", image[5 : _places_end(image)])
    return any(bisect_left(places, low) < bisect_left(places, high + 1) for low, high in ranges)


def _places_end(image: bytes) -> int:
    return 5 + 8 * int.from_bytes(image[1:5], "little")


def _number(stored: bytes | None) -> int | None:
    return None if stored is None else int.from_bytes(stored, "big")
