"""The data of sessions and of project memories, stored in their refs: validated, and written as a tag and JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import msgspec

from clew.backends import RefRow
from clew.base import codec
from clew.base.messages import RECORD
from clew.engine.sealing.envelope import MISTYPED, PLAIN_HEAD, plain_head, plain_ref, refs_crc
from clew.errors import Corrupted, Invalid, clip

# No `from __future__ import annotations` here: Python would compile the type of each field at every start.


SHORTEST, LONGEST = 7, 180
"""Days that a conversation record may be kept after its last activity."""
DAY = 86_400_000_000
"""Microseconds."""
MOST_DAYS = 36_500
"""Maximum days of a retention: a larger number is a mistake, such as seconds."""

SOURCE = "source"
"""Where a session's free data keeps where it came from: tool, the tool's own id, branch and version."""
AGAIN = "again"
"""In a session's origin: it was imported though it was purged before."""


class SessionData(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metadata of a session, as stored."""

    title: str | None = None
    cwd: str | None = None
    model: str | None = None
    labels: tuple[str, ...] = ()
    agent: str | None = None
    forked_from: str | None = None
    forked_at: str | None = None
    extra: dict[str, Any] | None = None
    hold_reason: str | None = None
    moved: tuple[tuple[str, str], ...] = ()
    """Folders that the project has moved to, each with the folder before, under which its checkpoints are stored."""


_decode = msgspec.json.Decoder(SessionData).decode


def directory(cwd: str | os.PathLike[str] | None) -> str | None:
    """The absolute path of a directory: `/src/app/` and `/src/app` are the same."""
    if cwd is None:
        return None
    try:
        path = os.fspath(cwd)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise Invalid(f"a directory must be text or a path, not {type(cwd).__name__}")
    return os.path.abspath(path) if path else None


def relocated(data: SessionData, old: str, new: str) -> SessionData:
    """The data of a session whose project has moved."""
    cwd = data.cwd
    if cwd is not None and (cwd == old or cwd.startswith(old.rstrip(os.sep) + os.sep)):
        cwd = directory(os.path.join(new, os.path.relpath(cwd, old)))
    before = os.path.join(os.path.realpath(os.path.dirname(old)), os.path.basename(old))
    # A moved link still points to the same folder.
    moved = () if os.path.islink(new) else ((os.path.realpath(new), before),)
    return msgspec.structs.replace(data, cwd=cwd, moved=(*data.moved, *moved))


def moved_path(data: SessionData, path: str) -> str:
    """The path before the project moved; the same path if it did not."""
    for new, old in reversed(data.moved):
        if path == new or path.startswith(new.rstrip("/") + "/"):
            path = old + path[len(new) :]
    return path


def label_set(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels without duplicates, sorted. Invalid if one is not text."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise Invalid(f"labels must be a list of strings, not {type(labels).__name__}")
    found = list(labels)
    if not all(isinstance(label, str) for label in found):
        raise Invalid("labels must be a list of strings")
    return tuple(sorted({*found}))


def retention_days(days: object) -> int:
    """`days`, if it is a valid retention of a session. Invalid."""
    return _days("a retention", days, 1, MOST_DAYS)


def record_days(days: object) -> int:
    """`days`, if it is a valid retention of a conversation record. Invalid."""
    return _days("the retention of a record", days, SHORTEST, LONGEST)


def record_end(active_at: int, end: int) -> int:
    """`end` (microseconds), if a record last active at `active_at` may be kept until then. Invalid."""
    if not active_at + SHORTEST * DAY <= end <= active_at + LONGEST * DAY:
        raise Invalid(f"a record must be kept for {SHORTEST} to {LONGEST} days after its last interaction")
    return end


def _days(what: str, days: object, least: int, most: int) -> int:
    if not isinstance(days, int) or isinstance(days, bool) or not least <= days <= most:
        raise Invalid(f"{what} must be {least} to {most:,} days, not {clip(str(days))}")
    return days


def is_record(data: SessionData) -> bool:
    """True if the record service has written to the session."""
    return RECORD in (data.extra or {})


def note_changes(before: SessionData, after: SessionData, version: int, columns: Iterable[str]) -> SessionData:
    """`after`; for a record, with the version that sets its title, summary or retention: older ones conflict."""
    stored, record = ((data.extra or {}).get(RECORD) for data in (before, after))
    if not isinstance(record, dict) or not isinstance(stored, dict):
        return after
    changed = dict(record.get("changed") or {})
    if before.title != after.title:
        changed["title"] = version
    if stored.get("summary") != record.get("summary"):
        changed["summary"] = version
    if {"hold", "expires_at"} & {*columns}:
        changed["retention"] = version
    return msgspec.structs.replace(after, extra={**(after.extra or {}), RECORD: {**record, "changed": changed}})


def pack(data: SessionData) -> bytes:
    """A session's data as bytes. Invalid if it cannot be encoded."""
    payload = b"\x01" + codec.to_json(data)
    try:
        codec.same(_decode(memoryview(payload)[1:]), data)
    except msgspec.ValidationError as error:
        raise Invalid(f"the session data is not valid: {error}") from None
    return payload


def read_plain(seed: int | None, row: RefRow) -> SessionData | None:
    """The data of a session in a plain store. None if it is damaged, owned, in the trash or expires.

    A faster path with the checks of `ref_context` and the box of the ref, which handle every other case and raise
    the errors. A list of 50 titles takes 201 µs instead of 225.
    """
    _, space, kind, key, owner, tree, _, _, _, created_at, _, _, trashed_at, end, hold, look, wrapped, _, data = row
    try:
        rare = not (wrapped is None and owner is None and trashed_at is None and end is None)
        if seed is None or rare or not tree or tree < 0 or len(key) != 16:
            return None
        json = data[PLAIN_HEAD:]
        bound = plain_ref(-1, tree, created_at, -1, -1, hold, key) + (look or b"") + b"\x01"
        if data[:PLAIN_HEAD] == plain_head(1, crc32(json, crc32(bound, refs_crc(space, kind, seed))), 1):
            return _decode(json)
    except (*MISTYPED, ValueError, msgspec.DecodeError):
        pass
    return None


def unpack(payload: bytes) -> SessionData:
    """Reads the bytes that `pack` wrote. Corrupted."""
    try:
        return _decode(payload[1:])
    except msgspec.DecodeError as error:
        raise Corrupted("a session", f"its data does not decode ({type(error).__name__})") from None


MEMORY = "memory"
"""Kind of the refs that hold project memories."""


class MemoryData(msgspec.Struct, frozen=True):
    """The hash of a project, and the text that agents keep for it."""

    project: str
    text: str


def memory_key(lookup_hash: Callable[[str, bytes], bytes], project: str) -> bytes:
    """The key of a project's memory: a keyed hash, which reveals nothing without the store's secrets."""
    return lookup_hash("memory", project.encode())


def unpack_memory(payload: bytes) -> MemoryData:
    """The data of a memory. Raises Corrupted."""
    try:
        return msgspec.json.decode(payload[1:], type=MemoryData)
    except msgspec.DecodeError:
        raise Corrupted("a memory", "its data does not decode") from None
