"""`clew.retention` for async programs, and a sweeper for ``async with``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self

import anyio
from anyio import to_thread

from clew import retention as sync
from clew.aio.proxy import unwrap
from clew.aio.store import Session, Store
from clew.aio.threads import event_loop, post
from clew.retention import EVERY, QUIET, Plan, Policy, SweepReport

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


class Sweeper:
    """`clew.retention.Sweeper` for an async program: ``async with Sweeper(store): …``.

    It sweeps on its own thread, where it calls `open_sessions`. The other callbacks run on the event loop.
    """

    def __init__(
        self,
        store: Store | Callable[[], SweepReport],
        *,
        every: timedelta = EVERY,
        open_sessions: Callable[[], Open] | None = None,
        on_swept: Callable[[SweepReport], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
    ) -> None:
        self._open = open_sessions or (lambda: ())
        self._loop: Any = None
        self._sync = sync.Sweeper(
            unwrap(store), every=every, open_sessions=self._sync_sessions,
            on_swept=self._on_loop(on_swept), on_error=self._on_loop(on_error),
        )  # fmt: skip

    def sweep_now(self) -> None:
        """Sweeps at once, for example after a change of the policy."""
        self._sync.sweep_now()

    async def __aenter__(self) -> Self:
        self._loop = event_loop()
        self._sync.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._sync.stop)

    def _sync_sessions(self) -> list[Any]:
        return [unwrap(one) for one in self._open()]

    def _on_loop(self, callback: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
        return callback and (lambda outcome: post(self._loop, partial(callback, outcome)))
