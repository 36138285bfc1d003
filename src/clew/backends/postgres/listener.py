"""How commits on a server are noticed: by LISTEN, on a connection of its own.

NOTIFY makes the commits that use it wait for each other, so nobody is notified unasked: who watches a ref says so in
the table `watched`, for a while and again before it is over, and an append looks there. What is missed, because the
link was down or a pooler is in between, is found by asking for the versions of everything that is watched.
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
from clew.backends.postgres.rows import SQL

WATCH_SECONDS = 90.0
"""Seconds that the server notifies of a ref after it was asked to."""
RENEW = 30.0
"""Seconds after which it is asked again, and everything that is watched is looked at."""
POLL = 1.0
"""Seconds between two looks at a server that cannot be asked: a replica, or one that does not allow this user."""
SHORTEST = 0.02
"""Seconds before the first look at whether all are done that may not have reported of a new watcher."""
_REFUSED = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,
)


class ServerListener:
    """See `ChangeListener`. It connects when it is first asked, and again if the connection breaks."""

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
        assert link is not None  # it was asked for versions before
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
        with suppress(OSError):  # it is full, and so ends the wait; or nobody waits any more
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
        """Driver errors become clew's, and the connection is given up."""
        try:
            yield
        except psycopg.Error as error:
            self._disconnect()
            raise translate(error, self._path) from error


class _Link:
    """A connection that listens; what it has reported, and what the server was asked for."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.made = time.monotonic()
        self.reported: dict[int, int] = {}
        self.due = 0.0
        """When everything is to be looked at again."""
        self._watched: set[int] = set()
        self._renew_at = 0.0
        self._horizon: int | None = None
        """Transactions before this one may have begun when nobody had asked yet."""
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
                self._horizon = None  # the look below sees what they have done
            else:
                self.due = min(self.due, now + self._pause)
                self._pause = min(2 * self._pause, POLL)
        return dict(self.conn.execute(SQL["versions"], (list(refs),)).fetchall())

    def receive(self) -> None:
        """Takes what the server has sent."""
        self.conn.pgconn.consume_input()
        while note := self.conn.pgconn.notifies():
            self._note(note.extra.decode())

    def _watch(self, refs: Collection[int], now: float) -> None:
        """Asks to be notified of changes."""
        self._must_poll = not self._allowed(SQL["watch"], (WATCH_SECONDS, list(refs)))
        if not self._must_poll:
            self.conn.execute(SQL["unwatched"])
            (self._horizon,) = self.conn.execute(SQL["now"]).fetchone() or (0,)
            self._watched, self._renew_at, self._pause = set(refs), now + RENEW, SHORTEST

    def _allowed(self, sql: bytes, values: Sequence[object] = ()) -> bool:
        """Runs a statement; False if this server or this user cannot."""
        try:
            self.conn.execute(sql, values or None)
        except _REFUSED:
            return False
        return True

    def _note(self, payload: str) -> None:
        with suppress(ValueError):  # anybody may notify of anything
            ref, version = map(int, payload.split())
            self.reported[ref] = version
