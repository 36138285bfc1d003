"""The search index next to a store's file: a disposable SQLite database.

Appends do not write to it; `clew.store.search` fills it. The file can be deleted at any time. An index of another
store, or of an earlier state of this one, is emptied and filled again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import TypeVar

from clew.backends.fts_tables import MODES, FtsTables, Mode
from clew.backends.problems import Problem
from clew.backends.sqlite.connection import translate, uri
from clew.backends.sqlite.one_name import OpenFiles
from clew.base.files import sync, sync_folder, unwritten
from clew.errors import ClewError, Invalid

T = TypeVar("T")

APPLICATION_ID = 0x636C6578  # "clex"
VERSION = 2
STATEMENTS = 512
"""Statements that a connection keeps prepared: a search needs one for each part."""
PATIENCE = 1000
"""Milliseconds that a purge waits for another process, which may be filling a part."""
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL)

_TABLES = "SELECT count(*), total(type IN ('view', 'trigger')) FROM sqlite_master"
"""The number of entries in the schema, and of those that clew never creates."""
_REMEDY = "delete the file; the next search creates a new one"


class IndexFile:
    """A disposable database next to a store's file. Not thread-safe."""

    version = 0
    """Its layout; a file of another one is replaced."""

    def __init__(self, file: str | None, store_id: bytes) -> None:
        self._file = None if file is None else f"{file}-search"
        self._store_id = store_id
        self._conn: sqlite3.Connection | None = None
        self._in = ""
        """The path of the open database."""
        self._files: OpenFiles | None = None
        """Its files, to detect that they were moved or deleted."""

    @property
    def _path(self) -> str:
        return self._file or ":memory:"

    def _lay_out(self, conn: sqlite3.Connection) -> None:
        """Creates the tables in an empty database, inside a transaction."""
        raise NotImplementedError

    def open(self) -> sqlite3.Connection:
        """The database, created or replaced if necessary."""
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

    @property
    def is_open(self) -> bool:
        """True if the database is open."""
        return self._conn is not None

    def close(self) -> None:
        """Idempotent."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _clear(self, erase: Callable[[sqlite3.Connection], object]) -> bool:
        """Runs `erase`, which removes words, and clears the log, so that they are in neither of the files.

        If the file is damaged, or there is no space to change it, deletes it. False if another process prevents it.
        """
        if not os.path.exists(self._path):
            return True
        self.close()  # it may be in memory because the disk was full
        try:
            conn = self._conn = self._connect(self._path)
            self._in = self._path
            conn.execute(f"PRAGMA busy_timeout = {PATIENCE}")
            conn.execute("PRAGMA synchronous = FULL")  # deleted words must not reappear after a power cut
            try:
                erase(conn)
                if conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                    return False
                self._sync_log()
                return True
            finally:
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
        """Deletes the file, if there is one."""
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

    def _connect(self, path: str) -> sqlite3.Connection:
        if os.path.islink(path):  # words of messages must not be stored anywhere else
            self.remove()
        conn = sqlite3.connect(
            path if path == ":memory:" else uri(path, "rwc"), uri=path != ":memory:",
            timeout=60, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS,
        )  # fmt: skip
        try:
            application = conn.execute("PRAGMA application_id").fetchone()[0]
            version = conn.execute("PRAGMA user_version").fetchone()[0]
            tables, planted = conn.execute(_TABLES).fetchone()
            if application not in (0, APPLICATION_ID) or (tables and not application):
                raise Invalid(f"{path} is in the way of the search index", hint="Move that file away.")
            outdated = version != self.version or FtsTables(conn).value("store_id") != self._store_id
            if planted or (tables and outdated):
                conn.close()
                self.remove()
                return self._connect(path)
            conn.execute("PRAGMA secure_delete = ON")
            conn.execute("PRAGMA temp_store = MEMORY")
            conn.execute("PRAGMA synchronous = OFF")  # words lost in a power cut are indexed again
            if not tables:
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
            if conn.execute(_TABLES).fetchone()[0]:
                return  # another process has created them
            self._lay_out(conn)
            conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            conn.execute(f"PRAGMA user_version = {self.version}")

    def _recover(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """Replaces a damaged index by a new one. If the file cannot be written, uses memory."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            self.remove()
            return self._connect(self._path)
        if code in _UNWRITABLE:
            return self._connect(":memory:")
        raise translate(error, self._path) from error


class FtsIndex(IndexFile):
    """The index of one store."""

    version = VERSION

    def __init__(self, file: str | None, store_id: bytes, in_memory: Callable[[], bool]) -> None:
        super().__init__(file, store_id)
        self._in_memory = in_memory

    @property
    def _path(self) -> str:
        return ":memory:" if self._file is None or self._in_memory() else self._file

    def _lay_out(self, conn: sqlite3.Connection) -> None:
        FtsTables(conn).create(self._store_id)

    def run(self, work: Callable[[FtsTables], T]) -> T:
        """Runs `work` on the database. If the file cannot be written, runs it again in memory."""
        try:
            try:
                with self.open() as conn:  # ends the transaction in any case
                    return work(FtsTables(conn))
            except sqlite3.Error as error:
                if not self.fall_back(error):
                    raise
            with self.open() as conn:
                return work(FtsTables(conn))
        except sqlite3.Error as error:
            self.close()
            raise translate(error, "the search index") from error

    def fall_back(self, error: sqlite3.Error) -> bool:
        """Continues in memory if the error means that the file cannot be written. False for other errors."""
        self.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNWRITABLE:
            return False
        self._conn, self._in = self._connect(":memory:"), self._path
        return True

    def shred(self, follow: Callable[[FtsTables], object]) -> bool:
        """Removes the words of deleted messages. The next search fills the parts that had them.

        `follow` applies the deletions to the index, in a transaction. False if another process prevents it.
        """
        if self._path == ":memory:":
            try:
                if self._conn is not None:
                    self._erase(self._conn, follow)
            except (sqlite3.Error, ClewError):
                self.close()
            return True
        return self._clear(partial(self._erase, follow=follow))

    @staticmethod
    def _erase(conn: sqlite3.Connection, follow: Callable[[FtsTables], object]) -> None:
        """Drops the parts that have words of deleted messages."""
        tables = FtsTables(conn)
        conn.execute("BEGIN IMMEDIATE")
        try:
            with conn:
                follow(tables)
                stale, parts = tables.stale()
                if 2 * stale > parts:
                    conn.execute("PRAGMA secure_delete = OFF")  # VACUUM removes all free pages, and faster
                tables.drop_stale()
            if 2 * stale > parts:
                conn.execute("VACUUM")
        finally:
            conn.execute("PRAGMA secure_delete = ON")

    def check(self, differing: Callable[[FtsTables, Mode], Iterator[str]]) -> Iterator[Problem]:
        """Compares the index with the store without writing. `differing` yields messages whose words differ."""
        if self._path == ":memory:" or not os.path.exists(self._path):
            return
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
                tables = FtsTables(conn)
                version = conn.execute("PRAGMA user_version").fetchone()[0]
                if version != VERSION or tables.value("store_id") != self._store_id:
                    return  # another version or store: the next search replaces it
                for mode in MODES:
                    for where in differing(tables, mode):
                        yield Problem("search", where, f"the index has different words; {_REMEDY}")
        except sqlite3.DatabaseError as error:
            yield Problem("search", self._path, f"the index cannot be read ({error}); {_REMEDY}")
