"""Sessions for agent runtimes: a thin view of a store's sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any, Self

import msgspec

from clew.agents import metadata, serial
from clew.agents.cleanup_report import CleanupReport
from clew.agents.memory import Memory
from clew.agents.metadata import EXIT, HASH, IMPORTED, SessionMetadata, project_hash
from clew.agents.mirror import Mirror, MirrorReport
from clew.agents.serial import IncomingMessage
from clew.agents.transcript import Transcript, TranscriptEvent
from clew.base import codec, ids
from clew.base.loading import loading
from clew.base.messages import AnyMessage
from clew.checkpoints.transfer import copy as copy_checkpoints
from clew.engine.mirrors import PENDING
from clew.engine.node import Node
from clew.engine.receipts import Receipt
from clew.engine.session_data import directory
from clew.errors import ClewError, Closed, Corrupted, Invalid, NotFound
from clew.store import store as core
from clew.store.session import Session as Conversation
from clew.store.session import delete_session
from clew.store.unit import Unit


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options of a runtime, with the names of agent SDKs in JSON. Raises Invalid for unknown options.

    The names are ``continue``, ``resume``, ``sessionId``, ``resumeSessionAt``, ``forkSession``, ``persistSession`` and
    ``enableFileCheckpointing``.
    """

    continue_: bool = msgspec.field(default=False, name="continue")
    """Continue the last session of the directory."""
    resume: str | None = None
    """Continue the session with this id."""
    resume_at: str | None = msgspec.field(default=None, name="resumeSessionAt")
    """With `resume`: continue after this message."""
    fork: bool = msgspec.field(default=False, name="forkSession")
    """Continue in a new session that shares the messages."""
    session_id: str | None = msgspec.field(default=None, name="sessionId")
    """The id of the new session."""
    persist: bool = msgspec.field(default=True, name="persistSession")
    """False to write nothing to disk."""
    file_checkpointing: bool = msgspec.field(default=False, name="enableFileCheckpointing")
    """True to save files before tools change them: `Session.file_checkpointing` passes this to `clew.checkpoints`."""

    def check(self) -> None:
        """Raises Invalid if two options conflict."""
        if self.continue_ and self.resume is not None:
            raise Invalid("continue and resume cannot be combined", hint="Set resume to a session id, or set continue.")
        if self.resume_at is not None and self.resume is None:
            raise Invalid("resumeSessionAt needs resume", hint="Set resume to the session of that message.")
        going_on = self.continue_ or self.resume is not None
        if self.fork and not going_on:
            raise Invalid(
                "forkSession needs continue or resume", hint="Set resume to the session to fork, or set continue."
            )
        if self.session_id is not None:
            if going_on and not self.fork:
                raise Invalid(
                    "sessionId names a new session, but continue and resume use an existing one",
                    hint="Omit sessionId, or set forkSession.",
                )
            ids.parse(self.session_id)


def parse(options: object) -> Options:
    """Options from JSON-like data. Raises Invalid."""
    try:
        found = options if isinstance(options, Options) else msgspec.convert(options, Options)
    except msgspec.ValidationError as error:
        raise Invalid(f"invalid options: {error}") from None
    found.check()
    return found


_SETTABLE = ("cwd", "model", "exit_reason")


class Session:
    """A session that was created or loaded. Use it from one thread; `SessionStore` may be shared."""

    def __init__(self, owner: SessionStore, conversation: Conversation, at: str | None = None) -> None:
        self._owner = owner
        self._at = at
        self._file_checkpointing = True
        self._unsaved: list[IncomingMessage] = []
        self._messages: list[Node] | None = None
        self._conversation = conversation
        self._set_metadata(metadata.of(conversation))

    @property
    def id(self) -> str:
        """The session id, a UUID."""
        return self._conversation.id

    @property
    def conversation(self) -> Conversation:
        """The underlying `clew.Session`: to rewind, rename, compact, attach."""
        return self._conversation

    @property
    def metadata(self) -> SessionMetadata:
        """The session's metadata. `cwd`, `model` and `exit_reason` may be set; `save` stores them."""
        return self._metadata

    @property
    def file_checkpointing(self) -> bool:
        """True if `SessionStore.start` was asked for checkpoints: pass it on as ``Checkpoints(…, enabled=…)``."""
        return self._file_checkpointing

    @property
    def messages(self) -> list[Node]:
        """The messages, root first. Read on first use, then extended by what this object saves."""
        if self._messages is None:
            self._messages = self._conversation.path(until=self._at)
        return self._messages

    @property
    def transcript(self) -> Transcript:
        """The session's events."""
        return Transcript(self._conversation, self._owner._update_mirror)

    def last(self, count: int) -> list[Node]:
        """The last messages, root first. As fast in a long session as in a short one."""
        return self._conversation.path(until=self._at, last=count)

    def add(self, message: AnyMessage | Mapping[str, Any] | bytes | str, *, id: str | None = None) -> str:
        """Adds a message for the next `save`, and returns the id it will have."""
        given = self._owner._parse_message(self.id, message, id)
        assert given.id is not None
        self._unsaved.append(given)
        return given.id

    def save(self) -> list[Node]:
        """Stores added messages and changed metadata in one transaction. Durable when this returns; safe to repeat.

        If the session was resumed at an earlier message, the first save with new messages moves it back there; later
        messages stay as a branch. Raises Invalid if a field other than cwd, model or exit_reason was set.
        """
        changes = self._changes()
        conversation = self._conversation
        alone = self._at is None and not changes and len(self._unsaved) < 2  # one append can share a commit with others
        with nullcontext() if alone else self._owner._transaction():
            if self._at is not None and self._unsaved and not self._is_saved(self._unsaved[0]):
                conversation.rewind(to=self._at)
            nodes = [conversation.append(message, id=id, created_at=at) for message, id, at in self._unsaved]
            if changes:
                self._owner._change(conversation, changes)
        if nodes:
            self._at, self._unsaved = None, []
            self._follow(nodes)
        self._set_metadata(
            metadata.of(conversation, nodes[-1].counters if nodes and nodes[-1].id == conversation.head_id else None)
        )
        self._owner._update_mirror(self.id)
        return nodes

    def append_and_save(self, message: AnyMessage | Mapping[str, Any] | bytes | str, *, id: str | None = None) -> Node:
        """Calls `add`, then `save`. If the message cannot be stored, it is discarded."""
        self.add(message, id=id)
        try:
            return self.save()[-1]
        except BaseException:
            del self._unsaved[-1:]  # already empty if the message was stored and a later step failed
            raise

    def append_event(self, event: object) -> TranscriptEvent:
        """Adds an event to the transcript: see `Transcript.append`."""
        return self.transcript.append(event)

    def refresh(self) -> None:
        """Reads the session again. Unsaved messages stay. Raises NotFound if the session was deleted."""
        self._messages = None
        self._set_metadata(metadata.of(self._conversation.refresh()))

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    def _is_saved(self, given: IncomingMessage) -> bool:
        """True if the session already continues with this message from the point where it was resumed."""
        with suppress(NotFound):
            return self._conversation.path(until=given.id, last=1)[0].parent_id == self._at
        return False

    def _set_metadata(self, about: SessionMetadata) -> None:
        self._metadata = about
        self._about = msgspec.structs.replace(about)

    def _follow(self, nodes: list[Node]) -> None:
        """Extends the cached messages, or reads them again if another writer added messages in between."""
        for node in nodes:
            if self._messages is not None and node.parent_id == (self._messages[-1].id if self._messages else None):
                self._messages.append(node)
            else:
                self._messages = None

    def _changes(self) -> dict[str, str | None]:
        """The metadata fields set since the last read."""
        now, then = msgspec.structs.asdict(self._metadata), msgspec.structs.asdict(self._about)
        changed = {name: value for name, value in now.items() if value != then[name]}
        if wrong := sorted(changed.keys() - {*_SETTABLE}):
            raise Invalid(f"{wrong[0]} cannot be set", hint="Only cwd, model and exit_reason can be set.")
        return changed


def fresh(given: IncomingMessage, session: str, id: str | None) -> IncomingMessage:
    """`given` with the id to store it under: the requested one, its own, or a new one."""
    name = given.id if id is None else id
    return given._replace(id=ids.text(ids.new_id()) if name is None else serial.message_id(session, name))


def changed_extra(extra: dict[str, Any], changes: dict[str, str | None]) -> dict[str, Any] | None:
    """A session's `extra` data with another exit reason."""
    rest = {name: value for name, value in extra.items() if name != EXIT}
    if changes[EXIT]:
        rest[EXIT] = changes[EXIT]
    return rest or None


MetadataList = list[SessionMetadata]  # `list` is a method in `SessionStore`
NodeList = list[Node]
Sayable = AnyMessage | Mapping[str, Any] | bytes | str
"""A message: clew's own, an SDK's object, or its JSON."""


def open(
    path: str | os.PathLike[str],
    *,
    mirror: str | os.PathLike[str] | None = None,
    persist: bool = True,
    **options: Any,
) -> SessionStore:
    """Opens a store file for agents; `options` are those of `clew.open`. Closing it closes the store.

    With ``persist=False`` nothing is written to disk: the sessions are in memory until the store is closed, the file is
    not touched, and there is no mirror.
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
    """Sessions with their messages, transcripts and memories. Threads may share it."""

    def __init__(
        self, store: core.Store, *, mirror: Mirror | str | os.PathLike[str] | None = None, closes: bool = False
    ) -> None:
        self._store = store
        self._closes = closes
        self._below: list[SessionStore] = []
        self._mirror = mirror if mirror is None or isinstance(mirror, Mirror) else Mirror(store, mirror)

    @property
    def mirror(self) -> Mirror | None:
        """The mirror that copies the sessions to files; None if there is none."""
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
        """Creates a session. Raises Conflict if the id is in use.

        `agent_name` makes it a subagent's session, which `load_latest` never returns. With `parent`, it is deleted
        together with that session.
        """
        owner = None if parent is None else self._conversation(parent)
        extra = {HASH: project_hash(directory(cwd))}
        made = self._store.sessions.create(cwd=cwd, model=model, id=id, agent=agent_name, owner=owner, extra=extra)
        self._update_mirror(made.id)
        return Session(self, made)

    def start(
        self,
        options: Options | Mapping[str, Any] | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
    ) -> Session:
        """The session that a run starts with: see `Options`. Raises Invalid if the options conflict.

        With ``persist=False`` the session to continue is only read, and the new session is in memory.
        """
        asked = parse(options or Options())
        session = self._start(asked, cwd, model)
        session._file_checkpointing = asked.file_checkpointing
        return session

    def _start(self, asked: Options, cwd: str | os.PathLike[str] | None, model: str | None) -> Session:
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
        """The session with this id or handle. Raises NotFound."""
        return Session(self, self._store.sessions.get(session_id))

    def load_latest(self, cwd: str | os.PathLike[str]) -> Session:
        """The session last active in exactly this directory, except subagents' sessions. Raises NotFound."""
        place = directory(cwd)
        if place is None:
            raise Invalid("a directory is needed to continue its last session", hint="Pass cwd.")
        try:
            return Session(self, self._store.sessions.latest(place))
        except NotFound:
            raise NotFound("previous session in", place, hint="Create a new session.") from None

    def resume(self, session_id: str, at: str | None = None) -> Session:
        """The session with this id, to continue it under the same id.

        With `at`, it shows the messages up to and including that one. The next message added moves the session back
        there; later messages stay as a branch. Raises NotFound if `at` is not one of its messages.
        """
        conversation = self._store.sessions.get(session_id)
        if at is None:
            return Session(self, conversation)
        node = self._until(conversation, at, last=1)[0]
        return Session(self, conversation, None if node.id == conversation.head_id else node.id)

    def fork(self, source: Session | str, new_id: str | None = None, at: str | None = None) -> Session:
        """Creates a session that shares another's messages, up to and including `at`. The two are independent after.

        Raises NotFound if there is no such session or message, and Conflict if the new id is in use.
        """
        conversation = self._conversation(source)
        if at is not None:
            at = self._until(conversation, at, last=1)[0].id
        with self._store.transaction():
            made = self._store.sessions.fork(conversation, at=at, id=new_id)
            extra = {name: value for name, value in made.extra.items() if name not in (EXIT, IMPORTED)}
            if extra != made.extra:  # the exit reason and origin belong to the other session
                made.update(extra=extra)
        self._update_mirror(made.id)
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
        """Lists metadata of sessions, last active first. Skips damaged sessions and passes them to `on_damage`."""
        found: MetadataList = []
        for conversation in self._store.sessions.list(limit=200, cwd=cwd, subagents=subagents).all():
            try:
                found.append(metadata.of(conversation))
            except Corrupted as error:
                if on_damage is not None:
                    on_damage(error)
            if limit is not None and len(found) >= limit:
                break
        return found

    def delete(self, session_id: str) -> Receipt:
        """Deletes a session with its transcript, checkpoints and subagents, from the store and its mirrors.

        Messages that a fork shares stay with the fork. The receipt says how much was deleted and what remains. Raises
        NotFound, and Conflict if the session is held.
        """
        conversation = self._store.sessions.get(session_id)
        gone = list(metadata.family(conversation))
        receipt = delete_session(conversation)
        if self._store.in_transaction:  # otherwise the files are already removed
            for one in gone:
                self._update_mirror(one)
        return receipt

    def cleanup(
        self, *, older_than: timedelta = timedelta(days=30), dry_run: bool = False, force: bool = False
    ) -> CleanupReport:
        """Purges agents' sessions that were last active, with their subagents, longer ago than this.

        Never runs automatically. Held sessions, sessions whose own retention has not ended, conversation records that
        the policy keeps, sessions of other programs and project memories stay; so does a session that is changed
        meanwhile. With `dry_run` it reports what it would purge. Raises SweepRefused and removes nothing, unless
        `force` is set, if the clock looks wrong.
        """
        return _clean_up(self._store, self._mirror, older_than, dry_run=dry_run, force=force)

    # -- messages and events

    def append_message(self, session_id: Session | str, message: Sayable, *, id: str | None = None) -> Node:
        """Appends a message at the current end of a session. Durable when this returns.

        An SDK's message is stored as its provider wrote it, under its own ``uuid``. With an id, the call is safe to
        repeat. Raises Invalid if the message is too long for a line, and NotFound.
        """
        conversation = self._conversation(session_id)
        parsed, name, at = self._parse_message(conversation.id, message, id)
        node = conversation.append(parsed, id=name, created_at=at)
        self._update_mirror(conversation.id)
        return node

    def append_event(self, session_id: Session | str, event: object) -> TranscriptEvent:
        """Adds an event to a session's transcript: see `Transcript.append`."""
        return self.transcript(session_id).append(event)

    def load_messages(self, session_id: Session | str, *, last: int | None = None) -> NodeList:
        """A session's messages, root first, or only the `last` ones."""
        return self._conversation(session_id).path(last=last)

    def load_messages_up_to(self, session_id: Session | str, message_id: str) -> NodeList:
        """A session's messages up to and including one of them. Raises NotFound if it is not among them."""
        conversation = self._conversation(session_id)
        return self._until(conversation, message_id)

    def transcript(self, session_id: Session | str) -> Transcript:
        """The events of a session. Raises NotFound."""
        return Transcript(self._conversation(session_id), self._update_mirror)

    def transcript_path(self, session_id: Session | str) -> str | None:
        """The mirror's file with a session's events, up to date, for hooks. None without a mirror."""
        if self._mirror is None:
            return None
        conversation = self._conversation(session_id)
        self._mirror.sync(conversation.id)
        return self._mirror.transcript_path(metadata.of(conversation))

    def memory(self, cwd: str | os.PathLike[str] | None) -> Memory:
        """The memory of a project."""
        return self._memory(project_hash(directory(cwd)))

    def rebuild_mirror(self) -> MirrorReport:
        """Rewrites the mirror from the store: see `Mirror.rebuild`. Raises Invalid if there is none."""
        if self._mirror is None:
            raise Invalid("these sessions have no mirror", hint="Pass a folder as mirror.")
        return self._mirror.rebuild()

    # -- ending

    def flush(self) -> None:
        """Updates the mirror. Stored data is durable without it. Raises if the mirror cannot be updated."""
        if self._mirror is not None:
            self._mirror.flush()

    def close(self) -> None:
        """Updates the mirror, then closes the store if `open` opened it. Idempotent."""
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

    def _conversation(self, session: Session | str) -> Conversation:
        if isinstance(session, Session):
            return session.conversation
        return self._store.sessions.get(session)

    def _transaction(self) -> AbstractContextManager[None]:
        return self._store.transaction()

    def _memory(self, project: str) -> Memory:
        wrote = (lambda _: None) if self._mirror is None else self._mirror.remember_soon
        return Memory(self._store, project, wrote)

    def _parse_message(self, session_id: str, message: Sayable, id: str | None) -> IncomingMessage:
        found = fresh(serial.parse_message(message), session_id, id)
        serial.check_size(found.message)
        return found

    def _until(self, conversation: Conversation, name: str, last: int | None = None) -> NodeList:
        """Messages up to and including one, given by id, handle or imported name. Raises NotFound."""
        if not isinstance(name, str) or ids.maybe(name) is not None or ids.span(name) is not None:
            return conversation.path(until=name, last=last)
        try:
            return conversation.path(until=serial.message_id(conversation.id, name), last=last)
        except NotFound:
            raise NotFound("message", name, hint=f"It is not a message of session {conversation.id}.") from None

    def _change(self, conversation: Conversation, changes: dict[str, str | None]) -> None:
        given: dict[str, Any] = {name: changes[name] or None for name in ("cwd", "model") if name in changes}
        if EXIT in changes:
            given["extra"] = changed_extra(conversation.refresh().extra, changes)
        conversation.update(**given)

    def _update_mirror(self, session_id: str) -> None:
        if self._mirror is not None:
            self._mirror.soon(session_id)

    def _in_memory(
        self, asked: Options, source: Session | None, cwd: str | os.PathLike[str] | None, model: str | None
    ) -> Session:
        """A session in its own memory-only store that starts with the messages of the source."""
        below = open(":memory:", persist=False)
        self._below.append(below)
        if source is None:
            return below.create(cwd=cwd, model=model, id=asked.session_id)
        about, kept, resumed = source.metadata, source.conversation, not asked.fork
        before = {"created_at": about.created_at.isoformat(), "parent_id": about.parent_id}
        made = below._store.sessions.create(
            cwd=kept.cwd, model=kept.model, agent=kept.agent if resumed else None,
            id=source.id if resumed else asked.session_id,
            extra={HASH: about.project_hash}
            | ({**kept.extra, IMPORTED: before} if resumed else {IMPORTED: {"parent_id": source.id}}),
        )  # fmt: skip
        with below._store.transaction():
            for node in source.messages:
                for digest in codec.blobs_of(node.said):
                    made.blobs.put(kept.blobs.open(digest))
                made.append(node.said, id=node.id, created_at=node.created_at)
            for event in source.transcript.read() if resumed else ():
                Transcript(made).append(event.raw)
            copy_checkpoints(kept, made, None if resumed else {node.id for node in source.messages})
        return below.load(made.id)


def store_of(sessions: SessionStore) -> core.Store:
    """The store of the sessions, for the async twin."""
    return sessions._store


def closes_store(sessions: SessionStore) -> bool:
    """True if closing the sessions also closes their store, for the async twin."""
    return sessions._closes


def _clean_up(
    store: core.Store, mirror: Mirror | None, older_than: timedelta, *, dry_run: bool, force: bool
) -> CleanupReport:
    """See `SessionStore.cleanup`."""
    with loading:
        from clew.retention import RetentionScan, get_policy
        from clew.retention.policy import Policy
    policy = get_policy(store) or Policy(days=None)
    found = RetentionScan(store, policy, None, (), timedelta(0), only=metadata.is_agents, older_than=older_than)
    if not force:
        found.refuse_doubts()
    would = found.purge_rows(dry_run=True)
    files = {} if mirror is None else _sizes(store, mirror, would.sessions)
    receipt = would if dry_run else found.purge_rows()
    failures = (
        *((one.session, f"it is kept: {one.why}") for one in found.spared),
        *((one.session, one.error) for one in receipt.failures),
    )
    freed = receipt.bytes
    if mirror is not None and PENDING + mirror.root not in receipt.pending:
        freed += sum(files.get(one, 0) for one in receipt.sessions)
    return CleanupReport(receipt.sessions, freed, failures, receipt)


def _sizes(store: core.Store, mirror: Mirror, sessions: Iterable[str]) -> dict[str, int]:
    """Bytes of sessions and their subagents in a mirror."""

    def families(unit: Unit) -> dict[str, list[str]]:
        found = {id: unit.session(id, subagent=None, trashed=True) for id in sessions}
        return {id: list(metadata.family(one)) for id, one in found.items() if one is not None}

    return {id: mirror.size(family) for id, family in store.read(families).items()}
