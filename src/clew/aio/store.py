"""Async twins of a store and its parts: declarations only. `proxy` makes the methods, `store.pyi` has their types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Self

from clew.aio.proxy import Proxy
from clew.base import values
from clew.base.values import T
from clew.engine import audit, blobs, log
from clew.engine.node import Node
from clew.store import attachments, nodes, session, sessions, snapshots, store
from clew.store.search import query
from clew.upkeep import quarantine


class Blobs(Proxy, of=blobs.Blobs):
    """The blobs of one tree."""


class Log(Proxy, of=log.Log, commits=("append",)):
    """The log of one ref."""


class Session(Proxy, of=session.Session, commits=("append",), awaited=("handle", "counters", "owner_id")):
    """A conversation."""


class Page(Proxy, Generic[T], of=values.Page):
    """Some items of a list, as async objects. It iterates over its items; `all` continues with the pages after it."""

    items: list[T]
    next_cursor: str | None
    total: int | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self._sync)


class Hit(Proxy, of=query.Hit, awaited=("session", "sessions")):
    """A message that matched a search."""

    node: Node
    score: float


class Sessions(Proxy, of=sessions.Sessions):
    """The sessions of a store."""


class Nodes(Proxy, of=nodes.Nodes, commits=("save", "save_dialog")):
    """The messages of a store, as a tree."""


class Quarantine(Proxy, of=quarantine.Quarantine):
    """Damaged messages that were moved out of the way."""


class StoreBlobs(Proxy, of=attachments.StoreBlobs):
    """The blobs of a store, by session or node."""


class StoreLog(Proxy, of=attachments.StoreLog, commits=("append",)):
    """The logs of a store, by session."""


class Audit(Proxy, of=audit.Audit):
    """The audit log of a store."""


class Snapshots(Proxy, of=snapshots.Snapshots):
    """The snapshots of a store."""


class Store(Proxy, of=store.Store):
    """A store."""

    @property
    def sync(self) -> store.Store:
        """The store itself, for functions that take one, such as `clew.otel.instrument_store`."""
        found: store.Store = self._sync
        return found

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Runs several calls of this task in one transaction: all or none take effect. Other writers wait."""
        return self._threads.transaction()

    async def close(self) -> None:
        """Finishes pending calls and closes the files. Idempotent; later calls raise Closed."""
        await self._threads.close()
        await self._threads.run(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
