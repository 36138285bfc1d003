"""The transcript of a session: an append-only log of an agent's events, separate from the messages.

Each event is an entry of the session's log: the byte 0x01, then the event as one compact JSON object. Events are never
changed and are never parents of messages. An event without a ``uuid`` gets one.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from clew.agents import jsonl, serial
from clew.base import ids
from clew.engine.log import Entry
from clew.errors import Invalid
from clew.store.session import Session
from clew.store.store import store_of

_TAG = b"\x01"

TranscriptList = list["Transcript"]


class TranscriptEvent(NamedTuple):
    """One event: its session, its number in the log, when it was stored, and its JSON."""

    session_id: str
    agent: str | None
    """The subagent that it belongs to."""
    number: int
    created_at: datetime
    raw: bytes

    def __repr__(self) -> str:
        # No content: a repr ends up in logs.
        return f"<TranscriptEvent {self.number} of {self.session_id}>"

    @property
    def data(self) -> dict[str, Any]:
        """The event as a dictionary."""
        found: dict[str, Any] = jsonl.decode(self.raw)
        return found

    @property
    def type(self) -> str | None:
        """Its ``type`` field, of any JSON type."""
        found = self.data.get("type")
        return found if isinstance(found, str) else None

    @property
    def uuid(self) -> str:
        """Its ``uuid``."""
        return str(self.data.get("uuid"))


class Transcript:
    """The events of one session. Ignores other entries of its log."""

    def __init__(self, session: Session, wrote: Callable[[str], None] = lambda _: None) -> None:
        self._session = session
        self._wrote = wrote

    @property
    def session_id(self) -> str:
        """The session of this transcript."""
        return self._session.id

    def append(self, event: object) -> TranscriptEvent:
        """Adds an event: an object, its JSON, or an SDK's data class. Durable when this returns.

        Events of unknown types are stored too. Adding the same event with the same ``uuid`` again changes nothing; a
        different event with that uuid raises Conflict. Raises Invalid if the event is too long for a line.
        """
        raw, name = prepare(event)
        raw = store_of(self._session).redacted(raw)  # without the tag, so that it is redacted as JSON
        (entry,) = self._session.log.append(_TAG + raw, id=serial.derive_id(self.session_id, f"event {name}"))
        self._wrote(self.session_id)
        return self._event(entry)

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[TranscriptEvent]:
        """Events from number `start` up to but not including `stop`, in order, read a few at a time."""
        return (self._event(entry) for entry in self._session.log.read(start, stop) if entry.data[:1] == _TAG)

    def count(self) -> int:
        """The number of the next event."""
        return len(self._session.log)

    def subagents(self) -> TranscriptList:
        """The transcripts of the session's subagents, oldest first."""
        return [Transcript(one, self._wrote) for one in self._session.subagents()]

    def replay(self) -> Iterator[TranscriptEvent]:
        """The events of the session and of all its subagents, in order of time."""
        return heapq.merge(*(one.read() for one in self._family()), key=lambda event: event.created_at)

    def _family(self) -> Iterator[Transcript]:
        yield self
        for below in self.subagents():
            yield from below._family()

    def _event(self, entry: Entry) -> TranscriptEvent:
        return TranscriptEvent(self.session_id, self._session.agent, entry.number, entry.created_at, entry.data[1:])


def prepare(event: object, unnamed: str | None = None) -> tuple[bytes, str]:
    """The stored form of an event, and its uuid. An event without one gets `unnamed`, or a new one.

    Raises Invalid if it is not an event, or too long for a line.
    """
    if isinstance(event, bytes | str):
        raw = jsonl.compact(event)
    else:
        plain = _plain(event)
        if not isinstance(plain, Mapping):
            raise Invalid(f"an event must be an object, its JSON or a data class, not {type(event).__name__}")
        raw = jsonl.compact(jsonl.encode(plain))
    name = jsonl.fields(raw).get("uuid")
    if name is None or name == b"null":
        name = b'"%s"' % (unnamed or ids.text(ids.new_id())).encode()
        body = raw[1:] if raw == b"{}" else b"," + raw[1:]
        raw = b'{"uuid":' + name + body
    if len(raw) >= jsonl.LINE_LIMIT:
        raise serial.too_long("event", len(raw), jsonl.LINE_LIMIT - 1)
    return raw, str(jsonl.decode(name))


def _plain(value: object) -> Any:
    """`value` with each data class replaced by an object whose type is the name of the class."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
