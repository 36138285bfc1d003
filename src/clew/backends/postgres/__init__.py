"""A store on a PostgreSQL server, for several machines.

Write transactions run one at a time: each waits for the lock of the store, and holds it until its end. An append to a
session needs no lock: it is one statement, which moves the head only if nothing has changed since it was read. So
appends to different sessions run concurrently. See `OptimisticAppend`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self, TypeVar, cast

from clew.base.loading import loading
from clew.errors import Invalid, MissingPackage, Unavailable

try:
    with loading:
        import psycopg
except ImportError:  # the core does without it
    raise MissingPackage("a store on PostgreSQL needs psycopg", "clew[postgres]") from None

from clew.backends import Backup, Call, Durability, Job, Progress, Resources, Tail, Tx
from clew.backends.listeners import Watching
from clew.backends.postgres import partitions, tenants
from clew.backends.postgres.appends import Appends
from clew.backends.postgres.batches import Batches
from clew.backends.postgres.connection import Connection, Connections, is_lost, parse, undo
from clew.backends.postgres.errors import TranslateErrors
from clew.backends.postgres.exclusive import lock_number, run_exclusively
from clew.backends.postgres.listener import ServerListener
from clew.backends.postgres.migrate import migrate
from clew.backends.postgres.optimistic import NeedsLock
from clew.backends.postgres.reader import ServerReader
from clew.backends.postgres.tail_read import TailRead
from clew.backends.postgres.transactions import TRIES, Lost, Turns
from clew.backends.postgres.tx import SQL, PostgresTx
from clew.backends.postgres.words import ServerWords
from clew.backends.process import OpenBackend
from clew.backends.rows import FORMAT
from clew.backends.sql.tx import TABLES

T = TypeVar("T")


class PostgresBackend(OpenBackend[PostgresTx]):
    """See `clew.backends.Backend`."""

    newest = FORMAT

    def __init__(
        self,
        url: str,
        *,
        durability: Durability = "full",
        timeout: float = 60.0,
        create: bool = True,
        pool_size: int = 8,
        check_older: Callable[[Tx], object] = lambda tx: None,
    ) -> None:
        """Calls `check_older`, which may raise, before it migrates a store of an older format."""
        if durability not in ("full", "relaxed"):
            raise Invalid(f"durability must be 'full' or 'relaxed', not {durability!r}")
        target = parse(url)
        self.path, self._schema = target.name, target.schema
        super().__init__()
        self._translate_errors = TranslateErrors(self.path)
        self._connections = Connections(
            target, self.timing, size=pool_size, timeout=timeout, relaxed=durability == "relaxed"
        )
        self._watching = Watching(lambda: ServerListener(self._connections.connect, self.path), patience=timeout)
        self._turns = Turns(self._connections, self.path, self.refresh_epoch)
        self._appends = Appends(self._turns, lambda ref: self.read(lambda tx: tx.head_state(ref), single=True))
        self._batches = Batches(self._turns, self._appends, self._local)
        try:
            with self._translate_errors:
                self._migrate(check_older, create=create)
                self._turns.store = lock_number(self.read(lambda tx: tx.header("store_id")) or b"")
            self.refresh_epoch()
        except BaseException:
            self.close()
            raise

    def _migrate(self, check_older: Callable[[Tx], object], *, create: bool) -> None:
        """Creates or migrates the store. Tries again if the connection breaks."""
        for left in reversed(range(TRIES)):
            with self._connections.connect_patiently() as conn:
                try:
                    return migrate(conn, self._schema, self.path, check_older, create=create)
                except psycopg.Error as error:
                    if not is_lost(conn, error) or not left:
                        raise
        raise AssertionError

    @property
    def file(self) -> None:
        return

    @property
    def unencrypted(self) -> bool:
        """True if the server is on another host, and a connection has no TLS."""
        return self._connections.unencrypted

    @property
    def tenants(self) -> Self:
        return self

    @property
    def partitions(self) -> Self:
        return self

    @property
    def words(self) -> ServerWords:
        return ServerWords(self._index_transaction)

    @property
    def beyond(self) -> tuple[str, ...]:
        """Pages keep deleted rows until they are overwritten; clew cannot reach logs and replicas of the server."""
        return ("pages", "wal", "replicas")

    # -- the contract

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        tx = self._current_tx()
        if tx is not None:
            with self._translate_errors:
                return work(tx)
        if tail is not None:
            with suppress(NeedsLock):
                return work(cast(Tx, self.read(lambda tx: TailRead(cast(PostgresTx, tx), tail), single=True)))
        for left in reversed(range(TRIES)):
            with self._translate_errors, self._connections.take() as conn:
                try:
                    if single:
                        return work(PostgresTx(conn, self._turns.store))
                    conn.execute(SQL["begin_read"], prepare=False)
                    try:
                        return work(PostgresTx(conn, self._turns.store))
                    finally:
                        _end(conn)
                except psycopg.Error as error:
                    if not is_lost(conn, error) or not left:
                        raise
            self._connections.check()
        raise AssertionError

    def read_fresh(self, work: Callable[[Tx], T]) -> T:
        return self.read(work)

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        tx = self._current_tx()
        if tx is not None:
            return self._batches.run_inside(tx, work, settle)
        if self._batches.is_preparing():
            return self._batches.prepare(work, settle)
        self._forbid_reentry()
        try:
            return self._write_once(work, settle)
        finally:
            self._local.frame = None

    def _write_once(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None) -> T:
        """`write` outside a transaction or batch."""
        stale: set[int] = set()
        for _ in range(TRIES):
            try:
                result, append = self._appends.prepare(work, stale)
                if append is None or self._appends.send(append):
                    return result
                self.timing.note("retry")
                stale.add(append.ref)
            except NeedsLock:
                break
            except Lost as error:
                job: Job = Job(work, settle)
                if self._turns.settle(job, error) or settle is None:
                    return job.outcome()  # type: ignore[no-any-return]
                try:
                    return self._turns.run(work, settle)  # finds the id if it was stored after all
                except Unavailable:
                    raise error from None  # the outcome is unknown
        return self._turns.run(work, settle)

    def batch(self, calls: Sequence[Call]) -> None:
        self._forbid_transaction()
        self._forbid_reentry()
        try:
            self._batches.run(calls)
        finally:
            self._local.frame = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        open_one = self._current_tx()
        if open_one is not None:
            with self._turns.savepoint(open_one):
                yield
            return
        self._forbid_reentry()
        try:
            with self._turns.take() as tx:
                try:
                    self._local.tx, self._local.jobs = tx, []
                    yield
                finally:
                    self._local.tx = None
        finally:
            self._local.frame = None

    def _forbid_transaction(self) -> None:
        """Invalid if this thread is in a transaction, for which the operation would wait forever."""
        if self._current_tx() is not None:
            raise Invalid("this cannot be done inside a transaction", hint="Finish the transaction first.")

    def refresh_epoch(self) -> None:
        self._turns.epoch = self.read(self._load_epoch).number

    def clean(self) -> tuple[str, ...]:
        if self._current_tx() is not None:
            raise Invalid("a store cannot be cleaned inside a transaction")
        with self._translate_errors, self._connections.take() as conn, self._connections.without_timeout(conn):
            (before,) = conn.execute(SQL["now"]).fetchone() or (0,)
            for table in (*TABLES, "labels", "uses", "search"):
                conn.execute(f"VACUUM {table}".encode(), prepare=False)
            (readers,) = conn.execute(SQL["readers"], (before,)).fetchone() or (0,)
        return ("wal",) if readers else ()

    def make_room(self) -> None:
        """Does nothing: clew does not manage the disk of the server."""

    def usage(self) -> Resources:
        (size,) = self.read(lambda tx: cast(PostgresTx, tx).conn.execute(SQL["size"]).fetchone() or (None,))
        return Resources(size, *self._connections.in_use())

    def settled_ord(self) -> int:
        with self._translate_errors, self._connections.take() as conn:
            # Writers hold the lock until they end, so while this holds it, no commit is pending. Other writers queue up
            # behind this one, so it must be short.
            try:
                cursor = conn.execute(SQL["settled"] % self._turns.store, prepare=False)
                while cursor.nextset():
                    pass
                (number,) = cursor.fetchone() or (0,)
            finally:
                if not is_lost(conn):
                    undo(conn)
            return int(number)

    def watch(self, ref: int, notify: Callable[[], object]) -> Callable[[], None]:
        self._current_tx()
        return self._watching.watch(ref, notify)

    def _index_transaction(self, work: Callable[[PostgresTx], T]) -> T:
        """Runs `work` on the search index, in a transaction that does not wait for the write lock."""
        with self._translate_errors, self._connections.take() as conn:
            conn.execute(SQL["begin"], prepare=False)
            try:
                result = work(PostgresTx(conn, self._turns.store))
                conn.execute("COMMIT", prepare=False)
            except BaseException:
                if not is_lost(conn):
                    undo(conn)
                raise
            return result

    def close(self) -> None:
        if self._closed:
            return
        self._ensure_closable()
        self._closed = True
        if not self._forked:  # otherwise the connections belong to the parent
            self._watching.close()
            self._connections.close()

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        hint = "Use pg_dump, or `clew copy` to a file."
        raise Invalid(f"{self.path} is on a server, which has its own backups", hint=hint)

    def divide(self, parts: int) -> None:
        self._forbid_transaction()
        self._forbid_reentry()
        try:
            with self._turns.take() as tx, self._translate_errors:
                partitions.divide(tx, parts, self.path)
        finally:
            self._local.frame = None

    def isolate(self) -> None:
        self._forbid_transaction()
        with self._translate_errors, self._connections.take() as conn:
            run_exclusively(conn, self._schema, self.path, lambda: tenants.isolate(conn, self._schema))

    def admit(self, role: str, workspace: str) -> None:
        self._forbid_transaction()
        with self._translate_errors, self._connections.take() as conn:
            tenants.admit(conn, self._schema, role, workspace)

    def dismiss(self, role: str, workspace: str | None) -> None:
        self._forbid_transaction()
        with self._translate_errors, self._connections.take() as conn:
            tenants.dismiss(conn, self._schema, role, workspace)

    @contextmanager
    def reader(self) -> Iterator[ServerReader]:
        self._current_tx()
        with self._connections.take() as conn:
            with self._translate_errors:
                conn.execute(SQL["begin_read"], prepare=False)
                conn.execute("SET LOCAL statement_timeout = 0", prepare=False)
            try:
                yield ServerReader(conn, PostgresTx(conn, self._turns.store), self.path)
            finally:
                _end(conn)


def _end(conn: Connection) -> None:
    """Ends a read transaction. Not by ROLLBACK, after which the driver would prepare its statements again."""
    if not is_lost(conn):
        undo(conn, "COMMIT")
