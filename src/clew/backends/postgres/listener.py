"""Detects commits on a server by LISTEN, on a separate connection.

NOTIFY makes commits wait for each other, so appends use it only for refs in the table `watched`. A watcher adds its
refs there for a limited time, and renews them. Notifications can be missed, because the connection was down or there
is a pooler in between; polling the versions of all watched refs finds these changes.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg

from clew.backends.postgres.connection import LIFETIME, Connection
from clew.backends.postgres.errors import translate
from clew.backends.postgres.tx import SQL

WATCH_SECONDS = 90.0
"""Seconds for which a ref is added to `watched`."""
RENEW = 30.0
"""Seconds after which the refs are added again, and their versions are polled."""
POLL = 1.0
"""Seconds between two polls if notifications are not available: on a replica, or without rights."""
SHORTEST = 0.02
"""Seconds before the first check whether transactions that began before the watch have ended."""
_REFUSED = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,
)


class ServerListener:
    """See `ChangeListener`. Connects when it is first used, and again if the connection breaks."""

    def __init__(self, connect: Callable[[], Connection], path: str) -> None:
        self._connect = connect
        self._path = path
        self._link: _Link | None = None
        self._inbox, self._outbox = socket.socketpair()
        self._inbox.setblocking(False)
        self._outbox.setblocking(False)

    def versions(self, refs: Collection[int]) -> dict[int, int]:
        with self._translate_errors():
            if self._link is not None and time.monotonic() - self._link.made > LIFETIME:
                self._disconnect()
            if self._link is None:
                self._link = _Link(self._connect())
            return self._link.versions(refs)

    def wait(self) -> dict[int, int] | None:
        link = self._link
        assert link is not None  # `versions` was called before
        seconds = 0.0 if link.reported else max(0.0, link.due - time.monotonic())
        with selectors.DefaultSelector() as selector:
            selector.register(self._inbox, selectors.EVENT_READ)
            selector.register(link.conn, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(seconds)]
        if self._inbox in ready:
            with suppress(BlockingIOError):
                while self._inbox.recv(4096):
                    pass
        if link.conn in ready:
            with self._translate_errors():
                link.receive()
        reported, link.reported = link.reported, {}
        return None if self._inbox in ready or not reported else reported

    def wake(self) -> None:
        with suppress(OSError):  # the buffer is full, which also ends the wait; or the listener is closed
            self._outbox.send(b"\0")

    def close(self) -> None:
        self._disconnect()
        self._inbox.close()
        self._outbox.close()

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.conn.close()
            self._link = None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translates driver errors, and closes the connection after one."""
        try:
            yield
        except psycopg.Error as error:
            self._disconnect()
            raise translate(error, self._path) from error


class _Link:
    """A listening connection, the changes it has received, and the refs it watches."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.made = time.monotonic()
        self.reported: dict[int, int] = {}
        self.due = 0.0
        """When to poll the versions again."""
        self._watched: set[int] = set()
        self._renew_at = 0.0
        self._horizon: int | None = None
        """Transactions before this one may have begun before the refs were in `watched`."""
        self._pause = SHORTEST
        try:
            conn.add_notify_handler(lambda note: self._note(note.payload))
            (channel,) = conn.execute(SQL["channel"]).fetchone() or ("",)
            self._must_poll = not self._allowed(f"LISTEN {channel}".encode())
        except BaseException:
            conn.close()
            raise

    def versions(self, refs: Collection[int]) -> dict[int, int]:
        """See `ChangeListener`."""
        now = time.monotonic()
        if not self._must_poll and (now >= self._renew_at or not self._watched.issuperset(refs)):
            self._watch(refs, now)
        self.due = now + POLL if self._must_poll else self._renew_at
        if self._horizon is not None:
            (oldest,) = self.conn.execute(SQL["oldest"]).fetchone() or (0,)
            if oldest >= self._horizon:
                self._horizon = None  # the query below sees their changes
            else:
                self.due = min(self.due, now + self._pause)
                self._pause = min(2 * self._pause, POLL)
        return dict(self.conn.execute(SQL["versions"], (list(refs),)).fetchall())

    def receive(self) -> None:
        """Reads the notifications that the server has sent."""
        self.conn.pgconn.consume_input()
        while note := self.conn.pgconn.notifies():
            self._note(note.extra.decode())

    def _watch(self, refs: Collection[int], now: float) -> None:
        """Adds the refs to `watched`."""
        self._must_poll = not self._allowed(SQL["watch"], (WATCH_SECONDS, list(refs)))
        if not self._must_poll:
            self.conn.execute(SQL["unwatched"])
            (self._horizon,) = self.conn.execute(SQL["now"]).fetchone() or (0,)
            self._watched, self._renew_at, self._pause = set(refs), now + RENEW, SHORTEST

    def _allowed(self, sql: bytes, values: Sequence[object] = ()) -> bool:
        """Runs a statement. False if the server or the rights of the user do not allow it."""
        try:
            self.conn.execute(sql, values or None)
        except _REFUSED:
            return False
        return True

    def _note(self, payload: str) -> None:
        with suppress(ValueError):  # any user can send any payload
            ref, version = map(int, payload.split())
            self.reported[ref] = version
