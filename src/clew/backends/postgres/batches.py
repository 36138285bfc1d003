"""Runs the calls of a batch: appends in one round trip, the rest in one transaction beside others, or with the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from clew.backends import Call, Job, Tx
from clew.backends.postgres.appends import Appends
from clew.backends.postgres.connection import in_transaction, undo
from clew.backends.postgres.optimistic import NeedsLock
from clew.backends.postgres.shared import SharedTx, Taken
from clew.backends.postgres.transactions import TRIES, Lost, Turns
from clew.backends.postgres.tx import Append, PostgresTx
from clew.errors import ClewError, Unavailable

T = TypeVar("T")
LARGEST = 1 << 24
"""Maximum bytes of messages in one statement, unless a single append has more. They are in memory several times, here
and on the server."""
_Begun = tuple[Call, Append, Job]
"""A call of a batch, and its prepared append."""
_Left = tuple[Call, list[Job]]
"""A call to run again, and its jobs from earlier attempts, which may have been stored."""


class Batches:
    """Runs the calls of a batch. Their writes come back here: to `prepare` without the lock, to `run_inside` with it.

    `local` belongs to the thread: `tx` is its transaction, `jobs` the writes of the current call, `lost` the jobs of
    earlier attempts, `preparing` the state of a call without the lock.
    """

    def __init__(self, turns: Turns, appends: Appends, local: Any) -> None:
        self._turns = turns
        self._appends = appends
        self._local = local

    def run(self, calls: Sequence[Call]) -> None:
        """Runs all calls; each gets its own outcome."""
        left: list[_Left] = []
        stale: set[int] = set()
        rejected = self._try_without_lock(calls, left, stale)
        # Usually another process has only moved another session to the top: reading the state again is enough.
        left += [(call, []) for call in self._try_without_lock(rejected, left, stale)]
        left = self._run_shared(left) if left else []
        if left:
            self._run_locked(left)

    # -- without the lock

    def is_preparing(self) -> bool:
        """True inside a call that runs without the lock."""
        return getattr(self._local, "preparing", None) is not None

    def prepare(self, work: Callable[[Any], T], settle: Callable[[Tx], T | None] | None) -> T:
        """`write` inside such a call. The result is valid only if the append succeeds."""
        stale, mine = self._local.preparing
        result, append = self._appends.prepare(work, stale)
        if append is not None:
            mine.append((append, Job(work, settle)))
        return result

    def _try_without_lock(self, calls: Sequence[Call], left: list[_Left], stale: set[int]) -> list[Call]:
        """Runs the calls, sends their appends together, and returns the calls whose appends were rejected.

        Adds the refs of rejected appends to `stale`, and the calls that need the lock to `left`.
        """
        begun: list[_Begun] = []
        for call in calls:
            mine: list[tuple[Append, Job]] = []
            self._local.preparing = stale, mine
            try:
                call.run()
            except NeedsLock:
                left.append((call, []))
                continue
            finally:
                self._local.preparing = None
            if call.error is not None or len(mine) > 1:
                left.append((call, []))
            elif mine:
                begun.append((call, *mine[0]))
        rejected = [one for part in _parts(begun) for one in self._send(part, left)]
        stale.update(append.ref for _, append in rejected)
        return [call for call, _ in rejected]

    def _send(self, begun: Sequence[_Begun], left: list[_Left]) -> list[tuple[Call, Append]]:
        """Sends appends in one commit. Returns those that the server rejected because something has changed."""
        try:
            done = self._appends.send_all([append for _, append, _ in begun])
        except Lost as error:
            # A repeated call creates a message with a new id, so the old job must be checked first.
            for _, _, job in begun:
                job.error = error
            left += [(call, [job]) for call, _, job in begun]
            return []
        except (NeedsLock, ClewError):  # nothing was stored: each is tried again with the lock, and raises its error
            left += [(call, []) for call, _, _ in begun]
            return []
        return [(call, append) for (call, append, _), yes in zip(begun, done, strict=True) if not yes]

    # -- with the lock

    def _run_locked(self, left: Sequence[_Left], tries: int = TRIES) -> None:
        """Runs all calls in one transaction; each gets its own outcome. Each write has a savepoint."""
        try:
            with self._turns.take() as tx:
                for call, lost_jobs in left:
                    self._run_in(tx, call, lost_jobs)
                    if not in_transaction(tx.conn):
                        raise call.error or Unavailable("the transaction was rolled back")
        except Lost as error:
            again = self._calls_to_repeat(left, error) if error.at_commit else left
            if again and tries > 1:
                self._run_locked(again, tries - 1)
            else:
                _set_errors(again, error)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            _set_errors(left, error)

    def _run_in(self, tx: PostgresTx, call: Call, lost_jobs: Sequence[Job]) -> None:
        self._local.tx, self._local.jobs, self._local.lost = tx, call.jobs, list(lost_jobs)
        try:
            call.run()
        finally:
            self._local.tx, self._local.lost = None, []

    # -- beside others

    def _run_shared(self, left: Sequence[_Left]) -> list[_Left]:
        """Runs calls in one transaction beside others; returns those that need the lock, and those to run again."""
        done: list[_Left] = []
        taken: list[_Left] = []
        rest = [one for one in left if one[1]]  # under the lock, what became of earlier attempts is final
        try:
            with self._turns.take_shared() as tx:
                for one in (one for one in left if not one[1]):
                    try:
                        self._run_part(tx, one[0])
                        done.append(one)
                    except Taken:
                        taken.append(one)
                    except NeedsLock:
                        rest.append(one)
        except Lost as error:
            return rest + taken + (self._calls_to_repeat(done, error) if error.at_commit else done)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            _set_errors(left, error)
            return []
        if len(left) > 1:  # a transaction of its own may wait for its lock
            return rest + [again for one in taken for again in self._run_shared([one])]
        return rest + taken

    def _run_part(self, tx: SharedTx, call: Call) -> None:
        """Runs a call in its own savepoint. NeedsLock, and nothing is stored."""
        mark = tx.mark()
        with self._turns.translate_errors:
            tx.conn.execute("SAVEPOINT one_call")
        try:
            self._turns.run_shared(tx, partial(self._run_call, call))
        except NeedsLock:
            undo(tx.conn, "ROLLBACK TO one_call; RELEASE one_call")
            tx.reset(mark)
            raise
        with self._turns.translate_errors:
            tx.conn.execute("RELEASE one_call")

    def _run_call(self, call: Call, tx: SharedTx) -> None:
        self._run_in(tx, call, ())
        if call.error is not None:
            raise call.error

    def _calls_to_repeat(self, left: Sequence[_Left], error: Lost) -> list[_Left]:
        """After a lost commit: the calls to run again. The others have their outcome."""
        again = []
        for call in (call for call, _ in left if call.error is None):
            if any(job.settle is None for job in call.jobs):
                call.error = error  # the outcome is unknown
            else:
                for job in call.jobs:
                    job.error = error
                again.append((call, list(call.jobs)))
        return again

    def run_inside(self, tx: PostgresTx, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None) -> T:
        """`write` inside a transaction, in a savepoint, so that its failure stores nothing.

        First checks whether the job of an earlier attempt was stored. Under the lock, the answer is final.
        """
        lost_jobs = getattr(self._local, "lost", None)
        job: Job = lost_jobs.pop(0) if lost_jobs else Job(work, settle)
        self._local.jobs.append(job)
        if isinstance(tx, SharedTx):  # the savepoint of the call is enough
            job.finish(work(tx))
            return job.outcome()  # type: ignore[no-any-return]
        with self._turns.translate_errors, self._turns.savepoint(tx):
            stored = job.settle(tx) if job.work is not work and job.settle is not None else None
            job.finish(job.work(tx) if stored is None else stored)
        return job.outcome()  # type: ignore[no-any-return]


def _set_errors(left: Sequence[_Left], error: Exception) -> None:
    """Sets the error of calls that have none. If a write may have been stored, its own error says so."""
    for call, lost_jobs in left:
        call.error = call.error or next((job.error for job in lost_jobs if job.error is not None), error)


def _parts(begun: Sequence[_Begun]) -> Iterator[list[_Begun]]:
    """Splits the appends into statements, in order; see `LARGEST`."""
    part: list[_Begun] = []
    size = 0
    for one in begun:
        added = one[1].size
        if part and size + added > LARGEST:
            yield part
            part, size = [], 0
        part.append(one)
        size += added
    if part:
        yield part
