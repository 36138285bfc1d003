"""A store in one SQLite file, or in memory."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from clew.backends import Call, Job, Tx
from clew.backends.sqlite.commit import Committer
from clew.backends.sqlite.connection import (
    FORMAT,
    OLDEST_SQLITE,
    Durability,
    check,
    connect,
    on_network,
    translate,
)
from clew.backends.sqlite.migrate import migrate
from clew.backends.sqlite.rows import SQLiteTx
from clew.backends.sqlite.turnstile import Turnstile
from clew.errors import ClewError, Closed, Invalid, NotFound, SchemaTooNew, Sealed, Unavailable

T = TypeVar("T")

_OPEN: weakref.WeakSet[SQLiteBackend] = weakref.WeakSet()


def _after_fork() -> None:
    """In the child: no store of the parent's may be used, nor even closed."""
    for backend in _OPEN:
        backend._forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

IDLE_READERS = 8
"""Connections kept for later reads. More threads may read at once; the rest are closed again."""


class SQLiteBackend:
    """See `clew.backends.Backend`. Reading uses connections that cannot write; the one that can is made when needed."""

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
        self.path = path
        self.memory = path == ":memory:"
        self._durability = durability
        self._timeout = timeout
        self._local = threading.local()
        self._readers: list[SQLiteTx] = []
        self._writer: SQLiteTx | None = None
        self._suspect = False
        self._closed = False
        self._forked = False
        _OPEN.add(self)
        self._turnstile = Turnstile(f"{path}-lock")
        self._committer = Committer(self._transact)
        # In memory there is one connection, for one at a time.
        self._alone = threading.RLock() if self.memory else None
        try:
            with self._told():
                self._open(create, network)
                self.epoch = self.read(lambda tx: tx.state().number)
        except BaseException:
            self.close()
            raise

    # -- the contract

    def read(self, work: Callable[[Tx], T], *, single: bool = False) -> T:
        tx = self._here()
        if tx is not None:
            with self._told():
                return work(tx)
        if self._alone is not None:
            with self._alone, self._told():
                assert self._writer is not None
                return work(self._writer)
        tx = self._take_reader()
        try:
            if single:
                return work(tx)
            tx.run_sql("BEGIN")
            try:
                return work(tx)
            finally:
                if tx.conn.in_transaction:
                    tx.run_sql("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise translate(error, self.path) from error
        finally:
            self._give_reader(tx)

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        tx = self._here()
        if tx is not None:
            job = Job(work, settle)
            self._local.jobs.append(job)
            with self._told():
                self._savepoint(tx, job)
            return job.outcome()  # type: ignore[no-any-return]
        if not self._committer.take_lead():
            job = Job(work, settle)
            self._committer.run((job,))
            return job.outcome()  # type: ignore[no-any-return]
        # Nobody else is at work: this is `_transact` for one, without the bookkeeping.
        try:
            tx = self._begin()
            try:
                result = work(tx)
            except BaseException:
                self._undo(tx)
                raise
            self._commit(tx)
            return result
        except sqlite3.Error as error:
            if not self._suspect:
                raise translate(error, self.path) from error
            job = Job(work, settle)
            self._settle((job,), error)
            return job.outcome()  # type: ignore[no-any-return]
        finally:
            self._committer.leave()

    def batch(self, calls: Sequence[Call]) -> None:
        self._here()
        self._committer.enter()
        try:
            self._batch(calls)
        finally:
            self._committer.leave()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What this thread reads and writes inside is one transaction, committed at the end, undone by an error."""
        if self._here() is not None:
            yield  # joins the one that is open
            return
        self._committer.enter()
        try:
            with self._told():
                tx = self._begin()
                self._local.tx, self._local.jobs = tx, []
                try:
                    yield
                    self._still(tx)
                except BaseException:
                    self._undo(tx)
                    raise
                finally:
                    self._local.tx = None
                self._commit(tx)
        finally:
            self._committer.leave()

    def close(self) -> None:
        if self._closed:
            return
        if getattr(self._local, "tx", None) is not None:
            raise Invalid("a store cannot be closed inside its own transaction")
        if self._forked:
            self._closed = True  # the connections belong to the parent: closing them here could drop its locks
            return
        self._committer.enter()
        try:
            self._closed = True
            self._close_readers()
            if self._writer is not None:
                self._writer.conn.close()
                self._writer = None
            self._turnstile.close()
        finally:
            self._committer.leave()

    # -- for the parts of clew that deal with the file itself

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading that sees one moment, for verify and backup."""
        self._here()
        if self._alone is not None:
            with self._alone, self._told():
                assert self._writer is not None
                yield self._writer.conn
            return
        tx = self._take_reader()
        conn = tx.conn
        try:
            with self._told():
                conn.execute("BEGIN")
                yield conn
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            self._give_reader(tx)

    # -- opening

    def _open(self, create: bool, network: bool) -> None:
        if self.memory:
            self._writer = SQLiteTx(connect(self.path, "rw", durability=self._durability, timeout=self._timeout))
            migrate(self._writer.conn, 0)
            return
        if os.path.isdir(self.path):
            raise Invalid(f"{self.path} is a folder", hint="Name a file in it.")
        if not network and (kind := on_network(self.path)):
            raise Invalid(
                f"{self.path} is on a network file system ({kind}), where SQLite's locks cannot be relied on",
                hint="Use a local disk; or pass network=True if only one machine ever opens the store.",
            )
        found = self._look() if os.path.exists(self.path) and os.path.getsize(self.path) else 0
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
        except BaseException as error:
            conn.close()
            # A first open that was cut off leaves one page, and a journal that only a connection that writes can undo.
            hot = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK
            if hot and os.path.getsize(self.path) <= 4096:
                return 0
            raise
        self._readers.append(SQLiteTx(conn))
        return found

    def _prepare(self) -> None:
        """Creates the store, or brings it to the newest format; one process does, the others find it done."""
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise Invalid(f"there is no folder {folder}", hint="Create it first.")
        self._close_readers()
        self._turnstile.acquire(self._timeout)
        try:
            with suppress(OSError):  # it exists, or SQLite says better why it cannot
                # Owner-only from the first byte on: -wal and -shm take their mode from it.
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._writer = SQLiteTx(self._connect("rw"))
            migrate(self._writer.conn, check(self._writer.conn, self.path))
        finally:
            self._turnstile.release()

    def _connect(self, mode: str) -> sqlite3.Connection:
        return connect(self.path, mode, durability=self._durability, timeout=self._timeout)  # type: ignore[arg-type]

    # -- connections

    def _here(self) -> SQLiteTx | None:
        """The transaction this thread is in, if any. Closed if the store cannot be used here at all."""
        if self._closed or self._forked:
            why = "was opened before this process was forked" if self._forked else "is closed"
            raise Closed(f"the store {why}")
        return getattr(self._local, "tx", None)

    def _take_reader(self) -> SQLiteTx:
        try:
            return self._readers.pop()
        except IndexError:
            with self._told():
                return SQLiteTx(self._connect("ro"))

    def _give_reader(self, tx: SQLiteTx) -> None:
        # One that is still in a transaction was interrupted; it would keep the WAL from being emptied.
        if tx.conn.in_transaction or len(self._readers) >= IDLE_READERS:
            tx.conn.close()
            return
        self._readers.append(tx)
        if self._closed:
            self._close_readers()

    def _close_readers(self) -> None:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._readers.pop().conn.close()

    # -- writing

    def _transact(self, jobs: Sequence[Job]) -> None:
        """One transaction for all `jobs`; each gets its outcome. What a job raises concerns that job alone."""
        try:
            tx = self._begin()
            try:
                if len(jobs) == 1:
                    jobs[0].result = jobs[0].work(tx)
                else:
                    for job in jobs:
                        self._savepoint(tx, job)
            except BaseException:
                self._undo(tx)
                raise
            self._commit(tx)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            if self._suspect and isinstance(error, sqlite3.Error):
                self._settle(jobs, error)
                return
            told = translate(error, self.path) if isinstance(error, sqlite3.Error) else error
            for job in jobs:
                job.error = job.error or told
        except BaseException:
            # Interrupted, perhaps after the commit: whoever shared the transaction is told what became of it.
            if len(jobs) > 1:
                self._settle(jobs, Unavailable("the write was interrupted", hint="Make the same call again."))
            raise

    def _batch(self, calls: Sequence[Call]) -> None:
        """One transaction for all `calls`; each gets its outcome. A write inside a call has a savepoint of its own."""
        try:
            tx = self._begin()
            try:
                self._local.tx = tx
                for call in calls:
                    self._local.jobs = call.jobs
                    call.run()
                    if not tx.conn.in_transaction:  # the driver has undone everything: disk full, I/O error
                        raise call.error or Unavailable("the transaction was undone")
            except BaseException:
                self._undo(tx)
                raise
            finally:
                self._local.tx = None
            self._commit(tx)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            if self._suspect and isinstance(error, sqlite3.Error):
                self._settle([job for call in calls for job in call.jobs], error)
                for call in calls:
                    call.error = call.error or next((job.error for job in call.jobs if job.error is not None), None)
                return
            told = translate(error, self.path) if isinstance(error, sqlite3.Error) else error
            for call in calls:
                call.error = call.error or told

    def _begin(self) -> SQLiteTx:
        """Waits for its turn, and opens the write transaction. `_commit` or `_undo` must follow."""
        if self._closed:
            raise Closed("the store is closed")
        if self._alone is None:
            self._turnstile.acquire(self._timeout)
        else:
            self._alone.acquire()
        try:
            tx = self._writer
            if tx is None or self._suspect:
                tx = self._renew()
            if tx.conn.in_transaction:  # an interrupt came between its begin and its end
                tx.conn.execute("ROLLBACK")
            tx.begin()
        except BaseException:
            self._undo(self._writer)
            raise
        return tx

    def _commit(self, tx: SQLiteTx) -> None:
        try:
            if (tx.epoch or tx.current_epoch()) != self.epoch:
                self._new_epoch(tx)
            try:
                tx.run_sql("COMMIT")
            except sqlite3.Error:
                self._suspect = True
                raise
        except BaseException:
            self._undo(tx)
            raise
        self._end()

    def _undo(self, tx: SQLiteTx | None) -> None:
        try:
            if tx is not None and tx.conn.in_transaction:
                tx.conn.execute("ROLLBACK")
        finally:
            self._end()

    def _end(self) -> None:
        if self._alone is not None:
            self._alone.release()
        else:
            self._turnstile.release()

    def _savepoint(self, tx: SQLiteTx, job: Job) -> None:
        """Runs one job so that its failure leaves nothing behind and its neighbours alone."""
        self._still(tx)
        tx.conn.execute("SAVEPOINT job")
        try:
            job.result = job.work(tx)
        except BaseException as error:
            if not tx.conn.in_transaction:
                raise  # the driver has undone everything: disk full, I/O error
            tx.conn.execute("ROLLBACK TO job")
            if not isinstance(error, Exception):
                raise
            job.error = translate(error, self.path) if isinstance(error, sqlite3.Error) else error
        tx.conn.execute("RELEASE job")

    def _still(self, tx: SQLiteTx) -> None:
        """Unavailable if the driver has undone the transaction: what follows would be kept without what came first."""
        if not tx.conn.in_transaction:
            raise Unavailable(
                "an error has undone the whole transaction", hint="Leave it, and make all of its calls again."
            )

    def _new_epoch(self, tx: SQLiteTx) -> None:
        """Another process has sealed, rotated or migrated the store since it was opened."""
        state = tx.state()
        if state.format > FORMAT:
            raise SchemaTooNew(self.path, state.format, FORMAT)
        if state.state != "plain":
            raise Sealed(f"{self.path} was sealed by another process")
        self.epoch = state.number

    def _renew(self) -> SQLiteTx:
        """A new connection for writing; after a failed commit, only once everything in the WAL is surely on disk.

        After a failed sync the kernel may show data that the disk does not have. A checkpoint writes the pages anew
        into the main file and syncs them, so what is read after it is durable.
        """
        if self._writer is not None and not self.memory:
            self._writer.conn.close()
            self._writer = None
        if self._writer is None:
            self._writer = SQLiteTx(self._connect("rw"))
        if self._suspect and not self.memory:
            busy, *_ = self._writer.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise Unavailable(
                    f"{self.path} has a reader that keeps it from recovering", hint="Make the same call again."
                )
        self._suspect = False
        return self._writer

    def _settle(self, jobs: Sequence[Job], error: Exception) -> None:
        """After a commit that failed: looks again, and answers each caller truthfully."""
        told = translate(error, self.path) if isinstance(error, sqlite3.Error) else error
        for job in jobs:
            if job.error is None:
                job.error = told
                if job.settle is not None:
                    self._look_again(job)

    def _look_again(self, job: Job) -> None:
        try:
            tx = self._begin()
            try:
                kept = job.settle(tx) if job.settle is not None else None
            finally:
                self._undo(tx)
        except (ClewError, sqlite3.Error):
            return  # the first error stands
        if kept is not None:
            job.result, job.error = kept, None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Driver errors become clew's."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise translate(error, self.path) from error
