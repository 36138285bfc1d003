"""A store on a PostgreSQL server, for many machines.

Write transactions take their turn: one lock for each store, waited for in order, released with the transaction. An
append to a session does without: it is one statement that moves the head if everything is still as it was seen, so
that appends to many sessions go on side by side. See `Ahead`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal, TypeVar, cast

import psycopg

from clew.backends import Call, Job, State, Tail, Tip, Tx
from clew.backends.postgres import tenants
from clew.backends.postgres.ahead import Ahead, Statement, Turn
from clew.backends.postgres.connection import (
    FORMAT,
    Connection,
    Connections,
    in_transaction,
    lost,
    parse,
    translate,
)
from clew.backends.postgres.glance import Glance
from clew.backends.postgres.migrate import migrate
from clew.backends.postgres.reader import Reader
from clew.backends.postgres.rows import SQL, PostgresTx
from clew.backends.sql.rows import TABLES
from clew.errors import ClewError, Closed, Conflict, Invalid, SchemaTooNew, Unavailable

T = TypeVar("T")
_Begun = tuple[Call, Statement, Job]
"""A call of a batch, and what it is going to do."""
_Left = tuple[Call, list[Job]]
"""A call that is to be made again, and what of it may have been done without anybody knowing."""

TRIES = 3
"""Times that an append is tried without waiting for its turn, and that a connection may break before it is told."""
_DRIVER = (psycopg.Error, OverflowError)
_OPEN: weakref.WeakSet[PostgresBackend] = weakref.WeakSet()


def _after_fork() -> None:
    """In the child: no store of the parent's may be used, nor even closed."""
    for backend in _OPEN:
        backend._forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Lost(Unavailable):
    """The connection has broken, in the middle of a transaction or at its end."""

    def __init__(self, told: ClewError, *, at_commit: bool) -> None:
        self.at_commit = at_commit
        """True if the transaction may have been committed."""
        super().__init__(told.message, hint=told.hint)


class PostgresBackend:
    """See `clew.backends.Backend`."""

    def __init__(
        self,
        url: str,
        *,
        durability: Literal["full", "relaxed"] = "full",
        timeout: float = 60.0,
        create: bool = True,
        pool_size: int = 8,
    ) -> None:
        if durability not in ("full", "relaxed"):
            raise Invalid(f"durability is 'full' or 'relaxed', not {durability!r}")
        target = parse(url)
        self.path, self._schema = target.name, target.schema
        self.epoch = 0
        """The number of the epoch that this process last looked at the store in."""
        self.on_epoch: Callable[[Tx], object] = lambda tx: None
        self._store = 0
        self._local = threading.local()
        self._closed = self._forked = False
        self._connections = Connections(target, size=pool_size, timeout=timeout, relaxed=durability == "relaxed")
        _OPEN.add(self)
        try:
            with self._told():
                with self._connections.connect() as conn:
                    migrate(conn, target.schema, self.path, create=create)
                store_id = self.read(lambda tx: tx.header("store_id")) or b""
            self._store = int.from_bytes(store_id[:8], "big", signed=True)
            self.look_anew()
        except BaseException:
            self.close()
            raise

    @property
    def file(self) -> None:
        """None: it is in no file of this machine's."""
        return

    @property
    def keeps_words(self) -> bool:
        return True

    @property
    def beyond(self) -> tuple[str, ...]:
        """A page keeps the bytes of a row until they are written over; logs and replicas are the server's own."""
        return ("pages", "wal", "replicas")

    # -- the contract

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        tx = self._here()
        if tx is not None:
            with self._told():
                return work(tx)
        if tail is not None:
            with suppress(Turn):
                return work(cast(Tx, self.read(lambda tx: Glance(cast(PostgresTx, tx), tail), single=True)))
        for left in reversed(range(TRIES)):
            with self._told(), self._connections.take() as conn:
                try:
                    if single:
                        return work(PostgresTx(conn, self._store))
                    conn.execute(SQL["begin_read"], prepare=False)
                    try:
                        return work(PostgresTx(conn, self._store))
                    finally:
                        _end(conn)
                except psycopg.Error as error:
                    if not lost(conn, error) or not left:
                        raise
            self._connections.check()
        raise AssertionError

    def read_anew(self, work: Callable[[Tx], T]) -> T:
        return self.read(work)

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        tx = self._here()
        if tx is not None:
            return self._inside(tx, work, settle)
        if self._local.__dict__.get("ahead") is not None:
            return self._later(work, settle)
        with self._once():
            for again in range(TRIES):
                try:
                    result, statement = self._prepared(work, again=again > 0)
                    if statement is None or self._extend(statement):
                        return result
                except Turn:
                    break
                except Lost as error:
                    job: Job = Job(work, settle)
                    if self._settled(job, error) or settle is None:
                        return job.outcome()  # type: ignore[no-any-return]
                    break  # its id tells if it was done after all
            return self._in_turn(work, settle)

    def batch(self, calls: Sequence[Call]) -> None:
        self._here()
        with self._once():
            left = self._all_ahead(calls)
            if left:
                self._batch(left)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What this thread reads and writes inside is one transaction, committed at the end, undone by an error."""
        open_one = self._here()
        if open_one is not None:
            with self._savepoint(open_one):
                yield
            return
        with self._once(), ExitStack() as stack:
            tx = stack.enter_context(self._turn())
            self._local.tx, self._local.jobs = tx, []
            stack.callback(setattr, self._local, "tx", None)
            yield
            self._still(tx)

    def in_transaction(self) -> bool:
        return self._here() is not None

    def look_anew(self) -> None:
        self.epoch = self.read(self._epoch).number

    def clean(self) -> tuple[str, ...]:
        if self._here() is not None:
            raise Invalid("a store cannot be cleaned inside a transaction")
        with self._told(), self._connections.take() as conn:
            # Not in a transaction, and for as long as it takes: it makes room of the rows that nobody sees any more.
            conn.execute("SET statement_timeout = 0")
            (before,) = conn.execute(SQL["now"]).fetchone() or (0,)
            for table in (*TABLES, "labels", "uses", "search"):
                conn.execute(f"VACUUM {table}".encode(), prepare=False)
            (readers,) = conn.execute(SQL["readers"], (before,)).fetchone() or (0,)
            conn.execute("RESET statement_timeout")
        return ("wal",) if readers else ()

    def make_room(self) -> None:
        """Nothing: the disk is the server's."""

    def settled(self) -> int:
        with self._told(), self._connections.take() as conn:
            # Whoever writes holds the lock until the end: when it is free, nothing is on its way. Others queue up
            # behind whoever waits for it, so that must not be long.
            try:
                cursor = conn.execute(SQL["settled"] % self._store, prepare=False)
                while cursor.nextset():
                    pass
                (number,) = cursor.fetchone() or (0,)
            finally:
                if not lost(conn):
                    conn.execute("ROLLBACK")
            return int(number)

    def words(self, work: Callable[[PostgresTx], T]) -> T:
        """Runs `work` on the search index, in a transaction that waits for nobody's turn."""
        with self._told(), self._connections.take() as conn:
            conn.execute(SQL["begin"], prepare=False)
            try:
                result = work(PostgresTx(conn, self._store))
                conn.execute("COMMIT", prepare=False)
            except BaseException:
                if not lost(conn):
                    conn.execute("ROLLBACK")
                raise
            return result

    def close(self) -> None:
        if self._closed:
            return
        if getattr(self._local, "tx", None) is not None:
            raise Invalid("a store cannot be closed inside its own transaction")
        self._closed = True
        if not self._forked:  # else the connections belong to the parent
            self._connections.close()

    def isolate(self) -> None:
        """See `clew.tenants`."""
        with self._told(), self._connections.take() as conn:
            tenants.isolate(conn)

    def admit(self, role: str, workspace: str) -> None:
        """See `clew.tenants`."""
        with self._told(), self._connections.take() as conn:
            tenants.admit(conn, self._schema, role, workspace)

    def dismiss(self, role: str, workspace: str | None) -> None:
        """See `clew.tenants`."""
        with self._told(), self._connections.take() as conn:
            tenants.dismiss(conn, self._schema, role, workspace)

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Reads the store as it is at one moment, for verify."""
        self._here()
        with self._connections.take() as conn:
            with self._told():
                conn.execute(SQL["begin_read"], prepare=False)
            try:
                yield Reader(conn, PostgresTx(conn, self._store), self.path)
            finally:
                _end(conn)

    # -- an append that does not wait

    def _prepared(self, work: Callable[[Any], T], *, again: bool) -> tuple[T, Any]:
        """What `work` returns if the statement beside it is done. Turn if it has to wait for its turn."""
        ahead = Ahead(self._store, self.epoch, self._tip, again=again)
        try:
            result = work(ahead)
        except ClewError:
            raise Turn from None  # whatever it is, it is told by a transaction that sees one moment
        return result, ahead.statement()

    def _tip(self, ref: int) -> Tip | None:
        return self.read(lambda tx: tx.tip(ref), single=True)

    def _extend(self, statement: Statement) -> bool:
        """True if it was done, durably; False if something is not as it was seen. Lost."""
        with self._told(), self._connections.take() as conn:
            try:
                row = conn.kept.execute(*statement).fetchone()
                return bool(row and row[0])
            except psycopg.errors.UniqueViolation:
                raise Turn from None
            except psycopg.Error as error:
                if lost(conn, error):
                    raise self._lost(error, at_commit=True) from error
                raise

    def _all_ahead(self, calls: Sequence[Call]) -> list[_Left]:
        """Does what it can of `calls` with one visit to the server; those that are left have to wait for their turn."""
        begun: list[_Begun] = []
        left: list[_Left] = []
        for call in calls:
            mine: list[tuple[Statement, Job]] = []
            self._local.ahead = mine
            try:
                call.run()
            except Turn:
                left.append((call, []))
                continue
            finally:
                self._local.ahead = None
            if call.error is not None or len(mine) > 1:
                left.append((call, []))
            elif mine:
                begun.append((call, *mine[0]))
        return left + self._together(begun) if begun else left

    def _later(self, work: Callable[[Any], T], settle: Callable[[Tx], T | None] | None) -> T:
        """`write` inside a call of a batch: what it returns holds if its statement is done."""
        result, statement = self._prepared(work, again=False)
        if statement is not None:
            self._local.ahead.append((statement, Job(work, settle)))
        return result

    def _together(self, begun: Sequence[_Begun]) -> list[_Left]:
        """Sends all statements at once, with one commit. Those calls whose statement was not done."""
        try:
            if len(begun) == 1:
                done = [self._extend(begun[0][1])]
            else:
                with self._told(), self._connections.take() as conn:
                    done = self._pipelined(conn, [statement for _, statement, _ in begun])
        except Lost as error:
            # A call that is made again makes a new message: the one that may be stored has to be asked for by its id.
            return [(call, [job]) for call, _, job in begun if not self._settled(job, error)]
        except (Turn, ClewError):  # nothing was done: each is tried again, and told
            done = [False] * len(begun)
        return [(call, []) for (call, _, _), yes in zip(begun, done, strict=True) if not yes]

    def _pipelined(self, conn: Connection, statements: Sequence[Statement]) -> list[bool]:
        try:
            with conn.pipeline():
                conn.execute(SQL["begin"])
                cursors = [conn.execute(*statement) for statement in statements]
                conn.execute("COMMIT")
        except psycopg.Error as error:
            if lost(conn, error):
                raise self._lost(error, at_commit=True) from error
            conn.execute("ROLLBACK")
            raise
        return [_true(cursor) for cursor in cursors]

    # -- waiting for one's turn

    def _in_turn(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None) -> T:
        job: Job = Job(work, settle)
        for _ in range(TRIES):
            try:
                with self._turn() as tx, self._told():
                    return work(tx)
            except Lost as error:
                job.error = error
                # Before the commit nothing was done; nor was it if a look finds nothing. Then it can be done again.
                if error.at_commit and self._settled(job, error) is not False:
                    break
        return job.outcome()  # type: ignore[no-any-return]

    def _batch(self, left: Sequence[_Left], tries: int = TRIES) -> None:
        """One transaction for all calls; each gets its outcome. A write inside a call has a savepoint of its own."""
        try:
            with self._turn() as tx:
                self._local.tx = tx
                try:
                    for call, lost_jobs in left:
                        self._local.jobs, self._local.lost = call.jobs, list(lost_jobs)
                        call.run()
                        if not in_transaction(tx.conn):
                            raise call.error or Unavailable("the transaction was undone")
                finally:
                    self._local.tx, self._local.lost = None, []
        except Lost as error:
            again = self._undone(left, error) if error.at_commit else left
            if again and tries > 1:
                self._batch(again, tries - 1)
            else:
                for call, _ in again:
                    call.error = call.error or error
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            for call, _ in left:
                call.error = call.error or error

    def _undone(self, left: Sequence[_Left], error: Lost) -> list[_Left]:
        """Those calls of a batch whose commit was lost that are to be made again; the others have their outcome."""
        again = []
        for call in (call for call, _ in left if call.error is None):
            jobs = list(call.jobs)
            kept = [self._settled(job, error) for job in jobs]
            if None in kept:
                call.error = error
            elif not jobs or not all(kept):
                again.append((call, jobs))
        return again

    @contextmanager
    def _turn(self) -> Iterator[PostgresTx]:
        """A write transaction, begun when no other is open; committed at the end, undone by an error. Lost."""
        with self._connections.take() as conn:
            tx = self._begin(conn)
            try:
                yield tx
            except BaseException as error:
                if lost(conn, error):
                    raise self._lost(error) from error
                conn.execute("ROLLBACK")
                raise
            try:
                conn.execute("COMMIT", prepare=False)
            except psycopg.Error as error:
                if lost(conn, error):
                    raise self._lost(error, at_commit=True) from error
                raise translate(error, self.path) from error

    def _begin(self, conn: Connection) -> PostgresTx:
        """Waits for its turn. If a new epoch has begun, it is looked at first: nothing was prepared for the old one."""
        while True:
            tx = PostgresTx(conn, self._store)
            try:
                if tx.begin() == self.epoch:
                    return tx
                conn.execute("ROLLBACK")
            except psycopg.Error as error:
                if lost(conn, error):
                    raise self._lost(error) from error
                conn.execute("ROLLBACK")
                raise translate(error, self.path) from error
            self.look_anew()

    def _lost(self, error: BaseException, *, at_commit: bool = False) -> Lost:
        self._connections.check()
        return Lost(translate(error, self.path), at_commit=at_commit)

    def _inside(self, tx: PostgresTx, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None) -> T:
        """`write` inside a transaction: a savepoint, so that its failure leaves nothing behind."""
        job: Job = self._local.lost.pop(0) if getattr(self._local, "lost", None) else Job(work, settle)
        self._local.jobs.append(job)
        with self._savepoint(tx):
            try:
                job.finish(job.work(tx))
            except Conflict:
                kept = None if job.work is work or job.settle is None else job.settle(tx)
                if kept is None:
                    raise
                job.finish(kept)  # it was stored late
        return job.outcome()  # type: ignore[no-any-return]

    @contextmanager
    def _savepoint(self, tx: PostgresTx) -> Iterator[None]:
        self._still(tx)
        with self._told():
            tx.conn.execute("SAVEPOINT inner_one")
            try:
                yield
                self._still(tx)
            except BaseException:
                if not lost(tx.conn):
                    tx.conn.execute("ROLLBACK TO inner_one")
                    tx.conn.execute("RELEASE inner_one")
                raise
            tx.conn.execute("RELEASE inner_one")

    def _still(self, tx: PostgresTx) -> None:
        """Unavailable if an error has undone the transaction: what follows would be kept without what came first."""
        if not in_transaction(tx.conn):
            raise Unavailable(
                "an error has undone the whole transaction", hint="Leave it, and make all of its calls again."
            )

    def _settled(self, job: Job, error: Lost) -> bool | None:
        """What became of a commit whose answer was lost. True if it was done: then the job has its result.

        Else it has the error. False if it was not done, None if nobody can say. The look waits for its turn. Whoever
        had the turn when the link broke is done for when this one has it: what is not there then never will be. An
        append that went ahead may still come, but only once: an id is stored once, and a head moves once.
        """
        job.error = error
        for _ in range(TRIES if job.settle is not None else 0):
            try:
                with self._turn() as tx, self._told():
                    kept = job.settle(tx)  # type: ignore[misc]
            except Lost:
                continue
            except ClewError:
                break  # the first error stands
            if kept is not None:
                job.finish(kept)
            return kept is not None
        return None

    # -- opening

    def _epoch(self, tx: Tx) -> State:
        state = tx.state()
        if state.format > FORMAT:
            raise SchemaTooNew(self.path, state.format, FORMAT)
        self.on_epoch(tx)
        return state

    def _here(self) -> PostgresTx | None:
        """The transaction this thread is in, if any. Closed if the store cannot be used here at all."""
        if self._closed or self._forked:
            why = "was opened before this process was forked" if self._forked else "is closed"
            raise Closed(f"the store {why}")
        return getattr(self._local, "tx", None)

    @contextmanager
    def _once(self) -> Iterator[None]:
        """Unavailable if this thread is in the middle of a write already: it would wait for itself."""
        if getattr(self._local, "writing", False):
            raise Unavailable(
                "this thread is in the middle of another write",
                hint="A signal handler or __del__ must not write; let it set a flag.",
            )
        self._local.writing = True
        try:
            yield
        finally:
            self._local.writing = False

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Driver errors become clew's."""
        try:
            yield
        except _DRIVER as error:
            raise translate(error, self.path) from error


def _end(conn: Connection) -> None:
    """Ends a transaction that has written nothing. Not by ROLLBACK: the driver would forget its prepared statements."""
    if not lost(conn):
        conn.execute("COMMIT", prepare=False)


def _true(cursor: psycopg.Cursor[tuple[Any, ...]]) -> bool:
    row = cursor.fetchone()
    return bool(row and row[0])
