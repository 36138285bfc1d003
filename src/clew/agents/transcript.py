"""The transcript of a session: everything an agent said and did, as it happened, beside the messages.

Each event is an entry of the session's log: the byte 0x01, then the event as one compact JSON object. Events are never
parents of messages, and are never changed. An event without a ``uuid`` is given one.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from clew import ids
from clew.agents import lines, wire
from clew.errors import Invalid
from clew.log import Entry
from clew.session import Session

_TAG = b"\x01"

TranscriptList = list["Transcript"]


class Event(NamedTuple):
    """One event: whose it is, its number in the log of the session, when it was stored, and its JSON."""

    session_id: str
    agent: str | None
    """The subagent whose it is."""
    number: int
    created_at: datetime
    raw: bytes

    def __repr__(self) -> str:
        # No content: a repr ends up in logs.
        return f"<Event {self.number} of {self.session_id}>"

    @property
    def data(self) -> dict[str, Any]:
        """The event as it was given."""
        found: dict[str, Any] = lines.decode(self.raw)
        return found

    @property
    def type(self) -> str | None:
        """Its type, whatever that is."""
        found = self.data.get("type")
        return found if isinstance(found, str) else None

    @property
    def uuid(self) -> str:
        """Its own id."""
        return str(self.data.get("uuid"))


class Transcript:
    """The events of one session. Other entries of its log are passed over."""

    def __init__(self, session: Session, wrote: Callable[[str], None] = lambda _: None) -> None:
        self._session = session
        self._wrote = wrote

    @property
    def session_id(self) -> str:
        """The session whose it is."""
        return self._session.id

    def append(self, event: object) -> Event:
        """Adds an event: an object, its JSON, or an SDK's data class. Durable when this returns.

        Kinds of events that clew does not know are kept like all others. The same event with the same ``uuid`` again
        changes nothing; another one with that uuid is a Conflict. Invalid if it is longer than a line may be.
        """
        raw, name = prepare(event)
        raw = self._session._engine.redacted(raw)  # as JSON: behind its tag it would be taken for text
        (entry,) = self._session.log.append(_TAG + raw, id=wire.derived(self.session_id, f"event {name}"))
        self._wrote(self.session_id)
        return self._event(entry)

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[Event]:
        """Events with numbers from `start` up to and without `stop`, in order, a few at a time."""
        return (self._event(entry) for entry in self._session.log.read(start, stop) if entry.data[:1] == _TAG)

    def count(self) -> int:
        """The number that the next event will have."""
        return len(self._session.log)

    def subagents(self) -> TranscriptList:
        """The transcripts of the subagents that the session has sent out, oldest first."""
        return [Transcript(one, self._wrote) for one in self._session.subagents()]

    def replay(self) -> Iterator[Event]:
        """Its events and those of its subagents, and of theirs, in the order in which they happened."""
        return heapq.merge(*(one.read() for one in self._family()), key=lambda event: event.created_at)

    def _family(self) -> Iterator[Transcript]:
        yield self
        for below in self.subagents():
            yield from below._family()

    def _event(self, entry: Entry) -> Event:
        return Event(self.session_id, self._session.agent, entry.number, entry.created_at, entry.data[1:])


def prepare(event: object, unnamed: str | None = None) -> tuple[bytes, str]:
    """An event as it is stored, and its uuid; one that has none gets `unnamed`, or a new one.

    Invalid if it is no event, or too long for a line.
    """
    if isinstance(event, bytes | str):
        raw = lines.compact(event)
    else:
        plain = _plain(event)
        if not isinstance(plain, Mapping):
            raise Invalid(f"an event is an object, its JSON, or a data class, not {type(event).__name__}")
        raw = lines.compact(lines.encode(plain))
    name = lines.fields(raw).get("uuid")
    if name is None or name == b"null":
        name = b'"%s"' % (unnamed or ids.text(ids.new_id())).encode()
        body = raw[1:] if raw == b"{}" else b"," + raw[1:]
        raw = b'{"uuid":' + name + body
    if len(raw) >= lines.LINE_LIMIT:
        raise wire.too_long("event", len(raw), lines.LINE_LIMIT - 1)
    return raw, str(lines.decode(name))


def _plain(value: object) -> Any:
    """`value` with every data class in it as an object whose type is the class's name."""
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
