"""Types of the async twins. Written by tools/aio.py."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from types import TracebackType
from typing import IO, Any, Generic, Self, TypeVar

from clew import aio
from clew.aio import Sweeper
from clew.aio.proxy import Proxy
from clew.records import deferred, service
from clew.records.events import Events
from clew.records.frames import Type
from clew.records.schema import (
    AttachmentRef,
    ConversationRecord,
    ConversationRecordInput,
    ConversationRecordMutation,
    EncryptedBlob,
    JsonInput,
    ListResult,
    PurgeReason,
    PurgeReport,
    RecoverySnapshot,
)
from clew.retention.policy import Policy
from clew.store.store import Store

T = TypeVar("T")

class Pending(Proxy, Generic[T], of=deferred.Pending):
    """A write that is **not** stored yet, because there is no space: see `clew.records.Pending`."""
    @property
    def operation(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...
    @property
    def size(self) -> int: ...
    async def result(self, timeout: float | None = None) -> T:
        """See `clew.records.Pending.result`. The task may be cancelled while it waits."""
    @property
    def done(self) -> bool:
        """True once it is stored or has failed permanently."""
    @property
    def stored(self) -> bool:
        """True once it is durable."""

class RecordService(Proxy, of=service.RecordService):
    """See `clew.records.RecordService`; takes an async store or a sync one."""

    _sync: service.RecordService
    def __init__(self, store: aio.Store | Store, **options: Any) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def sweeper(self, *, every: timedelta = ..., on_error: Callable[[Exception], object] | None = None) -> Sweeper:
        """Sweeps repeatedly: ``async with service.sweeper(): …``."""
    @property
    def events(self) -> Events:
        """The event bus of this service."""
    @property
    def is_initialized(self) -> bool:
        """True between `initialize` and `dispose`."""
    @property
    def pending(self) -> int:
        """Number of writes that wait in memory for space."""
    @property
    def policy(self) -> Policy | None:
        """The store's current policy. None before the first `initialize`."""
    async def initialize(self) -> PurgeReport | None:
        """Makes the service ready, stores its policy, sweeps, and starts to sweep every six hours. Idempotent."""
    async def dispose(self, grace: float = ...) -> None:
        """Refuses further calls and waits up to `grace` seconds for the running ones. Idempotent."""
    async def create(
        self, record: ConversationRecordInput | JsonInput
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Stores a new record. Raises Conflict if its id is in use, and Invalid."""
    async def update(
        self,
        conversation_id: str,
        mutation: ConversationRecordMutation | JsonInput,
        *,
        expected_version: int | None = None,
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Changes a record: appends messages at the current end, and replaces the fields that are given."""
    async def get(self, conversation_id: str) -> ConversationRecord | None:
        """The record; None if there is none. Raises Corrupted if the record itself is damaged."""
    async def list(self, *, limit: int = 50, cursor: str | None = None, include_expired: bool = False) -> ListResult:
        """Records without their messages, last interaction first. Raises Invalid if the cursor is not valid."""
    async def delete(self, conversation_id: str, reason: PurgeReason) -> PurgeReport:
        """Purges a record and all its data, also from the trash, and drops its waiting writes."""
    async def purge_all(self, reason: PurgeReason) -> PurgeReport:
        """Purges all records and all sessions that other programs wrote, also from the trash."""
    async def commit_snapshot(self, snapshot: RecoverySnapshot | JsonInput) -> Pending[None] | None:
        """Stores the uncommitted messages of an active conversation; durable when this returns. Safe to repeat."""
    async def get_snapshot(self, conversation_id: str) -> RecoverySnapshot | None:
        """The uncommitted part of a conversation; None if there is none."""
    async def commit_conversation(
        self,
        conversation_id: str,
        mutation: ConversationRecordMutation | JsonInput | None = None,
        *,
        expected_version: int | None = None,
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Ends a conversation: an `update` after which no message is pending. Raises NotFound."""
    async def recoverable(self) -> tuple[str, ...]:
        """The ids of conversations with uncommitted messages, newest first: those to resume after a crash."""
    async def attach(
        self, conversation_id: str, source: bytes | IO[bytes], *, type: Type, attachment_id: str | None = None
    ) -> AttachmentRef:
        """Stores a file of any size for a record, and returns a reference for its messages. Raises NotFound."""
    def open_attachment(self, conversation_id: str, uri: str) -> AsyncIterator[bytes]:
        """The content of an attachment or a recording, in pieces. Raises NotFound, Corrupted."""
    async def set_privacy(
        self, conversation_id: str, *, exportable: bool | None = None, consent_capture: str | None = None
    ) -> ConversationRecord:
        """Sets whether a record may be exported and how the user consented, where given. Raises NotFound."""
    async def export(self, conversation_id: str) -> bytes:
        """The record as JSON. Raises NotFound, and Conflict if it may not be exported."""
    async def export_blob(self, conversation_id: str, key: bytes) -> EncryptedBlob:
        """The record encrypted with a key of 32 bytes. Raises as `export` does, and Invalid."""
    async def import_blob(
        self, blob: EncryptedBlob | JsonInput, key: bytes
    ) -> ConversationRecord | Pending[ConversationRecord]:
        """Creates the record of an exported blob, with the retention and privacy of a new one: see `create`."""
    async def set_policy(self, policy: Policy) -> PurgeReport:
        """Replaces the policy of the store's workspace, and sweeps."""
    async def sweep(self, *, force: bool = False) -> PurgeReport:
        """Purges the records that have expired under the store's policy, but no sessions of other programs."""
