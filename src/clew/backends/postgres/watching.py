"""How commits on a server are noticed: by LISTEN, on a connection of its own.

NOTIFY makes the commits that use it wait for each other, so nobody is notified unasked: who watches a ref says so in the
table `watched`, for a while and again before it is over, and an append looks there. What is missed, because the link
was down or a pooler is in between, is found by asking for the versions of everything that is watched.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import psycopg

from clew.backends.postgres.connection import Connection, translate
from clew.backends.postgres.rows import SQL
from clew.errors import Unavailable

ASKED = 90.0
"""Seconds that the server notifies of a ref after it was asked to."""
AGAIN = 30.0
"""Seconds after which it is asked again, and everything that is watched is looked at."""
POLL = 1.0
"""Seconds between two looks at a server that cannot be asked: a replica, or one that does not allow this user."""
SHORTEST = 0.02
"""Seconds before the first look at whether all are done that may not have heard of a new watcher."""


class ServerEar:
    """See `clew.backends.watching.Ear`. It has a connection from its first question on, and makes another if that
    breaks.
    """

    def __init__(self, connect: Callable[[], Connection], path: str) -> None:
        self._connect = connect
        self._path = path
        self._conn: Connection | None = None
        self._inbox, self._outbox = socket.socketpair()
        self._inbox.setblocking(False)
        self._outbox.setblocking(False)
        self._heard: dict[int, int] = {}
        self._forget()

    def versions(self, refs: Collection[int]) -> dict[int, int]:
        try:
            if self._conn is None:
                self._conn = self._listening()
            if self._deaf:
                self._next = time.monotonic() + POLL
            else:
                self._ask(self._conn, refs)
            return dict(self._conn.execute(SQL["versions"], (list(refs),)).fetchall())
        except psycopg.Error as error:
            self._drop()
            raise translate(error, self._path) from error

    def wait(self, seconds: float | None = None) -> dict[int, int] | None:
        if seconds is None:
            seconds = max(0.0, self._next - time.monotonic())
        ready = {} if self._heard else self._ready(seconds)
        if "woken" in ready:
            with suppress(BlockingIOError):
                while self._inbox.recv(4096):
                    pass
        if "server" in ready:
            self._hear()
        heard, self._heard = self._heard, {}
        return None if "woken" in ready or not heard else heard

    def wake(self) -> None:
        with suppress(OSError):  # it is full, and so ends the wait; or nobody waits any more
            self._outbox.send(b"\0")

    def close(self) -> None:
        self._drop()
        self._inbox.close()
        self._outbox.close()

    def _listening(self) -> Connection:
        conn = self._connect()
        try:
            conn.add_notify_handler(lambda note: self._note(note.payload))
            (channel,) = conn.execute(SQL["channel"]).fetchone() or ("",)
            try:
                conn.execute(f"LISTEN {channel}".encode(), prepare=False)
            except (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.FeatureNotSupported):
                self._deaf = True
        except BaseException:
            conn.close()
            raise
        return conn

    def _ask(self, conn: Connection, refs: Collection[int]) -> None:
        """Asks to be notified of what is watched, if it was not or not for long."""
        now = time.monotonic()
        if not self._asked.issuperset(refs) or now >= self._again:
            try:
                conn.execute(SQL["watch"], (ASKED, list(refs)))
                conn.execute(SQL["unwatched"])
            except (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege):
                self._deaf, self._next = True, now + POLL
                return
            # Whoever began before this was committed may commit without a word.
            (self._horizon,) = conn.execute(SQL["now"]).fetchone() or (0,)
            self._asked, self._again, self._pause = set(refs), now + AGAIN, SHORTEST
        self._next = self._again
        if self._horizon is not None:
            (oldest,) = conn.execute(SQL["oldest"]).fetchone() or (0,)
            if oldest >= self._horizon:
                self._horizon = None  # what they did is seen by the look that follows
            else:
                self._next = min(self._next, now + self._pause)
                self._pause = min(2 * self._pause, POLL)

    def _ready(self, seconds: float) -> dict[str, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._inbox, selectors.EVENT_READ, "woken")
            if self._conn is not None:
                selector.register(self._conn, selectors.EVENT_READ, "server")
            return {key.data: key for key, _ in selector.select(seconds)}

    def _hear(self) -> None:
        """Takes what the server has sent. Unavailable if that was the end."""
        assert self._conn is not None
        try:
            self._conn.pgconn.consume_input()
            while note := self._conn.pgconn.notifies():
                self._note(note.extra.decode())
        except psycopg.Error as error:
            self._drop()
            raise Unavailable(f"{self._path} has ended the connection", hint="Make the same call again.") from error

    def _note(self, payload: str) -> None:
        with suppress(ValueError):  # anybody may notify of anything
            ref, version = map(int, payload.split())
            self._heard[ref] = version

    def _drop(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None
        self._forget()

    def _forget(self) -> None:
        self._deaf = False
        self._asked: set[int] = set()
        self._again = self._next = 0.0
        self._horizon: int | None = None
        self._pause = SHORTEST
        self._heard.clear()
