"""The search index next to a store's file: a disposable SQLite database with two FTS5 tables.

Appends do not write to it; `clew.store.search` fills it. The file can be deleted at any time. An index of another
store, or of an earlier state of this one, is emptied and filled again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, Literal, TypeVar

from clew.backends.problems import Problem
from clew.backends.sqlite.connection import translate, uri
from clew.backends.sqlite.identity import OpenFiles
from clew.base.files import sync, sync_folder, unwritten
from clew.errors import ClewError, Invalid

T = TypeVar("T")
Mode = Literal["words", "substring"]

APPLICATION_ID = 0x636C6578  # "clex"
VERSION = 1
MERGED = 500
"""Pages of the index to merge in one step."""
MARKS = 16
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL)

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE marks (mode TEXT NOT NULL, ord INTEGER NOT NULL, id BLOB NOT NULL, PRIMARY KEY (mode, ord)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    text, id UNINDEXED, role UNINDEXED, created_at UNINDEXED, tokenize = 'unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE substring USING fts5 (
    text, id UNINDEXED, role UNINDEXED, created_at UNINDEXED, tokenize = 'trigram');
"""
_TABLES = "SELECT count(*), total(type IN ('view', 'trigger')) FROM sqlite_master"
"""The number of entries in the schema, and of those that clew never creates."""
_STANDING = """
SELECT ord, id, (SELECT value FROM meta WHERE name = 'forgotten ' || ?)
FROM marks WHERE mode = ? ORDER BY ord DESC LIMIT 1
"""

_REMEDY = "delete the file; the next search creates a new one"


class FtsIndex:
    """The index of one store. Not thread-safe."""

    def __init__(self, file: str | None, store_id: bytes, in_memory: Callable[[], bool]) -> None:
        self._file = None if file is None else f"{file}-search"
        self._store_id = store_id
        self._in_memory = in_memory
        self._conn: sqlite3.Connection | None = None
        self._in = ""
        """The path of the open database."""
        self._files: OpenFiles | None = None
        """Its files, to detect that they were moved or deleted."""

    @property
    def _path(self) -> str:
        return ":memory:" if self._file is None or self._in_memory() else self._file

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on the database. If the file cannot be written, runs it again in memory."""
        try:
            try:
                with self.open() as conn:  # ends the transaction in any case
                    return work(conn)
            except sqlite3.Error as error:
                if not self.fall_back(error):
                    raise
            with self.open() as conn:
                return work(conn)
        except sqlite3.Error as error:
            self.close()
            raise translate(error, "the search index") from error

    def open(self) -> sqlite3.Connection:
        """The database, created or emptied if necessary."""
        path = self._path
        if self._conn is not None and (self._in != path or not (self._files is None or self._files.in_place())):
            self.close()  # the store was sealed or unsealed meanwhile, or the file was moved or deleted
        if self._conn is None:
            try:
                self._conn = self._connect(path)
            except sqlite3.DatabaseError as error:
                self._conn = self._recover(error)
            self._in = path
        return self._conn

    def fall_back(self, error: sqlite3.Error) -> bool:
        """Continues in memory if the error means that the file cannot be written. False for other errors."""
        self.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNWRITABLE:
            return False
        self._conn, self._in = self._connect(":memory:"), self._path
        return True

    def close(self) -> None:
        """Idempotent."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def shred(self) -> bool:
        """Removes all words, so that none of deleted messages remain. The next search indexes the store again.

        FTS5 keeps the words of deleted rows until it merges its segments, which takes longer than a new index. If the
        file is damaged, or there is no space to empty it, deletes the file. False if another process prevents it.
        """
        if self._path == ":memory:":
            self.close()
            return True
        if not os.path.exists(self._path):
            return True
        self.close()  # it may be in memory because the disk was full
        try:
            conn = self._conn = self._connect(self._path)
            self._in = self._path
            conn.execute("PRAGMA busy_timeout = 100")
            conn.execute("PRAGMA secure_delete = OFF")  # VACUUM removes all pages; overwriting 70 MB takes 0.4 s
            conn.execute("PRAGMA synchronous = FULL")  # deleted words must not reappear after a power cut
            try:
                self._create(conn, self._path)
                conn.execute("VACUUM")
                if conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                    return False
                self._sync_log()
                return True
            finally:
                conn.execute("PRAGMA secure_delete = ON")
                conn.execute("PRAGMA synchronous = OFF")
                conn.execute("PRAGMA busy_timeout = 60000")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return False
        except (ClewError, OSError):
            return False
        with suppress(ClewError):
            self.remove()
            return True
        return False

    def remove(self) -> None:
        """Deletes the file, if there is one. A sealed store has none."""
        self.close()
        path = self._file
        if path is None:
            return
        try:
            for end in ("-wal", "-shm", ""):  # the file itself last: while it exists, a later call deletes the rest
                with suppress(FileNotFoundError):
                    os.unlink(path + end)
            sync_folder(os.path.dirname(path))
        except OSError as error:
            raise unwritten(error, path) from error

    def _sync_log(self) -> None:
        """Syncs the log, which SQLite truncates without a sync. SQLite has no locks on it that closing would drop."""
        with suppress(FileNotFoundError):
            fd = os.open(f"{self._path}-wal", os.O_RDWR | os.O_CLOEXEC)
            try:
                sync(fd)
            finally:
                os.close(fd)

    def check(self, differing: Callable[[sqlite3.Connection, Mode], Iterator[str]]) -> Iterator[Problem]:
        """Compares the index with the store without writing. `differing` yields nodes whose words differ."""
        if self._path == ":memory:" or not os.path.exists(self._path):
            return
        modes: tuple[Mode, ...] = ("words", "substring")
        try:
            conn = sqlite3.connect(uri(self._path, "ro"), uri=True, isolation_level=None)
            with closing(conn):
                if conn.execute(_TABLES).fetchone()[1]:
                    yield Problem("search", self._path, f"the index has a view or a trigger; {_REMEDY}")
                    return
                for (found,) in conn.execute("PRAGMA integrity_check(5)"):
                    if found != "ok":
                        yield Problem("search", self._path, f"the index is malformed; {_REMEDY}")
                        return
                if _value(conn, "store_id") != self._store_id:
                    return  # it belongs to another store; the next search empties it
                for mode in modes:
                    for where in differing(conn, mode):
                        yield Problem("search", where, f"the index has different words; {_REMEDY}")
        except sqlite3.DatabaseError as error:
            yield Problem("search", self._path, f"the index cannot be read ({error}); {_REMEDY}")

    def _connect(self, path: str) -> sqlite3.Connection:
        if os.path.islink(path):  # words of messages must not be stored anywhere else
            self.remove()
        conn = sqlite3.connect(
            path if path == ":memory:" else uri(path, "rwc"), uri=path != ":memory:",
            timeout=60, isolation_level=None, check_same_thread=False,
        )  # fmt: skip
        try:
            application = conn.execute("PRAGMA application_id").fetchone()[0]
            version = conn.execute("PRAGMA user_version").fetchone()[0]
            tables, planted = conn.execute(_TABLES).fetchone()
            if application not in (0, APPLICATION_ID) or (tables and not application):
                raise Invalid(f"{path} is in the way of the search index", hint="Move that file away.")
            if planted:
                conn.close()
                self.remove()
                return self._connect(path)
            conn.execute("PRAGMA secure_delete = ON")
            conn.execute("PRAGMA temp_store = MEMORY")
            conn.execute("PRAGMA synchronous = OFF")  # words lost in a power cut are indexed again
            if version != VERSION or _value(conn, "store_id") != self._store_id:
                self._create(conn, path)
        except BaseException:
            conn.close()
            raise
        self._files = None if path == ":memory:" else OpenFiles(path, one_name=True)
        return conn

    def _create(self, conn: sqlite3.Connection, path: str) -> None:
        if path != ":memory:":
            conn.execute("PRAGMA journal_mode = WAL")
            os.chmod(path, 0o600)
        conn.execute("BEGIN IMMEDIATE")
        with conn:
            for name in ("meta", "marks", "words", "substring"):
                conn.execute(f"DROP TABLE IF EXISTS {name}")
            for statement in _SCHEMA.split(";")[:-1]:
                conn.execute(statement)
            conn.execute("INSERT INTO meta VALUES ('store_id', ?)", (self._store_id,))
            conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            conn.execute(f"PRAGMA user_version = {VERSION}")

    def _recover(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """Replaces a damaged index by a new one. If the file cannot be written, uses memory."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            self.remove()
            return self._connect(self._path)
        if code in _UNWRITABLE:
            return self._connect(":memory:")
        raise translate(error, self._path) from error

    # -- rows, inside `run`

    @staticmethod
    def standing(conn: sqlite3.Connection, mode: Mode) -> tuple[int, bytes | None, int | None]:
        """The number and id of the last indexed node, and the number of the last applied deletion."""
        number, id, followed = conn.execute(_STANDING, (mode, mode)).fetchone() or (0, None, None)
        return number, id, _number(followed)

    @staticmethod
    def marks(conn: sqlite3.Connection, mode: Mode) -> list[tuple[int, bytes]]:
        """Number and id of some indexed nodes, newest first."""
        return conn.execute("SELECT ord, id FROM marks WHERE mode = ? ORDER BY ord DESC", (mode,)).fetchall()

    @staticmethod
    def edge(conn: sqlite3.Connection, mode: Mode) -> int:
        """The number up to which every node is indexed."""
        row = conn.execute("SELECT max(ord) FROM marks WHERE mode = ?", (mode,)).fetchone()
        return row[0] or 0

    @staticmethod
    def add(
        conn: sqlite3.Connection, mode: Mode, rows: Sequence[tuple[Any, ...]], done: int, mark: tuple[int, bytes]
    ) -> None:
        """Adds rows after number `done`, unless another process did. `mark`: number and id of the last node."""
        conn.execute("BEGIN IMMEDIATE")
        with conn:
            if FtsIndex.edge(conn, mode) == done:
                conn.executemany(f"INSERT INTO {mode} (rowid, text, id, role, created_at) VALUES (?, ?, ?, ?, ?)", rows)
                conn.execute("INSERT INTO marks VALUES (?, ?, ?)", (mode, *mark))
                conn.execute(
                    "DELETE FROM marks WHERE mode = ? AND ord NOT IN"
                    " (SELECT ord FROM marks WHERE mode = ? ORDER BY ord DESC LIMIT ?+0)",
                    (mode, mode, MARKS),
                )

    @staticmethod
    def remove_rows(
        conn: sqlite3.Connection, mode: Mode, deletions: Callable[[], Sequence[tuple[int, int, int]]], done: int
    ) -> None:
        """Removes the words of deleted nodes. A deletion is (number, low, high); `done` is the last applied one."""
        conn.execute("BEGIN IMMEDIATE")
        with conn:
            for number, low, high in deletions():
                conn.execute(f"DELETE FROM {mode} WHERE rowid BETWEEN ? AND ?", (low, high))
                done = number
            conn.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"forgotten {mode}", done.to_bytes(8, "big")))

    @staticmethod
    def empty(conn: sqlite3.Connection, mode: Mode) -> None:
        """Removes all words of a mode."""
        conn.execute("BEGIN IMMEDIATE")
        with conn:
            conn.execute(f"DELETE FROM {mode}")
            conn.execute("DELETE FROM marks WHERE mode = ?", (mode,))
            conn.execute("DELETE FROM meta WHERE name = ?", (f"forgotten {mode}",))

    @staticmethod
    def merge(conn: sqlite3.Connection, mode: Mode) -> None:
        """Merges all segments into one. Each batch adds a segment, and a search reads every one of them.

        Runs in steps, so that it can be interrupted, and other processes can write in between. After many new messages
        it takes a tenth of the time that indexing them took; a fifth for substrings.
        """
        with suppress(sqlite3.OperationalError):  # no space: searches are only slower
            pages = -MERGED  # negative: merge all segments, not only where there are many of one size
            while True:
                before = conn.total_changes
                conn.execute(f"INSERT INTO {mode} ({mode}, rank) VALUES ('merge', ?)", (pages,))
                if conn.total_changes - before < 2:  # how FTS5 reports that the merge is complete
                    return
                pages = MERGED

    @staticmethod
    def last_deletion(conn: sqlite3.Connection, mode: Mode) -> int | None:
        """The number of the last applied deletion."""
        return _number(_value(conn, f"forgotten {mode}"))


def _value(conn: sqlite3.Connection, name: str) -> bytes | None:
    """A value of the whole index."""
    try:
        row = conn.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    except sqlite3.OperationalError:
        return None  # no such table yet
    return row[0] if row else None


def _number(stored: bytes | None) -> int | None:
    return None if stored is None else int.from_bytes(stored, "big")
