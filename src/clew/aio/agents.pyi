"""Types of the async twins. Written by tools/aio.py."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from clew.agents import ImportReport, Mirror, memory, store, transcript
from clew.agents.cleanup_report import CleanupReport
from clew.agents.metadata import SessionMetadata
from clew.agents.mirror import Mirror as _Mirror
from clew.agents.mirror import MirrorReport
from clew.agents.store import MetadataList, NodeList, Options, Sayable
from clew.agents.transcript import TranscriptEvent, TranscriptList
from clew.aio.proxy import Proxy
from clew.aio.store import Session as Conversation
from clew.aio.store import Store
from clew.base.messages import AnyMessage
from clew.engine.node import Node
from clew.engine.receipts import Receipt
from clew.errors import ClewError

def open(path: str | os.PathLike[str], **options: Any) -> Opening:
    """Opens a store for agents: await it, or use it with ``async with``. Arguments as for `clew.agents.open`."""

async def over(opened: Store, *, mirror: Mirror | str | os.PathLike[str] | None = None) -> SessionStore:
    """The sessions of an open store, for agents. Closing them does not close the store."""

async def import_tree(into: SessionStore, root: str | os.PathLike[str], *, dry_run: bool = False) -> ImportReport:
    """Imports every session below `root`: see `clew.agents.import_tree`."""

class Opening:
    """Sessions about to be opened."""
    def __init__(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None: ...
    def __await__(self) -> Generator[Any, Any, SessionStore]: ...
    async def __aenter__(self) -> SessionStore: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class Transcript(Proxy, of=transcript.Transcript):
    """The events of one session."""

    _sync: transcript.Transcript
    @property
    def session_id(self) -> str:
        """The session of this transcript."""
    async def append(self, event: object) -> TranscriptEvent:
        """Adds an event: an object, its JSON, or an SDK's data class. Durable when this returns."""
    def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[TranscriptEvent]:
        """Events from number `start` up to but not including `stop`, in order, read a few at a time."""
    async def count(self) -> int:
        """The number of the next event."""
    async def subagents(self) -> TranscriptList:
        """The transcripts of the session's subagents, oldest first."""
    def replay(self) -> AsyncIterator[TranscriptEvent]:
        """The events of the session and of all its subagents, in order of time."""

class Memory(Proxy, of=memory.Memory):
    """The memory of one project."""

    _sync: memory.Memory
    @property
    def project(self) -> str:
        """The hash of the project's directory."""
    async def read(self) -> str:
        """The text; empty before the first write."""
    async def version(self) -> int:
        """Increases with every write; 0 before the first."""
    async def write(self, text: str, *, expect: int | None = None) -> int:
        """Replaces the text; durable when this returns. Returns the new version."""

class Session(Proxy, of=store.Session):
    """A session of an agent."""

    _sync: store.Session
    @property
    def id(self) -> str:
        """The session id, a UUID."""
    @property
    def conversation(self) -> Conversation:
        """The underlying `clew.Session`: to rewind, rename, compact, attach."""
    @property
    def metadata(self) -> SessionMetadata:
        """The session's metadata. `cwd`, `model` and `exit_reason` may be set; `save` stores them."""
    @property
    def file_checkpointing(self) -> bool:
        """True if `SessionStore.start` was asked for checkpoints: pass it on as ``Checkpoints(…, enabled=…)``."""
    @property
    def messages(self) -> Awaitable[list[Node]]:
        """The messages, root first. Read on first use, then extended by what this object saves."""
    @property
    def transcript(self) -> Transcript:
        """The session's events."""
    async def last(self, count: int) -> list[Node]:
        """The last messages, root first. As fast in a long session as in a short one."""
    async def add(self, message: AnyMessage | Mapping[str, Any] | bytes | str, *, id: str | None = None) -> str:
        """Adds a message for the next `save`, and returns the id it will have."""
    async def save(self) -> list[Node]:
        """Stores added messages and changed metadata in one transaction. Durable when this returns; safe to repeat."""
    async def append_and_save(
        self, message: AnyMessage | Mapping[str, Any] | bytes | str, *, id: str | None = None
    ) -> Node:
        """Calls `add`, then `save`. If the message cannot be stored, it is discarded."""
    async def append_event(self, event: object) -> TranscriptEvent:
        """Adds an event to the transcript: see `Transcript.append`."""
    async def refresh(self) -> None:
        """Reads the session again. Unsaved messages stay. Raises NotFound if the session was deleted."""

class SessionStore(Proxy, of=store.SessionStore):
    """The sessions of agents, with their transcripts and memories."""

    _sync: store.SessionStore
    async def close(self) -> None:
        """Updates the mirror, then closes the store if `open` opened it. Idempotent."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def mirror(self) -> _Mirror | None:
        """The mirror that copies the sessions to files; None if there is none."""
    async def create(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        id: str | None = None,
        agent_name: str | None = None,
        parent: Session | str | None = None,
    ) -> Session:
        """Creates a session. Raises Conflict if the id is in use."""
    async def start(
        self,
        options: Options | Mapping[str, Any] | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
    ) -> Session:
        """The session that a run starts with: see `Options`. Raises Invalid if the options conflict."""
    async def load(self, session_id: str) -> Session:
        """The session with this id or handle. Raises NotFound."""
    async def load_latest(self, cwd: str | os.PathLike[str]) -> Session:
        """The session last active in exactly this directory, except subagents' sessions. Raises NotFound."""
    async def resume(self, session_id: str, at: str | None = None) -> Session:
        """The session with this id, to continue it under the same id."""
    async def fork(self, source: Session | str, new_id: str | None = None, at: str | None = None) -> Session:
        """Creates a session that shares another's messages, up to and including `at`. The two are independent after."""
    async def list(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        subagents: bool = False,
        on_damage: Callable[[ClewError], None] | None = None,
    ) -> MetadataList:
        """Lists metadata of sessions, last active first. Skips damaged sessions and passes them to `on_damage`."""
    async def delete(self, session_id: str) -> Receipt:
        """Deletes a session with its transcript, checkpoints and subagents, from the store and its mirrors."""
    async def cleanup(
        self, *, older_than: timedelta = ..., dry_run: bool = False, force: bool = False
    ) -> CleanupReport:
        """Purges agents' sessions that were last active, with their subagents, longer ago than this."""
    async def append_message(self, session_id: Session | str, message: Sayable, *, id: str | None = None) -> Node:
        """Appends a message at the current end of a session. Durable when this returns."""
    async def append_event(self, session_id: Session | str, event: object) -> TranscriptEvent:
        """Adds an event to a session's transcript: see `Transcript.append`."""
    async def load_messages(self, session_id: Session | str, *, last: int | None = None) -> NodeList:
        """A session's messages, root first, or only the `last` ones."""
    async def load_messages_up_to(self, session_id: Session | str, message_id: str) -> NodeList:
        """A session's messages up to and including one of them. Raises NotFound if it is not among them."""
    async def transcript(self, session_id: Session | str) -> Transcript:
        """The events of a session. Raises NotFound."""
    async def transcript_path(self, session_id: Session | str) -> str | None:
        """The mirror's file with a session's events, up to date, for hooks. None without a mirror."""
    async def memory(self, cwd: str | os.PathLike[str] | None) -> Memory:
        """The memory of a project."""
    async def rebuild_mirror(self) -> MirrorReport:
        """Rewrites the mirror from the store: see `Mirror.rebuild`. Raises Invalid if there is none."""
    async def flush(self) -> None:
        """Updates the mirror. Stored data is durable without it. Raises if the mirror cannot be updated."""
