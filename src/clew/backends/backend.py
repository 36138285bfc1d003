"""The contract of a backend: transactions, and the capabilities that only some backends have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from clew.backends.problems import Problem
from clew.backends.rows import State
from clew.backends.tables import Table
from clew.backends.tx import Tx
from clew.backends.work import Call

T = TypeVar("T")

Durability = Literal["full", "relaxed"]
Progress = Callable[[int, int], object]
"""Called with what is done and what there is to do."""
Tail = tuple[str, str, bytes, int]
"""Workspace, kind and key of a ref, and how many nodes."""


class BackendOptions(NamedTuple):
    """How a backend is opened; `clew.open` explains the fields."""

    durability: Durability = "full"
    timeout: float = 60.0
    create: bool = True
    network: bool = False
    """For a file alone."""
    pool_size: int = 8
    """For a server alone."""


class Backup(NamedTuple):
    """A complete copy of a store, synced to disk."""

    path: str
    """Where it is."""
    size: int
    """Bytes it has."""


class Result(Protocol):
    """The rows of a statement."""

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All remaining rows."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Reader(Protocol):
    """Reads a whole store as it is at one moment, for verify and copies. Statements use `?` for parameters."""

    @property
    def tx(self) -> Tx:
        """The same moment as rows."""
        ...

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Result:
        """Runs a statement with few rows."""
        ...

    def stream(self, sql: str, values: Sequence[Any] = (), /) -> Iterator[Any]:
        """Runs a statement with many rows, and fetches them as they are needed."""
        ...

    def counters(self) -> dict[str, int]:
        """The highest numbers ever given, by table; `ords` for the order of nodes."""
        ...

    def inspect(self) -> Iterator[Problem]:
        """Checks the storage itself: file, log, schema, epoch row and counters."""
        ...


class Loader(Tx, Protocol):
    """A transaction that fills an empty store with the rows of another."""

    def clear(self) -> None:
        """Deletes all rows, but no headers."""
        ...

    def insert_rows(self, table: Table, rows: Sequence[Sequence[object]]) -> None:
        """Stores rows as they are, with their numbers."""
        ...

    def set_owners(self, rows: Iterable[tuple[int | None, int]]) -> None:
        """Stores the owner of refs, each as (owner, ref)."""
        ...

    def become(self, header: Mapping[str, bytes], counters: Mapping[str, int], state: State) -> None:
        """Takes over the header, counters, and state of the source. A plain copy begins a new epoch."""
        ...


class Tenants(Protocol):
    """Row-level security: which database role sees which workspaces. See `clew.store.tenants`."""

    def isolate(self) -> None:
        """Switches the rules on."""
        ...

    def admit(self, role: str, workspace: str) -> None:
        """Lets a role into a workspace."""
        ...

    def dismiss(self, role: str, workspace: str | None) -> None:
        """Takes one workspace from a role, or all."""
        ...


class Partitions(Protocol):
    """Large tables in partitions. See `clew.store.partitions`."""

    def divide(self, parts: int) -> None:
        """Cuts the tables of an empty store."""
        ...


class Words(Protocol):
    """A search index that is stored with the rows. Each call is one transaction that waits for no other writer."""

    def edge(self, workspace: str, mode: str) -> int:
        """The number up to which the index has every node of a workspace."""
        ...

    def add(self, workspace: str, mode: str, rows: Sequence[Sequence[Any]], edge: int) -> None:
        """Adds words of nodes that still exist, and moves the edge. A row: position, id, role, time, lexemes."""
        ...

    def find(
        self, workspace: str, mode: str, query: str, filters: dict[str, Any], limit: int, offset: int
    ) -> list[tuple[int, bytes, float]]:
        """Position, id and rank of matches, best first; newest first if `filters` say so, or without a query."""
        ...

    def clear(self) -> None:
        """Removes all words that this role may see."""
        ...


class Maintenance(Protocol):
    """The part of a backend that concerns the storage as a whole."""

    @property
    def beyond(self) -> tuple[str, ...]:
        """Where copies of deleted data may be that `clean` cannot reach."""
        ...

    @property
    def tenants(self) -> Tenants | None:
        """None if the backend cannot separate tenants."""
        ...

    @property
    def partitions(self) -> Partitions | None:
        """None if the backend has no partitions."""
        ...

    @property
    def words(self) -> Words | None:
        """None if the search index is not stored with the rows."""
        ...

    def reader(self) -> AbstractContextManager[Reader]:
        """Reads everything as it is at one moment. That may take long."""
        ...

    def load(self) -> AbstractContextManager[Loader]:
        """One transaction of a copy, committed at the end, undone by an error."""
        ...

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copies the store, as it is now, to a new file that opens as a store; `progress` gets pages.

        Conflict if the file exists. On any error nothing remains of it. Invalid on a server.
        """
        ...

    def scratch_copy(self) -> Backend | None:
        """A temporary copy of the store as it is now, gone when it is closed; None if that is not possible."""
        ...

    def clean(self) -> tuple[str, ...]:
        """Removes all traces of deleted data. Returns what could not be done now: ``wal`` if a reader keeps the log
        from being emptied, or the server from giving up rows. Other processes drop their caches at the next commit.
        """
        ...

    def make_room(self) -> None:
        """Frees space for deletions on a full disk. `clean` must follow, because deleted data may remain until then."""
        ...

    def allow_changes(self) -> None:
        """The key is proven: until then nothing of an existing store is changed."""
        ...

    def hurry(self) -> None:
        """The store is about to close: pending cleanup no longer waits for other processes."""
        ...


class Backend(Maintenance, Protocol):
    """A place where a store lives."""

    @property
    def path(self) -> str:
        """The name of the place."""
        ...

    @property
    def file(self) -> str | None:
        """The file it is in, beside which other files may lie; None if it is in no file of this machine."""
        ...

    on_epoch: Callable[[Tx], object]
    """Called when a write finds that a new epoch has begun since this process last looked. That transaction is undone;
    `write` and `batch` then repeat their work; `transaction` looks before it begins."""

    def read(self, work: Callable[[Tx], T], *, single: bool = False, tail: Tail | None = None) -> T:
        """Returns the result of `work`, from one moment of the store. `work` must not write.

        `single` promises one statement only, so that no transaction is needed to see one moment. `tail` says that
        `work` asks for a ref and the last nodes before its head, which may be fetched together.
        """
        ...

    def read_fresh(self, work: Callable[[Tx], T]) -> T:
        """`read` through a connection of its own, without caches. Invalid text is returned as it is; `read` may raise
        Corrupted for it.
        """
        ...

    def write(self, work: Callable[[Tx], T], settle: Callable[[Tx], T | None] | None = None) -> T:
        """Runs `work` in a transaction that is durable when this returns; all or nothing.

        `work` may share its transaction with the work of other callers, each in its own savepoint. If the commit fails
        and its outcome is unknown, `settle` looks at the store and returns a result if the work was stored, else None.
        It is also asked about work that never began, so it must not take rows of others for its own. Without `settle`
        the caller gets the error.
        """
        ...

    def batch(self, calls: Sequence[Call]) -> None:
        """Runs calls on this thread in one transaction; each gets its outcome, and one that fails leaves no trace."""
        ...

    def in_transaction(self) -> bool:
        """True inside `transaction`, on its thread."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Makes reads and writes of this thread one transaction, committed at the end, undone by an error."""
        ...

    def refresh_epoch(self) -> None:
        """Reads the epoch again. SchemaTooNew, or the error of `on_epoch`, if the store cannot be used any more."""
        ...

    def settled_ord(self) -> int:
        """The highest number of a node now; no later commit adds this number or a lower one."""
        ...

    def watch(self, ref: int, notify: Callable[[], object]) -> Callable[[], None]:
        """Calls `notify` after every change of a ref, in any process, until the returned function is called.

        It may be called late, once for several changes, or for nothing; also when the store is closed. It runs on a
        thread of the backend and must be brief. A finaliser may call the returned function.
        """
        ...

    def close(self) -> None:
        """Idempotent. Later calls raise Closed."""
        ...
