"""The lines of Claude Code's logs. There is no published schema: every field is optional here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.base.messages import Message
from clew.errors import Invalid
from clew.providers.json_values import as_list, as_word
from clew.providers.view import parse, usage_of
from clew.sources.values import without_surrogates


class LineBlock(msgspec.Struct):
    """A block of a message."""

    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None


class LineMessage(msgspec.Struct):
    """A message, as far as its place in the conversation needs it."""

    role: str | None = None
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    content: str | list[LineBlock] | None = None


class TranscriptLine(msgspec.Struct, rename="camel"):
    """A line: its own fields, and the message in it."""

    type: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    summary: str | None = None
    leaf_uuid: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    compact_metadata: dict[str, Any] | None = None
    message: msgspec.Raw = msgspec.Raw()


_line = msgspec.json.Decoder(TranscriptLine).decode
_message = msgspec.json.Decoder(LineMessage).decode
fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
any_value = msgspec.json.Decoder().decode


def read_line(text: bytes) -> tuple[TranscriptLine, bytes]:
    """A line, and its text as it was read. MsgspecError, UnicodeDecodeError or RecursionError if it is not JSON."""
    try:
        return _line(text), text
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        shape = without_surrogates(text)  # only for reading; the original bytes are stored
        return _lenient(shape), shape


def read_message(raw: msgspec.Raw) -> LineMessage | None:
    """The message of a line; None if it is not a message."""
    try:
        said = _message(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            fields = parse(bytes(raw))
        except (msgspec.MsgspecError, Invalid, UnicodeDecodeError, RecursionError):
            return None
        said = LineMessage(role=fields["role"] if isinstance(fields.get("role"), str) else None)
    return said if said.role is not None else None


def role_and_usage(said: LineMessage) -> Message | None:
    """Role and usage, as the view of the message has them; None if this takes a closer look."""
    content, role = said.content, said.role
    if content is None:
        return None
    used = None if said.usage is None else usage_of({"usage": said.usage})
    if role == "assistant" and content:
        return _ASSISTANT if used is None else Message("assistant", usage=used)
    if role == "user" and used is None and content:
        if type(content) is list:
            for block in content:
                if block.type != "tool_result":
                    return _USER
            return _TOOL
        return _USER
    return None


_USER, _ASSISTANT, _TOOL = Message("user"), Message("assistant"), Message("tool")


def words(raw: msgspec.Raw) -> str:
    """The text of a message; none if it cannot be read."""
    try:
        content = any_value(raw).get("content")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return content if isinstance(content, str) else "\n".join(as_word(one.get("text")) for one in as_list(content))


def seams(about: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The last message that a compaction preserved, and the one that it comes after now."""
    for name in ("preservedSegment", "preservedMessages"):
        kept = about.get(name)
        if isinstance(kept, dict):
            listed = kept.get("uuids")
            tail = listed[-1] if isinstance(listed, list) and listed else kept.get("tailUuid")
            anchor = kept.get("anchorUuid")
            if isinstance(tail, str) and isinstance(anchor, str) and tail != anchor:
                yield tail, anchor


def _lenient(text: bytes) -> TranscriptLine:
    """A line in which a field has another type than usual: that field is left out."""
    fields = fields_of(text)
    kept: dict[str, Any] = {}
    for name, encoded in zip(TranscriptLine.__struct_fields__, TranscriptLine.__struct_encode_fields__, strict=True):
        raw = fields.get(encoded)
        if raw is None:
            continue
        if name == "message":
            kept[name] = raw
            continue
        value = any_value(raw)
        usual = bool if name.startswith("is_") else dict if name == "compact_metadata" else str
        if isinstance(value, usual):
            kept[name] = value
    return TranscriptLine(**kept)
