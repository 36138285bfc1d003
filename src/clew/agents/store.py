"""Sessions as agent runtimes use them: a thin view on the sessions of a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, Self

from clew import codec, deletion, ids
from clew import store as core
from clew.agents import metadata, wire
from clew.agents.memory import Memory
from clew.agents.metadata import EXIT, HASH, IMPORTED, SessionMetadata, project_hash
from clew.agents.mirror import Mirror, Rebuilt
from clew.agents.options import Options, parse
from clew.agents.session import Session, changed_extra, fresh
from clew.agents.transcript import Event, Transcript
from clew.agents.wire import Given
from clew.errors import ClewError, Closed, Invalid, NotFound, Tampered
from clew.mirrors import PENDING
from clew.model import Message, Said
from clew.node import Node, moment
from clew.paging import every
from clew.receipts import Receipt
from clew.session import Session as Conversation
from clew.session_data import directory

MetadataList = list[SessionMetadata]  # inside `SessionStore`, list is its method
NodeList = list[Node]
Sayable = Said | Mapping[str, Any] | bytes | str
"""A message: clew's own, an SDK's object, or its JSON."""


class Cleaned(NamedTuple):
    """What a cleanup took away: sessions, the bytes they had in the store and in the mirror; and what it could not."""

    deleted: tuple[str, ...]
    bytes_freed: int
    failures: tuple[tuple[str, str], ...]
    receipt: Receipt
    """What else is left: messages that others share, and what is still to be cleared."""


def open(
    path: str | os.PathLike[str],
    *,
    mirror: str | os.PathLike[str] | None = None,
    persist: bool = True,
    **options: Any,
) -> SessionStore:
    """Opens the store in a file for agents; `options` are those of `clew.open`. Closing it closes the store.

    With ``persist=False`` nothing is written to the disk, ever: the file is not touched, there is no mirror, and all is
    as it would be otherwise until the store is closed.
    """
    if not persist:
        path, mirror = ":memory:", None
    store = core.open(path, **options)
    try:
        return SessionStore(store, mirror=mirror, closes=True)
    except BaseException:
        store.close()
        raise


class SessionStore:
    """Sessions, their messages, transcripts and memories. Threads may share it."""

    def __init__(
        self, store: core.Store, *, mirror: Mirror | str | os.PathLike[str] | None = None, closes: bool = False
    ) -> None:
        self._store = store
        self._closes = closes
        self._below: list[SessionStore] = []
        self._mirror = mirror if mirror is None or isinstance(mirror, Mirror) else Mirror(store, mirror)

    @property
    def mirror(self) -> Mirror | None:
        """Where its sessions are copied to as files, if they are."""
        return self._mirror

    # -- beginning

    def create(
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
        owner = None if parent is None else self._talk(parent)
        extra = {HASH: project_hash(directory(cwd))}
        made = self._store.sessions.create(cwd=cwd, model=model, id=id, agent=agent_name, owner=owner, extra=extra)
        self._wrote(made.id)
        return Session(self, made)

    def start(
        self,
        options: Options | Mapping[str, Any] | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
    ) -> Session:
        """The session that a run was asked to begin with: see `Options`. Invalid if they do not go together.

        With ``persist=False`` what it goes on with is read, and nothing is written: the session is in memory.
        """
        asked = parse(options or Options())
        session = self._started(asked, cwd, model)
        session._file_checkpointing = asked.file_checkpointing
        return session

    def _started(self, asked: Options, cwd: str | os.PathLike[str] | None, model: str | None) -> Session:
        source: Session | None = None
        if asked.continue_:
            source = self.load_latest(cwd or "")
        elif asked.resume is not None:
            source = self.resume(asked.resume, at=asked.resume_at)
        if not asked.persist:
            return self._in_memory(asked, source, cwd, model)
        if source is None:
            return self.create(cwd=cwd, model=model, id=asked.session_id)
        return self.fork(source, new_id=asked.session_id, at=asked.resume_at) if asked.fork else source

    def load(self, session_id: str) -> Session:
        """The session with this id or handle. NotFound."""
        return Session(self, self._store.sessions.get(session_id))

    def load_latest(self, cwd: str | os.PathLike[str]) -> Session:
        """The session that was last active in exactly this directory; never a subagent's. NotFound, naming it."""
        place = directory(cwd)
        if place is None:
            raise Invalid("to go on with the last session, its directory has to be named", hint="Pass cwd.")
        try:
            return Session(self, self._store.sessions.latest(place))
        except NotFound:
            raise NotFound("previous session in", place, hint="Begin a new one.") from None

    def resume(self, session_id: str, at: str | None = None) -> Session:
        """The session with this id, to go on with; its id stays the same.

        With `at` it shows the messages up to and with that one, and goes back there when something is added to it: what
        came after stays, as a branch. NotFound if that is not one of its messages.
        """
        talk = self._store.sessions.get(session_id)
        if at is None:
            return Session(self, talk)
        node = self._until(talk, at, last=1)[0]
        return Session(self, talk, None if node.id == talk.head_id else node.id)

    def fork(self, source: Session | str, new_id: str | None = None, at: str | None = None) -> Session:
        """A new session that shares what another has said, up to and with `at`. Neither changes the other afterwards.

        NotFound if there is no such session, or no such message in it; Conflict if the new id is taken.
        """
        talk = self._talk(source)
        if at is not None:
            at = self._until(talk, at, last=1)[0].id
        with self._store.transaction():
            made = self._store.sessions.fork(talk, at=at, id=new_id)
            kept = {name: value for name, value in made.extra.items() if name not in (EXIT, IMPORTED)}
            if kept != made.extra:  # how the other ended, and where it came from, is not said of this one
                made.update(extra=kept)
        self._wrote(made.id)
        return Session(self, made)

    # -- all of them

    def list(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        subagents: bool = False,
        on_damage: Callable[[ClewError], None] | None = None,
    ) -> MetadataList:
        """What is known about the sessions, last active first; damaged ones are left out, and `on_damage` is told."""
        found: MetadataList = []
        for talk in every(partial(self._store.sessions.list, limit=200, cwd=cwd, subagents=subagents)):
            try:
                found.append(metadata.of(talk))
            except Tampered as error:
                if on_damage is not None:
                    on_damage(error)
            if limit is not None and len(found) >= limit:
                break
        return found

    def delete(self, session_id: str) -> Receipt:
        """Deletes a session with its transcript, its checkpoints and its subagents', from the store and its mirrors.

        Messages that a fork shares stay with the fork. The receipt says how much went, and what is left. NotFound;
        Conflict if it is held.
        """
        talk = self._store.sessions.get(session_id)
        gone = self._store._engine.read(lambda tx: deletion.talks(tx, talk._row))
        receipt = talk.delete()
        if self._store._engine.backend.in_transaction():  # else the files are gone already
            for one in gone:
                self._wrote(one)
        return receipt

    def cleanup(self, *, older_than: timedelta = timedelta(days=30), dry_run: bool = False) -> Cleaned:
        """Purges sessions that were last active longer ago than that: see `Sessions.purge`. Nothing else calls it.

        Sessions that are held stay, and so does every project's memory. With `dry_run` it says what would go.
        """
        before = moment(self._store._engine.clock()) - older_than
        purge = partial(self._store.sessions.purge, everything=True, before=before, reason="retention-expired")
        files = {} if self._mirror is None else self._sizes(self._mirror, purge(dry_run=True).sessions)
        receipt = purge(dry_run=dry_run)
        failures = tuple((one.session, one.error) for one in receipt.failures)
        freed = receipt.bytes
        if self._mirror is not None and PENDING + self._mirror.root not in receipt.pending:
            freed += sum(files.get(one, 0) for one in receipt.sessions)
        return Cleaned(receipt.sessions, freed, failures, receipt)

    # -- messages and events

    def append_message(self, session_id: Session | str, message: Sayable, *, id: str | None = None) -> Node:
        """Adds a message after whatever is last now. Durable when it returns.

        An SDK's message is kept as its provider wrote it, under its own ``uuid``. With an id the call is safe to
        repeat. Invalid if it is longer than a line may be. NotFound.
        """
        talk = self._talk(session_id)
        said, name, at = self._given(talk.id, message, id)
        node = talk.append(said, id=name, created_at=at)
        self._wrote(talk.id)
        return node

    def append_event(self, session_id: Session | str, event: object) -> Event:
        """Adds any event to a session's transcript: see `Transcript.append`."""
        return self.transcript(session_id).append(event)

    def load_messages(self, session_id: Session | str, *, last: int | None = None) -> NodeList:
        """A session's messages, root first, or the `last` ones; none if there are none."""
        return self._talk(session_id).path(last=last)

    def load_messages_up_to(self, session_id: Session | str, message_id: str) -> NodeList:
        """A session's messages up to and with one of them. NotFound if it is not among them."""
        talk = self._talk(session_id)
        return self._until(talk, message_id)

    def transcript(self, session_id: Session | str) -> Transcript:
        """The events of a session. NotFound."""
        return Transcript(self._talk(session_id), self._wrote)

    def transcript_path(self, session_id: Session | str) -> str | None:
        """The file in which a session's events can be read, for hooks: up to date now. None without a mirror."""
        if self._mirror is None:
            return None
        talk = self._talk(session_id)
        self._mirror.sync(talk.id)
        return self._mirror.transcript_path(metadata.of(talk))

    def memory(self, cwd: str | os.PathLike[str] | None) -> Memory:
        """What is remembered of a project, in whatever session."""
        return self._memory(project_hash(directory(cwd)))

    def rebuild_mirror(self) -> Rebuilt:
        """Writes the mirror anew from the store: see `Mirror.rebuild`. Invalid if there is none."""
        if self._mirror is None:
            raise Invalid("these sessions have no mirror", hint="Name a folder for it.")
        return self._mirror.rebuild()

    # -- ending

    def flush(self) -> None:
        """Brings the mirror up to date. What was stored is durable without it. Raises what keeps it from that."""
        if self._mirror is not None:
            self._mirror.flush()

    def close(self) -> None:
        """Brings the mirror up to date, then closes the store if it was opened here. Idempotent."""
        below, self._below = self._below, []
        for one in below:
            one.close()
        try:
            with suppress(Closed):
                self.flush()
        finally:
            if self._closes:
                self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SessionStore {self._store.path}>"

    # -- inside

    def _talk(self, session: Session | str) -> Conversation:
        if isinstance(session, Session):
            return session.conversation
        return self._store.sessions.get(session)

    def _memory(self, project: str) -> Memory:
        wrote = (lambda _: None) if self._mirror is None else self._mirror.remember_soon
        return Memory(self._store._engine, self._store._refs, project, wrote)

    def _given(self, session_id: str, message: Sayable, id: str | None) -> Given:
        found = fresh(wire.given(message), session_id, id)
        wire.check_size(found.said)
        return found

    def _until(self, talk: Conversation, name: str, last: int | None = None) -> NodeList:
        """Messages up to and with one, told by its id or handle, or by another name that it came with. NotFound."""
        if not isinstance(name, str) or ids.maybe(name) is not None or ids.span(name) is not None:
            return talk.path(until=name, last=last)
        try:
            return talk.path(until=wire.message_id(talk.id, name), last=last)
        except NotFound:
            raise NotFound("message", name, hint=f"It is not among the messages of session {talk.id}.") from None

    def _change(self, talk: Conversation, changes: dict[str, str | None]) -> None:
        given: dict[str, Any] = {name: changes[name] or None for name in ("cwd", "model") if name in changes}
        if EXIT in changes:
            given["extra"] = changed_extra(talk.refresh().extra, changes)
        talk.update(**given)

    def _sizes(self, mirror: Mirror, sessions: Iterable[str]) -> dict[str, int]:
        """The bytes that sessions have in a mirror, those of their subagents included."""
        found = {}
        for session in sessions:
            row = self._store.sessions._anywhere(session)._row
            found[session] = mirror.size(self._store._engine.read(partial(deletion.talks, ref=row)))
        return found

    def _wrote(self, session_id: str) -> None:
        if self._mirror is not None:
            self._mirror.soon(session_id)

    def _in_memory(
        self, asked: Options, source: Session | None, cwd: str | os.PathLike[str] | None, model: str | None
    ) -> Session:
        """A session in a store of its own that is never written, beginning with what the source has said."""
        below = open(":memory:", persist=False)
        self._below.append(below)
        if source is None:
            return below.create(cwd=cwd, model=model, id=asked.session_id)
        about = source.metadata
        id = asked.session_id if asked.fork else source.id
        made = below.create(cwd=about.cwd or None, model=about.model or None, id=id)
        with below._store.transaction():
            for node in source.messages:
                for digest in codec.shown(node.said) if isinstance(node.said, Message) else ():
                    made.conversation.blobs.put(source.conversation.blobs.open(digest))
                made.conversation.append(node.said, id=node.id, created_at=node.created_at)
        return below.load(made.id)
