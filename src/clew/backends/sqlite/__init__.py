"""A store in one SQLite file, or in memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, TypeVar, cast

from clew.backends import Call, Job, Renewed, Tail, Tx
from clew.backends.opened import Opened
from clew.backends.sql import FORMAT
from clew.backends.sqlite import forked
from clew.backends.sqlite.batches import Batches
from clew.backends.sqlite.commit import Committer
from clew.backends.sqlite.connection import (
    ANY,
    DRIVER,
    ODD,
    OLDEST_SQLITE,
    Durability,
    as_found,
    check,
    connect,
    is_full,
    translate,
    translate_os,
)
from clew.backends.sqlite.identity import OpenFiles, check_mount, check_new, check_unshared, resolve
from clew.backends.sqlite.readers import Readers
from clew.backends.sqlite.reserve import SLICE
from clew.backends.sqlite.rows import SQLiteTx
from clew.backends.sqlite.schema import check_schema
from clew.backends.sqlite.writer import Writer
from clew.backends.watching import Ear, Watching
from clew.errors import Closed, Invalid, NotFound, ReadOnly, Unavailable
from clew.loading import loading

T = TypeVar("T")
CLOSING = 0.1
"""Seconds that a store which is being closed waits for other writers, before it leaves a cleanup to them."""


class SQLiteBackend(Opened[SQLiteTx]):
    """See `clew.backends.Backend`. Reading uses connections that cannot write; the one that can is made when needed."""

    newest = FORMAT

    def __init__(
        self,
        path: str,
        *,
        durability: Durability = "full",
        timeout: float = 60.0,
        create: bool = True,
        network: bool = False,
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise Unavailable(f"SQLite {sqlite3.sqlite_version} is too old", hint="clew needs 3.37 or newer.")
        if durability not in ("full", "relaxed"):
            raise Invalid(f"durability is 'full' or 'relaxed', not {durability!r}")
        if "\0" in path:
            raise Invalid("a path cannot have a NUL character")
        self.memory = path == ":memory:"
        # Once: connections are made later too, when the program may be in another folder, or a link lead elsewhere.
        self.path = path = path if self.memory else resolve(path)
        self._one_name = True
        self._durability = durability
        self._timeout = timeout
        super().__init__()
        self._readers = Readers(lambda: self._connect("ro"), path)
        self._writer = Writer(path, lambda: self._connect("rw"), timeout)
        self._batches = Batches(self._writer, self._local, self.look_anew)
        self._committer = Committer(self._batches.transact)
        self._watching = Watching(self._ear, patience=timeout)
        self._writer.committed = self._watching.committed
        try:
            with self._told():
                self._open(create, network)
                self.look_anew()
                self._writer.files = None if self.memory else OpenFiles(path, one_name=self._one_name)
                self._writer.store_id = self.read(lambda tx: tx.header("store_id"))
            forked.note(self)
        except OSError as error:
            self.close()
            raise translate_os(error, self.path) from error
        except BaseException:
            self.close()
            raise

    # -- the contract

    @property
    def file(self) -> str | None:
        return self.path if self._one_name and not self.memory else None

    @property
    def keeps_words(self) -> bool:
        return False

    @property
    def beyond(self) -> tuple[str, ...]:
        return ()

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        tx = self._here()
        if tx is not None:
            with self._told(ANY):
                return work(tx)
        if self._writer.alone is not None:
            with self._writer.alone, self._told(ANY):
                if self._writer.tx is None:
                    raise Closed("the store is closed")
                return work(self._writer.tx)
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

    def read_anew(self, work: Callable[[Tx], T]) -> T:
        if self._here() is not None or self.memory:
            return self.read(work)
        with self._told(ANY):
            conn = self._connect("ro")
            conn.text_factory = as_found
            try:
                conn.execute("BEGIN")
                return work(SQLiteTx(conn))
            finally:
                conn.close()

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        tx = self._here()
        if tx is not None:
            job = Job(work, settle)
            self._local.jobs.append(job)
            try:
                self._batches.inside(tx, job)
            except sqlite3.Error as error:
                raise translate(error, self.path) from error
            return job.outcome()  # type: ignore[no-any-return]
        self._not_again()
        if not self._committer.take_lead():
            job = Job(work, settle)
            self._committer.run((job,))
            self._local.frame = None
            return job.outcome()  # type: ignore[no-any-return]
        # Nobody else is at work: this is `Batches.transact` for one, without the bookkeeping.
        try:
            tx = self._writer.begin()
            try:
                result = work(tx)
            except BaseException as error:
                self._writer.give_up(tx, error)
                raise
            self._writer.commit(tx)
            return result
        except sqlite3.Error as error:
            if not self._writer.suspect:
                raise translate(error, self.path) from error
            job = Job(work, settle)
            self._writer.settle((job,), error)
            return job.outcome()  # type: ignore[no-any-return]
        except ODD as error:
            raise translate(error, self.path) from error
        except Renewed:
            self.look_anew()
        finally:
            self._local.frame = None
            self._committer.leave()
        return self.write(work, settle)

    def batch(self, calls: Sequence[Call]) -> None:
        self._here()
        self._committer.enter()
        try:
            self._batches.run(calls)
        finally:
            self._committer.leave()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What this thread reads and writes inside is one transaction, committed at the end, undone by an error."""
        open_one = self._here()
        if open_one is not None:
            with self._writer.nested(open_one):
                yield
            return
        self._not_again()
        self._committer.enter()
        try:
            with self._told():
                tx = self._writer.begin()
                while tx.current_epoch() != self._writer.epoch:  # nothing was prepared for the old one yet
                    self._writer.undo(tx)
                    self.look_anew()
                    tx = self._writer.begin()
            self._local.tx, self._local.jobs, self._local.apart, self._local.frame = tx, [], True, None
            try:
                yield
                self._writer.still(tx)
            except BaseException:
                self._writer.undo(tx)
                raise
            finally:
                self._local.tx = None
            with self._told():
                self._writer.commit(tx)
        finally:
            self._local.frame = None
            self._committer.leave()

    def unlocked(self) -> None:
        if self.memory or os.path.exists(f"{self.path}-wal"):
            return
        with suppress(ReadOnly), self._told():  # another program has switched the log off
            self._prepare()
            self.look_anew()
            self._writer.files = OpenFiles(self.path, one_name=self._one_name)

    def hurry(self) -> None:
        if self.memory or self._here() is not None:
            return
        self._not_again()
        self._committer.enter()
        try:
            self._timeout = min(self._timeout, CLOSING)
            self._writer.hurry(self._timeout)
        finally:
            self._local.frame = None
            self._committer.leave()

    def close(self) -> None:
        if self._closed:
            return
        self._may_close()
        if self._forked:
            self._closed = True  # the connections belong to the parent: closing them here could drop its locks
            return
        self._committer.enter()
        try:
            self._closed = True
            self._watching.close()
            self._readers.close()
            self._writer.close()
        finally:
            self._committer.leave()

    def settled(self) -> int:
        return self.read(lambda tx: tx.growth(0).last, single=True)

    def watch(self, ref: int, tell: Callable[[], object]) -> Callable[[], None]:
        self._here()
        return self._watching.watch(ref, tell)

    def clean(self) -> tuple[str, ...]:
        if self._here() is not None:
            raise Invalid("a store cannot be cleaned inside a transaction")
        if self.memory:
            return ()
        self._not_again()
        self._committer.enter()
        try:
            with self._told():
                return self._writer.clean()
        finally:
            self._local.frame = None
            self._committer.leave()

    def make_room(self) -> None:
        if self.memory or self._here() is not None:
            return
        self._not_again()
        self._committer.enter()
        try:
            self._writer.make_room()
        finally:
            self._local.frame = None
            self._committer.leave()

    # -- for the parts of clew that deal with the file itself

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading that sees one moment, for verify and backup."""
        self._here()
        if self._writer.alone is not None:
            with self._writer.alone, self._told():
                if self._writer.tx is None:
                    raise Closed("the store is closed")
                yield self._writer.tx.conn
            return
        tx = self._readers.take()
        conn = tx.conn
        try:
            with self._told():
                conn.execute("BEGIN")
                yield conn
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            self._readers.give(tx)

    def connections(self) -> tuple[sqlite3.Connection | None, bool, list[sqlite3.Connection]]:
        """See `clew.backends.sqlite.forked.Holder`."""
        if self._closed or self.memory:
            return None, False, []
        writer = None if self._writer.tx is None else self._writer.tx.conn
        at_work = self._committer.at_work or (writer is not None and writer.in_transaction)
        return writer, at_work, self._readers.idle()

    # -- opening

    def _open(self, create: bool, network: bool) -> None:
        if self.memory:
            self._writer.tx = SQLiteTx(self._connect("rw"))
            self._migrate(self._writer.tx.conn, 0)
            return
        if os.path.isdir(self.path):
            raise Invalid(f"{self.path} is a folder", hint="Name a file in it.")
        check_mount(self.path, network=network)
        forked.let_go()
        found = 0
        if os.path.exists(self.path):
            self._one_name = check_unshared(self.path, self._timeout)
            found = self._look() if os.path.getsize(self.path) else 0
        if found == FORMAT:
            return
        if not create and not found:
            raise NotFound("store", self.path, hint="Check the path.")
        self._prepare()

    def _look(self) -> int:
        """The format found, through a connection that cannot write; it becomes the first reader."""
        conn = self._connect("ro")
        try:
            found = check(conn, self.path)
            check_schema(conn, self.path)
        except BaseException as error:
            conn.close()
            # A first open that was cut off leaves one page, and a journal that only a connection that writes can undo.
            hot = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK
            if hot and os.path.getsize(self.path) <= 4096:
                return 0
            if is_full(error) and self._writer.reserve.give(SLICE):
                return self._look()
            raise
        self._readers.give(SQLiteTx(conn))
        return found

    def _prepare(self) -> None:
        """Creates the store, or brings it to the newest format; one process does, the others find it done."""
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise Invalid(f"there is no folder {folder}", hint="Create it first.")
        if not self._one_name:
            raise OpenFiles(self.path, one_name=False).error()
        self._readers.drop()
        self._writer.turnstile.acquire(self._timeout)
        try:
            check_new(self.path)
            with suppress(OSError):  # it exists, or SQLite says better why it cannot
                # Owner-only from the first byte on: -wal and -shm take their mode from it.
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            tx = self._writer.tx = SQLiteTx(self._connect("rw"))
            found = check(tx.conn, self.path)
            check_schema(tx.conn, self.path)
            self._migrate(tx.conn, found)
            self._writer.set_aside(tx)
        finally:
            self._writer.turnstile.release()

    def _migrate(self, conn: sqlite3.Connection, found: int) -> None:
        with loading:
            from clew.backends.sqlite.migrate import migrate  # most stores are of the newest format

        migrate(conn, found)

    def _connect(self, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
        return connect(self.path, mode, durability=self._durability, timeout=self._timeout)

    def _ear(self) -> Ear:
        with loading:
            from clew.backends.sqlite.watching import FileEar, MemoryEar

        if self.memory:
            return MemoryEar(lambda refs: self.read(lambda tx: cast(SQLiteTx, tx).versions(refs)))
        return FileEar(lambda: self._connect("ro"), self.path)

    def look_anew(self) -> None:
        state = self.read(self._epoch)
        self._writer.epoch = state.number

    @contextmanager
    def _told(self, errors: tuple[type[Exception], ...] = DRIVER) -> Iterator[None]:
        """Errors become clew's: the driver's, or those that values of another kind lead to."""
        try:
            yield
        except errors as error:
            raise translate(error, self.path) from error
