"""Reads the rows of a ``.cpeconvo`` file as messages, and finds imported ones by the ids that they have there."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from clew.base.messages import Block, Message, Modality, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from clew.base.outside import open_outside
from clew.errors import ClewError, Corrupted, Invalid, NotFound, ReadOnly, StorageFull, Unavailable
from clew.store.origin import CPE_NOTE
from clew.store.session import Session
from clew.store.store import Store

LONGEST = 64 * 1024 * 1024
"""Maximum size of one block in bytes."""
WAIT = 10.0
"""Seconds to wait for a program that writes to the file."""
GLANCE = 0.2
"""The same, for a hint."""
PAGE = 500
"""Sessions read at a time to find imported messages."""
_WRITING = ("foreign_keys = ON", "secure_delete = ON", "synchronous = FULL")
_MAGIC, _WAL = b"SQLite format 3\0", 2
_ROLES: dict[object, Role] = {"user": "user", "assistant": "assistant", "tool_result": "tool"}
_MODALITIES: dict[object, Modality] = {1: "image", 2: "audio", 3: "video"}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,6})?\d*\s*(Z|[+-]\d\d:?\d\d)?.*", re.ASCII)
_HINT = "'clew sources' lists the formats that can be imported."
_COLUMNS = {
    "messages": {"id", "parent_id", "title", "role", "tool_result_error", "created_at"},
    "blocks": {
        "id",
        "message_id",
        "block_type",
        "modality_type",
        "mime_type",
        "content",
        "extra_fields",
        "sequence_order",
    },
}


class InlineMedia(NamedTuple):
    """An image or a recording, before it is stored."""

    mime_type: str
    modality: Modality
    content: str
    """In base 64."""
    extra: dict[str, Any] | None


Part = Text | Thinking | ToolCall | Opaque | InlineMedia
Parts = tuple[tuple[str | None, Part], ...]


class CpeRow(NamedTuple):
    """A message of the file, without its blocks."""

    id: str
    parent: str | None
    title: str | None
    role: Role
    failed: bool
    created_at: datetime


class UnreadableRow(NamedTuple):
    """An unreadable row, and the reason."""

    id: str
    why: str


def recognised(path: str | os.PathLike[str]) -> bool:
    """True if this is a CPE file; False if it cannot be read. Does not change the file."""
    try:
        with open_database(os.fspath(path)):
            return True
    except (Invalid, NotFound, Unavailable):
        return False


def has_message(path: str, id: str) -> bool:
    """True if this is a CPE file that has a message with this id."""
    try:
        with open_database(path, timeout=GLANCE) as conn:
            return conn.execute("SELECT 1 FROM messages WHERE id = ?", [id]).fetchone() is not None
    except (Invalid, NotFound, Unavailable):
        return False


def roots(path: str) -> set[str]:
    """The ids of the first messages of a file's conversations; empty if it is not a CPE file, or cannot be read."""
    query = "SELECT id FROM messages WHERE parent_id IS NULL OR parent_id NOT IN (SELECT id FROM messages)"
    try:
        with open_database(path, timeout=GLANCE) as conn:
            return {id for (id,) in conn.execute(query) if isinstance(id, str)}
    except (Invalid, NotFound, Unavailable):
        return set()


@contextmanager
def open_database(path: str, *, timeout: float = WAIT, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Opens a connection, read-only unless `write`. It waits up to `timeout` seconds for a program that writes.

    Raises NotFound; Invalid if it is not a CPE file; Unavailable if it is locked for longer; ReadOnly; StorageFull.
    """
    try:
        with open_outside(path) as file:
            start = file.read(100)
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound("file", path) from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None
    if len(start) < 100 or not start.startswith(_MAGIC):
        raise Invalid(f"{path} is not an SQLite database")
    # Reading a database in WAL mode creates files beside it, unless it is opened as immutable, which is safe without a
    # WAL file.
    settled = start[18] == _WAL and not os.path.exists(f"{path}-wal")
    mode = "mode=rw" if write else "mode=ro&immutable=1" if settled else "mode=ro"
    uri = f"file:{quote(os.path.abspath(path))}?{mode}"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)) as conn:
            for pragma in _WRITING if write else ("query_only = ON",):
                conn.execute(f"PRAGMA {pragma}")
            conn.execute("PRAGMA trusted_schema = OFF")
            conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * LONGEST)
            conn.text_factory = lambda raw: raw.decode(errors="surrogateescape")  # reported when it is stored
            _check(conn, path)
            yield conn
    except sqlite3.Error as error:
        raise _translated(error, path) from None


def _translated(error: sqlite3.Error, path: str) -> ClewError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the low byte is the primary code
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        hint = "Try again when it has finished writing. CLEW_TIMEOUT sets how long clew waits."
        return Unavailable(f"{path} is locked by another program", hint=hint)
    if code == sqlite3.SQLITE_READONLY:
        return ReadOnly(f"{path} cannot be written: {error}", hint="Check the permissions of the file and its folder.")
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(f"{path}: {error}", hint="Free some space; nothing was stored.")
    if isinstance(error, sqlite3.OperationalError):
        return Unavailable(f"{path} cannot be read: {error}", hint="Stop the program that uses it and try again.")
    return Invalid(f"{path} is damaged: {error}")


def _check(conn: sqlite3.Connection, path: str) -> None:
    for table, wanted in _COLUMNS.items():
        if conn.execute("SELECT type FROM sqlite_master WHERE name = ?", [table]).fetchone() != ("table",):
            raise Invalid(f"{path} is not a CPE file: it has no table {table}", hint=_HINT)
        found = {name for (name,) in conn.execute("SELECT name FROM pragma_table_info(?)", [table])}
        if not wanted <= found:
            missing = ", ".join(sorted(wanted - found))
            raise Invalid(f"{path} is not a CPE file: {table} has no {missing}", hint=_HINT)


def rows(conn: sqlite3.Connection) -> Iterator[CpeRow | UnreadableRow]:
    """Every message, oldest first. Checks blocks, but does not keep them in memory."""
    columns = "id, parent_id, title, role, tool_result_error, created_at"
    for id, parent, title, role, failed, at in conn.execute(
        f"SELECT {columns} FROM messages ORDER BY created_at, rowid"
    ):
        if not isinstance(id, str) or not id:
            yield UnreadableRow(str(id)[:64], "its id is not text")
        elif role not in _ROLES:
            yield UnreadableRow(id, "unknown role")
        elif not isinstance(parent, str | None) or not isinstance(title, str | None):
            yield UnreadableRow(id, "its parent or title is not text")
        else:
            try:
                parts(conn, id)
                yield CpeRow(id, parent or None, title or None, _ROLES[role], bool(failed), _moment(at))
            except ValueError as error:
                yield UnreadableRow(id, str(error))


def to_message(row: CpeRow, blocks: Iterable[tuple[str | None, Block]]) -> Message:
    """The message of a row and its blocks."""
    found: list[Block] = []
    for call, block in blocks:
        if row.role != "tool" or isinstance(block, Thinking | ToolCall | ToolResult):
            found.append(block)
            continue
        last = found[-1] if found else None
        if isinstance(last, ToolResult) and last.call_id == (call or ""):
            found[-1] = msgspec.structs.replace(last, content=(*last.content, block))
        else:
            found.append(ToolResult(call_id=call or "", content=(block,), is_error=row.failed))
    return Message(row.role, tuple(found), label=row.title, extra={CPE_NOTE: row.id})


def parts(conn: sqlite3.Connection, id: str) -> Parts:
    """The blocks of a message, each with the id that tool results refer to. Raises ValueError if one is unreadable."""
    query = (
        "SELECT id, block_type, modality_type, mime_type, content, extra_fields, length(CAST(content AS BLOB))"
        " FROM blocks WHERE message_id = ? ORDER BY sequence_order"
    )
    found = []
    for call, kind, modality, mime, content, extra, size in conn.execute(query, [id]):
        if size is not None and size > LONGEST:
            raise ValueError("one of its blocks is too large")
        if not all(isinstance(one, str) for one in (kind, mime, content)) or not isinstance(call, str | None):
            raise ValueError("one of its blocks is not text")
        found.append((call, _part(call, kind, modality, mime, content, _object(extra))))
    return tuple(found)


def _part(call: str | None, kind: str, modality: object, mime: str, content: str, extra: dict[str, Any] | None) -> Part:
    if kind == "content" and modality == 0:
        return Text(text=content, extra=extra)
    if kind == "content" and modality in _MODALITIES:
        return InlineMedia(mime, _MODALITIES[modality], content, extra)
    if kind == "thinking" and modality == 0:
        return Thinking(text=content, extra=extra)
    if kind == "tool_call":
        with suppress(ValueError):  # what is not a call stays as it is
            asked = _object(content) or {}
            name, arguments = asked.get("name"), asked.get("parameters") or {}
            if isinstance(name, str) and isinstance(arguments, dict):
                return ToolCall(id=call or "", name=name, arguments=arguments, extra=extra)
    data = {"id": call, "modality_type": modality, "mime_type": mime, "content": content, "extra_fields": extra}
    return Opaque(kind=kind, data=data)


def _object(text: object) -> dict[str, Any] | None:
    """A JSON object; None if it is absent. Raises ValueError for anything else."""
    if text is None or text == "":
        return None
    try:
        return msgspec.json.decode(text if isinstance(text, str) else "", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise ValueError("one of its blocks has extra fields that are not a JSON object") from None


def _moment(at: object) -> datetime:
    """Parses a time in one of CPE's formats; UTC is the default zone. Raises ValueError."""
    found = _TIME.fullmatch(at) if isinstance(at, str) else None
    if found is None:
        raise ValueError("its time cannot be read")
    day, time, fraction, zone = found.groups()
    moment = datetime.fromisoformat(f"{day}T{time}{fraction or ''}{zone or 'Z'}")
    return moment.astimezone(UTC)


def imported_ids(store: Store, *, trashed: bool = False) -> dict[str, dict[str, Session]]:
    """The imported messages by their ids in CPE: the id of each here, and a session that has it.

    Reads the imported conversations; with `trashed` those in the trash instead.
    """
    found: dict[str, dict[str, Session]] = {}
    seen = set[str]()
    for session in _imported(store, trashed):
        first = next(session.history(), None)
        if first is None or first.id in seen:
            continue
        seen.add(first.id)
        for node in store.nodes.subtree(first.id):
            try:
                given = (node.said.extra or {}).get(CPE_NOTE)
            except Corrupted:
                continue
            if isinstance(given, str):
                found.setdefault(given, {})[node.id] = session
    return found


def _imported(store: Store, trashed: bool) -> Iterator[Session]:
    lists = (
        [store.sessions.trashed(limit=PAGE)]
        if trashed
        else [store.sessions.list(limit=PAGE, subagents=subagents) for subagents in (False, True)]
    )
    for session in (session for page in lists for session in page.all()):
        try:
            if CPE_NOTE in session.extra:
                yield session
        except Corrupted:
            continue
