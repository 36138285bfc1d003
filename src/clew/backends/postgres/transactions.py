"""Write transactions, one after the other: each begins when no other is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg

from clew.backends import Job, Tx
from clew.backends.postgres.connection import Connection, Connections, in_transaction, is_lost, undo
from clew.backends.postgres.errors import TranslateErrors, translate
from clew.backends.postgres.rows import SQL, PostgresTx
from clew.errors import ClewError, Closed, Unavailable

T = TypeVar("T")

TRIES = 3
"""Times that an append is tried without waiting for its turn, and that a connection may break before it is told."""
_UNKNOWN = "It may be stored all the same: look, before you make a call again that has no id."


class Lost(Unavailable):
    """The connection has broken, in the middle of a transaction or at its end."""

    def __init__(self, told: ClewError, *, at_commit: bool) -> None:
        self.at_commit = at_commit
        """True if the transaction may have been committed."""
        super().__init__(told.message, hint=_UNKNOWN if at_commit else told.hint)


class Turns:
    """The write transactions of one store, by whichever process: see `PostgresTx.begin`."""

    def __init__(self, connections: Connections, path: str, refresh_epoch: Callable[[], object]) -> None:
        self.connections = connections
        self.path = path
        self.translate_errors = TranslateErrors(path)
        self.store = 0
        """The number under which the store is locked."""
        self.epoch = 0
        """The number of the epoch that this process last looked at the store in."""
        self._refresh_epoch = refresh_epoch

    def run(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None) -> T:
        """`work` in a transaction of its own; see `Backend.write`."""
        job: Job = Job(work, settle)
        for _ in range(TRIES):
            try:
                with self.take() as tx, self.translate_errors:
                    return work(tx)
            except Lost as error:
                job.error = error
                # Before the commit nothing was done; nor was it if a look finds nothing. Then it can be done again.
                if error.at_commit and self.settle(job, error) is not False:
                    break
        return job.outcome()  # type: ignore[no-any-return]

    @contextmanager
    def take(self) -> Iterator[PostgresTx]:
        """A write transaction, begun when no other is open; committed at the end, undone by an error. Lost."""
        with self.connections.take() as conn:
            tx = self._begin(conn)
            try:
                yield tx
                ensure_open(tx)  # else COMMIT would undo it, and say so without an error
            except (ClewError, psycopg.Error) as error:
                if is_lost(conn, error):
                    raise self.lost_error(error) from error
                undo(conn)
                raise
            except BaseException:  # the caller's own, an interrupt, a cancelled task: it stands, whatever the link does
                if not is_lost(conn):
                    undo(conn)
                raise
            try:
                # One that has found what it was to write may have found what no standby has yet, after a restart of the
                # server. A commit waits for standbys if there is something in it: then it has all that came before.
                conn.execute(SQL["commit_write"], prepare=False)
            except psycopg.Error as error:
                if is_lost(conn, error):
                    raise self.lost_error(error, at_commit=True) from error
                raise translate(error, self.path) from error

    def settle(self, job: Job, error: Lost) -> bool | None:
        """What became of a commit whose answer was lost. True if it was done: then the job has its result.

        Else it has the error. False if it was not done, None if nobody can say. The look waits for its turn. Whoever
        had the turn when the link broke is done for when this one has it: what is not there then never will be. An
        append that went ahead may still come, but only once: an id is stored once, and a head moves once.
        """
        job.error = error
        for _ in range(TRIES if job.settle is not None else 0):
            try:
                with self.take() as tx, self.translate_errors:
                    kept = job.settle(tx)  # type: ignore[misc]
            except Lost:
                continue
            except ClewError:
                break  # the first error stands
            if kept is not None:
                job.finish(kept)
            return kept is not None
        return None

    def lost_error(self, error: BaseException, *, at_commit: bool = False) -> Lost:
        """What is raised when a link has broken; others may have, too."""
        self.connections.check()
        return Lost(translate(error, self.path), at_commit=at_commit)

    @contextmanager
    def savepoint(self, tx: PostgresTx) -> Iterator[None]:
        """A part of a transaction that an error undoes alone."""
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
        """Waits for its turn. If a new epoch has begun, it is looked at first: nothing was prepared for the old one."""
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
    """Unavailable if an error has undone the transaction: what follows would be kept without what came first.

    Closed in a forked child: the transaction is its parent's.
    """
    if tx.conn.inherited:
        raise Closed("the store was opened before this process was forked")
    if not in_transaction(tx.conn):
        raise Unavailable(
            "an error has undone the whole transaction", hint="Leave it, and make all of its calls again."
        )
