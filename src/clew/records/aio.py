"""The async face of the record service: the same names, awaited, on asyncio and on trio.

    async with clew.aio.open("chats.db") as store, RecordService(store) as service: ...

Calls run on worker threads, and those that write at the same time share a commit. A task that is cancelled waits for
the call it has begun: what was written is whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from itertools import islice
from types import TracebackType
from typing import IO, Any, Generic, Self, TypeVar

try:
    import anyio
except ImportError as error:  # the core does without it
    raise ImportError("clew.records.aio needs anyio: pip install 'clew[aio]'") from error

from clew import aio
from clew.aio import Sweeper
from clew.events import Events
from clew.policy import Policy
from clew.records import deferred, service
from clew.records.frames import Type
from clew.records.shapes import (
    AttachmentRef,
    ConversationRecord,
    ConversationRecordInput,
    ConversationRecordMutation,
    Given,
    ListResult,
    PurgeReason,
    PurgeReport,
    RecoverySnapshot,
)
from clew.retention import EVERY
from clew.store import Store

LOOK = 0.02
"""Seconds between two looks at whether what waits for space is stored."""
AHEAD = 4
"""Pieces of an attachment that are fetched with one visit to a thread."""

S = TypeVar("S")
T = TypeVar("T")
Stored = ConversationRecord


class Pending(Generic[T]):
    """See `clew.records.Pending`."""

    def __init__(self, sync: deferred.Pending[T]) -> None:
        self._sync = sync

    @property
    def operation(self) -> str:
        """What was called: create, update, …"""
        return self._sync.operation

    @property
    def conversation_id(self) -> str:
        """Of which conversation."""
        return self._sync.conversation_id

    @property
    def size(self) -> int:
        """Bytes that it keeps in memory."""
        return self._sync.size

    @property
    def done(self) -> bool:
        """True once it is stored, or has failed for good."""
        return self._sync.done

    @property
    def stored(self) -> bool:
        """True once it is durable."""
        return self._sync.stored

    async def result(self, timeout: float | None = None) -> T:  # noqa: ASYNC109 - as its sync twin has it
        """See `clew.records.Pending.result`. A task may be cancelled while it waits."""
        # No thread waits: those that do could keep the one that is to make space from running.
        with anyio.move_on_after(None if timeout is None else deferred.seconds("timeout", timeout)):
            while not self._sync.done:  # noqa: ASYNC110 - a thread sets it, and knows no event of this loop
                await anyio.sleep(LOOK)
        return self._sync.result(0)


class RecordService:
    """See `clew.records.RecordService`; made of an async store, or of a sync one."""

    def __init__(self, store: aio.Store | Store, **options: Any) -> None:
        self._sync = service.RecordService(store if isinstance(store, Store) else store._sync, **options)

    @property
    def events(self) -> Events:
        """Where to subscribe to what happens; subscribers are called on worker threads."""
        return self._sync.events

    @property
    def is_initialized(self) -> bool:
        """True between `initialize` and `dispose`."""
        return self._sync.is_initialized

    @property
    def pending(self) -> int:
        """How many writes wait in memory for space."""
        return self._sync.pending

    @property
    def policy(self) -> Policy | None:
        """The store's policy, as it is now: how long records are kept."""
        return self._sync.policy

    async def initialize(self) -> PurgeReport | None:
        """Makes the service ready, and sweeps."""
        return await _run(self._sync.initialize)

    async def dispose(self, grace: float = service.GRACE) -> None:
        """Finishes what is going on, within `grace` seconds, and refuses everything else. Idempotent. Unfinished."""
        await _run(self._sync.dispose, grace)

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose()

    async def create(self, record: ConversationRecordInput | Given) -> Stored | Pending[Stored]:
        """Stores a new record."""
        return _wrap(await _run(self._sync.create, record))

    async def update(
        self, conversation_id: str, mutation: ConversationRecordMutation | Given, *, expected_version: int | None = None
    ) -> Stored | Pending[Stored]:
        """Changes a record."""
        return _wrap(await _run(self._sync.update, conversation_id, mutation, expected_version=expected_version))

    async def get(self, conversation_id: str) -> ConversationRecord | None:
        """The record; None if there is none."""
        return await _run(self._sync.get, conversation_id)

    async def list(self, *, limit: int = 50, cursor: str | None = None, include_expired: bool = False) -> ListResult:
        """Records without their messages, last interaction first."""
        return await _run(self._sync.list, limit=limit, cursor=cursor, include_expired=include_expired)

    async def delete(self, conversation_id: str, reason: PurgeReason) -> PurgeReport:
        """Purges a record with all that belongs to it."""
        return await _run(self._sync.delete, conversation_id, reason)

    async def purge_all(self, reason: PurgeReason) -> PurgeReport:
        """Purges every record."""
        return await _run(self._sync.purge_all, reason)

    async def commit_snapshot(self, snapshot: RecoverySnapshot | Given) -> Pending[None] | None:
        """Stores what is pending of a conversation that goes on."""
        return _wrap(await _run(self._sync.commit_snapshot, snapshot))

    async def get_snapshot(self, conversation_id: str) -> RecoverySnapshot | None:
        """What was pending of a conversation."""
        return await _run(self._sync.get_snapshot, conversation_id)

    async def commit_conversation(
        self,
        conversation_id: str,
        mutation: ConversationRecordMutation | Given | None = None,
        *,
        expected_version: int | None = None,
    ) -> Stored | Pending[Stored]:
        """Ends a conversation."""
        call = partial(self._sync.commit_conversation, conversation_id, mutation, expected_version=expected_version)
        return _wrap(await _run(call))

    async def recoverable(self) -> tuple[str, ...]:
        """The ids of conversations with something pending."""
        return await _run(self._sync.recoverable)

    async def attach(
        self, conversation_id: str, source: bytes | IO[bytes], *, type: Type, attachment_id: str | None = None
    ) -> AttachmentRef:
        """Stores a file for a record."""
        return await _run(self._sync.attach, conversation_id, source, type=type, attachment_id=attachment_id)

    async def open_attachment(self, conversation_id: str, uri: str) -> AsyncIterator[bytes]:
        """The content of an attachment or a recording, in pieces."""
        pieces = await _run(self._sync.open_attachment, conversation_id, uri)
        while batch := await _run(lambda: [*islice(pieces, AHEAD)]):
            for piece in batch:
                yield piece

    async def set_privacy(
        self, conversation_id: str, *, exportable: bool | None = None, consent_capture: str | None = None
    ) -> ConversationRecord:
        """Says whether a record may be exported."""
        call = partial(self._sync.set_privacy, conversation_id, exportable=exportable, consent_capture=consent_capture)
        return await _run(call)

    async def export(self, conversation_id: str) -> bytes:
        """The record as JSON, to leave the store."""
        return await _run(self._sync.export, conversation_id)

    async def set_policy(self, policy: Policy) -> PurgeReport:
        """Keeps records for another time from now on."""
        return await _run(self._sync.set_policy, policy)

    async def sweep(self, *, force: bool = False) -> PurgeReport:
        """Purges what has expired."""
        return await _run(self._sync.sweep, force=force)

    def sweeper(self, *, every: timedelta = EVERY, on_error: Callable[[Exception], object] | None = None) -> Sweeper:
        """What sweeps again and again as a task: ``async with service.sweeper(): …``."""
        return Sweeper(self._sync._sweep_again, every=every, on_error=on_error)


async def _run(function: Callable[..., S], *args: Any, **kwargs: Any) -> S:
    return await anyio.to_thread.run_sync(partial(function, *args, **kwargs))


def _wrap(value: S | deferred.Pending[S]) -> S | Pending[S]:
    return Pending(value) if isinstance(value, deferred.Pending) else value
