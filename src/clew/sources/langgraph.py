"""Threads of LangGraph: the database of its ``SqliteSaver``, or a server with the tables of its ``PostgresSaver``.

A checkpoint has the whole state, as MessagePack. The messages of the channel ``messages`` are the conversation; each is
stored once, and a thread that continued from an earlier checkpoint has a branch. The rest of the state is not read.
Checkpoints name classes of Python; none of them is imported or created. A subgraph's messages are a subagent's trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import Native
from clew.errors import Invalid, MissingPackage, Unavailable
from clew.providers.json_values import as_dict
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id, join_any_names
from clew.sources.items import Item
from clew.sources.registry import Found
from clew.sources.sqlite import open_database, scan, tables_of
from clew.sources.values import digest, when

NAME = "langgraph"
PROVIDER = "langchain"
MESSAGES = "messages"
_MODULE = re.compile(r"langchain(_core)?\.messages\b")
_ARGUMENTS = (0, 1, 2, 3, 4, 5)
"""Extension types of LangGraph that hold a module, a name and arguments. The others are arrays and snapshots."""
SCHEMES = ("postgresql://", "postgres://")
PAGE = 200
_TABLES = "SELECT to_regclass('checkpoints') IS NOT NULL AND to_regclass('checkpoint_blobs') IS NOT NULL"
_SIZE = "SELECT pg_total_relation_size('checkpoints') + pg_total_relation_size('checkpoint_blobs')"
_CHECKPOINTS = """
SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.checkpoint ->> 'ts', b.type, b.blob
FROM checkpoints c LEFT JOIN checkpoint_blobs b
  ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = %s
  AND b.version = c.checkpoint -> 'channel_versions' ->> %s
ORDER BY c.thread_id, c.checkpoint_ns, c.checkpoint_id
"""


class LangGraph:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "LangGraph"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        return ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        known = tables_of(path, head)
        return {"thread_id", "checkpoint_id", "checkpoint"} <= set(known.get("checkpoints", ()))

    def read(self, item: Item) -> Iterator[Part]:
        threads: dict[tuple[str, str], ThreadReader] = {}
        with open_database(item) as connection:
            columns = "thread_id, checkpoint_ns, checkpoint_id, type, checkpoint"
            for number, row in enumerate(scan(connection, "checkpoints", columns), 1):
                at = (str(row["thread_id"]), str(row["checkpoint_ns"] or ""))
                if at not in threads:
                    threads[at] = ThreadReader(*at)
                try:
                    state = _decode(row["type"], row["checkpoint"])
                except (msgspec.MsgspecError, RecursionError, TypeError, ValueError) as error:
                    yield Skip(number, f"the checkpoint cannot be read: {type(error).__name__}")
                    continue
                yield from threads[at].entries(str(row["checkpoint_id"]), state)
        for thread in threads.values():
            yield from thread.end()


class _Stored(NamedTuple):
    """A message of a thread: its place in the tree, and its id."""

    chain: str
    id: str


class ThreadReader:
    """The messages of one thread, or of a subgraph in it."""

    def __init__(self, thread: str, ns: str) -> None:
        self._owner = thread
        self._names = (thread, ns) if ns else (thread,)
        self._name = join_any_names(*self._names)
        self._agent = ns.rpartition("|")[2].partition(":")[0] if ns else None
        self._seen: dict[str, str] = {}
        """The ids of messages by their chains: a hash of a message and of all messages before it."""
        self._latest = ("", "")
        """The highest id of a checkpoint, and the id of its last message."""

    def entries(self, checkpoint: str, state: dict[str, Any]) -> Iterator[Entry]:
        """The messages of a checkpoint that no checkpoint before it has."""
        values = as_dict(state.get("channel_values")).get(MESSAGES)
        made, above = when(state.get("ts")), _Stored("", "")
        for message in values if isinstance(values, list) else []:
            if not isinstance(message, dict):
                continue
            raw = msgspec.json.encode(message)
            chain = digest(above.chain, raw)
            if chain not in self._seen:
                self._seen[chain] = derived_id(NAME, self._name, chain)
                said = Native(PROVIDER, raw, extra=_usage(message))
                yield Entry(
                    conversation=self._name,
                    raw=raw,
                    key=chain,
                    id=self._seen[chain],
                    message=said,
                    parent=above.id or None,
                    created_at=made,
                )
            above = _Stored(chain, self._seen[chain])
        if above.id:
            self._latest = max(self._latest, (checkpoint, above.id))

    def end(self) -> Iterator[About]:
        """The facts about the thread after all checkpoints."""
        if self._latest[1]:
            owner = None if self._agent is None else join_any_names(self._owner)
            own = {NAME: {"names": self._names}}
            yield About(conversation=self._name, head=self._latest[1], agent=self._agent, owner=owner, own=own)


def _usage(message: dict[str, Any]) -> dict[str, Any] | None:
    used = as_dict(as_dict(message.get("data")).get("usage_metadata"))
    return {"usage": {"input": used.get("input_tokens"), "output": used.get("output_tokens")}} if used else None


def _decode(kind: object, data: object) -> dict[str, Any]:
    """A checkpoint; empty if it is not an object. Raises for an unknown format."""
    if not isinstance(data, bytes):
        raise TypeError("a checkpoint is bytes")
    if kind == "msgpack":
        found = unpack(data)
    elif kind == "json":
        found = msgspec.json.decode(data)
    else:
        raise ValueError("unknown form")
    return found if isinstance(found, dict) else {}


def unpack(data: bytes | memoryview) -> Any:
    """A value as LangGraph's serializer wrote it, with arguments in the place of objects."""
    return msgspec.msgpack.Decoder(ext_hook=_extension).decode(data)


def _extension(code: int, data: memoryview) -> Any:
    """The arguments of an object, instead of the object; for a message, its type and fields, as LangChain dumps it."""
    if code not in _ARGUMENTS:
        return None
    module, _, arguments, *_ = unpack(data)
    if isinstance(arguments, dict) and isinstance(module, str) and _MODULE.match(module):
        fields = {name: value for name, value in arguments.items() if value is not None and name != "type"}
        return {"type": arguments.get("type"), "data": fields}
    return arguments


def is_url(path: str) -> bool:
    """True if a path of the command line is the address of a database."""
    return path.startswith(SCHEMES)


def without_password(url: str) -> str:
    """A URL for messages and logs. Invalid."""
    return LangGraphOnServer(url).address


def find_on_server(url: str) -> Found:
    """The database at a URL. Invalid if it has no threads of LangGraph; Unavailable, NotFound."""
    source = LangGraphOnServer(url)
    return Found(source.item(), source, partial=True)


class LangGraphOnServer(LangGraph):
    """The threads of one server, read in a read-only transaction. Its name does not include the password.

    A checkpoint there has the versions of its channels, and each value is a row of its own.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._psycopg = _driver()
        try:
            known = self._psycopg.conninfo.conninfo_to_dict(url)
        except self._psycopg.Error:
            raise Invalid("invalid URL of a PostgreSQL database", hint="Use postgresql://user@host/database.") from None
        user, port = (f"{known['user']}@" if "user" in known else ""), (f":{known['port']}" if "port" in known else "")
        self.address = f"postgresql://{user}{known.get('host', '')}{port}/{known.get('dbname', '')}"

    def item(self) -> Item:
        """The database as an item. Invalid if it has no threads."""
        with self._connected() as connection:
            if not connection.execute(_TABLES).fetchone()[0]:
                raise Invalid(f"{self.address} has no threads of LangGraph", hint="Name the database of PostgresSaver.")
            return Item(self.address, connection.execute(_SIZE).fetchone()[0], 0)

    def read(self, item: Item) -> Iterator[Part]:
        threads: dict[tuple[str, str], ThreadReader] = {}
        with self._connected() as connection, connection.cursor(name="clew") as rows:
            rows.itersize = PAGE
            rows.execute(_CHECKPOINTS, (MESSAGES, MESSAGES))
            for number, (thread, ns, checkpoint, made, kind, blob) in enumerate(rows, 1):
                reader = threads.setdefault((thread, ns), ThreadReader(thread, ns))
                try:
                    values = unpack(bytes(blob)) if kind == "msgpack" else None
                except (msgspec.MsgspecError, RecursionError, TypeError, ValueError) as error:
                    yield Skip(number, f"the checkpoint cannot be read: {type(error).__name__}")
                    continue
                yield from reader.entries(checkpoint, {"channel_values": {MESSAGES: values}, "ts": made})
        for reader in threads.values():
            yield from reader.end()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection that can only read, in one transaction. Unavailable."""
        try:
            with self._psycopg.connect(self._url) as connection:
                connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                yield connection
        except self._psycopg.Error as error:
            why = error.sqlstate or "no connection"
            hint = "Check the address, the user and the password; a password may be in ~/.pgpass."
            raise Unavailable(f"{self.address} cannot be read ({why})", hint=hint) from None


def _driver() -> Any:
    """The module psycopg. MissingPackage."""
    try:
        import psycopg
    except ImportError:
        raise MissingPackage("a database on PostgreSQL needs psycopg", "clew[postgres]") from None
    return psycopg
