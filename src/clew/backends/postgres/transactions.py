"""Write transactions, which run one at a time under the lock of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg

from clew.backends import Job, Tx
from clew.backends.postgres.connection import Connection, Connections, in_transaction, is_lost, undo
from clew.backends.postgres.errors import TranslateErrors, translate
from clew.backends.postgres.tx import SQL, PostgresTx
from clew.errors import ClewError, Closed, Unavailable

T = TypeVar("T")

TRIES = 3
"""Attempts of an append without the lock, and of work whose connection breaks."""
_UNKNOWN = "It may be stored: check before you repeat a call that has no id."


class Lost(Unavailable):
    """The connection broke during a transaction or its commit."""

    def __init__(self, told: ClewError, *, at_commit: bool) -> None:
        self.at_commit = at_commit
        """True if the transaction may have been committed."""
        super().__init__(told.message, hint=_UNKNOWN if at_commit else told.hint)


class Turns:
    """The write transactions of one store. The lock excludes all other processes: see `PostgresTx.begin`."""

    def __init__(self, connections: Connections, path: str, refresh_epoch: Callable[[], object]) -> None:
        self.connections = connections
        self.path = path
        self.translate_errors = TranslateErrors(path)
        self.store = 0
        """The number of the store's advisory lock."""
        self.epoch = 0
        """The number of the last epoch that this process has read."""
        self._refresh_epoch = refresh_epoch

    def run(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None) -> T:
        """Runs `work` in a transaction; see `Backend.write`."""
        job: Job = Job(work, settle)
        for _ in range(TRIES):
            try:
                with self.take() as tx, self.translate_errors:
                    return work(tx)
            except Lost as error:
                job.error = error
                # If the commit did not begin, or `settle` finds nothing, then nothing was stored: try again.
                if error.at_commit and self.settle(job, error) is not False:
                    break
        return job.outcome()  # type: ignore[no-any-return]

    @contextmanager
    def take(self) -> Iterator[PostgresTx]:
        """A write transaction under the lock, committed at the end, rolled back on an error. Lost."""
        with self.connections.take() as conn:
            tx = self._begin(conn)
            try:
                yield tx
                ensure_open(tx)  # otherwise COMMIT would roll it back without an error
            except (ClewError, psycopg.Error) as error:
                if is_lost(conn, error):
                    raise self.lost_error(error) from error
                undo(conn)
                raise
            except BaseException:  # an error of the caller, an interrupt, a cancelled task: it takes precedence
                if not is_lost(conn):
                    undo(conn)
                raise
            try:
                # If the work found its rows stored already, these may not have reached a standby, after a restart of
                # the server. Only a commit with changes waits for standbys, for itself and all commits before it.
                conn.commit_write(SQL["commit_write"])
            except psycopg.Error as error:
                if is_lost(conn, error):
                    raise self.lost_error(error, at_commit=True) from error
                raise translate(error, self.path) from error

    def settle(self, job: Job, error: Lost) -> bool | None:
        """Finds out the outcome of a commit whose answer was lost. True if it was stored: the job gets its result.

        Otherwise the job gets the error. False if it was not stored, None if that is unknown. This waits for the lock,
        and the lost transaction has ended when it gets it: rows that are missing then will not appear later. An append
        without the lock may still arrive, but only once, because ids are unique and a head moves only from a known
        version.
        """
        job.error = error
        for _ in range(TRIES if job.settle is not None else 0):
            try:
                with self.take() as tx, self.translate_errors:
                    stored = job.settle(tx)  # type: ignore[misc]
            except Lost:
                continue
            except ClewError:
                break  # the job keeps the first error
            if stored is not None:
                job.finish(stored)
            return stored is not None
        return None

    def lost_error(self, error: BaseException, *, at_commit: bool = False) -> Lost:
        """The error for a broken connection. Drops the idle connections, which may be broken, too."""
        self.connections.check()
        return Lost(translate(error, self.path), at_commit=at_commit)

    @contextmanager
    def savepoint(self, tx: PostgresTx) -> Iterator[None]:
        """A part of a transaction that can be rolled back alone."""
        ensure_open(tx)
        with self.translate_errors:
            tx.conn.execute("SAVEPOINT inner_one")
        try:
            yield
            ensure_open(tx)
        except BaseException:
            if not is_lost(tx.conn):
                undo(tx.conn, "ROLLBACK TO inner_one; RELEASE inner_one")
            raise
        with self.translate_errors:
            tx.conn.execute("RELEASE inner_one")

    def _begin(self, conn: Connection) -> PostgresTx:
        """Waits for the lock. Reads a new epoch first, because nothing was prepared for the old one yet."""
        while True:
            tx = PostgresTx(conn, self.store)
            try:
                if tx.begin() == self.epoch:
                    return tx
                conn.execute("ROLLBACK")
            except psycopg.Error as error:
                if is_lost(conn, error):
                    raise self.lost_error(error) from error
                undo(conn)
                raise translate(error, self.path) from error
            self._refresh_epoch()


def ensure_open(tx: PostgresTx) -> None:
    """Unavailable if an error has rolled the transaction back: later writes would be stored without the earlier ones.

    Closed in a forked child, because the transaction belongs to the parent.
    """
    if tx.conn.inherited:
        raise Closed("the store was opened before this process was forked")
    if not in_transaction(tx.conn):
        raise Unavailable(
            "an error has rolled back the whole transaction", hint="Leave it, and make all of its calls again."
        )
