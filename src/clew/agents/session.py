"""A session as an agent runtime holds it: what is known about it, its messages, and what is to be saved."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from clew import ids
from clew.agents import metadata, wire
from clew.agents.metadata import EXIT, SessionMetadata
from clew.agents.transcript import Event, Transcript
from clew.agents.wire import Given
from clew.errors import Invalid, NotFound
from clew.model import Said
from clew.node import Node
from clew.session import Session as Conversation

if TYPE_CHECKING:
    from clew.agents.store import SessionStore

_SETTABLE = ("cwd", "model", "exit_reason")


class Session:
    """A session that was created or loaded. It belongs to one thread; `SessionStore` may be shared."""

    def __init__(self, store: SessionStore, conversation: Conversation, at: str | None = None) -> None:
        self._store = store
        self._at = at
        self._file_checkpointing = True
        self._unsaved: list[Given] = []
        self._messages: list[Node] | None = None
        self._conversation = conversation
        self._saw(metadata.of(conversation))

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return self._conversation.id

    @property
    def conversation(self) -> Conversation:
        """The session as the rest of clew knows it: to rewind, rename, compact, attach."""
        return self._conversation

    @property
    def metadata(self) -> SessionMetadata:
        """What is known about it. `cwd`, `model` and `exit_reason` may be set; `save` stores them."""
        return self._metadata

    @property
    def file_checkpointing(self) -> bool:
        """False if `SessionStore.start` was not asked for it: pass it on as ``Checkpoints(…, enabled=…)``."""
        return self._file_checkpointing

    @property
    def messages(self) -> list[Node]:
        """Its messages, root first, read when they are first asked for; then with what is saved through this object."""
        if self._messages is None:
            self._messages = self._conversation.path(until=self._at)
        return self._messages

    @property
    def transcript(self) -> Transcript:
        """Its events."""
        return Transcript(self._conversation, self._store._wrote)

    def last(self, count: int) -> list[Node]:
        """Its last messages, root first: as fast in a long session as in a short one."""
        return self._conversation.path(until=self._at, last=count)

    def add(self, message: Said | Mapping[str, Any] | bytes | str, *, id: str | None = None) -> str:
        """Keeps a message in mind for the next `save`, and returns the id it will have."""
        given = self._store._given(self.id, message, id)
        assert given.id is not None
        self._unsaved.append(given)
        return given.id

    def save(self) -> list[Node]:
        """Stores what was added, and what was set in `metadata`, as one. Durable when this returns; safe to repeat.

        A session that was resumed at an earlier message goes back to it now, if there is something to add: what came
        after stays, as a branch. Invalid if something else than cwd, model or exit_reason was set.
        """
        changes = self._changes()
        store, talk = self._store._store, self._conversation
        alone = self._at is None and not changes and len(self._unsaved) < 2  # then it may share a commit with others
        with nullcontext() if alone else store.transaction():
            if self._at is not None and self._unsaved and not self._is_saved(self._unsaved[0]):
                talk.rewind(to=self._at)
            nodes = [talk.append(said, id=id, created_at=at) for said, id, at in self._unsaved]
            if changes:
                self._store._change(talk, changes)
        if nodes:
            self._at, self._unsaved = None, []
            self._follow(nodes)
        self._saw(metadata.of(talk, nodes[-1].counters if nodes and nodes[-1].id == talk.head_id else None))
        self._store._wrote(self.id)
        return nodes

    def append_and_save(self, message: Said | Mapping[str, Any] | bytes | str, *, id: str | None = None) -> Node:
        """`add`, then `save`. If it cannot be stored, nothing is, and it is not kept in mind."""
        self.add(message, id=id)
        try:
            return self.save()[-1]
        except BaseException:
            del self._unsaved[-1:]  # nothing, if it was stored and what came after it has failed
            raise

    def append_event(self, event: object) -> Event:
        """Adds an event to its transcript: see `Transcript.append`."""
        return self.transcript.append(event)

    def refresh(self) -> None:
        """Reads it again. What was added and not saved stays in mind. NotFound if it is gone."""
        self._messages = None
        self._saw(metadata.of(self._conversation.refresh()))

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    def _is_saved(self, given: Given) -> bool:
        """Whether the session has gone on with this message already, from where it was resumed at."""
        with suppress(NotFound):
            return self._conversation.path(until=given.id, last=1)[0].parent_id == self._at
        return False

    def _saw(self, about: SessionMetadata) -> None:
        self._metadata = about
        self._about = msgspec.structs.replace(about)

    def _follow(self, nodes: list[Node]) -> None:
        """Adds to the messages that were read; if someone else has said something in between, they are read again."""
        for node in nodes:
            if self._messages is not None and node.parent_id == (self._messages[-1].id if self._messages else None):
                self._messages.append(node)
            else:
                self._messages = None

    def _changes(self) -> dict[str, str | None]:
        """What was set since it was read."""
        now, then = msgspec.structs.asdict(self._metadata), msgspec.structs.asdict(self._about)
        changed = {name: value for name, value in now.items() if value != then[name]}
        if wrong := sorted(changed.keys() - {*_SETTABLE}):
            raise Invalid(f"{wrong[0]} cannot be set", hint="Of a session only cwd, model and exit_reason can.")
        return changed


def fresh(given: Given, session: str, id: str | None) -> Given:
    """`given` with the id it will be stored under: the one asked for, its own, or a new one."""
    name = given.id if id is None else id
    return given._replace(id=ids.text(ids.new_id()) if name is None else wire.message_id(session, name))


def changed_extra(extra: dict[str, Any], changes: dict[str, str | None]) -> dict[str, Any] | None:
    """A session's free data with another reason for its end."""
    rest = {name: value for name, value in extra.items() if name != EXIT}
    if changes[EXIT]:
        rest[EXIT] = changes[EXIT]
    return rest or None
