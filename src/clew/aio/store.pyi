"""Types of the async twins. Written by tools/aio.py."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import IO, Any, Generic, Literal, Self, overload

from clew.aio.proxy import Proxy, Watch
from clew.backends import Backup, BlobRow
from clew.backends.fts_tables import Mode
from clew.base import values
from clew.base.messages import AnyMessage, Media, Message, Modality, Role
from clew.base.values import Clock, T
from clew.engine import audit, blobs, log
from clew.engine.audit import AuditEvent
from clew.engine.blob_objects import Cleared
from clew.engine.blobs import Blob, Source
from clew.engine.engine import Draft
from clew.engine.log import Entry
from clew.engine.node import Counters, Node
from clew.engine.receipts import Reason, Receipt, Receipts
from clew.engine.session_data import SessionData
from clew.keys import Key
from clew.snapshots.types import Snapshot, ToolSnapshot
from clew.store import attachments, nodes, session, sessions, snapshots, store
from clew.store.nodes import NewNode, NodeList
from clew.store.search import query
from clew.store.search.index import Progress as _Progress
from clew.store.search.text import Marks
from clew.store.session import Branch
from clew.store.snapshots import Summaries
from clew.store.store import T as _T
from clew.store.unit import Document, Unit
from clew.upkeep import quarantine
from clew.upkeep.quarantine import Event, Progress, QuarantinedList, Swept
from clew.upkeep.rekey import Status
from clew.upkeep.verify import Report

class Blobs(Proxy, of=blobs.Blobs):
    """The blobs of one tree."""

    _sync: blobs.Blobs
    async def put(self, source: Source) -> Blob:
        """Streams bytes, a binary file or pieces of bytes into the store. A tree stores the same content once."""
    async def get(self, digest: str) -> bytes:
        """The whole content. NotFound; Corrupted if the content was changed."""
    def open(self, digest: str) -> AsyncIterator[bytes]:
        """The content in pieces, without a transaction between them. NotFound at once; Corrupted at a damaged piece."""
    def open_row(self, row: BlobRow, digest: str = "") -> AsyncIterator[bytes]:
        """`open` for a blob whose row was read. Errors name `digest`."""
    async def stat(self, digest: str) -> Blob:
        """Address and size of a blob. NotFound."""

class Log(Proxy, of=log.Log):
    """The log of one ref."""

    _sync: log.Log
    async def append(self, data: bytes | Sequence[bytes], *, id: str | Sequence[str] | None = None) -> list[Entry]:
        """Adds entries, all or none, durable when this returns. Stored entries (same id and bytes) are skipped."""
    def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[Entry]:
        """Entries from number `start` to before `stop`, in order, without a transaction between pages."""

class Session(Proxy, of=session.Session):
    """A conversation."""

    _sync: session.Session
    @property
    def id(self) -> str:
        """Its id, a UUID."""
    @property
    def handle(self) -> Awaitable[str]:
        """A short name that is easy to type."""
    @property
    def data(self) -> SessionData:
        """All of its data."""
    @property
    def title(self) -> str | None:
        """Its title."""
    @property
    def cwd(self) -> str | None:
        """Its working directory."""
    @property
    def model(self) -> str | None:
        """The model it uses."""
    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, sorted."""
    @property
    def agent(self) -> str | None:
        """The name of the subagent, if this is the trace of one."""
    @property
    def is_subagent(self) -> bool:
        """True for the trace of a subagent, which `latest` never returns."""
    @property
    def owner_id(self) -> Awaitable[str | None]:
        """The id of the session that owns this trace of a subagent; None without an owner."""
    @property
    def forked_from(self) -> str | None:
        """The id of the session it was forked from."""
    @property
    def forked_at(self) -> str | None:
        """The id of the last message it shares with the session it was forked from."""
    @property
    def extra(self) -> dict[str, Any]:
        """Free data."""
    @property
    def head_id(self) -> str | None:
        """The id of its last message; None while it has none."""
    @property
    def version(self) -> int:
        """A number that grows with every change."""
    @property
    def created_at(self) -> datetime:
        """When it was created."""
    @property
    def updated_at(self) -> datetime:
        """When its head last moved."""
    @property
    def held(self) -> bool:
        """True if it cannot be deleted: see `hold`."""
    @property
    def hold_reason(self) -> str | None:
        """Why it is held."""
    @property
    def expires_at(self) -> datetime | None:
        """When its own retention ends: see `retain`. None if it has none."""
    @property
    def trashed_at(self) -> datetime | None:
        """When it was moved to the trash; None if it is not there."""
    @property
    def counters(self) -> Awaitable[Counters]:
        """Messages, turns, tokens and cost up to its present last message."""
    @property
    def blobs(self) -> Blobs:
        """The attachments of its tree."""
    @property
    def log(self) -> Log:
        """Its log: entries apart from its messages, such as a transcript."""
    async def refresh(self) -> Self:
        """Reads it again. NotFound if it was deleted."""
    @overload
    async def append(
        self,
        messages: AnyMessage | Draft | str | dict[str, Any],
        *,
        id: str | None = None,
        created_at: datetime | None = None,
        expect_head: Node | str | None = ...,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> Node: ...
    @overload
    async def append(
        self,
        messages: Sequence[AnyMessage | Draft],
        *,
        id: Sequence[str] | None = None,
        created_at: datetime | None = None,
        expect_head: Node | str | None = ...,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> list[Node]: ...
    async def path(self, *, last: int | None = None, until: Node | str | None = None) -> list[Node]:
        """Its messages, root first: all, the `last` ones, or those up to and including `until`. NotFound."""
    async def messages(self, *, last: int | None = None, until: Node | str | None = None) -> list[Message]:
        """The messages of `path` in neutral form, without ids, times and totals: for all messages it is faster."""
    def iter(self, *, until: Node | str | None = None) -> AsyncIterator[Node]:
        """Its messages, root first, up to and including `until`, read in small batches: memory use does not grow with the session. NotFound."""
    def history(self) -> AsyncIterator[Node]:
        """Like `iter`, but starts with the messages that compactions replaced."""
    def watch(self, *, after: Node | str | None = ..., timeout: float | None = None) -> Watch:
        """Waits for new messages, from any process or machine, and yields each once."""
    async def fork(self, *, at: Node | str | None = None, title: str | None = None, id: str | None = None) -> Session:
        """Creates a session that shares the messages up to `at`, by default the last one. Copies nothing."""
    async def rewind(self, to: Node | str | None) -> Branch | None:
        """Moves the head back to a message, or with None before the first. The messages after it stay as a branch."""
    async def branches(self) -> list[Branch]:
        """Its branches, oldest first."""
    async def subagents(self) -> list[Session]:
        """The traces of its subagents, oldest first."""
    async def compact(
        self, messages: AnyMessage | Sequence[AnyMessage], *, expect_head: Node | str | None = ...
    ) -> list[Node]:
        """Replaces all messages by a summary: `messages` become a new root, where `path` begins."""
    async def rename(self, title: str | None) -> Self:
        """Changes its title."""
    async def label(self, *add: str, remove: Sequence[str] = ...) -> Self:
        """Adds labels, and removes others."""
    async def update(
        self, *, model: str | None = ..., cwd: str | None = ..., extra: dict[str, Any] | None = ...
    ) -> Self:
        """Changes its model, its directory or its free data."""
    async def relocate(self, old: str, new: str) -> Self:
        """Updates its directory and checkpoints after a project moved from `old` to `new`. Both paths are absolute."""
    async def attach(
        self, source: bytes | IO[bytes], *, mime_type: str, modality: Modality = "document", name: str | None = None
    ) -> Media:
        """Stores a file as a blob of this session. Returns the block to put into a message."""
    async def hold(self, reason: str | None = None) -> Self:
        """Prevents every kind of deletion, including the trash, until `release`."""
    async def release(self) -> Self:
        """Ends its hold."""
    async def retain(self, *, days: int | None = None, until: datetime | None = None) -> Self:
        """Sets its own retention: `days` after its last activity, or `until` a time. With neither, the store's policy applies again."""
    async def trash(self) -> Self:
        """Moves it to the trash with its branches and subagents. It cannot be found, listed or searched until restored."""
    async def delete(self) -> Self:
        """`trash`: it can be restored. `purge` deletes it for good."""
    async def purge(
        self, *, reason: Reason = "user-requested", dry_run: bool = False, check: Callable[[Self], object] | None = None
    ) -> Receipt:
        """Deletes it permanently, in the trash or not, and clears every trace of it. See `Sessions.purge`."""

class Page(Proxy, Generic[T], of=values.Page):
    """Some items of a list, as async objects. It iterates over its items; `all` continues with the pages after it."""
    @property
    def items(self) -> list[T]: ...
    @property
    def next_cursor(self) -> str | None: ...
    @property
    def total(self) -> int | None: ...
    def __iter__(self) -> Iterator[T]: ...
    def __len__(self) -> int: ...
    def all(self) -> AsyncIterator[T]:
        """The items of this page and of all pages after it; each page is read when its first item is needed."""
    def pages(self) -> AsyncIterator[Page[T]]:
        """The page and all pages after it, each read when it is needed."""

class Hit(Proxy, of=query.Hit):
    """A message that matched a search."""

    _sync: query.Hit
    @property
    def node(self) -> Node: ...
    @property
    def score(self) -> float: ...
    @property
    def snippet(self) -> str:
        """The part of its text that matched."""
    @property
    def marks(self) -> Marks:
        """The matches in the snippet, each as start and end."""
    @property
    def session(self) -> Awaitable[Session | None]:
        """The session in which it was written, or the oldest that still contains it; None if there is none."""
    @property
    def sessions(self) -> Awaitable[list[Session]]:
        """All sessions that contain it, or did before a compaction, the oldest first; read once for all hits."""

class Sessions(Proxy, of=sessions.Sessions):
    """The sessions of a store."""

    _sync: sessions.Sessions
    async def create(
        self,
        *,
        title: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        labels: Iterable[str] = ...,
        extra: dict[str, Any] | None = None,
        id: str | None = None,
        agent: str | None = None,
        owner: Session | None = None,
        at: Node | str | None = None,
    ) -> Session:
        """Creates a session: empty, or with `at` continuing from any stored message. Conflict if the id is taken. NotFound."""
    async def open(
        self,
        *key: str,
        title: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        labels: Iterable[str] = ...,
        extra: dict[str, Any] | None = None,
    ) -> Session:
        """The session with a key of your own, such as an application and a user; created if there is none."""
    async def get(self, key: Session | str) -> Session:
        """The session with this id or handle. NotFound, also if it is in the trash; Ambiguous."""
    async def find_anywhere(self, key: Session | str) -> Session:
        """The session with this id or handle, in the trash or not. NotFound, Ambiguous."""
    async def with_message(self, node: Node, *, branches: bool = False) -> Session | None:
        """The most recently active session that contains a message, or contained it before a compaction."""
    async def latest(self, cwd: str | os.PathLike[str] | None = None) -> Session:
        """The session that was last active, in exactly this directory if one is given; never a subagent's. NotFound."""
    async def list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        label: str | None = None,
        title: str | None = None,
        include_expired: bool = False,
        subagents: bool = False,
        total: bool = False,
    ) -> Page[Session]:
        """Sessions, last active first; filtered by exact directory, by label, by a part of the title."""
    async def fork(
        self, source: Session | str, *, at: Node | str | None = None, title: str | None = None, id: str | None = None
    ) -> Session:
        """Creates a session at a message of the source's tree, by default its last one. Copies nothing."""
    async def hold(self, key: Session | str, reason: str | None = None) -> Session:
        """Prevents every kind of deletion of a session, including the trash, until `release`."""
    async def release(self, key: Session | str) -> Session:
        """Ends a session's hold."""
    async def trash(self, key: Session | str) -> Session:
        """Moves a session to the trash, with all it owns. Idempotent. Conflict if it is held."""
    async def trashed(self, *, limit: int = 50, cursor: str | None = None) -> Page[Session]:
        """The sessions in the trash, last trashed first, except those trashed with their owner. They are read-only."""
    async def delete(self, key: Session | str) -> Session:
        """`trash`: it can be restored. `purge` deletes it for good."""
    async def restore(self, key: Session | str) -> Session:
        """Restores a session from the trash, with all that was trashed with it, to its old place in the list."""
    async def purge(
        self,
        keys: Session | str | Iterable[Session | str] | None = None,
        *,
        trashed: bool = False,
        everything: bool = False,
        before: datetime | None = None,
        reason: Reason = "user-requested",
        dry_run: bool = False,
    ) -> Receipt:
        """Deletes sessions permanently, in the trash or not, and clears every trace of them: rows, keys, index, files."""
    async def receipts(self) -> Receipts:
        """The receipts of all purges, oldest first."""

class Nodes(Proxy, of=nodes.Nodes):
    """The messages of a store, as a tree."""

    _sync: nodes.Nodes
    async def save(
        self, messages: AnyMessage | NewNode | Sequence[AnyMessage | NewNode], *, parent: str | None = None
    ) -> NodeList:
        """Stores messages in one transaction, each after the one before it, the first after `parent` or as a root."""
    async def save_dialog(self, dialog: Sequence[Node | AnyMessage | NewNode]) -> NodeList:
        """Stores a dialog, root first, in one transaction: verifies the nodes in it and saves the messages."""
    async def get(self, ids: Node | str | Iterable[Node | str]) -> NodeList:
        """The nodes with these ids or handles, in the order asked for. NotFound if one is missing."""
    async def resolve(self, typed: Node | str) -> str:
        """The id of the node with this id or handle, or a prefix of one. NotFound, Ambiguous."""
    async def handles(self, nodes: Iterable[str]) -> list[str]:
        """The handles of nodes given by id."""
    async def list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        offset: int = 0,
        ascending: bool = False,
        trashed: bool = True,
        order: Literal["stored", "created"] = "stored",
    ) -> Page[Node]:
        """All nodes in the order they were stored, newest first. A page starts at `cursor`, then skips `offset` nodes."""
    async def path(self, id: Node | str, *, last: int | None = None) -> NodeList:
        """The nodes from the root down to this one, in order; with `last`, only the last ones. NotFound."""
    async def children(self, id: Node | str) -> NodeList:
        """The children of a node, in the order they were stored. NotFound."""
    async def subtree(self, id: Node | str) -> NodeList:
        """A node and all its descendants, each after its parent. NotFound."""
    async def delete(self, ids: Node | str | Iterable[Node | str], *, recursive: bool = False) -> Receipt:
        """Deletes nodes, all or none; ignores unknown ids. The receipt has the number deleted, and what is left."""

class Quarantine(Proxy, of=quarantine.Quarantine):
    """Damaged messages that were moved out of the way."""

    _sync: quarantine.Quarantine
    async def sweep(
        self, *, force: bool = False, strict: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> Swept:
        """Reads every body, and puts each message whose body does not open in quarantine: all of them, or none."""
    async def list(self) -> QuarantinedList:
        """The messages in quarantine, in the order of the store."""
    async def affects(self, node: str) -> bool:
        """True if a message, or one before it on its path, is in quarantine. NotFound, Ambiguous."""
    async def restore(self, node: str) -> Node:
        """Restores a message, if its body opens now. Corrupted, and nothing changes, if it does not."""
    async def purge(
        self, nodes: str | Iterable[str] | None = None, *, everything: bool = False, dry_run: bool = False
    ) -> Receipt:
        """Destroys the bodies of these messages, or with `everything` of all messages in quarantine."""
    async def on_event(self, listener: Callable[[Event], object]) -> None:
        """Calls `listener` after messages are quarantined, restored or purged through this store."""

class StoreBlobs(Proxy, of=attachments.StoreBlobs):
    """The blobs of a store, by session or node."""

    _sync: attachments.StoreBlobs
    async def put(self, within: Session | Node | str, source: Source) -> Blob:
        """Stores bytes, a binary file, or an iterable of bytes. Content that the tree has is not stored twice."""
    async def get(self, within: Session | Node | str, digest: str) -> bytes:
        """The whole content. NotFound; Corrupted if it is not what was stored."""
    def open(self, within: Session | Node | str, digest: str) -> AsyncIterator[bytes]:
        """The content in chunks, without an open transaction in between. NotFound at once; Corrupted on reaching it."""
    async def stat(self, within: Session | Node | str, digest: str) -> Blob:
        """Address and size of a blob. NotFound."""
    async def sweep(self, *, older: timedelta | None = None, dry_run: bool = False) -> Cleared:
        """Removes objects from object storage that nothing in the store needs, and counts them."""
    @property
    def bucket(self) -> str | None:
        """The name of the object storage; None if the store was opened without one."""
    async def objects(self) -> int:
        """The number of attachments in object storage."""
    async def check_bucket(self) -> None:
        """Unavailable if the object storage cannot be reached, or has no objects of this store."""

class StoreLog(Proxy, of=attachments.StoreLog):
    """The logs of a store, by session."""

    _sync: attachments.StoreLog
    async def append(
        self, owner: Session | str, data: bytes | Sequence[bytes], *, id: str | Sequence[str] | None = None
    ) -> list[Entry]:
        """Adds entries, all or none, durable on return. Adding the same id and bytes again changes nothing."""
    def read(self, owner: Session | str, start: int = 0, stop: int | None = None) -> AsyncIterator[Entry]:
        """Entries from number `start` up to but not including `stop`, in order, without an open transaction between pages."""
    async def count(self, owner: Session | str) -> int:
        """How many entries there are."""

class Audit(Proxy, of=audit.Audit):
    """The audit log of a store."""

    _sync: audit.Audit
    async def record(
        self, kind: str, subject: str, actor: str | None = None, *, reason: str | None = None, amount: int = 1
    ) -> None:
        """Records an event of your own, durable when this returns. Invalid if an argument may be content."""
    def read(
        self, *, since: datetime | None = None, until: datetime | None = None, kind: str | None = None
    ) -> AsyncIterator[AuditEvent]:
        """The events, oldest first: from `since`, before `until`, of one kind or of all."""
    def jsonl(
        self, *, since: datetime | None = None, until: datetime | None = None, kind: str | None = None
    ) -> AsyncIterator[str]:
        """The events of `read`, each as one line of JSON, for storing elsewhere."""

class Snapshots(Proxy, of=snapshots.Snapshots):
    """The snapshots of a store."""

    _sync: snapshots.Snapshots
    async def save(self, snapshot: Snapshot) -> None:
        """Saves a snapshot and replaces the one with the same id, if any. Durable on return."""
    async def load(self, id: str) -> Snapshot:
        """The snapshot; its messages are read on first access. NotFound; Corrupted."""
    async def list(self) -> Summaries:
        """All snapshots, newest first. Corrupted if one is not what was saved."""
    async def delete(self, id: str) -> Receipt:
        """Deletes a snapshot and each message that nothing else needs. NotFound."""
    async def purge(self, id: str, *, reason: Reason = "user-requested") -> Receipt:
        """Deletes a snapshot permanently and clears every trace of it: rows, keys, index, files. NotFound."""
    async def take(
        self,
        session: Session | str,
        *,
        model: str | None = None,
        system_prompt: str | None = None,
        tools: Iterable[ToolSnapshot] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """Saves and returns a snapshot of the present session. Its provider is that of the session's messages."""
    async def resume(self, id: str, *, title: str | None = None) -> Session:
        """Creates a session that continues from a snapshot, with its system prompt and tools. NotFound."""

class Store(Proxy, of=store.Store):
    """A store."""

    _sync: store.Store
    @property
    def sync(self) -> store.Store:
        """The store itself, for functions that take one, such as `clew.otel.instrument_store`."""
    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Runs several calls of this task in one transaction: all or none take effect. Other writers wait."""
    async def close(self) -> None:
        """Finishes pending calls and closes the files. Idempotent; later calls raise Closed."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def path(self) -> str:
        """Its file, or its server and schema without the password."""
    @property
    def sessions(self) -> Sessions:
        """Its conversations."""
    @property
    def nodes(self) -> Nodes:
        """Its messages as a tree, by id."""
    @property
    def blobs(self) -> StoreBlobs:
        """The attachments of all sessions."""
    @property
    def log(self) -> StoreLog:
        """The logs of all sessions."""
    @property
    def snapshots(self) -> Snapshots:
        """Saved conversations with a provider, which any client of that provider can restore."""
    @property
    def quarantine(self) -> Quarantine:
        """Damaged messages that were moved out of the way."""
    @property
    def audit(self) -> Audit:
        """The audit log: who did what and when, without content."""
    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        session: Session | str | None = None,
        role: Role | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        mode: Mode = "words",
        newest: bool = False,
        progress: _Progress | None = None,
    ) -> list[Hit]:
        """Messages that contain all the words, best match first. No query is a syntax error."""
    async def verify(self, *, since: str | None = None, progress: _Progress | None = None) -> Report:
        """Reads and checks everything: bodies, tree, refs, blobs, log, search index. Reports what is damaged."""
    async def ping(self) -> None:
        """Reads one row: for probes that ask if the store can be reached and read. Raises what any read raises."""
    async def head(self) -> str:
        """A short text, without content, that identifies the present state. Keep it elsewhere, for `verify`."""
    async def backup(self, path: str | os.PathLike[str], *, progress: _Progress | None = None) -> Backup:
        """Copies the present store into a new file without blocking writers. Conflict if the file exists."""
    async def seal(self, key: Key, *, progress: _Progress | None = None) -> Status:
        """Encrypts a plain store in place with this key. Others who have the key can use the store meanwhile."""
    async def unseal(self, *, progress: _Progress | None = None) -> Status:
        """Decrypts a sealed store in place. If interrupted, call it again to continue."""
    async def rotate(self, key: Key, *, deep: bool = False, progress: _Progress | None = None) -> Status:
        """Replaces the store's key. Others can use the store meanwhile, and keep the old key until they reopen it."""
    async def key_status(self) -> Status:
        """Whether the store is sealed, its keys, the progress of a key change, and whether traces are left."""
    async def recovery_key(self) -> str:
        """The store's key, also one made from a passphrase, as text to print: see `clew.keys.recovery`. Invalid."""
    async def clear_traces(self) -> bool:
        """Clears traces that earlier purges and key changes had to leave. True if none remain."""
    async def mirrors(self) -> list[str]:
        """The folders that mirror its conversations, in plain text. A purge removes the files of a session there."""
    async def write(self, work: Callable[[Unit], _T]) -> _T:
        """Calls `work` with a unit of work: one transaction, durable when this returns; returns its result."""
    async def read(self, work: Callable[[Unit], _T], *, single: bool = False) -> _T:
        """Calls `work`, which must not write, with a unit on a snapshot of the store."""
    def documents(
        self, kind: str, *, index: bytes | None = None, label: bytes | None = None
    ) -> AsyncIterator[Document]:
        """The documents of a kind, or those with an index or a label, the newest first. Read a page at a time."""
    async def document(self, kind: str, typed: str) -> Document:
        """The document with this id or handle. NotFound, Ambiguous."""
    async def draft(
        self,
        said: AnyMessage,
        *,
        id: str | bytes | None = None,
        created_at: int | None = None,
        seen: Message | None = None,
    ) -> Draft:
        """A message redacted, encoded and checked, before the transaction that stores it. Invalid."""
    async def derived_id(self, *names: str) -> bytes:
        """An id for names of the caller's own: a keyed hash, which reveals nothing. The same in every process."""
    async def new_id(self) -> str:
        """A new id: of a session, a message or a document."""
    async def lookup_hash(self, domain: str, value: bytes) -> bytes:
        """A keyed hash of a value: an id or an index, which reveals nothing. The same in every process."""
    @overload
    async def redacted(self, said: AnyMessage) -> AnyMessage: ...
    @overload
    async def redacted(self, said: bytes, *, own: bool = False) -> bytes: ...
    async def redaction_token(self, rule: str, value: str) -> str:
        """A token that is equal for equal findings of a rule, and reveals nothing else."""
    @property
    def sealed(self) -> bool:
        """True if it has a key: no plaintext reaches the disk."""
    @property
    def clock(self) -> Clock:
        """Returns the present time in microseconds since 1970."""
    @property
    def max_body(self) -> int:
        """The most bytes that a message or a log entry can have."""
    @property
    def in_transaction(self) -> bool:
        """True if this thread is inside `transaction`."""
    @property
    def redacts(self) -> bool:
        """True if it was opened with redaction rules."""
    @property
    def file(self) -> str | None:
        """The path of its file; None in memory, on a server, read-only, and for a file with several names."""
    @property
    def unencrypted(self) -> bool:
        """True if it is on a server on another host, and a connection has no TLS."""
    @property
    def workspace(self) -> str:
        """The workspace that it was opened with."""
