"""Calls that are made together: what can go ahead is sent with one visit, and the rest shares a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from clew.backends import Call, Job, Tx
from clew.backends.postgres.appends import Appends
from clew.backends.postgres.connection import in_transaction
from clew.backends.postgres.optimistic import NeedsLock
from clew.backends.postgres.rows import Append, PostgresTx
from clew.backends.postgres.transactions import TRIES, Lost, Turns
from clew.errors import ClewError, Unavailable

T = TypeVar("T")
LARGEST = 1 << 24
"""Bytes of messages that are sent with one statement, unless a single append has more: it is in memory several times,
here and on the server."""
_Begun = tuple[Call, Append, Job]
"""A call of a batch, and what it is going to do."""
_Left = tuple[Call, list[Job]]
"""A call that is to be made again, and what of it may have been done without anybody knowing."""


class Batches:
    """Runs the calls of a batch. What they write comes back here: `later` for one that goes ahead, `inside` after that.

    `local` is the thread's: `tx` the transaction that it is in, `jobs` what a call has written in it, `lost` what it
    may have written before, `ahead` what a call does that may go ahead.
    """

    def __init__(self, turns: Turns, appends: Appends, local: Any) -> None:
        self._turns = turns
        self._appends = appends
        self._local = local

    def run(self, calls: Sequence[Call]) -> None:
        """Makes all calls; each gets its outcome."""
        left: list[_Left] = []
        stale: set[int] = set()
        undone = self._try_without_lock(calls, left, stale)
        # Mostly it is another process that has brought a session of its own to the top: a look is enough.
        left += [(call, []) for call in self._try_without_lock(undone, left, stale)]
        if left:
            self._run_locked(left)

    # -- without waiting

    def is_preparing(self) -> bool:
        """True inside a call that may still turn out to be an append."""
        return getattr(self._local, "preparing", None) is not None

    def prepare(self, work: Callable[[Any], T], settle: Callable[[Tx], T | None] | None) -> T:
        """`write` inside such a call: what it returns holds if its append is done."""
        stale, mine = self._local.preparing
        result, append = self._appends.prepare(work, stale)
        if append is not None:
            mine.append((append, Job(work, settle)))
        return result

    def _try_without_lock(self, calls: Sequence[Call], left: list[_Left], stale: set[int]) -> list[Call]:
        """Makes those calls that are appends, all at once, and returns those that were not done.

        Their refs are added to `stale`, and the calls that have to wait for their turn to `left`.
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
        undone = [one for part in _parts(begun) for one in self._send(part, left)]
        stale.update(append.ref for _, append in undone)
        return [call for call, _ in undone]

    def _send(self, begun: Sequence[_Begun], left: list[_Left]) -> list[tuple[Call, Append]]:
        """Sends appends with one commit. Those that were not done because something is not as it was seen."""
        try:
            done = self._appends.send_all([append for _, append, _ in begun])
        except Lost as error:
            # A call that is made again makes a new message: the one that may be stored has to be asked for by its id.
            for _, _, job in begun:
                job.error = error
            left += [(call, [job]) for call, _, job in begun]
            return []
        except (NeedsLock, ClewError):  # nothing was done: each is tried again, and told
            left += [(call, []) for call, _, _ in begun]
            return []
        return [(call, append) for (call, append, _), yes in zip(begun, done, strict=True) if not yes]

    # -- in turn

    def _run_locked(self, left: Sequence[_Left], tries: int = TRIES) -> None:
        """One transaction for all calls; each gets its outcome. A write inside a call has a savepoint of its own."""
        try:
            with self._turns.take() as tx:
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
            again = self._calls_to_repeat(left, error) if error.at_commit else left
            if again and tries > 1:
                self._run_locked(again, tries - 1)
            else:
                _set_errors(again, error)
        except Exception as error:  # noqa: BLE001 - each caller gets it as its outcome
            _set_errors(left, error)

    def _calls_to_repeat(self, left: Sequence[_Left], error: Lost) -> list[_Left]:
        """Those calls of a batch whose commit was lost that are to be made again; the others have their outcome."""
        again = []
        for call in (call for call, _ in left if call.error is None):
            if any(job.settle is None for job in call.jobs):
                call.error = error  # nobody can say
            else:
                for job in call.jobs:
                    job.error = error
                again.append((call, list(call.jobs)))
        return again

    def run_inside(self, tx: PostgresTx, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None) -> T:
        """`write` inside a transaction: a savepoint, so that its failure leaves nothing behind.

        One that may have been done before is not done again if it was: whoever has the turn sees all that ever will be.
        """
        lost_jobs = getattr(self._local, "lost", None)
        job: Job = lost_jobs.pop(0) if lost_jobs else Job(work, settle)
        self._local.jobs.append(job)
        with self._turns.translate_errors, self._turns.savepoint(tx):
            kept = job.settle(tx) if job.work is not work and job.settle is not None else None
            job.finish(job.work(tx) if kept is None else kept)
        return job.outcome()  # type: ignore[no-any-return]


def _set_errors(left: Sequence[_Left], error: Exception) -> None:
    """Tells those who have no error yet; one whose write may have been done hears that instead."""
    for call, lost_jobs in left:
        call.error = call.error or next((job.error for job in lost_jobs if job.error is not None), error)


def _parts(begun: Sequence[_Begun]) -> Iterator[list[_Begun]]:
    """Those that are sent with one statement each, in order; see `LARGEST`."""
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
