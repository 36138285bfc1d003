"""Messages as lines of JSON: the messages of agent SDKs, and the lines of a mirror.

A line of a mirror is ``{"type", "uuid", "parent_uuid", "timestamp", "provider", "message", "label", "extra"}``; only
uuid and message are required. With a provider, the message is in that provider's format; without one, in clew's. A line
of another program is read as an SDK's message if it has a ``message`` with a ``role``, and as a provider's message if
it has a ``role`` itself; its other fields are stored in ``extra``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from clew.agents import jsonl
from clew.base import ids
from clew.base.messages import AnyMessage, Message, Native
from clew.engine.node import Node
from clew.errors import Invalid

_PLACE = frozenset({"type", "uuid", "parent_uuid", "timestamp", "provider", "message", "label", "extra"})
_OPENAI = frozenset({"tool_calls", "tool_call_id", "refusal", "audio"})
_neutral = msgspec.json.Decoder(Message).decode
_moment = msgspec.json.Decoder(datetime).decode


class IncomingMessage(NamedTuple):
    """A message from outside, with its own id and time."""

    message: AnyMessage
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


def parse_message(message: AnyMessage | Mapping[str, Any] | bytes | str) -> IncomingMessage:
    """A message from a caller: clew's own, an SDK's object, or its JSON. Raises Invalid for anything else."""
    if isinstance(message, Message | Native):
        return IncomingMessage(message)
    if isinstance(message, Mapping):
        message = jsonl.encode(message)
    if isinstance(message, bytes | str):
        jsonl.compact(message)  # raises with the reason
        return parse(message.encode() if isinstance(message, str) else message)
    raise Invalid(f"not a clew.Message, or an object with a role or a message: {type(message).__name__}")


def parse(line: bytes) -> IncomingMessage:
    """The message on a line. Raises Invalid if there is none."""
    fields = jsonl.fields(line)
    known = {name: _value(fields[name]) for name in ("type", "uuid", "timestamp", "provider") if name in fields}
    created_at = _time(fields.get("timestamp"))
    id = known.get("uuid") if isinstance(known.get("uuid"), str) else None
    body = fields.get("message")
    if body is None:
        if "omitted" in fields:  # see `line`
            raise Invalid(f"the mirror left out its message, which was too long: {_value(fields['omitted'])}")
        if "role" not in fields:
            raise Invalid("it is not a message: it has neither a role nor a message")
        return IncomingMessage(Native("openai" if _OPENAI & fields.keys() else "anthropic", line), id, created_at)
    inner = jsonl.fields(body)
    if isinstance(provider := known.get("provider"), str):
        message: AnyMessage = Native(provider, body, _value(fields.get("label")), _value(fields.get("extra")))
    elif "blocks" in inner:
        try:
            message = _neutral(body)
        except msgspec.MsgspecError:
            raise Invalid("its message is not in clew's format") from None
    elif "role" in inner:
        message = Native("anthropic", body, extra=_rest(fields))
    else:
        raise Invalid("it is not a message: its message field has no role")
    return IncomingMessage(message, id, created_at)


def line(node: Node) -> bytes:
    """The mirror's line for a message, without its newline."""
    message = node.said
    native = isinstance(message, Native)
    done = msgspec.json.encode(
        _Line(
            node.role, node.id, node.parent_id, stamp(node.created_at),
            msgspec.Raw(jsonl.compact(message.raw) if isinstance(message, Native) else msgspec.json.encode(message)),
            message.provider if isinstance(message, Native) else None,
            message.label if native else None, message.extra if native else None,
        )
    )  # fmt: skip
    if len(done) < jsonl.LINE_LIMIT:
        return done
    left = {"type": node.role, "uuid": node.id, "parent_uuid": node.parent_id, "omitted": f"{len(done)} bytes"}
    return msgspec.json.encode(left)


_AROUND = 4096
"""Bytes of a line that are reserved for fields other than the message."""


def check_size(message: AnyMessage) -> None:
    """Raises Invalid if the message is too long for a line."""
    size = len(message.raw) if isinstance(message, Native) else len(jsonl.encode(msgspec.to_builtins(message)))
    if size > jsonl.LINE_LIMIT - _AROUND:
        raise too_long("message", size, jsonl.LINE_LIMIT - _AROUND)


def too_long(what: str, size: int, limit: int) -> Invalid:
    """The error for too much data."""
    hint = "Store large content as a blob, and refer to it by its digest."
    return Invalid(f"the {what} has {size:,} bytes; the limit is {limit:,}", hint=hint)


def alike(one: AnyMessage, other: AnyMessage) -> bool:
    """True if two messages are equal apart from whitespace between the parts of their JSON."""
    if one == other:
        return True
    if not isinstance(one, Native) or not isinstance(other, Native):
        return False
    beside = (one.provider, one.label, one.extra or None) == (other.provider, other.label, other.extra or None)
    return beside and jsonl.compact(one.raw) == jsonl.compact(other.raw)


def derive_id(session: str, what: str) -> str:
    """An id derived from a session's id and a name: stable, and different in each session."""
    return str(uuid.uuid5(uuid.UUID(ids.text(ids.parse(session))), what))


def message_id(session: str, name: str) -> str:
    """The id that a message is stored under: its own if that is a UUID, otherwise one derived from it."""
    stored = ids.maybe(name)
    return derive_id(session, f"message {name}") if stored is None else ids.text(stored)


def stamp(moment: datetime) -> str:
    """A time in the format of lines."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _rest(fields: Mapping[str, bytes]) -> dict[str, Any] | None:
    """The other fields of an SDK's message."""
    rest = {name: _value(raw) for name, raw in fields.items() if name not in _PLACE}
    return rest or None


def _value(raw: bytes | None) -> Any:
    return None if raw is None else jsonl.decode(raw)


def _time(raw: bytes | None) -> datetime | None:
    try:
        found = None if raw is None else _moment(raw)
    except msgspec.MsgspecError:
        return None
    return found if found is not None and found.tzinfo is not None else None
