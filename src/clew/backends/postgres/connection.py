"""Connections to a server: how they are named, made and shared, and how the driver's errors are told."""

from __future__ import annotations

import threading
import time
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
from clew.errors import ClewError, Conflict, Invalid, NotFound, ReadOnly, StorageFull, Tampered, Unavailable

OLDEST_SERVER = 140000
LIFETIME = 3600.0
"""Seconds that a connection is kept: after a failover, or a change of addresses, none stays with the old server."""
SLOWEST = 10.0
"""Seconds that a statement may take at least, however short others are to be waited for."""
SCHEMA = "clew"
"""The schema that a store is in, unless its URL names another: ``postgresql://…/app?schema=chats``."""

_AGAIN = "Make the same call again."
_CHECK = "Check the server, then make the same call again."


class Cursor(psycopg.Cursor[tuple[Any, ...]]):
    """One that is used again and again."""

    def forget(self) -> None:
        """Lets go of what the last statement was given and what it found."""
        self._reset()


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection with a cursor that is there already: to make one takes as long as to run a statement."""

    kept: Cursor


class Lent(NamedTuple):
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
        self._local = threading.local()
        """Of each thread; `held` are those it has."""

    def connect(self) -> Connection:
        """A new connection, which the caller closes."""
        conn = Connection.connect(self._target.conninfo, **self._options())
        try:
            self._configure(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    def take(self) -> Taken:
        """A connection for one piece of work. Unavailable if there is none for as long as the timeout."""
        return Taken(self)

    @contextmanager
    def unhurried(self, conn: Connection) -> Iterator[None]:
        """Outside of a transaction: statements may take as long as they take."""
        conn.execute("SET statement_timeout = 0")
        try:
            yield
        finally:
            if not lost(conn):  # RESET would mean the server's own
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

    def lend(self) -> Lent:
        """A connection for the thread that asks, until it gives it back; see `take`."""
        held: list[Connection] = self._local.__dict__.setdefault("held", [])
        first = not held
        had = len(held)
        slot: list[None] = []
        try:
            if first:
                # Noted by the same call that gets it: an interrupt in between would lose it for ever.
                slot.extend(map(self._slots.get, (True,), (self._timeout,)))
            conn, made = self._kept() or (self._patiently(), time.monotonic())
            lent = Lent(conn, made, first)
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

    def give_back(self, lent: Lent) -> None:
        """The end of `lend`."""
        try:
            self._local.held.remove(lent.conn)
            self._keep(lent.conn, lent.made)
        finally:
            if lent.first:
                self._slots.put(None)

    def _kept(self) -> tuple[Connection, float] | None:
        while True:
            try:
                conn, made = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - made < LIFETIME:
                return conn, made
            conn.close()

    def _keep(self, conn: Connection, made: float) -> None:
        # One that is still in a transaction was interrupted.
        state = conn.pgconn.transaction_status  # UNKNOWN if it is closed
        if state != pq.TransactionStatus.IDLE or len(self._idle) >= self._size:
            conn.close()
        else:
            conn.kept.forget()
            self._idle.append((conn, made))
        if self._closed:
            self.check()

    def _patiently(self) -> Connection:
        """A new connection; if the server is not there, it may be coming back."""
        until, pause = time.monotonic() + self._timeout, 0.02
        while True:
            try:
                return self.connect()
            except psycopg.OperationalError as error:
                if time.monotonic() + pause > until:
                    raise translate(error, self._target.name) from error
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def _options(self) -> dict[str, Any]:
        wait = max(2, int(self._timeout))
        given = psycopg.conninfo.conninfo_to_dict(self._target.conninfo)
        usual: dict[str, Any] = {
            "application_name": "clew",
            "connect_timeout": min(wait, 10),
            "tcp_user_timeout": wait * 1000,  # a link that has gone dead is noticed
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
        conn.kept = Cursor(conn)
        conn.kept.format = pq.Format.BINARY
        conn.kept.execute(f"SELECT {', '.join(calls)}".encode(), values, prepare=False)


class Taken:
    """See `Connections.take`. Not by `contextlib.contextmanager`: every append waits for this."""

    __slots__ = ("_lent", "_of")

    def __init__(self, of: Connections) -> None:
        self._of = of

    def __enter__(self) -> Connection:
        self._lent = self._of.lend()
        return self._lent.conn

    def __exit__(self, *raised: object) -> None:
        self._of.give_back(self._lent)


def lost(conn: Connection, error: BaseException | None = None) -> bool:
    """True if a connection has broken, so that nobody can say what became of its last statement."""
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(("08", "57P")):  # the server's last words; the link is about to go
        conn.close()
    return conn.closed or conn.pgconn.status == pq.ConnStatus.BAD


def in_transaction(conn: Connection) -> bool:
    """True if a transaction is open, and sound."""
    return not conn.closed and conn.info.transaction_status == pq.TransactionStatus.INTRANS


def undo(conn: Connection, sql: LiteralString = "ROLLBACK") -> None:
    """Undoes a transaction, or a part of it, after an error. If that fails the link is given up: the error stands."""
    try:
        conn.execute(sql, prepare=False)
    except psycopg.Error:
        conn.close()


class Told:
    """Driver errors become clew's. One can be used again and again, by many threads."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *where: object) -> None:
        if isinstance(error, (psycopg.Error, OverflowError)):
            raise translate(error, self._path) from error


def translate(error: BaseException, path: str) -> ClewError:
    """The error of clew's that tells what a driver's error means."""
    if isinstance(error, ClewError):
        return error
    if isinstance(error, OverflowError):
        return Tampered(path, "a number in it is beyond reason")
    state = (getattr(error, "sqlstate", None) or "") if isinstance(error, psycopg.Error) else ""
    # What comes after the first line may have values of rows in it.
    error.args = tuple(str(arg).partition("\n")[0] for arg in error.args[:1])
    if isinstance(error, psycopg.DataError) and not state:
        return Invalid("a text cannot have a NUL character")
    match state:
        case "XX001" | "XX002":
            return Tampered(path, "the server says that a page or an index of it is damaged")
        case "53100":
            return StorageFull(f"no space is left for {path}", hint="Free some, then make the same call again.")
        case "53300":
            return Unavailable(f"{path} has no connection left to give", hint="Raise max_connections, or use fewer.")
        case "55P03":
            return Unavailable(f"{path} is kept busy by another program", hint=_AGAIN)
        case "57014":
            return Unavailable(f"{path} took longer than the timeout", hint=_CHECK)
        case "25006":
            return ReadOnly(f"{path} cannot be written", hint="It may be a replica: name the primary server.")
        case "42501":
            return ReadOnly(f"{path} does not allow this user to do that", hint="Grant the user rights on its schema.")
        case "3D000":
            return NotFound("store", path, hint="There is no such database: create it first.")
        case "42939":
            return Invalid("a schema whose name begins with pg_ is the server's own", hint="Name another.")
        case "42704":
            return NotFound("role", path, hint="Create the role in the database first.")
        case "23505":
            return Conflict("someone else has stored the same")
        case "42P01" | "42703" | "42883" | "3F000":
            return Unavailable(f"{path} has no store, or not a whole one", hint="Open it anew.")
    if state[:2] == "28":
        return Unavailable(f"{path} refuses this user", hint="Check user and password; a password may be in ~/.pgpass.")
    if state[:2] == "40":
        return Unavailable(f"{path} could not run this beside what others do", hint=_AGAIN)
    if state[:2] in ("XX", "58"):
        return Unavailable(f"{path} has failed inside ({state})", hint="Look at its log, then verify the store.")
    if isinstance(error, psycopg.OperationalError):
        return _unreached(str(error), path)
    return Unavailable(f"{path} answered with error {state or type(error).__name__}", hint=_AGAIN)


def _unreached(said: str, path: str) -> ClewError:
    """What is meant by words alone: the driver has no code for what goes wrong before a connection is made."""
    why = said.rpartition("FATAL:")[2].strip() if "FATAL:" in said else ""
    if why.startswith("database ") and why.endswith("does not exist"):
        return NotFound("store", path, hint="There is no such database: create it first.")
    return Unavailable(f"{path} cannot be reached{f' ({why})' if why else ''}", hint=_CHECK)


def _identifier(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _milliseconds(seconds: float) -> str:
    """0 would mean forever."""
    return str(min(max(1, int(seconds * 1000)), 2**31 - 1))
