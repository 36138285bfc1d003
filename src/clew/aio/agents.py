"""The async face of `clew.agents`: the same names, awaited. Written by tools/aio.py."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, cast

from anyio import to_thread

from clew import agents
from clew.agents import (
    Cleaned,
    Event,
    Imported,
    Mirror,
    Options,
    Rebuilt,
    SessionMetadata,
    memory,
    session,
    store,
    transcript,
)
from clew.agents.store import NodeList, Sayable
from clew.aio.face import Threads
from clew.aio.faces import Session as Conversation
from clew.aio.faces import Store
from clew.errors import ClewError
from clew.model import Said
from clew.node import Node
from clew.receipts import Receipt


def open(path: str | os.PathLike[str], **options: Any) -> Opening:
    """Opens a store for agents: await it, or use it with ``async with``. Takes what `clew.agents.open` takes."""
    return Opening(path, options)


async def over(opened: Store, *, mirror: Mirror | str | os.PathLike[str] | None = None) -> SessionStore:
    """The sessions of a store that is open, for agents. Closing them leaves it open."""
    made = await opened._threads.run(lambda: agents.SessionStore(opened._sync, mirror=mirror))
    return SessionStore(opened._threads, made)


async def import_tree(into: SessionStore, root: str | os.PathLike[str], *, dry_run: bool = False) -> Imported:
    """Imports every session below `root`: see `clew.agents.import_tree`."""
    return await into._threads.run(agents.import_tree, into._sync, root, dry_run=dry_run)


class Opening:
    """Sessions about to be opened."""

    def __init__(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
        self._path = path
        self._options = options
        self._opened: SessionStore | None = None

    def __await__(self) -> Generator[Any, Any, SessionStore]:
        return self._open().__await__()

    async def __aenter__(self) -> SessionStore:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _open(self) -> SessionStore:
        opened = await to_thread.run_sync(lambda: agents.open(self._path, **self._options))
        return SessionStore(Threads(opened._store._engine), opened)


class _Face:
    def __init__(self, threads: Threads, sync: Any) -> None:
        self._threads = threads
        self._sync = sync

    def _wrap(self, value: Any) -> Any:
        """`value` with the async face on whatever in it has one."""
        for kind, awaited in _AWAITED.items():
            if isinstance(value, kind):
                return awaited(self._threads, value)
        return [self._wrap(item) for item in value] if isinstance(value, list) else value

    def __repr__(self) -> str:
        return f"<async {self._sync!r}>"


def _bare(value: Any) -> Any:
    return value._sync if isinstance(value, _Face) else value


class Transcript(_Face):
    """The events of one session. Other entries of its log are passed over."""

    _sync: transcript.Transcript

    @property
    def session_id(self) -> str:
        """The session whose it is."""
        return self._sync.session_id

    async def append(self, event: object) -> Event:
        """Adds an event: an object, its JSON, or an SDK's data class. Durable when this returns.

        Kinds of events that clew does not know are kept like all others. The same event with the same ``uuid`` again
        changes nothing; another one with that uuid is a Conflict. Invalid if it is longer than a line may be.
        """
        return await self._threads.run(self._sync.append, event)

    def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[Event]:
        """Events with numbers from `start` up to and without `stop`, in order, a few at a time."""
        return self._threads.stream(self._sync.read, start, stop)

    async def count(self) -> int:
        """The number that the next event will have."""
        return await self._threads.run(self._sync.count)

    async def subagents(self) -> list[Transcript]:
        """The transcripts of the subagents that the session has sent out, oldest first."""
        return cast("list[Transcript]", self._wrap(await self._threads.run(self._sync.subagents)))

    def replay(self) -> AsyncIterator[Event]:
        """Its events and those of its subagents, and of theirs, in the order in which they happened."""
        return self._threads.stream(self._sync.replay)


class Memory(_Face):
    """The memory of one project."""

    _sync: memory.Memory

    @property
    def project(self) -> str:
        """The hash of the project's directory."""
        return self._sync.project

    async def read(self) -> str:
        """What is remembered; nothing, at first."""
        return await self._threads.run(self._sync.read)

    async def version(self) -> int:
        """Grows with every write; 0 before the first."""
        return await self._threads.run(self._sync.version)

    async def write(self, text: str, *, expect: int | None = None) -> int:
        """Remembers `text` instead of what was there; durable when this returns. Returns the new version.

        With `expect`, only if that is the version now: else Conflict, and nothing is changed.
        """
        return await self._threads.run(self._sync.write, text, expect=expect)


class Session(_Face):
    """A session that was created or loaded. It belongs to one thread; `SessionStore` may be shared."""

    _sync: session.Session

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return self._sync.id

    @property
    def conversation(self) -> Conversation:
        """The session as the rest of clew knows it: to rewind, rename, compact, attach."""
        return Conversation(self._threads, self._sync.conversation)

    @property
    def metadata(self) -> SessionMetadata:
        """What is known about it. `cwd`, `model` and `exit_reason` may be set; `save` stores them."""
        return self._sync.metadata

    @property
    def file_checkpointing(self) -> bool:
        """False if `SessionStore.start` was not asked for it: pass it on as ``Checkpoints(…, enabled=…)``."""
        return self._sync.file_checkpointing

    @property
    def messages(self) -> Awaitable[list[Node]]:
        """Its messages, root first, read when they are first asked for; then with what is saved through this object."""
        return self._threads.run(lambda: self._sync.messages)

    @property
    def transcript(self) -> Transcript:
        """Its events."""
        return Transcript(self._threads, self._sync.transcript)

    async def last(self, count: int) -> list[Node]:
        """Its last messages, root first: as fast in a long session as in a short one."""
        return await self._threads.run(self._sync.last, count)

    async def add(self, message: Said | Mapping[str, Any] | bytes | str, *, id: str | None = None) -> str:
        """Keeps a message in mind for the next `save`, and returns the id it will have."""
        return await self._threads.run(self._sync.add, message, id=id)

    async def save(self) -> list[Node]:
        """Stores what was added, and what was set in `metadata`, as one. Durable when this returns; safe to repeat.

        A session that was resumed at an earlier message goes back to it now, if there is something to add: what came
        after stays, as a branch. Invalid if something else than cwd, model or exit_reason was set.
        """
        return await self._threads.run(self._sync.save)

    async def append_and_save(self, message: Said | Mapping[str, Any] | bytes | str, *, id: str | None = None) -> Node:
        """`add`, then `save`. If it cannot be stored, nothing is, and it is not kept in mind."""
        return await self._threads.run(self._sync.append_and_save, message, id=id)

    async def append_event(self, event: object) -> Event:
        """Adds an event to its transcript: see `Transcript.append`."""
        return await self._threads.run(self._sync.append_event, event)

    async def refresh(self) -> None:
        """Reads it again. What was added and not saved stays in mind. NotFound if it is gone."""
        return await self._threads.run(self._sync.refresh)


class SessionStore(_Face):
    """Sessions, their messages, transcripts and memories. Threads may share it."""

    _sync: store.SessionStore

    @property
    def mirror(self) -> Mirror | None:
        """Where its sessions are copied to as files, if they are."""
        return self._sync.mirror

    async def create(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        id: str | None = None,
        agent_name: str | None = None,
        parent: Session | str | None = None,
    ) -> Session:
        """A new session. Conflict if the id is taken.

        With `agent_name` it is a subagent's: never picked by `load_latest`; with `parent` it goes when that one goes.
        """
        return cast(
            "Session",
            self._wrap(
                await self._threads.run(
                    self._sync.create, cwd=cwd, model=model, id=id, agent_name=agent_name, parent=_bare(parent)
                )
            ),
        )

    async def start(
        self,
        options: Options | Mapping[str, Any] | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
    ) -> Session:
        """The session that a run was asked to begin with: see `Options`. Invalid if they do not go together.

        With ``persist=False`` what it goes on with is read, and nothing is written: the session is in memory.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.start, options, cwd=cwd, model=model)))

    async def load(self, session_id: str) -> Session:
        """The session with this id or handle. NotFound."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.load, session_id)))

    async def load_latest(self, cwd: str | os.PathLike[str]) -> Session:
        """The session that was last active in exactly this directory; never a subagent's. NotFound, naming it."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.load_latest, cwd)))

    async def resume(self, session_id: str, at: str | None = None) -> Session:
        """The session with this id, to go on with; its id stays the same.

        With `at` it shows the messages up to and with that one, and goes back there when something is added to it: what
        came after stays, as a branch. NotFound if that is not one of its messages.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.resume, session_id, at)))

    async def fork(self, source: Session | str, new_id: str | None = None, at: str | None = None) -> Session:
        """A new session that shares what another has said, up to and with `at`. Neither changes the other afterwards.

        NotFound if there is no such session, or no such message in it; Conflict if the new id is taken.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.fork, _bare(source), new_id, at)))

    async def list(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        subagents: bool = False,
        on_damage: Callable[[ClewError], None] | None = None,
    ) -> list[SessionMetadata]:
        """What is known about the sessions, last active first; damaged ones are left out, and `on_damage` is told."""
        return cast(
            "list[SessionMetadata]",
            self._wrap(
                await self._threads.run(self._sync.list, cwd=cwd, limit=limit, subagents=subagents, on_damage=on_damage)
            ),
        )

    async def delete(self, session_id: str) -> Receipt:
        """Deletes a session with its transcript, its checkpoints and its subagents', from the store and its mirrors.

        Messages that a fork shares stay with the fork. The receipt says how much went, and what is left. NotFound;
        Conflict if it is held.
        """
        return await self._threads.run(self._sync.delete, session_id)

    async def cleanup(self, *, older_than: timedelta = timedelta(days=30), dry_run: bool = False) -> Cleaned:
        """Purges sessions that were last active longer ago than that: see `Sessions.purge`. Nothing else calls it.

        Sessions that are held stay, and so does every project's memory. With `dry_run` it says what would go.
        """
        return await self._threads.run(self._sync.cleanup, older_than=older_than, dry_run=dry_run)

    async def append_message(self, session_id: Session | str, message: Sayable, *, id: str | None = None) -> Node:
        """Adds a message after whatever is last now. Durable when it returns.

        An SDK's message is kept as its provider wrote it, under its own ``uuid``. With an id the call is safe to
        repeat. Invalid if it is longer than a line may be. NotFound.
        """
        return await self._threads.run(self._sync.append_message, _bare(session_id), message, id=id)

    async def append_event(self, session_id: Session | str, event: object) -> Event:
        """Adds any event to a session's transcript: see `Transcript.append`."""
        return await self._threads.run(self._sync.append_event, _bare(session_id), event)

    async def load_messages(self, session_id: Session | str, *, last: int | None = None) -> NodeList:
        """A session's messages, root first, or the `last` ones; none if there are none."""
        return await self._threads.run(self._sync.load_messages, _bare(session_id), last=last)

    async def load_messages_up_to(self, session_id: Session | str, message_id: str) -> NodeList:
        """A session's messages up to and with one of them. NotFound if it is not among them."""
        return await self._threads.run(self._sync.load_messages_up_to, _bare(session_id), message_id)

    async def transcript(self, session_id: Session | str) -> Transcript:
        """The events of a session. NotFound."""
        return cast("Transcript", self._wrap(await self._threads.run(self._sync.transcript, _bare(session_id))))

    async def transcript_path(self, session_id: Session | str) -> str | None:
        """The file in which a session's events can be read, for hooks: up to date now. None without a mirror."""
        return await self._threads.run(self._sync.transcript_path, _bare(session_id))

    async def memory(self, cwd: str | os.PathLike[str] | None) -> Memory:
        """What is remembered of a project, in whatever session."""
        return cast("Memory", self._wrap(await self._threads.run(self._sync.memory, cwd)))

    async def rebuild_mirror(self) -> Rebuilt:
        """Writes the mirror anew from the store: see `Mirror.rebuild`. Invalid if there is none."""
        return await self._threads.run(self._sync.rebuild_mirror)

    async def flush(self) -> None:
        """Brings the mirror up to date. What was stored is durable without it. Raises what keeps it from that."""
        return await self._threads.run(self._sync.flush)

    async def close(self) -> None:
        """Brings the mirror up to date, then closes the store if it was opened here. Idempotent."""
        if self._sync._closes:
            await self._threads.close()
        await self._threads.run(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


_AWAITED: dict[type, type[_Face]] = {session.Session: Session, transcript.Transcript: Transcript, memory.Memory: Memory}
