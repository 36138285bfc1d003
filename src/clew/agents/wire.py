"""Messages as lines: what agent SDKs send, and what a mirror holds.

A line of a mirror is ``{"type", "uuid", "parent_uuid", "timestamp", "provider", "message", "label", "extra"}``; all but
uuid and message may be missing. With a provider the message is that provider's own; without one it is clew's. A line of
another program is taken as an SDK's message if it has a ``message`` with a ``role``, as a provider's own if it has a
``role`` itself; whatever else it carries is kept in ``extra``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from clew import ids
from clew.agents import lines
from clew.errors import Invalid
from clew.model import Message, Native, Said
from clew.node import Node

_PLACE = frozenset({"type", "uuid", "parent_uuid", "timestamp", "provider", "message", "label", "extra"})
_OPENAI = frozenset({"tool_calls", "tool_call_id", "refusal", "audio"})
_neutral = msgspec.json.Decoder(Message).decode
_moment = msgspec.json.Decoder(datetime).decode


class Given(NamedTuple):
    """A message that came from outside, with the id and the time it came with."""

    said: Said
    id: str | None = None
    created_at: datetime | None = None


class _Line(msgspec.Struct, omit_defaults=True):
    type: str
    uuid: str
    parent_uuid: str | None
    timestamp: str
    message: msgspec.Raw
    provider: str | None = None
    label: str | None = None
    extra: dict[str, Any] | None = None


def given(message: Said | Mapping[str, Any] | bytes | str) -> Given:
    """A message as it was handed over: clew's own, an SDK's object, or its JSON. Invalid if it is none of these."""
    if isinstance(message, Message | Native):
        return Given(message)
    if isinstance(message, Mapping):
        message = lines.encode(message)
    if isinstance(message, bytes | str):
        lines.compact(message)  # it says what is wrong
        return parse(message.encode() if isinstance(message, str) else message)
    raise Invalid(f"a message is clew's own, or an object with a role or a message, not {type(message).__name__}")


def parse(line: bytes) -> Given:
    """The message on a line. Invalid if there is none."""
    fields = lines.fields(line)
    known = {name: _value(fields[name]) for name in ("type", "uuid", "timestamp", "provider") if name in fields}
    created_at = _time(fields.get("timestamp"))
    id = known.get("uuid") if isinstance(known.get("uuid"), str) else None
    body = fields.get("message")
    if body is None:
        if "role" not in fields:
            raise Invalid("it is not a message: it has neither a role nor a message")
        return Given(Native("openai" if _OPENAI & fields.keys() else "anthropic", line), id, created_at)
    inner = lines.fields(body)
    if isinstance(provider := known.get("provider"), str):
        said: Said = Native(provider, body, _value(fields.get("label")), _value(fields.get("extra")))
    elif "blocks" in inner:
        try:
            said = _neutral(body)
        except msgspec.MsgspecError:
            raise Invalid("its message is not one of clew's") from None
    elif "role" in inner:
        said = Native("anthropic", body, extra=_rest(fields))
    else:
        raise Invalid("it is not a message: what it calls its message has no role")
    return Given(said, id, created_at)


def line(node: Node) -> bytes:
    """The line of a mirror that holds a message, without its newline."""
    said = node.said
    native = isinstance(said, Native)
    done = msgspec.json.encode(
        _Line(
            node.role, node.id, node.parent_id, stamp(node.created_at),
            msgspec.Raw(lines.compact(said.raw) if isinstance(said, Native) else msgspec.json.encode(said)),
            said.provider if isinstance(said, Native) else None,
            said.label if native else None, said.extra if native else None,
        )
    )  # fmt: skip
    if len(done) < lines.LINE_LIMIT:
        return done
    left = {"type": node.role, "uuid": node.id, "parent_uuid": node.parent_id, "omitted": f"{len(done)} bytes"}
    return msgspec.json.encode(left)


_AROUND = 4096
"""Bytes of a line that a message may not use: they hold what is said about it."""


def check_size(said: Said) -> None:
    """Invalid if the message is too long for a line."""
    size = len(said.raw) if isinstance(said, Native) else len(lines.encode(msgspec.to_builtins(said)))
    if size > lines.LINE_LIMIT - _AROUND:
        raise too_long("message", size, lines.LINE_LIMIT - _AROUND)


def too_long(what: str, size: int, limit: int) -> Invalid:
    """The error that says so."""
    hint = "Keep large content as a blob, and say its digest."
    return Invalid(f"the {what} has {size:,} bytes, the limit is {limit:,}", hint=hint)


def alike(one: Said, other: Said) -> bool:
    """True if two messages are the same, but for space between the parts of their JSON."""
    if one == other:
        return True
    if not isinstance(one, Native) or not isinstance(other, Native):
        return False
    beside = (one.provider, one.label, one.extra or None) == (other.provider, other.label, other.extra or None)
    return beside and lines.compact(one.raw) == lines.compact(other.raw)


def derived(session: str, what: str) -> str:
    """An id made of a session's id and a name in it: always the same, and another in each session."""
    return str(uuid.uuid5(uuid.UUID(ids.text(ids.parse(session))), what))


def message_id(session: str, name: str) -> str:
    """The id under which a message is stored: its own if that is a UUID, else one derived from it."""
    stored = ids.maybe(name)
    return derived(session, f"message {name}") if stored is None else ids.text(stored)


def stamp(moment: datetime) -> str:
    """A time as lines have it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _rest(fields: Mapping[str, bytes]) -> dict[str, Any] | None:
    """What an SDK's message carries beside its place and the message itself."""
    rest = {name: _value(raw) for name, raw in fields.items() if name not in _PLACE}
    return rest or None


def _value(raw: bytes | None) -> Any:
    return None if raw is None else lines.decode(raw)


def _time(raw: bytes | None) -> datetime | None:
    try:
        found = None if raw is None else _moment(raw)
    except msgspec.MsgspecError:
        return None
    return found if found is not None and found.tzinfo is not None else None
