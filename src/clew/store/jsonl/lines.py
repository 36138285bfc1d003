"""clew's own export: one JSON object a line, without loss.

| ``type`` | what it is |
|---|---|
| ``export`` | the first line: the version of the format, and when it was written |
| ``tree`` | a session and everything forked from it: its number in this file, and its first message |
| ``node`` | a message: its tree, id, parent, time, and the message or the provider's own JSON |
| ``blob`` | a piece of an attachment of a tree |
| ``ref`` | a session, a branch, a checkpoint …: where it points, its times, its data, the attachments it uses |
| ``log`` | an entry of the log of the ref before it |
| ``end`` | the last line, with counts: a file without it was cut off |

A parent comes before its children, an owner before what it owns, and everything of a tree before its refs.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from clew.base.messages import Message

VERSION = 1
KINDS = frozenset({"session", "subagent", "branch", "snapshot", "checkpoint", "worktree", "rewind", "memory"})
"""Kinds of refs that an export has. The others say what was done to the store itself: audit, receipts, retention,
mirrors, imports, recovery marks."""
FIRST = b'{"type":"export"'
"""How a file of this format begins."""


class ExportLine(msgspec.Struct, frozen=True, tag="export", omit_defaults=True):
    """The first line."""

    version: int
    at: int


class TreeLine(msgspec.Struct, frozen=True, tag="tree", omit_defaults=True):
    """A tree, before everything that is in it."""

    tree: int
    root: str | None = None


class NodeLine(msgspec.Struct, frozen=True, tag="node", omit_defaults=True):
    """A message."""

    tree: int
    id: str
    at: int
    parent: str | None = None
    derived: str | None = None
    """For the root of a compaction: the last message that it replaces."""
    message: Message | None = None
    provider: str | None = None
    raw: str | dict[str, str] | None = None
    label: str | None = None
    extra: dict[str, Any] | None = None
    saved: bool = False
    """True for a message that was saved without a session, and for those before it."""
    damaged: str | None = None
    """Why the message cannot be read."""


class BlobLine(msgspec.Struct, frozen=True, tag="blob", omit_defaults=True):
    """A piece of an attachment."""

    tree: int
    data: str
    digest: str | None = None
    """With the last piece: the SHA-256 of the whole."""


class RefLine(msgspec.Struct, frozen=True, tag="ref", omit_defaults=True):
    """A ref, without what belongs to the store it comes from."""

    kind: str
    id: str
    version: int
    created_at: int
    active_at: int
    rank: int
    data: str | dict[str, str]
    tree: int | None = None
    head: str | None = None
    owner: tuple[str, str] | None = None
    trashed_at: int | None = None
    expires_at: int | None = None
    hold: int = 0
    blobs: tuple[str, ...] = ()


class LogLine(msgspec.Struct, frozen=True, tag="log"):
    """An entry of the log of the ref before it."""

    id: str
    at: int
    data: str | dict[str, str]


class EndLine(msgspec.Struct, frozen=True, tag="end"):
    """The last line."""

    nodes: int
    refs: int
    entries: int


Line = ExportLine | TreeLine | NodeLine | BlobLine | RefLine | LogLine | EndLine

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Line).decode


def pack(data: bytes) -> str | dict[str, str]:
    """Bytes as JSON: text where they are text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def unpack(value: str | dict[str, str]) -> bytes:
    """The bytes that `pack` was given. ValueError, KeyError."""
    return value.encode() if isinstance(value, str) else b64decode(value["base64"], validate=True)
