"""The contract of a backend: transactions, and the capabilities that only some backends have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from clew.backends.problems import Problem
from clew.backends.rows import HeadState, Move, NodeRow, State
from clew.backends.tables import Table
from clew.backends.tx import Tx
from clew.backends.work import Call

T = TypeVar("T")

Durability = Literal["full", "relaxed"]
Progress = Callable[[int, int], object]
"""Called with the amount done and the total."""
Tail = tuple[str, str, bytes, int]
"""Workspace, kind and key of a ref, and a number of nodes."""


class BackendOptions(NamedTuple):
    """How a backend is opened; `clew.open` explains the fields."""

    durability: Durability = "full"
    timeout: float = 60.0
    create: bool = True
    network: bool = False
    """Used only for files."""
    pool_size: int = 8
    """Used only for servers."""


class Backup(NamedTuple):
    """A complete copy of a store, synced to disk."""

    path: str
    """The path of the file."""
    size: int
    """In bytes."""


class Result(Protocol):
    """The rows of a statement."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All remaining rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Reader(Protocol):
    """Reads a snapshot of a whole store, for verify and copies. Statements use `?` for parameters."""

    @property
    def tx(self) -> Tx:
        """A transaction on the same snapshot."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Result:
        """Runs a statement with few rows."""

    def stream(self, sql: str, values: Sequence[Any] = (), /) -> Iterator[Any]:
        """Runs a statement with many rows, which are fetched as they are needed."""

    def counters(self) -> dict[str, int]:
        """The highest numbers ever assigned, by table; `ords` for the commit order of nodes."""

    def inspect(self) -> Iterator[Problem]:
        """Checks the storage itself: file, log, schema, epoch row and counters."""


class Loader(Tx, Protocol):
    """A transaction that fills an empty store with the rows of another store."""

    def clear(self) -> None:
        """Deletes all rows except headers."""

    def insert_rows(self, table: Table, rows: Sequence[Sequence[object]]) -> None:
        """Stores rows unchanged, with their numbers."""

    def set_owners(self, rows: Iterable[tuple[int | None, int]]) -> None:
        """Stores the owners of refs, given as (owner, ref)."""

    def become(self, header: Mapping[str, bytes], counters: Mapping[str, int], state: State) -> None:
        """Stores the header, counters and state of the source. An unencrypted copy begins a new epoch."""


class Tenants(Protocol):
    """Row-level security: which database role can access which workspaces. See `clew.store.tenants`."""

    def isolate(self) -> None:
        """Enables row-level security."""

    def admit(self, role: str, workspace: str) -> None:
        """Gives a role access to a workspace."""

    def dismiss(self, role: str, workspace: str | None) -> None:
        """Removes a role's access to one workspace, or to all."""


class Partitions(Protocol):
    """Large tables in partitions. See `clew.store.partitions`."""

    def divide(self, parts: int) -> None:
        """Partitions the tables of an empty store."""


class Words(Protocol):
    """A search index in the same database. Each call is one transaction, which does not wait for other writers."""

    def edge(self, workspace: str, mode: str) -> int:
        """The number up to which the index contains every node of a workspace."""

    def add(self, workspace: str, mode: str, rows: Sequence[Sequence[Any]], edge: int) -> None:
        """Adds words of nodes that still exist, and sets the edge. A row: position, id, role, time, lexemes."""

    def find(
        self, workspace: str, mode: str, query: str, filters: dict[str, Any], limit: int, offset: int
    ) -> list[tuple[int, bytes, float]]:
        """Position, id and rank of matches: best first, or newest first if `filters` says so or `query` is empty."""

    def clear(self) -> None:
        """Removes all words that this role can access."""


class Maintenance(Protocol):
    """Operations on the storage as a whole."""

    @property
    def beyond(self) -> tuple[str, ...]:
        """Where copies of deleted data may remain that `clean` cannot remove."""

    @property
    def tenants(self) -> Tenants | None:
        """None if the backend cannot separate tenants."""

    @property
    def partitions(self) -> Partitions | None:
        """None if the backend has no partitions."""

    @property
    def words(self) -> Words | None:
        """None if the search index is not in the same database."""

    def reader(self) -> AbstractContextManager[Reader]:
        """A reader on a snapshot of the store. It may stay open for a long time."""

    def load(self) -> AbstractContextManager[Loader]:
        """A transaction for a copy, committed at the end, rolled back on an error."""

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copies the current state of the store to a new file, which can be opened as a store; `progress` gets pages.

        Conflict if the file exists. An error leaves no file. Invalid on a server.
        """

    def scratch_copy(self) -> Backend | None:
        """A temporary copy of the current state, deleted when it is closed; None if that is not possible."""

    def clean(self) -> tuple[str, ...]:
        """Removes all traces of deleted data. Returns the parts that could not be cleaned: ``wal`` if a reader prevents
        SQLite from truncating the log, or the server from removing rows. Other processes drop their caches at the next
        commit.
        """

    def make_room(self) -> None:
        """Frees space for deletions on a full disk. Deleted data may remain until the caller runs `clean`."""

    def allow_changes(self) -> None:
        """Called when the key was checked. Before that, the backend changes nothing in an existing store."""

    def hurry(self) -> None:
        """Called before the store closes: pending cleanup no longer waits for other processes."""


class Backend(Maintenance, Protocol):
    """The database that holds one store."""

    @property
    def path(self) -> str:
        """The path of the file, or the URL of the server without its password."""

    @property
    def file(self) -> str | None:
        """The path of the store's file, next to which clew may create others; None in memory or on a server."""

    @property
    def unencrypted(self) -> bool:
        """True if the store is on another host, and a connection has no TLS."""

    on_epoch: Callable[[Tx], object]
    """Called when a write finds that a new epoch has begun since this process last read it. The backend rolls that
    transaction back; `write` and `batch` then repeat their work; `transaction` checks the epoch before it begins."""

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        """Runs `work` on a snapshot of the store and returns its result. `work` must not write.

        `single` promises that `work` runs one statement only, which needs no transaction. `tail` says that `work` reads
        a ref and the last nodes before its head, so that the backend can fetch them together.
        """

    def read_fresh(self, work: Callable[[Tx], T]) -> T:
        """`read` on a new connection, without caches. Returns invalid text as it is; `read` may raise Corrupted."""

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        """Runs `work` in a transaction that is durable when this returns; all or nothing.

        `work` may share its transaction with the work of other callers, each in its own savepoint. If the commit fails
        and its outcome is unknown, `settle` reads the store and returns the result if the work was stored, else None.
        `settle` is also called for work that never began, so it must not mistake rows of other callers for its own.
        Without `settle` the caller gets the error.
        """

    @property
    def extendable(self) -> int:
        """The ref of the last write, if that was an append and `extend` can repeat it; 0 inside a transaction."""

    def extend(self, ref: int, seen: HeadState, move: Move, row: NodeRow) -> bool:
        """A `write` of one node and of its ref, whose rank does not change: `Tx.advance` and `Tx.add_nodes`.

        False, and nothing is stored, unless the last write of any process was an append to this ref, and `seen` is the
        state after it. False also after a failed commit: `write` then finds out if the node was stored.
        """

    def batch(self, calls: Sequence[Call]) -> None:
        """Runs calls on this thread in one transaction. Each gets its own outcome; a failed call stores nothing."""

    def in_transaction(self) -> bool:
        """True inside `transaction`, on its thread."""

    def transaction(self) -> AbstractContextManager[None]:
        """Makes reads and writes of this thread one transaction, committed at the end, rolled back on an error."""

    def refresh_epoch(self) -> None:
        """Reads the epoch again. SchemaTooNew or an error of `on_epoch` if this process can no longer use the store."""

    def settled_ord(self) -> int:
        """The current highest number of a node. No later commit adds a node with this number or a lower one."""

    def watch(self, ref: int, notify: Callable[[], object]) -> Callable[[], None]:
        """Calls `notify` after every change of a ref, in any process, until the returned function is called.

        Calls may be late, combined or spurious; there is one when the store is closed. `notify` runs on a thread of the
        backend and must return quickly. A finaliser may call the returned function.
        """

    def close(self) -> None:
        """Idempotent. Later calls raise Closed."""
