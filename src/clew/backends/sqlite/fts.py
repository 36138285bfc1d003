"""The search index beside a store's file: a disposable SQLite database with two FTS5 tables.

Appending writes no index; `clew.store.search` fills it. The file can be deleted at any time; one of another store, or
of an earlier state of this one, is emptied and filled again.
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
"""Pages of the index that are merged at a time."""
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
"""How much there is, and how much of it somebody else has put there."""
_STANDING = """
SELECT ord, id, (SELECT value FROM meta WHERE name = 'forgotten ' || ?)
FROM marks WHERE mode = ? ORDER BY ord DESC LIMIT 1
"""

_REMEDY = "delete the file, and the next search makes a new one"


class FtsIndex:
    """The index of one store. Not for two threads at once."""

    def __init__(self, file: str | None, store_id: bytes, in_memory: Callable[[], bool]) -> None:
        self._file = None if file is None else f"{file}-search"
        self._store_id = store_id
        self._in_memory = in_memory
        self._conn: sqlite3.Connection | None = None
        self._in = ""
        """Where the open database is, …"""
        self._files: OpenFiles | None = None
        """… and in which files."""

    @property
    def _path(self) -> str:
        return ":memory:" if self._file is None or self._in_memory() else self._file

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on the database; again in memory, if the file cannot be written."""
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
        """The database, made or emptied if it has to be."""
        path = self._path
        if self._conn is not None and (self._in != path or not (self._files is None or self._files.in_place())):
            self.close()  # the store was sealed or unsealed since, or somebody has taken the file away
        if self._conn is None:
            try:
                self._conn = self._connect(path)
            except sqlite3.DatabaseError as error:
                self._conn = self._recover(error)
            self._in = path
        return self._conn

    def fall_back(self, error: sqlite3.Error) -> bool:
        """After an error: goes on in memory, if nothing can be written to the file; False if it was something else."""
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
        """Leaves nothing behind of what the store no longer has; the rest is read again by the next search.

        FTS5 keeps the words of deleted rows until it merges its segments, which takes longer than reading a store
        anew is worth: so everything goes; the file itself, if it is damaged or there is no space to empty it in. False
        if another process keeps the file from being emptied.
        """
        if self._path == ":memory:":
            self.close()
            return True
        if not os.path.exists(self._path):
            return True
        self.close()  # it may be in memory, for want of space
        try:
            conn = self._conn = self._connect(self._path)
            self._in = self._path
            conn.execute("PRAGMA busy_timeout = 100")
            conn.execute("PRAGMA secure_delete = OFF")  # VACUUM leaves no page of it; overwriting 70 MB takes 0.4 s
            conn.execute("PRAGMA synchronous = FULL")  # what is gone must not be back after a power cut
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
        """Takes the file away, if there is one: a sealed store has none."""
        self.close()
        path = self._file
        if path is None:
            return
        try:
            for end in ("-wal", "-shm", ""):  # the file last: while it is there, whoever comes next removes the rest
                with suppress(FileNotFoundError):
                    os.unlink(path + end)
            sync_folder(os.path.dirname(path))
        except OSError as error:
            raise unwritten(error, path) from error

    def _sync_log(self) -> None:
        """SQLite empties its log without a sync. It has no locks on that file that closing it here would drop."""
        with suppress(FileNotFoundError):
            fd = os.open(f"{self._path}-wal", os.O_RDWR | os.O_CLOEXEC)
            try:
                sync(fd)
            finally:
                os.close(fd)

    def check(self, differing: Callable[[sqlite3.Connection, Mode], Iterator[str]]) -> Iterator[Problem]:
        """Compares the index with the store, and writes nothing; `differing` yields nodes with other words."""
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
                    return  # of another store: the next search empties it
                for mode in modes:
                    for where in differing(conn, mode):
                        yield Problem("search", where, f"the index has other words; {_REMEDY}")
        except sqlite3.DatabaseError as error:
            yield Problem("search", self._path, f"the index cannot be read ({error}); {_REMEDY}")

    def _connect(self, path: str) -> sqlite3.Connection:
        if os.path.islink(path):  # words belong beside the store alone
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
            conn.execute("PRAGMA synchronous = OFF")  # what a power cut takes from it is read again
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
        """A damaged index is made anew; where none can be written, it is kept in memory."""
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
        """The number and id of the last indexed node, and the last deletion that the index has followed."""
        number, id, followed = conn.execute(_STANDING, (mode, mode)).fetchone() or (0, None, None)
        return number, id, _number(followed)

    @staticmethod
    def marks(conn: sqlite3.Connection, mode: Mode) -> list[tuple[int, bytes]]:
        """Number and id of some nodes that were indexed, newest first."""
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
        """Adds rows after number `done`, unless another process was first; `mark`: number and id of the last node."""
        conn.execute("BEGIN IMMEDIATE")
        with conn:
            if FtsIndex.edge(conn, mode) == done:
                conn.executemany(f"INSERT INTO {mode} (rowid, text, id, role, created_at) VALUES (?, ?, ?, ?, ?)", rows)
                conn.execute("INSERT INTO marks VALUES (?, ?, ?)", (mode, *mark))
                conn.execute(
                    "DELETE FROM marks WHERE mode = ? AND ord NOT IN"
                    " (SELECT ord FROM marks WHERE mode = ? ORDER BY ord DESC LIMIT ?)",
                    (mode, mode, MARKS),
                )

    @staticmethod
    def remove_rows(
        conn: sqlite3.Connection, mode: Mode, deletions: Callable[[], Sequence[tuple[int, int, int]]], done: int
    ) -> None:
        """Removes the words of deleted nodes. A deletion is (number, low, high); `done` is the last known one."""
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
        """Makes one segment of all: each batch has left its own, and a search looks into every one of them.

        A step at a time, so that it can be interrupted, and others come in between. It takes a tenth of the time that
        reading the messages took, if they are a good part of what there is, and a fifth for substrings.
        """
        with suppress(sqlite3.OperationalError):  # without space for it, a search is only slower
            pages = -MERGED  # minus: of all segments, not only where there are many of a size
            while True:
                before = conn.total_changes
                conn.execute(f"INSERT INTO {mode} ({mode}, rank) VALUES ('merge', ?)", (pages,))
                if conn.total_changes - before < 2:  # FTS5's way to say that nothing is left to do
                    return
                pages = MERGED

    @staticmethod
    def last_deletion(conn: sqlite3.Connection, mode: Mode) -> int | None:
        """The last deletion that the index has followed."""
        return _number(_value(conn, f"forgotten {mode}"))


def _value(conn: sqlite3.Connection, name: str) -> bytes | None:
    """A value that holds for the whole index."""
    try:
        row = conn.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    except sqlite3.OperationalError:
        return None  # no such table yet
    return row[0] if row else None


def _number(stored: bytes | None) -> int | None:
    return None if stored is None else int.from_bytes(stored, "big")
