"""A session of an agent runtime: the options of a run, its metadata, its messages, and unsaved changes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Protocol

import msgspec

from clew.agents import metadata, serial
from clew.agents.metadata import EXIT, SessionMetadata
from clew.agents.serial import IncomingMessage
from clew.agents.transcript import Transcript, TranscriptEvent
from clew.base import ids
from clew.base.messages import AnyMessage
from clew.engine.node import Node
from clew.errors import Invalid, NotFound
from clew.store.session import Session as Conversation


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


class SessionOwner(Protocol):
    """The methods that a session needs of its store: see `SessionStore`."""

    def _transaction(self) -> AbstractContextManager[None]: ...
    def _parse_message(self, session_id: str, message: Any, id: str | None) -> IncomingMessage: ...
    def _change(self, conversation: Conversation, changes: dict[str, str | None]) -> None: ...
    def _update_mirror(self, session_id: str) -> None: ...


class Session:
    """A session that was created or loaded. Use it from one thread; `SessionStore` may be shared."""

    def __init__(self, store: SessionOwner, conversation: Conversation, at: str | None = None) -> None:
        self._store = store
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
        return Transcript(self._conversation, self._store._update_mirror)

    def last(self, count: int) -> list[Node]:
        """The last messages, root first. As fast in a long session as in a short one."""
        return self._conversation.path(until=self._at, last=count)

    def add(self, message: AnyMessage | Mapping[str, Any] | bytes | str, *, id: str | None = None) -> str:
        """Adds a message for the next `save`, and returns the id it will have."""
        given = self._store._parse_message(self.id, message, id)
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
        with nullcontext() if alone else self._store._transaction():
            if self._at is not None and self._unsaved and not self._is_saved(self._unsaved[0]):
                conversation.rewind(to=self._at)
            nodes = [conversation.append(message, id=id, created_at=at) for message, id, at in self._unsaved]
            if changes:
                self._store._change(conversation, changes)
        if nodes:
            self._at, self._unsaved = None, []
            self._follow(nodes)
        self._set_metadata(
            metadata.of(conversation, nodes[-1].counters if nodes and nodes[-1].id == conversation.head_id else None)
        )
        self._store._update_mirror(self.id)
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
