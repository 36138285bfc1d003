"""Work that shares a transaction: the jobs of a group commit, and calls that are made together."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from clew.backends import Call, Job, Renewed
from clew.backends.sqlite.connection import ANY, translate
from clew.backends.sqlite.writer import Writer
from clew.errors import ClewError, Unavailable


class Batches:
    """Runs several pieces of work as one transaction. The caller leads: nobody else in the process writes meanwhile.

    `local` is the thread's: `tx` the transaction that it is in, `jobs` what a call has written in it.
    """

    def __init__(self, writer: Writer, local: Any, look_anew: Callable[[], object]) -> None:
        self._writer = writer
        self._local = local
        self._look_anew = look_anew

    def transact(self, jobs: Sequence[Job]) -> None:
        """One transaction for all `jobs`; each gets its outcome. What a job raises concerns that job alone."""
        try:
            tx = self._writer.begin()
            try:
                if len(jobs) == 1:
                    jobs[0].finish(jobs[0].work(tx))
                else:
                    for job in jobs:
                        self._writer.savepoint(tx, job)
            except BaseException as error:
                self._writer.give_up(tx, error)
                raise
            self._writer.commit(tx)
        except Renewed:
            for job in jobs:
                job.undone()
            if self._renewed(jobs):
                self.transact(jobs)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            if self._writer.suspect and isinstance(error, sqlite3.Error):
                self._writer.settle(jobs, error)
                return
            told = translate(error, self._writer.path) if isinstance(error, ANY) else error
            for job in jobs:
                job.error = job.error or told
        except BaseException:
            # Interrupted, perhaps after the commit: whoever shared the transaction is told what became of it.
            if len(jobs) > 1:
                self._writer.settle(jobs, Unavailable("the write was interrupted", hint="Make the same call again."))
            raise

    def run(self, calls: Sequence[Call]) -> None:
        """One transaction for all `calls`; each gets its outcome. A write inside a call has a savepoint of its own."""
        try:
            tx = self._writer.begin()
            try:
                self._local.tx = tx
                for call in calls:
                    self._local.jobs = call.jobs
                    call.run()
                    if not tx.conn.in_transaction:  # the driver has undone everything: disk full, I/O error
                        raise call.error or Unavailable("the transaction was undone")
            except BaseException:
                self._writer.undo(tx)
                raise
            finally:
                self._local.tx = None
            self._writer.commit(tx)
        except Renewed:
            if self._renewed(calls):
                self.run(calls)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            if self._writer.suspect and isinstance(error, sqlite3.Error):
                self._writer.settle([job for call in calls for job in call.jobs], error)
                for call in calls:
                    call.error = call.error or next((job.error for job in call.jobs if job.error is not None), None)
                return
            told = translate(error, self._writer.path) if isinstance(error, ANY) else error
            for call in calls:
                call.error = call.error or told

    def _renewed(self, waiting: Sequence[Job | Call]) -> bool:
        """Looks at the store anew for several callers. False if that fails: then each of them has the error."""
        try:
            self._look_anew()
        except ClewError as error:
            for one in waiting:
                one.error = error
            return False
        return True
