"""The lines of Codex's rollouts, and the facts about a thread in the first line."""

from __future__ import annotations

from typing import Any

import msgspec

from clew.sources.contract import uuid_or_none


class RolloutLine(msgspec.Struct):
    """A line, with the bytes of its payload."""

    timestamp: str | None = None
    ordinal: int | None = None
    type: str | None = None
    payload: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(RolloutLine).decode
fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
any_value = msgspec.json.Decoder().decode


def read_line(text: bytes) -> RolloutLine:
    """A line. MsgspecError if it is not a JSON object."""
    try:
        return _decode(text)
    except msgspec.ValidationError:  # a field is of another type: it is left out
        fields = fields_of(text)
        line = RolloutLine(payload=fields.get("payload", msgspec.Raw()))
        line.timestamp, line.type = (text_of(any_value(fields.get(name, b"null"))) for name in ("timestamp", "type"))
        return line


def owner_of(payload: dict[str, Any]) -> str | None:
    """The thread that started a subagent."""
    found = uuid_or_none(payload.get("parent_thread_id"))
    source = payload.get("source")
    if found is None and isinstance(source, dict) and isinstance(inner := source.get("subagent"), dict):
        spawn = inner.get("thread_spawn")
        found = uuid_or_none(spawn.get("parent_thread_id")) if isinstance(spawn, dict) else None
    return found


def agent_of(payload: dict[str, Any]) -> str:
    """The name of a subagent."""
    names = (payload.get("agent_nickname"), payload.get("agent_role"), payload.get("agent_path"))
    return next((name for name in names if isinstance(name, str) and name), "agent")


def text_of(value: object) -> str | None:
    """The value, if it is text and not empty."""
    return value if isinstance(value, str) and value else None
