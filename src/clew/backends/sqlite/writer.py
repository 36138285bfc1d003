"""The write connection: waits for the write lock, ends transactions, and resolves failed commits."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

from clew.backends import EpochChanged, HeadState, Job, Move, NodeRow
from clew.backends.problems import ODD
from clew.backends.process import forks
from clew.backends.sqlite.connection import ANY, NO_FILE, translate
from clew.backends.sqlite.one_name import OpenFiles
from clew.backends.sqlite.reserve import PAGE, LogSpace, Reserve
from clew.backends.sqlite.schema import check_schema
from clew.backends.sqlite.turnstile import Turnstile
from clew.backends.sqlite.tx import ADD_NODE, DATA_VERSION, EXTEND, SQLiteTx
from clew.backends.timing import Timing
from clew.errors import ClewError, Closed, ReadOnly, Unavailable

RESERVE_EVERY = 1.0
"""Seconds after which a write checks again how much space to reserve: the store grows, and the disk fills up."""
RECHECK = 0.001
"""Seconds after which a write checks the files before it begins, and not only after the commit."""


class Writer:
    """Write transactions on one store, one at a time. The caller ensures that within the process, this class across
    processes.
    """

    def __init__(
        self,
        path: str,
        connect: Callable[[], sqlite3.Connection],
        timeout: float,
        timing: Timing,
        *,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.read_only = read_only
        self._timing = timing
        self.tx: SQLiteTx | None = None
        """The connection, opened by the first write. In memory it is the only one, and reads use it too."""
        self.alone = threading.RLock() if path in NO_FILE else None
        self.turnstile = Turnstile(f"{path}-lock", timing)
        self.reserve = Reserve(path)
        self._log_space = LogSpace(path)
        self.epoch = 0
        """The number of the last epoch that this process has read."""
        self.store_id: bytes | None = None
        """The id of the store, to avoid writing to another store at the same path."""
        self.files: OpenFiles | None = None
        """The files of the store; None in memory, and until it is open."""
        self._checked_at = 0.0
        """When the files were last checked."""
        self._reserved_at = 0.0
        """When the reserved space was last checked."""
        self.on_commit: Callable[[], object] = lambda: None
        """Called after every commit."""
        self.suspect = False
        """True after a failed commit, whose outcome is not known yet."""
        self._began = 0
        """The value of `epoch` when the transaction began. Its work was prepared for that epoch."""
        self.low_space = False
        """True while the disk is full: see `Cleaner.make_room`."""
        self._closed = False
        self._forks_at_open = forks()
        self.connect = connect
        self.timeout = timeout

    def hurry(self, timeout: float) -> None:
        """Shortens the time to wait for other processes."""
        self.timeout = timeout
        self.drop()  # the connection has the old timeout

    def close(self) -> None:
        """Idempotent. Threads that wait to write get Closed."""
        self._closed = True
        with self.alone or nullcontext():  # in memory, another thread may be reading with it
            if self.tx is not None:
                self.tx.conn.close()
                self.tx = None
        self.turnstile.close()
        self._log_space.close()
        self.files = None  # which holds the folder open

    def begin(self) -> SQLiteTx:
        """Waits for the lock and begins the write transaction. The caller must call `commit` or `undo`."""
        if self._closed:
            raise Closed("the store is closed")
        self._ensure_writable()
        if self.alone is None:
            self.turnstile.acquire(self.timeout)
        else:
            self.alone.acquire()
        try:
            tx = self.tx
            if tx is None or self.suspect:
                self._check_files()
                tx = self._reconnect()
            elif time.monotonic() - self._checked_at > RECHECK:
                self._recheck(tx)
            self._began = self.epoch
            if tx.conn.in_transaction:  # an interrupt prevented its end
                tx.undo()
            tx.begin()
            self._keep_log_space()
        except BaseException:
            self.undo(self.tx)
            raise
        return tx

    def commit(self, tx: SQLiteTx) -> None:
        """Commits the transaction durably. If the commit fails, sets `suspect`: only `settle` finds out the outcome.

        EpochChanged if a new epoch has begun since this process last read it; the transaction is rolled back.
        Unavailable if a file of the store was moved or deleted, because the commit might then be lost.
        """
        try:
            if (tx.epoch or tx.current_epoch()) != self._began:
                raise EpochChanged
            committing = time.monotonic()
            try:
                tx.run_sql("COMMIT")
            except sqlite3.Error:
                self.suspect = True
                raise
            self._check_files()
        except BaseException:
            self.undo(tx)
            raise
        took = self._checked_at - committing
        self._end()
        if took > self._timing.threshold:
            self._timing.note("commit", took)
        self.on_commit()

    def extend(self, ref: int, seen: HeadState, move: Move, row: NodeRow) -> bool:
        """See `Backend.extend`. One method, because as calls of `begin`, `Tx` and `commit` it takes 5 µs more.

        Nothing was written since the last append if neither `total_changes`, which counts the changes of this
        connection, nor `data_version`, which changes with the commits of others, has changed. Then the epoch, the run
        and the ranks of other refs are as they were.
        """
        tx = self.tx
        if tx is None or self.suspect or self.epoch != seen.epoch or self.alone is not None or tx.conn.in_transaction:
            return False
        run, (last, version, changes) = tx.run_sql, tx.last_append
        head, head_id, number, active_at, _, mac = move
        begun = False
        self.turnstile.acquire(self.timeout)
        try:
            if time.monotonic() - self._checked_at > RECHECK:
                self._recheck(tx)
            run("BEGIN IMMEDIATE")
            begun = True
            self._keep_log_space()
            if (
                last != ref
                or changes != tx.conn.total_changes
                or version != run(DATA_VERSION).fetchone()[0]
                or run(EXTEND, (head, head_id, number, active_at, mac, ref, seen.version, seen.mac)).rowcount != 1
            ):
                self.undo(tx)
                return False
            run(ADD_NODE, row)
            self.suspect = True  # until the commit has succeeded
            committing = time.monotonic()
            run("COMMIT")
            self.suspect = False
            self._check_files()
            took = self._checked_at - committing
        except BaseException as error:
            self.undo(tx)
            if begun and isinstance(error, sqlite3.Error):
                return False  # waiting for the lock again would take twice as long, but anything else is worth a retry
            raise
        tx.last_append = ref, version, changes + 2
        self.turnstile.release()
        if took > self._timing.threshold:
            self._timing.note("commit", took)
        self.on_commit()
        return True

    def give_up(self, tx: SQLiteTx, error: BaseException) -> None:
        """`undo` after an error. EpochChanged if a new epoch has begun: with old keys, valid rows look damaged."""
        try:
            outdated = (
                isinstance(error, (ClewError, *ODD)) and tx.conn.in_transaction and tx.current_epoch() != self._began
            )
        finally:
            self.undo(tx)
        if outdated:
            raise EpochChanged from error

    def undo(self, tx: SQLiteTx | None) -> None:
        """Rolls the transaction back. Does nothing in a forked child, because it belongs to the parent."""
        if self._forks_at_open != forks():
            return
        try:
            if tx is not None:
                tx.undo()
        finally:
            self._end()

    def _end(self) -> None:
        if self.alone is not None:
            self.alone.release()
        else:
            self.turnstile.release()

    def reserve_space(self, tx: SQLiteTx) -> None:
        """Reserves disk space, and keeps the log short enough to be checkpointed within that space."""
        self._reserved_at = time.monotonic()
        self.reserve.keep()
        if self.reserve.scarce and self.reserve.size:
            tx.conn.execute(f"PRAGMA wal_autocheckpoint = {max(16, self.reserve.size // (2 * PAGE))}")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Holds the lock, for work on the files. Outside of transactions."""
        self._ensure_writable()
        self.turnstile.acquire(self.timeout)
        try:
            self._check_files()
            yield
        finally:
            self.turnstile.release()

    def _ensure_writable(self) -> None:
        if self.read_only:
            raise ReadOnly(f"{self.path} was opened read-only", hint="Open it without read_only to change it.")

    def connection(self) -> SQLiteTx:
        """The write connection, opened if necessary. The caller holds the lock."""
        return self._reconnect() if self.tx is None or self.suspect else self.tx

    def savepoint(self, tx: SQLiteTx, job: Job) -> None:
        """Runs a job in a savepoint, so that its failure stores nothing and does not affect other jobs."""
        self.ensure_open(tx)
        tx.run_sql("SAVEPOINT job")
        try:
            job.finish(job.work(tx))
        except BaseException as error:
            if not tx.conn.in_transaction:
                raise  # SQLite has rolled back everything: disk full, I/O error
            tx.undo("job")
            if not isinstance(error, Exception):
                raise
            job.error = translate(error, self.path) if isinstance(error, ANY) else error
        tx.run_sql("RELEASE job")

    @contextmanager
    def nested(self, tx: SQLiteTx) -> Iterator[None]:
        """A nested transaction. An error rolls back only this one; it is committed with the outer one."""
        self.ensure_open(tx)
        tx.conn.execute("SAVEPOINT nested")
        try:
            yield
        except BaseException:
            if tx.conn.in_transaction and self._forks_at_open == forks():
                tx.undo("nested")
                tx.conn.execute("RELEASE nested")
            raise
        self.ensure_open(tx)
        tx.conn.execute("RELEASE nested")

    def ensure_open(self, tx: SQLiteTx) -> None:
        """Unavailable if SQLite has rolled the transaction back: later writes would be stored without the earlier ones.

        Closed in a forked child, because the transaction belongs to the parent.
        """
        if self._forks_at_open != forks():
            raise Closed("the store was opened before this process was forked")
        if not tx.conn.in_transaction:
            raise Unavailable(
                "an error has rolled back the whole transaction", hint="Leave it, and make all of its calls again."
            )

    def _reconnect(self) -> SQLiteTx:
        """Opens a new write connection. After a failed commit, first ensures that the whole WAL is on disk.

        After a failed sync, the kernel may return data that is not on disk. A checkpoint writes the pages to the main
        file and syncs them, so data that is read after it is durable.
        """
        if self.alone is None:
            self.drop()
        if self.tx is None:
            self.tx = SQLiteTx(self.connect())
            if self.low_space:
                self.tx.conn.execute("PRAGMA secure_delete = OFF")
            elif self.alone is None:
                self.reserve_space(self.tx)
            if self.store_id and self.tx.header("store_id") != self.store_id:
                self.drop()
                raise Unavailable(f"{self.path} was replaced by another store", hint="Open it again.")
            if self.alone is None:
                check_schema(self.tx.conn, self.path)
        if self.suspect and self.alone is None:
            busy, *_ = self.tx.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise Unavailable(f"a reader prevents the recovery of {self.path}", hint="Make the same call again.")
        self.suspect = False
        return self.tx

    def _check_files(self) -> None:
        """Unavailable if a file of the store was moved or replaced, ReadOnly if the store's file has a second name."""
        if self.files is not None and not self.files.in_place():
            if self.tx is not None and self.files.lost_log:
                with suppress(sqlite3.Error):  # this connection still has the log open and can save its contents
                    self.tx.conn.execute("PRAGMA wal_checkpoint(PASSIVE)")
            raise self.files.error()
        self._checked_at = time.monotonic()

    def _keep_log_space(self) -> None:
        if self.files is not None and not self.reserve.scarce:
            self._log_space.keep(self.files.log)

    def _recheck(self, tx: SQLiteTx) -> None:
        """Checks the files before a write that comes some time after the last one, and the reserved space."""
        self._check_files()
        if self.alone is None and self._checked_at - self._reserved_at > RESERVE_EVERY:
            self.reserve_space(tx)

    def drop(self) -> None:
        """Closes the connection, if there is one."""
        tx, self.tx = self.tx, None  # first, so that an interrupt cannot leave a closed connection in `tx`
        if tx is not None:
            tx.conn.close()

    def settle(self, jobs: Sequence[Job], error: Exception) -> None:
        """After a failed commit: reads the store, and gives each job its real outcome."""
        self._timing.note("retry")
        translated = translate(error, self.path) if isinstance(error, sqlite3.Error) else error
        unknown = [job for job in jobs if job.error is None]
        for job in unknown:  # all of them first: reading takes long, and may be interrupted
            job.error = translated
        for job in unknown:
            if job.settle is not None:
                self._settle_job(job)

    def _settle_job(self, job: Job) -> None:
        try:
            tx = self.begin()
            try:
                stored = job.settle(tx) if job.settle is not None else None
            finally:
                self.undo(tx)
        except (ClewError, *ANY):
            return  # the job keeps the first error
        if stored is not None:
            job.finish(stored)
