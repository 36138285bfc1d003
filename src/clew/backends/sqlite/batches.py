"""Work that shares a transaction: the jobs of a group commit, and calls that are made together."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from clew.backends import Call, EpochChanged, Job
from clew.backends.sqlite.connection import ANY, translate
from clew.backends.sqlite.rows import SQLiteTx
from clew.backends.sqlite.writer import Writer
from clew.errors import ClewError, Unavailable


class RetryIsolated(BaseException):
    """Control flow: a call has failed in the middle, and its neighbours are to be kept apart from it."""


class Batches:
    """Runs several pieces of work as one transaction. The caller leads: nobody else in the process writes meanwhile.

    What fails must leave nothing behind. But a savepoint for each piece costs as much as some pieces, so at first they
    are not kept apart: if one fails, everything is undone and done again, `apart`.

    `local` is the thread's: `tx` the transaction that it is in, `jobs` what a call has written in it, `apart` whether
    what it writes has a savepoint of its own.
    """

    def __init__(self, writer: Writer, local: Any, refresh_epoch: Callable[[], object]) -> None:
        self._writer = writer
        self._local = local
        self._refresh_epoch = refresh_epoch

    def transact(self, jobs: Sequence[Job], *, apart: bool = False) -> None:
        """One transaction for all `jobs`; each gets its outcome. What a job raises concerns that job alone."""
        failed = False
        try:
            tx = self._writer.begin()
            try:
                for job in jobs:
                    if apart:
                        self._writer.savepoint(tx, job)
                        job.done = False  # not before the commit: whoever waits would take it for stored
                    else:
                        job.result = job.work(tx)
            except BaseException as error:
                failed = True
                self._writer.give_up(tx, error)
                raise
            self._writer.commit(tx)
            for job in jobs:
                job.done = job.error is None
        except EpochChanged:
            for job in jobs:
                job.reset()
            if self._refresh_for(jobs):
                self.transact(jobs, apart=apart)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            if self._writer.suspect and isinstance(error, sqlite3.Error):
                self._writer.settle(jobs, error)
                return
            if failed and not apart and len(jobs) > 1:
                for job in jobs:
                    job.reset()
                self.transact(jobs, apart=True)
                return
            translated = translate(error, self._writer.path) if isinstance(error, ANY) else error
            for job in jobs:
                job.error = job.error or translated
        except BaseException:
            # Interrupted, perhaps after the commit: whoever shared the transaction is told what became of it.
            if len(jobs) > 1:
                self._writer.settle(jobs, Unavailable("the write was interrupted", hint="Make the same call again."))
            raise

    def run(self, calls: Sequence[Call], *, apart: bool = False) -> None:
        """One transaction for all `calls`; each gets its outcome."""
        try:
            tx = self._writer.begin()
            try:
                self._local.tx, self._local.apart = tx, apart
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
        except RetryIsolated:
            self.run(calls, apart=True)
        except EpochChanged:
            if self._refresh_for(calls):
                self.run(calls)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            translated = translate(error, self._writer.path) if isinstance(error, ANY) else error
            if self._writer.suspect and isinstance(error, sqlite3.Error):
                self._writer.settle([job for call in calls for job in call.jobs], error)
                for call in calls:  # one without jobs may not even have been made
                    failed = [job.error for job in call.jobs if job.error is not None] if call.jobs else [translated]
                    call.error = call.error or next(iter(failed), None)
                return
            for call in calls:
                call.error = call.error or translated

    def run_inside(self, tx: SQLiteTx, job: Job) -> None:
        """Does what a call writes. RetryIsolated if it fails and everything is to be done again."""
        if self._local.apart:
            self._writer.savepoint(tx, job)
            return
        try:
            job.finish(job.work(tx))
        except Exception:  # noqa: BLE001 - the error is raised when the call is run again
            raise RetryIsolated from None

    def _refresh_for(self, waiting: Sequence[Job | Call]) -> bool:
        """Looks at the store anew for several callers. False if that fails: then each of them has the error."""
        try:
            self._refresh_epoch()
        except ClewError as error:
            for one in waiting:
                one.error = error
            return False
        return True
