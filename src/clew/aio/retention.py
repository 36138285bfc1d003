"""`clew.retention` for async programs, and a sweeper that runs as a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from clew import retention as sync
from clew.aio.proxy import unwrap
from clew.aio.store import Session, Store
from clew.retention import EVERY, QUIET, Plan, Policy, SweepReport, SweepRunner

Open = Iterable[Session | str]


async def preview(
    store: Store,
    policy: Policy | None = None,
    *,
    now: datetime | None = None,
    open_sessions: Open = (),
    quiet: timedelta = QUIET,
) -> Plan:
    """A preview of a sweep: which sessions it would purge and why, and which it would keep and why. Changes nothing."""
    opened = [unwrap(one) for one in open_sessions]
    return await store._threads.run(sync.preview, store._sync, policy, now=now, open_sessions=opened, quiet=quiet)


async def sweep(
    store: Store,
    *,
    now: datetime | None = None,
    open_sessions: Open = (),
    quiet: timedelta = QUIET,
    force: bool = False,
) -> SweepReport:
    """Purges sessions that have expired under the store's policy: see `clew.retention.sweep`."""
    opened = [unwrap(one) for one in open_sessions]
    return await store._threads.run(sync.sweep, store._sync, now=now, open_sessions=opened, quiet=quiet, force=force)


async def set_policy(store: Store, policy: Policy) -> None:
    """Stores the policy for sweeps of its workspace, and records the change in the audit log."""
    await store._threads.run(sync.set_policy, store._sync, policy)


async def get_policy(store: Store) -> Policy | None:
    """The stored policy of its workspace, or else of the default workspace; None if neither has one."""
    return await store._threads.run(sync.get_policy, store._sync)


async def _wait(event: anyio.Event, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await event.wait()


class Sweeper:
    """`clew.retention.Sweeper` as a task: ``async with Sweeper(store): …``, or `run` in your own task group.

    Callbacks run on the event loop; the sweep itself, or the function passed instead of a store, runs on a thread.
    """

    def __init__(
        self,
        store: Store | Callable[[], SweepReport],
        *,
        every: timedelta = EVERY,
        open_sessions: Callable[[], Open] | None = None,
        on_swept: Callable[[SweepReport], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        wait: Callable[[anyio.Event, float], Awaitable[object]] = _wait,
    ) -> None:
        self._round = SweepRunner(every, on_swept, on_error)
        self._open = open_sessions or (lambda: ())
        self._store = store
        self._wait = wait
        self._wake: anyio.Event | None = None
        self._stopping = False
        self._tasks: TaskGroup | None = None

    async def run(self) -> None:
        """Sweeps now and then at intervals, until it is stopped or cancelled."""
        while not self._stopping:
            self._wake = anyio.Event()
            if not self._round.tell(await self._sweep()):
                return
            await self._wait(self._wake, self._round.seconds)

    def sweep_now(self) -> None:
        """Sweeps at once, for example after a change of the policy."""
        self._rouse()

    def stop(self) -> None:
        """Stops it after the current sweep. Idempotent."""
        self._stopping = True
        self._rouse()

    def _rouse(self) -> None:
        if self._wake is not None:
            self._wake.set()

    async def _sweep(self) -> SweepReport | Exception:
        try:
            if isinstance(self._store, Store):
                return await sweep(self._store, open_sessions=self._open())
            return await anyio.to_thread.run_sync(self._store)
        except Exception as error:  # noqa: BLE001 - reported, and the next sweep may succeed
            return error

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self.run, name="clew-sweeper")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.stop()
        assert self._tasks is not None
        return await self._tasks.__aexit__(kind, error, trace)
