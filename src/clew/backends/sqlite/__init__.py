"""A store in one SQLite file, or in memory. The file is checked before anything in it changes, created or migrated."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from clew.backends import (
    Backup,
    Call,
    Durability,
    EpochChanged,
    HeadState,
    Job,
    Move,
    NodeRow,
    Progress,
    Resources,
    Tail,
    Tx,
)
from clew.backends.listeners import ChangeListener, Watching
from clew.backends.problems import ODD
from clew.backends.process import OpenBackend
from clew.backends.rows import FORMAT
from clew.backends.sqlite import connection
from clew.backends.sqlite.connection import (
    ANY,
    DRIVER,
    NAMELESS,
    NO_FILE,
    OLDEST_SQLITE,
    as_found,
    check,
    connect,
    is_full,
    translate,
    translate_os,
)
from clew.backends.sqlite.group_commit import Batches, Committer
from clew.backends.sqlite.one_name import OpenFiles, check_complete, check_mount, check_new, check_unshared, resolve
from clew.backends.sqlite.reserve import SLICE
from clew.backends.sqlite.schema import check_schema
from clew.backends.sqlite.tx import SQLiteTx
from clew.backends.sqlite.writer import Writer
from clew.base.files import exists
from clew.base.loading import loading
from clew.base.outside import StoreFiles
from clew.errors import Closed, Invalid, NotFound, ReadOnly, Unavailable

if TYPE_CHECKING:
    from clew.backends.sqlite.cleaning import Cleaner
    from clew.backends.sqlite.reader import FileReader

IDLE = 8
"""Connections to keep for later reads. More threads may read at once; their connections are closed afterwards."""


class Readers:
    """The read-only connections of a store. A connection belongs to one thread from `take` to `give`."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str) -> None:
        self._connect = connect
        self._path = path
        self._idle: list[SQLiteTx] = []
        self._first: SQLiteTx | None = None
        """Stays open until the store is closed: while a connection is open, SQLite does not replace -wal and -shm."""
        self._closed = False

    def take(self) -> SQLiteTx:
        """Returns an idle connection, or opens one."""
        try:
            return self._idle.pop()
        except IndexError:
            try:
                made = SQLiteTx(self._connect())
            except DRIVER as error:
                raise translate(error, self._path) from error
            self._first = self._first or made
            return made

    def give(self, tx: SQLiteTx) -> None:
        """Returns a connection to the pool, or closes it."""
        self._first = self._first or tx
        if tx.conn.in_transaction or len(self._idle) >= IDLE:
            # After an interrupt it may still be in a transaction, which would prevent SQLite from truncating the WAL.
            if tx is not self._first:
                tx.conn.close()
                return
            tx.conn.rollback()
        self._idle.append(tx)
        if self._closed:
            self.drop()

    def idle(self) -> list[sqlite3.Connection]:
        """The idle connections."""
        return [tx.conn for tx in self._idle]

    def drop(self) -> None:
        """Closes the idle connections."""
        self._first = None
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().conn.close()

    def close(self) -> None:
        """Closes the idle connections now, and the others when they are returned. Idempotent."""
        self._closed = True
        self.drop()


class Opener:
    """Opens or creates the store of a backend, and adds connections to its readers and writer."""

    def __init__(
        self,
        path: str,
        connect: Callable[[Literal["ro", "rw"]], sqlite3.Connection],
        readers: Readers,
        writer: Writer,
        timeout: float,
        *,
        immutable: bool,
    ) -> None:
        self.one_name = True
        """False if the file has several names (hard links)."""
        self._path = path
        self._connect = connect
        self._readers = readers
        self._writer = writer
        self._timeout = timeout
        self._immutable = immutable

    def create_in_memory(self, copy_of: SQLiteBackend | None) -> None:
        """Creates a store without a file: empty, or a copy of another store."""
        tx = self._writer.tx = SQLiteTx(self._connect("rw"))
        if copy_of is None:
            _migrate(tx.conn, 0)
            return
        with copy_of.reader() as source:
            source.conn.backup(tx.conn)

    def open(self, check_older: Callable[[Tx], object], *, create: bool, network: bool) -> None:
        """Opens the file; with `create`, creates it if it is missing or empty. Otherwise NotFound. Forbidden."""
        if os.path.isdir(self._path):
            raise Invalid(f"{self._path} is a folder", hint="Name a file in it.")
        if self._immutable:
            check_complete(self._path)
        else:
            check_mount(self._path, network=network)
        connection.close_inherited()
        found = 0
        if exists(self._path):
            # Nothing changes an immutable file, under whatever name.
            self.one_name = self._immutable or check_unshared(self._path, self._timeout)
            found = self._check_format(check_older) if os.path.getsize(self._path) else 0
        if found == FORMAT:
            return
        if not create and not found:
            raise NotFound("store", self._path, hint="Check the path.")
        if self._writer.read_only:
            raise ReadOnly(
                f"{self._path} has format {found}", hint="Open it once without read_only, which migrates it."
            )
        self.create_or_migrate()

    def _check_format(self, check_older: Callable[[Tx], object]) -> int:
        """The format of the file, read through a read-only connection, which becomes the first reader."""
        conn = self._connect("ro")
        try:
            found = check(conn, self._path)
            check_schema(conn, self._path)
            if 0 < found < FORMAT:
                check_older(SQLiteTx(conn))
        except BaseException as error:
            conn.close()
            # An interrupted first open leaves one page and a journal, which only a read-write connection can roll back.
            hot = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK
            if hot and os.path.getsize(self._path) <= 4096:
                return 0
            if is_full(error) and self._writer.reserve.give(SLICE):
                return self._check_format(check_older)
            raise
        self._readers.give(SQLiteTx(conn))
        return found

    def create_or_migrate(self) -> None:
        """Creates the store, or migrates it to the newest format. Only one process does so; the others wait for it."""
        folder = os.path.dirname(os.path.abspath(self._path))
        if not os.path.isdir(folder):
            raise Invalid(f"there is no folder {folder}", hint="Create it first.")
        if not self.one_name:
            raise OpenFiles(self._path, one_name=False).error()
        self._readers.drop()
        self._writer.turnstile.acquire(self._timeout)
        try:
            check_new(self._path)
            with suppress(OSError):  # the file exists, or SQLite reports a better error below
                # Owner-only from the first byte on: -wal and -shm take their mode from it.
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            tx = self._writer.tx = SQLiteTx(self._connect("rw"))
            found = check(tx.conn, self._path)
            check_schema(tx.conn, self._path)
            _migrate(tx.conn, found)
            self._writer.reserve_space(tx)
        finally:
            self._writer.turnstile.release()


def _migrate(conn: sqlite3.Connection, found: int) -> None:
    with loading:
        from clew.backends.sqlite.migrate import migrate  # most stores have the newest format

    migrate(conn, found)


T = TypeVar("T")
CLOSE_TIMEOUT = 0.1
"""Seconds that a closing store waits for other writers. After that, it leaves pending cleanup to them."""


class SQLiteBackend(OpenBackend[SQLiteTx]):
    """See `clew.backends.Backend`. Reads use read-only connections; the write connection is opened when needed."""

    newest = FORMAT

    def __init__(
        self,
        path: str,
        *,
        durability: Durability = "full",
        timeout: float = 60.0,
        create: bool = True,
        network: bool = False,
        check_older: Callable[[Tx], object] = lambda tx: None,
        copy_of: SQLiteBackend | None = None,
        read_only: bool = False,
        immutable: bool = False,
    ) -> None:
        """Calls `check_older`, which may raise, before it migrates a store of an older format.

        With `copy_of`, a store in memory or a `NAMELESS` store begins as a copy of another.
        """
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise Unavailable(f"SQLite {sqlite3.sqlite_version} is too old", hint="clew needs 3.37 or newer.")
        if durability not in ("full", "relaxed"):
            raise Invalid(f"durability must be 'full' or 'relaxed', not {durability!r}")
        if "\0" in path:
            raise Invalid("a path cannot contain a NUL character")
        self.memory = path in NO_FILE
        """True if there is no file with a name. Only one connection can then access the store."""
        # Resolved only once: when later connections are opened, the working folder or a link may have changed.
        self.path = path = path if self.memory else resolve(path)
        self._held = None if self.memory else StoreFiles(path)  # before SQLite locks the file
        self._durability = durability
        self._timeout = timeout
        self._immutable = immutable
        super().__init__()
        self._readers = Readers(lambda: self._connect("ro"), path)
        self.writer = Writer(path, lambda: self._connect("rw"), timeout, self.timing, read_only=read_only)
        self._opener = Opener(path, self._connect, self._readers, self.writer, timeout, immutable=immutable)
        self._batches = Batches(self.writer, self._local, self.refresh_epoch)
        self._committer = Committer(self._batches.transact, self.timing)
        self._watching = Watching(self._make_listener, patience=timeout)
        self.writer.on_commit = self._watching.notify_commit
        try:
            with self._translate_errors():
                if self.memory:
                    self._opener.create_in_memory(copy_of)
                else:
                    self._opener.open(check_older, create=create, network=network)
                self.refresh_epoch()
                if not (self.memory or read_only):
                    self.writer.files = OpenFiles(path, one_name=self._opener.one_name)
                self.writer.store_id = self.read(lambda tx: tx.header("store_id"))
            if self._held is not None:
                self._held.note()
            connection.register(self)
        except OSError as error:
            self.close()
            raise translate_os(error, self.path) from error
        except BaseException:
            self.close()
            raise

    # -- the contract

    @property
    def file(self) -> str | None:
        return self.path if self._opener.one_name and not (self.memory or self.writer.read_only) else None

    @property
    def unencrypted(self) -> bool:
        return False

    @property
    def beyond(self) -> tuple[str, ...]:
        return ()

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        tx = self._current_tx()
        if tx is not None:
            with self._translate_errors(ANY):
                return work(tx)
        if self.writer.alone is not None:
            with self.writer.alone, self._translate_errors(ANY):
                if self.writer.tx is None:
                    raise Closed("the store is closed")
                return work(self.writer.tx)
        tx = self._readers.take()
        try:
            if single:
                return work(tx)
            tx.run_sql("BEGIN")
            try:
                return work(tx)
            finally:
                if tx.conn.in_transaction:
                    tx.run_sql("COMMIT")
        except ANY as error:
            raise translate(error, self.path) from error
        finally:
            self._readers.give(tx)

    def read_fresh(self, work: Callable[[Tx], T]) -> T:
        if self._current_tx() is not None or self.memory:
            return self.read(work)
        with self._translate_errors(ANY):
            conn = self._connect("ro")
            conn.text_factory = as_found
            try:
                conn.execute("BEGIN")
                return work(SQLiteTx(conn))
            finally:
                conn.close()

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        tx = self._current_tx()
        if tx is not None:
            job = Job(work, settle)
            self._local.jobs.append(job)
            try:
                self._batches.run_inside(tx, job)
            except sqlite3.Error as error:
                raise translate(error, self.path) from error
            return job.outcome()  # type: ignore[no-any-return]
        self._forbid_reentry()
        if not self._committer.take_lead():
            job = Job(work, settle)
            self._committer.run((job,))
            self._local.frame = None
            return job.outcome()  # type: ignore[no-any-return]
        # No other writer is active: this is `Batches.transact` for one job, without the bookkeeping.
        try:
            tx = self.writer.begin()
            try:
                result = work(tx)
            except BaseException as error:
                self.writer.give_up(tx, error)
                raise
            self.writer.commit(tx)
            return result
        except sqlite3.Error as error:
            if not self.writer.suspect:
                raise translate(error, self.path) from error
            job = Job(work, settle)
            self.writer.settle((job,), error)
            return job.outcome()  # type: ignore[no-any-return]
        except ODD as error:
            raise translate(error, self.path) from error
        except EpochChanged:
            self.refresh_epoch()
        finally:
            self._local.frame = None
            self._committer.leave()
        return self.write(work, settle)

    @property
    def extendable(self) -> int:
        tx = self.writer.tx
        return 0 if tx is None or self._local.tx is not None else tx.last_append[0]

    def extend(self, ref: int, seen: HeadState, move: Move, row: NodeRow) -> bool:
        if self._current_tx() is not None:
            return False
        self._forbid_reentry()
        if not self._committer.take_lead():
            return False
        try:
            return self.writer.extend(ref, seen, move, row)
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            self._local.frame = None
            self._committer.leave()

    def batch(self, calls: Sequence[Call]) -> None:
        self._current_tx()
        self._committer.enter()
        try:
            self._batches.run(calls)
        finally:
            self._committer.leave()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        open_one = self._current_tx()
        if open_one is not None:
            with self.writer.nested(open_one):
                yield
            return
        self._forbid_reentry()
        self._committer.enter()
        try:
            with self._translate_errors():
                tx = self.writer.begin()
                while tx.current_epoch() != self.writer.epoch:  # nothing was prepared for the old epoch yet
                    self.writer.undo(tx)
                    self.refresh_epoch()
                    tx = self.writer.begin()
            self._local.tx, self._local.jobs, self._local.apart, self._local.frame = tx, [], True, None
            try:
                yield
                self.writer.ensure_open(tx)
            except BaseException:
                self.writer.undo(tx)
                raise
            finally:
                self._local.tx = None
            with self._translate_errors():
                self.writer.commit(tx)
        finally:
            self._local.frame = None
            self._committer.leave()

    def allow_changes(self) -> None:
        if self.memory or self.writer.read_only or os.path.exists(f"{self.path}-wal"):
            return
        with suppress(ReadOnly), self._translate_errors():  # another program has disabled WAL mode
            self._opener.create_or_migrate()
            self.refresh_epoch()
            self.writer.files = OpenFiles(self.path, one_name=self._opener.one_name)

    def hurry(self) -> None:
        def work() -> None:
            self._timeout = min(self._timeout, CLOSE_TIMEOUT)
            self.writer.hurry(self._timeout)

        if not self.memory and self._current_tx() is None:
            self._run_alone(work)

    def close(self) -> None:
        if self._closed:
            return
        self._ensure_closable()
        if self._forked:
            self._closed = True  # the connections belong to the parent: closing them here could drop its locks
            return
        self._committer.enter()
        try:
            self._closed = True
            self._watching.close()
            self._readers.close()
            self.writer.close()
            if self._held is not None:
                self._held.release()
        finally:
            self._committer.leave()

    def usage(self) -> Resources:
        names = () if self.memory else (self.path, f"{self.path}-wal")
        sizes = [os.stat(name).st_size for name in names if exists(name)]
        return Resources(sum(sizes) if sizes else None, None, None)

    def settled_ord(self) -> int:
        return self.read(lambda tx: tx.maintenance.growth(0).last, single=True)

    def watch(self, ref: int, notify: Callable[[], object]) -> Callable[[], None]:
        self._current_tx()
        return self._watching.watch(ref, notify)

    def clean(self) -> tuple[str, ...]:
        if self._current_tx() is not None:
            raise Invalid("a store cannot be cleaned inside a transaction")
        if self.memory:
            return ()
        with self._translate_errors():
            cleaner = self._cleaner()
            frozen = self._run_alone(cleaner.freeze)
            if frozen is None:
                return ("wal",)
            with closing(frozen):
                found = cleaner.look()  # the longest step; writers do not wait for it
                left = self._run_alone(lambda: cleaner.clear(frozen, found))
            if not left:
                cleaner.sync()
            return left

    def make_room(self) -> None:
        if not self.memory and self._current_tx() is None:
            self._run_alone(self._cleaner().make_room)

    def _cleaner(self) -> Cleaner:
        with loading:
            from clew.backends.sqlite.cleaning import Cleaner

        return Cleaner(self.writer)

    def _run_alone(self, work: Callable[[], T]) -> T:
        """Runs `work` while no other thread of this process writes."""
        self._forbid_reentry()
        self._committer.enter()
        try:
            return work()
        finally:
            self._local.frame = None
            self._committer.leave()

    @contextmanager
    def reader(self) -> Iterator[FileReader]:
        with loading:
            from clew.backends.sqlite.reader import FileReader

        self._current_tx()
        if self.writer.alone is not None:
            with self.writer.alone, self._translate_errors():
                if self.writer.tx is None:
                    raise Closed("the store is closed")
                yield FileReader(self.writer.tx.conn, self.path)
            return
        tx = self._readers.take()
        conn = tx.conn
        try:
            with self._translate_errors():
                conn.execute("BEGIN")
                yield FileReader(conn, self.path)
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            self._readers.give(tx)

    def scratch_copy(self) -> SQLiteBackend | None:
        return None if self.memory or self.in_transaction() else SQLiteBackend(NAMELESS, copy_of=self)

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        with loading:
            from clew.backends.sqlite.backup import backup

        if self._current_tx() is not None:
            raise Invalid("a backup cannot be made inside a transaction", hint="Finish the transaction first.")
        return backup(self.reader, path, progress)

    def connections(self) -> tuple[sqlite3.Connection | None, bool, list[sqlite3.Connection]]:
        """See `clew.backends.sqlite.connection.Holder`."""
        if self._closed or self.memory:
            return None, False, []
        writer = None if self.writer.tx is None else self.writer.tx.conn
        at_work = self._committer.at_work or (writer is not None and writer.in_transaction)
        return writer, at_work, self._readers.idle()

    def _connect(self, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
        return connect(self.path, mode, durability=self._durability, timeout=self._timeout, immutable=self._immutable)

    def _make_listener(self) -> ChangeListener:
        with loading:
            from clew.backends.sqlite.listener import FileListener, MemoryListener

        if self.memory:
            return MemoryListener(lambda refs: self.read(lambda tx: cast(SQLiteTx, tx).versions(refs)))
        return FileListener(lambda: self._connect("ro"), self.path)

    def refresh_epoch(self) -> None:
        state = self.read(self._load_epoch)
        self.writer.epoch = state.number

    @contextmanager
    def _translate_errors(self, errors: tuple[type[Exception], ...] = DRIVER) -> Iterator[None]:
        """Translates driver errors to errors of clew; with `ANY`, also errors that values of a wrong type cause."""
        try:
            yield
        except errors as error:
            raise translate(error, self.path) from error
