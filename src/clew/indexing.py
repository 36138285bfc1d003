"""The search index: a disposable database beside the store, filled in order of commit when someone searches.

Appending writes no index. A search first reads what was stored and deleted since the last one. The file can be deleted
at any time; one that does not belong to the store as it is now is emptied and filled anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Literal

import msgspec

from clew import ids
from clew.backends import ID, POS, Growth, Place, Tx
from clew.backends.sqlite.connection import translate, uri
from clew.backends.sqlite.identity import OpenFiles
from clew.damage import Damage
from clew.engine import Engine
from clew.errors import ClewError, Invalid, Tampered
from clew.files import sync, sync_folder, unwritten
from clew.model import Message, ToolCall, texts

Mode = Literal["words", "substring"]
Progress = Callable[[int, int], None]
"""Called with what is done and what there is to do."""

APPLICATION_ID = 0x636C6578  # "clex"
VERSION = 1
BATCH = 500
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


class Index:
    """The index of one store. Not for two threads at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._conn: sqlite3.Connection | None = None
        self._in = ""
        """Where the database is that is open, …"""
        self._files: OpenFiles | None = None
        """… and in which files."""

    @property
    def _path(self) -> str:
        """Where it belongs. Nothing readable of a sealed store may reach the disk: its index is in memory."""
        file = self._engine.backend.file
        return ":memory:" if self._engine.keyed or file is None else f"{file}-search"

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

    def begin(self, conn: sqlite3.Connection, mode: Mode, progress: Progress | None = None) -> None:
        """Begins a transaction that sees everything that is stored now: it locks once, not for each statement."""
        conn.execute("BEGIN")
        done, id, followed = conn.execute(_STANDING, (mode, mode)).fetchone() or (0, None, None)
        growth = self._engine.read(lambda tx: tx.growth(done), single=True)
        if growth.id != id or growth.last != done or growth.last_forgotten != _number(followed):
            while True:
                conn.execute("COMMIT")
                done = self._catch_up(conn, mode, growth, progress)
                conn.execute("BEGIN")
                if self._edge(conn, mode) >= done:  # else another process has emptied it meanwhile
                    return

    def _catch_up(self, conn: sqlite3.Connection, mode: Mode, growth: Growth, progress: Progress | None) -> int:
        """Adds what has come since the last search, and drops what has gone. Up to which number all is there then."""
        if not self._belongs(conn, mode):
            self._empty(conn, mode)
        self._forget(conn, mode, growth.first_forgotten, growth.last_forgotten)
        known = done = self._edge(conn, mode)
        total = self._engine.backend.settled() if done < growth.last else done
        while done < total:
            more = self._engine.read(partial(_after, done=done, edge=total))
            if not more:
                break
            rows = [row for row in (self._row(place) for _, place in more) if row is not None]
            conn.execute("BEGIN IMMEDIATE")
            with conn:
                if self._edge(conn, mode) == done:  # else another process was here first
                    conn.executemany(
                        f"INSERT INTO {mode} (rowid, text, id, role, created_at) VALUES (?, ?, ?, ?, ?)", rows
                    )
                    ord, last = more[-1]
                    conn.execute("INSERT INTO marks VALUES (?, ?, ?)", (mode, ord, last.row[ID]))
                    conn.execute(
                        "DELETE FROM marks WHERE mode = ? AND ord NOT IN"
                        " (SELECT ord FROM marks WHERE mode = ? ORDER BY ord DESC LIMIT ?)",
                        (mode, mode, MARKS),
                    )
            done = self._edge(conn, mode)
            if progress is not None:
                progress(min(done, total), total)
        if done - known > max(BATCH, done // 4):
            self._merge(conn, mode)
        return done

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
        file = self._engine.backend.file
        if file is None:
            return
        path = f"{file}-search"
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

    def check(self) -> Iterator[Damage]:
        """Compares the index with the store, writing nothing; what has not been caught up with is not damage."""
        if self._path == ":memory:" or not os.path.exists(self._path):
            return
        remedy = "delete the file, it is made anew"
        try:
            conn = sqlite3.connect(uri(self._path, "ro"), uri=True, isolation_level=None)
            with closing(conn):
                if conn.execute(_TABLES).fetchone()[1]:
                    yield Damage("search", self._path, f"the index has a view or a trigger; {remedy}")
                    return
                for (found,) in conn.execute("PRAGMA integrity_check(5)"):
                    if found != "ok":
                        yield Damage("search", self._path, f"the index is malformed; {remedy}")
                        return
                if self._value(conn, "store_id") != self._engine.store_id:
                    return  # of another store: emptied when it is next used
                for mode in ("words", "substring"):
                    for id in self._differing(conn, mode):
                        yield Damage("search", f"node {ids.text(id)}", f"the index has other words; {remedy}")
        except sqlite3.DatabaseError as error:
            yield Damage("search", self._path, f"the index cannot be read ({error}); {remedy}")

    def _differing(self, conn: sqlite3.Connection, mode: Mode) -> Iterator[bytes]:
        """Ids of messages that were indexed and are not in the index as they are in the store."""
        done, edge = 0, self._edge(conn, mode)
        if not self._belongs(conn, mode):
            return
        while done < edge:
            found = self._engine.read(partial(_after, done=done, edge=edge))
            if not found:
                return
            for row in filter(None, (self._row(place) for _, place in found)):
                kept = conn.execute(f"SELECT text, id FROM {mode} WHERE rowid = ?", row[:1]).fetchone()
                if kept != row[1:3]:
                    yield row[2]
            done = found[-1][0]

    # -- opening

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
            if version != VERSION or self._value(conn, "store_id") != self._engine.store_id:
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
            conn.execute("INSERT INTO meta VALUES ('store_id', ?)", (self._engine.store_id,))
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

    # -- keeping up

    def _belongs(self, conn: sqlite3.Connection, mode: Mode) -> bool:
        """True if what the index holds was read from the store as it is: a restored backup may have other messages.

        A mark is a message that was read. One that is there under another id says no; the newest that is still there
        under its own says yes. Marks may be gone because their messages were deleted; if all are, nobody knows.
        """
        marks = conn.execute("SELECT ord, id FROM marks WHERE mode = ? ORDER BY ord DESC", (mode,)).fetchall()
        for ord, id in marks:
            found = self._id_at(ord)
            if found is not None:
                return bool(found == id)
        return not marks

    def _id_at(self, ord: int) -> bytes | None:
        return self._engine.read(lambda tx: tx.ord_id(ord))

    def _empty(self, conn: sqlite3.Connection, mode: Mode) -> None:
        conn.execute("BEGIN IMMEDIATE")
        with conn:
            conn.execute(f"DELETE FROM {mode}")
            conn.execute("DELETE FROM marks WHERE mode = ?", (mode,))
            conn.execute("DELETE FROM meta WHERE name = ?", (f"forgotten {mode}",))

    def _merge(self, conn: sqlite3.Connection, mode: Mode) -> None:
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

    def _forgot(self, conn: sqlite3.Connection, mode: Mode) -> int | None:
        """The last deletion that the index has followed."""
        return _number(self._value(conn, f"forgotten {mode}"))

    def _forget(self, conn: sqlite3.Connection, mode: Mode, first: int, last: int) -> None:
        """Drops what was deleted from the store since the last time."""
        known = self._forgot(conn, mode)
        done = last if known is None else known
        if done < first - 1:
            self._empty(conn, mode)
            done = last
        if done == known == last:
            return
        conn.execute("BEGIN IMMEDIATE")
        with conn:
            for number, low, high in self._engine.read(partial(_forgotten, after=done)):
                conn.execute(f"DELETE FROM {mode} WHERE rowid BETWEEN ? AND ?", (low, high))
                done = number
            conn.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"forgotten {mode}", done.to_bytes(8, "big")))

    def _edge(self, conn: sqlite3.Connection, mode: Mode) -> int:
        row = conn.execute("SELECT max(ord) FROM marks WHERE mode = ?", (mode,)).fetchone()
        return row[0] or 0

    def _row(self, place: Place) -> tuple[int, str, bytes, int, int] | None:
        """What the index keeps of a node; None for one whose bytes are damaged."""
        node, row = self._engine.node(place), place.row
        try:
            words, about = searchable(node.message), node._facts
        except Tampered:
            return None
        return row[POS], words, row[ID], about.role, about.created_at

    def _value(self, conn: sqlite3.Connection, name: str) -> bytes | None:
        try:
            row = conn.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        except sqlite3.OperationalError:
            return None  # no such table yet
        return row[0] if row else None


def _number(stored: bytes | None) -> int | None:
    return None if stored is None else int.from_bytes(stored, "big")


def _after(tx: Tx, done: int, edge: int) -> list[tuple[int, Place]]:
    return tx.by_ord(done, edge + 1, newest=False, limit=BATCH)


def _forgotten(tx: Tx, after: int) -> list[tuple[int, int, int]]:
    return tx.forgotten(after, -1)


def searchable(message: Message) -> str:
    """The words of a message that a search looks at: text, tool results, and what tools were called with."""
    words = texts(message.blocks)
    for block in message.blocks:
        if isinstance(block, ToolCall):
            words.append(f"{block.name} {msgspec.json.encode(block.arguments).decode()}")
    if message.label:
        words.append(message.label)
    return "\n".join(words)
