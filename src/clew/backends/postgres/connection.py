"""Connections to a server: URLs, settings, a pool, and arrays as binary parameters."""

from __future__ import annotations

import ipaddress
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from struct import Struct, pack
from typing import Any, LiteralString, NamedTuple, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from clew.backends.postgres.errors import is_temporary, translate
from clew.backends.process import forks
from clew.backends.timing import Timed, Timing
from clew.errors import Invalid, Unavailable

_INT8, _INT8_ARRAY = 20, 1016
_BYTEA, _BYTEA_ARRAY = 17, 1001
_HEAD = "!5i"
"""Number of dimensions, null flag, element type, number of elements, index of the first."""
_SIZE = Struct("!i").pack
_NULL = _SIZE(-1)


class Numbers(bytes):
    """An array of bigint."""

    def __new__(cls, values: Sequence[int]) -> Self:
        count = len(values)
        sized = [8] * (2 * count)  # each value follows its size
        sized[1::2] = values
        return bytes.__new__(cls, pack(_HEAD + "iq" * count, 1, 0, _INT8, count, 1, *sized))


class Strings(bytes):
    """An array of bytea and nulls."""

    def __new__(cls, values: Sequence[bytes | None]) -> Self:
        parts = [pack(_HEAD, 1, None in values, _BYTEA, len(values), 1)]
        for value in values:
            parts += (_NULL,) if value is None else (_SIZE(len(value)), value)
        return bytes.__new__(cls, b"".join(parts))


class _AsIs(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        return obj  # type: ignore[no-any-return]


class _NumbersDumper(_AsIs):
    oid = _INT8_ARRAY


class _StringsDumper(_AsIs):
    oid = _BYTEA_ARRAY


def register(adapters: AdaptersMap) -> None:
    """Allows these types as parameters of statements."""
    adapters.register_dumper(Numbers, _NumbersDumper)
    adapters.register_dumper(Strings, _StringsDumper)


OLDEST_SERVER = 140000
LIFETIME = 3600.0
"""Seconds to keep a connection, so that none stays with the old server after a failover or a change of addresses."""
SLOWEST = 10.0
"""Minimum statement timeout in seconds, even if the timeout for locks is shorter."""
TLS = "others on the network can read the traffic. Add sslmode=verify-full to the URL."
SCHEMA = "clew"
"""The default schema of a store. A URL can name another one: ``postgresql://…/app?schema=chats``."""


class Cursor(psycopg.Cursor[tuple[Any, ...]]):
    """A reusable cursor."""

    def clear(self) -> None:
        """Frees the parameters and the rows of the last statement."""
        self._reset()


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection with a shared cursor: creating one takes as long as running a statement."""

    shared_cursor: Cursor
    forks_when_made: int
    """The number of forks before it was opened: see `inherited`."""
    timing: Timing

    def note(self, what: Timed, began: float) -> None:
        """Notes the time since `began`."""
        if (took := time.monotonic() - began) > self.timing.threshold:
            self.timing.note(what, took)

    def commit_write(self, sql: bytes) -> None:
        """Runs the statement that ends a write transaction."""
        began = time.monotonic()
        self.execute(sql, prepare=False)
        self.note("commit", began)

    @property
    def inherited(self) -> bool:
        """True in a child of the process that opened it. The child must not use the socket of its parent."""
        return self.forks_when_made != forks()

    def close(self) -> None:
        """Does nothing in a forked child: the server would end the transaction of the parent."""
        if not self.inherited:
            super().close()


class UnencryptedConnection(UserWarning):
    """The server is on another host, and the connection has no TLS: messages and passwords can be intercepted."""


class LentConnection(NamedTuple):
    """A connection in use by a thread."""

    conn: Connection
    made: float
    """When it was opened."""
    first: bool
    """True if the thread had no other."""


class Target(NamedTuple):
    """The location of a store."""

    conninfo: str
    """The URL for the driver."""
    schema: str
    name: str
    """The URL without its password, for messages."""


def parse(url: str) -> Target:
    """Parses a URL. Invalid."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        (schema,) = [value for name, value in query if name == "schema"] or [SCHEMA]
        query = [(name, value) for name, value in query if name != "schema"]
        conninfo = urlunsplit(parts._replace(query=urlencode(query, quote_via=quote)))
        known = psycopg.conninfo.conninfo_to_dict(conninfo)
    except (ValueError, psycopg.Error):
        raise Invalid("invalid URL of a PostgreSQL database", hint="Use postgresql://user@host/database.") from None
    if not schema or "\0" in schema or len(schema.encode()) > 63:
        raise Invalid("the name of a schema must have 1 to 63 bytes")
    user = f"{known['user']}@" if "user" in known else ""
    host = str(known.get("host", ""))
    port = f":{known['port']}" if "port" in known else ""
    name = f"postgresql://{user}{quote(host, safe=',[]')}{port}/{known.get('dbname', '')}?schema={quote(schema)}"
    return Target(conninfo, schema, name)


class Connections:
    """A pool of at most `size` connections to one store, which replaces broken ones.

    A thread that already has a connection gets another one at once, even beyond `size`: waiting could deadlock.

    The thread that needs a connection opens it. A pool that opens them in the background backs off after failures, and
    so detects late that a server is available again.
    """

    def __init__(self, target: Target, timing: Timing, *, size: int, timeout: float, relaxed: bool) -> None:
        self._target = target
        self._timing = timing
        self._size = size
        self._timeout = timeout
        self._settings = {
            "search_path": _identifier(target.schema),
            "lock_timeout": _milliseconds(timeout),
            "statement_timeout": _milliseconds(max(timeout, SLOWEST)),
            # After waiting for the lock, a writer must see the commits before it, whatever the server's default is.
            "default_transaction_isolation": "read committed",
        }
        self._relaxed = relaxed
        self._slots: SimpleQueue[None] = SimpleQueue()  # faster than a semaphore
        for _ in range(size):
            self._slots.put(None)
        self._idle: deque[tuple[Connection, float]] = deque()
        """Idle connections, and when each was opened. The most recently used one is reused first."""
        self._closed = False
        self.unencrypted = False
        """True if a connection to another host had no TLS."""
        self._local = threading.local()
        """Per thread: `held` are its connections."""

    def connect(self, seconds: float | None = None) -> Connection:
        """Opens a connection, which the caller closes. Waits up to `seconds` for each host, by default the timeout."""
        conn = Connection.connect(self._target.conninfo, **self._options(self._timeout if seconds is None else seconds))
        conn.forks_when_made = forks()
        conn.timing = self._timing
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
        """`connect`, with retries until the timeout if the error is temporary."""
        until, pause = time.monotonic() + self._timeout, 0.02
        while True:
            try:
                return self.connect(until - time.monotonic())
            except psycopg.OperationalError as error:
                if not is_temporary(error) or time.monotonic() + pause > until:
                    raise translate(error, self._target.name) from error
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def take(self, *, commits: bool = False) -> Lease:
        """A connection as a context manager. Unavailable if none becomes free within the timeout.

        `commits` means that the caller runs one statement on it, which is a commit.
        """
        return Lease(self, commits=commits)

    def in_use(self) -> tuple[int, int]:
        """The number of connections that threads use, and of those that they may use."""
        return self._size - self._slots.qsize(), self._size

    @contextmanager
    def without_timeout(self, conn: Connection) -> Iterator[None]:
        """Disables the statement timeout. Not inside a transaction."""
        conn.execute("SET statement_timeout = 0")
        try:
            yield
        finally:
            if not is_lost(conn):  # RESET would set the server's default
                conn.execute(f"SET statement_timeout = {self._settings['statement_timeout']}".encode())

    def check(self) -> None:
        """Closes the idle connections: if one has broken, others probably have, too."""
        if not self._closed:
            self._timing.note("retry")
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop()[0].close()

    def close(self) -> None:
        """Idempotent."""
        self._closed = True
        self.check()

    def lend(self) -> LentConnection:
        """Gives the current thread a connection, until `give_back`; see `take`."""
        held: list[Connection] = self._local.__dict__.setdefault("held", [])
        first = not held
        had = len(held)
        slot: list[None] = []
        began = time.monotonic()
        try:
            if first:
                # One call gets the slot and stores it: an interrupt in between would lose the slot forever.
                slot.extend(map(self._slots.get, (True,), (self._timeout,)))
            conn, made = self._pop_idle() or (self.connect_patiently(), time.monotonic())
            lent = LentConnection(conn, made, first)
            held.append(conn)
            conn.note("connection", began)
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
        """Returns a connection to the pool."""
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
        # After an interrupt, it may still be in a transaction. The status is UNKNOWN if it is closed.
        state = conn.pgconn.transaction_status
        if state != pq.TransactionStatus.IDLE or len(self._idle) >= self._size:
            conn.close()
        else:
            conn.shared_cursor.clear()
            self._idle.append((conn, made))
        if self._closed:
            self.check()

    def _options(self, seconds: float) -> dict[str, Any]:
        given = psycopg.conninfo.conninfo_to_dict(self._target.conninfo)
        usual: dict[str, Any] = {
            "application_name": "clew",
            "connect_timeout": max(2, min(int(seconds), 10)),
            # To detect a dead host: neither data nor the probes that are sent while waiting get acknowledged.
            "tcp_user_timeout": max(2, int(self._timeout)) * 1000,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
        }
        return {name: value for name, value in usual.items() if name not in given} | {"autocommit": True}

    def _configure(self, conn: Connection) -> None:
        conn.prepare_threshold = 0  # the statements are few and always the same
        conn.adapters.register_dumper(int, Int8Dumper)  # for lists, whose first value would decide the type of all
        conn.adapters.register_dumper(int, Int8BinaryDumper)  # otherwise type and plan depend on the value
        register(conn.adapters)
        calls = ["set_config(%s, %s, false)"] * len(self._settings)
        # An acknowledged commit must be durable, whatever the server's default is.
        waits = "'off'" if self._relaxed else "coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on')"
        calls.append(f"set_config('synchronous_commit', {waits}, false)")
        values = [part for pair in self._settings.items() for part in pair]
        conn.shared_cursor = Cursor(conn)
        conn.shared_cursor.format = pq.Format.BINARY
        conn.shared_cursor.execute(f"SELECT {', '.join(calls)}".encode(), values, prepare=False)


class Lease:
    """See `Connections.take`. Faster than `contextlib.contextmanager`; every append uses it."""

    __slots__ = ("_began", "_commits", "_lent", "_of")

    def __init__(self, of: Connections, *, commits: bool) -> None:
        self._of = of
        self._commits = commits

    def __enter__(self) -> Connection:
        self._lent = self._of.lend()
        self._began = time.monotonic()
        return self._lent.conn

    def __exit__(self, *raised: object) -> None:
        self._of.give_back(self._lent)
        if self._commits:
            self._lent.conn.note("commit", self._began)


def is_unencrypted(conn: Connection) -> bool:
    """True if the server is on another host, and the connection has no TLS."""
    if conn.pgconn.ssl_in_use or not conn.info.hostaddr:  # a Unix socket has no address
        return False
    address = ipaddress.ip_address(conn.info.hostaddr.partition("%")[0])
    return not (getattr(address, "ipv4_mapped", None) or address).is_loopback


def is_lost(conn: Connection, error: BaseException | None = None) -> bool:
    """True if a connection has broken, so that the outcome of its last statement is unknown."""
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(("08", "57P")):  # the server closes the connection after these
        conn.close()
    return conn.closed or conn.pgconn.status == pq.ConnStatus.BAD


def in_transaction(conn: Connection) -> bool:
    """True if a transaction is open and has not failed."""
    return not conn.closed and conn.info.transaction_status == pq.TransactionStatus.INTRANS


def undo(conn: Connection, sql: LiteralString = "ROLLBACK") -> None:
    """Rolls back a transaction, or a part of it, after an error. If that fails, closes the connection; does not raise.

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
    """At least 1, because 0 would mean no timeout."""
    return str(min(max(1, int(seconds * 1000)), 2**31 - 1))
