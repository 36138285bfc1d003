"""The watchers of a store, and the thread that notifies them. The thread runs while there are watchers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

from clew.errors import Closed, Unavailable

Notify = Callable[[], object]

MIN_INTERVAL = 0.005
"""Seconds between two rounds of notifications, even under continuous writes."""
RETRY_DELAY = 0.5
"""Seconds to wait after a failed round."""
CLOSE_TIMEOUT = 5.0
"""Seconds that `close` waits for the thread, which may be connecting to a server that does not answer."""


class ChangeListener(Protocol):
    """Detects commits of a backend. All methods except `wake` are called on one thread."""

    def versions(self, refs: Collection[int]) -> Mapping[int, int]:
        """The current versions of these refs, without deleted ones. `wait` returns when one of them changes."""

    def wait(self) -> Mapping[int, int] | None:
        """Waits for a possible change, or for `wake`.

        Returns the versions of changed refs, 0 for deleted ones; None if the caller must call `versions`.
        """

    def wake(self) -> None:
        """Ends the current `wait`, or the next one. Any thread may call it, and a finaliser during any call."""

    def close(self) -> None:
        """Releases its resources. Idempotent."""


class Watching:
    """The watchers of the refs of one store."""

    def __init__(self, listen: Callable[[], ChangeListener], *, patience: float) -> None:
        self._listen = listen
        self._patience = patience
        """Seconds that a store may be unavailable before all watchers are notified, so that they see the error."""
        self._mutex = threading.Lock()
        self._watchers: dict[int, dict[object, Notify]] = {}
        self._unsubscribed: deque[tuple[int, object]] = deque()
        """Watchers that have unsubscribed. A finaliser may add one at any moment, so this needs no lock."""
        self._listener: ChangeListener | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, ref: int, notify: Notify) -> Callable[[], None]:
        """See `Backend.watch`."""
        token = object()
        with self._mutex:
            if self._closed:
                raise Closed("the store is closed")
            if self._listener is None:
                self._listener = self._listen()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._listener,), name="clew-watch", daemon=True
                )
                self._thread.start()
            self._watchers.setdefault(ref, {})[token] = notify
            listener = self._listener
        listener.wake()
        return partial(self._unsubscribe, ref, token)

    def notify_commit(self) -> None:
        """Called after each commit of this process."""
        listener = self._listener
        if listener is not None:
            listener.wake()

    def close(self) -> None:
        """Notifies all watchers a last time. Idempotent."""
        with self._mutex:
            self._closed = True
            listener, thread = self._listener, self._thread
        if listener is not None:
            listener.wake()
        if thread is not None:  # without listeners it ends soon, but first closes its connection
            thread.join(CLOSE_TIMEOUT)

    def _unsubscribe(self, ref: int, token: object) -> None:
        self._unsubscribed.append((ref, token))
        self.notify_commit()

    def _serve(self, listener: ChangeListener) -> None:
        known: dict[int, int] = {}
        reported: Mapping[int, int] | None = None
        reached = time.monotonic()
        try:
            while refs := self._watched():
                try:
                    if reported is None:
                        found = listener.versions(refs)
                        now = {ref: found.get(ref, 0) for ref in refs}
                    else:  # the next round asks for the versions of new refs
                        now = known | {ref: version for ref, version in reported.items() if ref in known}
                    self._notify([ref for ref in now if known.get(ref) != now[ref]])
                    known = now
                    time.sleep(MIN_INTERVAL)
                    reported, reached = listener.wait(), time.monotonic()
                except Exception as error:  # noqa: BLE001 - watchers get the same error when they read
                    reported = None
                    if not isinstance(error, Unavailable) or time.monotonic() - reached > self._patience:
                        self._notify(refs)
                        reached = time.monotonic()
                    time.sleep(RETRY_DELAY)
        finally:
            listener.close()

    def _watched(self) -> set[int]:
        """The watched refs. If there are none, the thread ends."""
        with self._mutex:
            with suppress(IndexError):
                while True:
                    ref, token = self._unsubscribed.popleft()
                    rest = self._watchers.get(ref, {})
                    rest.pop(token, None)
                    if not rest:
                        self._watchers.pop(ref, None)
            if self._watchers and not self._closed:
                return set(self._watchers)
            self._listener = None
            last = list(self._watchers) if self._closed else []
        self._notify(last)
        return set()

    def _notify(self, refs: Collection[int]) -> None:
        with self._mutex:
            notifies = [notify for ref in refs for notify in self._watchers.get(ref, {}).values()]
        for notify in notifies:
            notify()
