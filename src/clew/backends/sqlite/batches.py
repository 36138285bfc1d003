"""Work that shares a transaction: the jobs of a group commit, and the calls of a batch."""

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
    """Control flow: a call has failed, and the batch must be repeated with a savepoint for each write."""


class Batches:
    """Runs several pieces of work in one transaction. The caller is the leader: no other thread writes meanwhile.

    Failed work must store nothing. But a savepoint costs as much as some work, so the first attempt uses none. If any
    work fails, the transaction is rolled back and repeated with a savepoint for each piece (`apart`).

    `local` belongs to the thread: `tx` is its transaction, `jobs` the writes of the current call, `apart` whether
    each write gets a savepoint.
    """

    def __init__(self, writer: Writer, local: Any, refresh_epoch: Callable[[], object]) -> None:
        self._writer = writer
        self._local = local
        self._refresh_epoch = refresh_epoch

    def transact(self, jobs: Sequence[Job], *, apart: bool = False) -> None:
        """Runs all `jobs` in one transaction. Each gets its own outcome; an error of a job affects only that job."""
        failed = False
        try:
            tx = self._writer.begin()
            try:
                for job in jobs:
                    if apart:
                        self._writer.savepoint(tx, job)
                        job.done = False  # its caller would otherwise take it for stored before the commit
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
            # Interrupted, perhaps after the commit: find out the outcome for the other callers.
            if len(jobs) > 1:
                self._writer.settle(jobs, Unavailable("the write was interrupted", hint="Make the same call again."))
            raise

    def run(self, calls: Sequence[Call], *, apart: bool = False) -> None:
        """Runs all `calls` in one transaction. Each gets its own outcome."""
        try:
            tx = self._writer.begin()
            try:
                self._local.tx, self._local.apart = tx, apart
                for call in calls:
                    self._local.jobs = call.jobs
                    call.run()
                    if not tx.conn.in_transaction:  # SQLite has rolled back everything: disk full, I/O error
                        raise call.error or Unavailable("the transaction was rolled back")
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
                for call in calls:  # a call without jobs may not even have run
                    failed = [job.error for job in call.jobs if job.error is not None] if call.jobs else [translated]
                    call.error = call.error or next(iter(failed), None)
                return
            for call in calls:
                call.error = call.error or translated

    def run_inside(self, tx: SQLiteTx, job: Job) -> None:
        """Runs a write of a call. RetryIsolated if it fails and the batch must be repeated."""
        if self._local.apart:
            self._writer.savepoint(tx, job)
            return
        try:
            job.finish(job.work(tx))
        except Exception:  # noqa: BLE001 - the repeated call raises the error
            raise RetryIsolated from None

    def _refresh_for(self, waiting: Sequence[Job | Call]) -> bool:
        """Reads the epoch again for several callers. If that fails, gives each of them the error and returns False."""
        try:
            self._refresh_epoch()
        except ClewError as error:
            for one in waiting:
                one.error = error
            return False
        return True
