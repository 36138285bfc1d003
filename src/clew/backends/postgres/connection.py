"""Connections to a server: how they are named, made and shared."""

from __future__ import annotations

import ipaddress
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, LiteralString, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import pq
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from clew.backends.postgres import arrays
from clew.backends.postgres.errors import is_temporary, translate
from clew.backends.process import forks
from clew.errors import Invalid, Unavailable

OLDEST_SERVER = 140000
LIFETIME = 3600.0
"""Seconds that a connection is kept: after a failover, or a change of addresses, none stays with the old server."""
SLOWEST = 10.0
"""Seconds that a statement may take at least, however short others are to be waited for."""
TLS = "others on the network can read what is sent. Add sslmode=verify-full to the URL."
SCHEMA = "clew"
"""The schema that a store is in, unless its URL names another: ``postgresql://…/app?schema=chats``."""


class Cursor(psycopg.Cursor[tuple[Any, ...]]):
    """One that is used again and again."""

    def forget(self) -> None:
        """Lets go of what the last statement was given and what it found."""
        self._reset()


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection with a cursor that is there already: to make one takes as long as to run a statement."""

    shared_cursor: Cursor
    forks_when_made: int
    """How many forks came before it: see `inherited`."""

    @property
    def inherited(self) -> bool:
        """True in a child of the process that made it. The socket is the parent's: what is sent there, it has sent."""
        return self.forks_when_made != forks()

    def close(self) -> None:
        """In a forked child nothing: the server would end the parent's transaction."""
        if not self.inherited:
            super().close()


class UnencryptedConnection(UserWarning):
    """Messages and passwords can be read on the way to the server: it is on another host, and there is no TLS."""


class LentConnection(NamedTuple):
    """A connection that a thread has."""

    conn: Connection
    made: float
    """When."""
    first: bool
    """True if it had none before."""


class Target(NamedTuple):
    """Where a store is."""

    conninfo: str
    """For the driver."""
    schema: str
    name: str
    """For people: the URL without its password."""


def parse(url: str) -> Target:
    """A URL taken apart. Invalid."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        (schema,) = [value for name, value in query if name == "schema"] or [SCHEMA]
        query = [(name, value) for name, value in query if name != "schema"]
        conninfo = urlunsplit(parts._replace(query=urlencode(query, quote_via=quote)))
        known = psycopg.conninfo.conninfo_to_dict(conninfo)
    except (ValueError, psycopg.Error):
        raise Invalid("this is not the URL of a PostgreSQL database", hint="postgresql://user@host/database") from None
    if not schema or "\0" in schema or len(schema.encode()) > 63:
        raise Invalid("a schema has a name of 1 to 63 bytes")
    user = f"{known['user']}@" if "user" in known else ""
    host = str(known.get("host", ""))
    port = f":{known['port']}" if "port" in known else ""
    name = f"postgresql://{user}{quote(host, safe=',[]')}{port}/{known.get('dbname', '')}?schema={quote(schema)}"
    return Target(conninfo, schema, name)


class Connections:
    """The connections of one store: at most `size`, kept for the next caller, replaced when they break.

    A thread that has one gets another for the asking: if it waited, those that it waits for might wait for it.

    They are made by the thread that needs one. A pool that makes them in the background waits longer after every
    failure, and so is late to notice that a server is back.
    """

    def __init__(self, target: Target, *, size: int, timeout: float, relaxed: bool) -> None:
        self._target = target
        self._size = size
        self._timeout = timeout
        self._settings = {
            "search_path": _identifier(target.schema),
            "lock_timeout": _milliseconds(timeout),
            "statement_timeout": _milliseconds(max(timeout, SLOWEST)),
            # Whoever has waited for its turn must see what was done meanwhile, whatever the server is set to.
            "default_transaction_isolation": "read committed",
        }
        self._relaxed = relaxed
        self._slots: SimpleQueue[None] = SimpleQueue()  # quicker than a semaphore
        for _ in range(size):
            self._slots.put(None)
        self._idle: deque[tuple[Connection, float]] = deque()
        """Those that nobody uses, each with when it was made; the one used last is taken first."""
        self._closed = False
        self.unencrypted = False
        """True once a connection went to another host without TLS."""
        self._local = threading.local()
        """Of each thread; `held` are those it has."""

    def connect(self, seconds: float | None = None) -> Connection:
        """A new connection, which the caller closes; each host has up to `seconds` to answer, if not the timeout."""
        conn = Connection.connect(self._target.conninfo, **self._options(self._timeout if seconds is None else seconds))
        conn.forks_when_made = forks()
        try:
            if is_unencrypted(conn) and not self.unencrypted:
                self.unencrypted = True
                warnings.warn(f"{self._target.name} is reached without TLS: {TLS}", UnencryptedConnection, stacklevel=2)
            self._configure(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    def connect_patiently(self) -> Connection:
        """`connect`, again and again up to the timeout while the server may be coming back."""
        until, pause = time.monotonic() + self._timeout, 0.02
        while True:
            try:
                return self.connect(until - time.monotonic())
            except psycopg.OperationalError as error:
                if not is_temporary(error) or time.monotonic() + pause > until:
                    raise translate(error, self._target.name) from error
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def take(self) -> Lease:
        """A connection for one piece of work. Unavailable if there is none for as long as the timeout."""
        return Lease(self)

    @contextmanager
    def without_timeout(self, conn: Connection) -> Iterator[None]:
        """Outside of a transaction: statements may take as long as they take."""
        conn.execute("SET statement_timeout = 0")
        try:
            yield
        finally:
            if not is_lost(conn):  # RESET would mean the server's own
                conn.execute(f"SET statement_timeout = {self._settings['statement_timeout']}".encode())

    def check(self) -> None:
        """Lets go of those that nobody uses: where one has broken, others have too."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop()[0].close()

    def close(self) -> None:
        """Idempotent."""
        self._closed = True
        self.check()

    def lend(self) -> LentConnection:
        """A connection for the thread that asks, until it gives it back; see `take`."""
        held: list[Connection] = self._local.__dict__.setdefault("held", [])
        first = not held
        had = len(held)
        slot: list[None] = []
        try:
            if first:
                # Noted by the same call that gets it: an interrupt in between would lose it for ever.
                slot.extend(map(self._slots.get, (True,), (self._timeout,)))
            conn, made = self._pop_idle() or (self.connect_patiently(), time.monotonic())
            lent = LentConnection(conn, made, first)
            held.append(conn)
        except Empty:
            raise Unavailable(
                f"all {self._size} connections to {self._target.name} are in use,"
                f" and none came free within {self._timeout:g} seconds",
                hint="Open the store with a larger pool_size, or keep transactions shorter.",
            ) from None
        except BaseException:
            del held[had:]
            if slot:
                self._slots.put(None)
            raise
        return lent

    def give_back(self, lent: LentConnection) -> None:
        """The end of `lend`."""
        try:
            self._local.held.remove(lent.conn)
            self._push_idle(lent.conn, lent.made)
        finally:
            if lent.first:
                self._slots.put(None)

    def _pop_idle(self) -> tuple[Connection, float] | None:
        while True:
            try:
                conn, made = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - made < LIFETIME:
                return conn, made
            conn.close()

    def _push_idle(self, conn: Connection, made: float) -> None:
        # One that is still in a transaction was interrupted.
        state = conn.pgconn.transaction_status  # UNKNOWN if it is closed
        if state != pq.TransactionStatus.IDLE or len(self._idle) >= self._size:
            conn.close()
        else:
            conn.shared_cursor.forget()
            self._idle.append((conn, made))
        if self._closed:
            self.check()

    def _options(self, seconds: float) -> dict[str, Any]:
        given = psycopg.conninfo.conninfo_to_dict(self._target.conninfo)
        usual: dict[str, Any] = {
            "application_name": "clew",
            "connect_timeout": max(2, min(int(seconds), 10)),
            # A host that dies without a word is noticed: what is sent is not acknowledged, nor are the probes that are
            # sent while an answer is waited for.
            "tcp_user_timeout": max(2, int(self._timeout)) * 1000,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
        }
        return {name: value for name, value in usual.items() if name not in given} | {"autocommit": True}

    def _configure(self, conn: Connection) -> None:
        conn.prepare_threshold = 0  # the statements are few and always the same
        conn.adapters.register_dumper(int, Int8Dumper)  # in a list; else the size of the first decides the type of all
        conn.adapters.register_dumper(int, Int8BinaryDumper)  # else its size decides the type, and each type a plan
        arrays.register(conn.adapters)
        calls = ["set_config(%s, %s, false)"] * len(self._settings)
        # Whoever was told that something is stored may rely on it, whatever the server is set to.
        waits = "'off'" if self._relaxed else "coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on')"
        calls.append(f"set_config('synchronous_commit', {waits}, false)")
        values = [part for pair in self._settings.items() for part in pair]
        conn.shared_cursor = Cursor(conn)
        conn.shared_cursor.format = pq.Format.BINARY
        conn.shared_cursor.execute(f"SELECT {', '.join(calls)}".encode(), values, prepare=False)


class Lease:
    """See `Connections.take`. Not by `contextlib.contextmanager`: every append waits for this."""

    __slots__ = ("_lent", "_of")

    def __init__(self, of: Connections) -> None:
        self._of = of

    def __enter__(self) -> Connection:
        self._lent = self._of.lend()
        return self._lent.conn

    def __exit__(self, *raised: object) -> None:
        self._of.give_back(self._lent)


def is_unencrypted(conn: Connection) -> bool:
    """True if the server is on another host, and the connection has no TLS."""
    if conn.pgconn.ssl_in_use or not conn.info.hostaddr:  # a socket in a folder has no address
        return False
    address = ipaddress.ip_address(conn.info.hostaddr.partition("%")[0])
    return not (getattr(address, "ipv4_mapped", None) or address).is_loopback


def is_lost(conn: Connection, error: BaseException | None = None) -> bool:
    """True if a connection has broken, so that nobody can say what became of its last statement."""
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(("08", "57P")):  # the server's last words; the link is about to go
        conn.close()
    return conn.closed or conn.pgconn.status == pq.ConnStatus.BAD


def in_transaction(conn: Connection) -> bool:
    """True if a transaction is open, and sound."""
    return not conn.closed and conn.info.transaction_status == pq.TransactionStatus.INTRANS


def undo(conn: Connection, sql: LiteralString = "ROLLBACK") -> None:
    """Undoes a transaction, or a part of it, after an error. If that fails the link is given up: the error stands.

    Does nothing in a forked child: the transaction belongs to the parent process.
    """
    if conn.inherited:
        return
    try:
        conn.execute(sql, prepare=False)
    except psycopg.Error:
        conn.close()


def _identifier(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _milliseconds(seconds: float) -> str:
    """0 would mean forever."""
    return str(min(max(1, int(seconds * 1000)), 2**31 - 1))
