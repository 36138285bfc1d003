"""Writes sessions to a new ``.cpeconvo`` file, as CPE does, and changes a file in place with CPE's own ids.

CPE keeps messages in trees, with a short id each. A message that was imported from CPE has its old id again. CPE has no
system messages and no compaction: the former are left out, and messages after a compaction follow those it replaced.
Model, usage and free data of messages have no place in the file.
"""

from __future__ import annotations

import base64
import os
import secrets
import sqlite3
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import chain, count, islice
from typing import Any, NamedTuple

import msgspec

from clew.agents.cpe.reader import WAIT, open_database
from clew.base.messages import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.engine.blobs import Blobs
from clew.engine.node import Node
from clew.errors import Conflict, Corrupted, NotFound
from clew.store.origin import CPE_NOTE
from clew.store.session import Session
from clew.store.store import Store

SCHEMA = """
CREATE TABLE messages (
    id TEXT PRIMARY KEY, parent_id TEXT, title TEXT, role TEXT NOT NULL, tool_result_error BOOLEAN NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (parent_id) REFERENCES messages (id) ON DELETE RESTRICT
);
CREATE INDEX idx_messages_created_at ON messages (created_at);
CREATE INDEX idx_messages_parent_id ON messages (parent_id);
CREATE TABLE blocks (
    id TEXT, message_id TEXT NOT NULL, block_type TEXT NOT NULL, modality_type INTEGER NOT NULL,
    mime_type TEXT NOT NULL, content TEXT NOT NULL, extra_fields TEXT, sequence_order INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (message_id, sequence_order),
    FOREIGN KEY (message_id) REFERENCES messages (id) ON DELETE CASCADE
);
CREATE TEMP TABLE written (node TEXT PRIMARY KEY, id TEXT);
"""
_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
ATTEMPTS = 10
"""Ids to try for a message before giving up."""
_ROLES = {"user": "user", "assistant": "assistant", "tool": "tool_result"}
_MODALITIES = {"text": 0, "image": 1, "audio": 2, "video": 3, "document": 1}
"""CPE stores a PDF with the modality of an image."""
_OPAQUE = ("id", "modality_type", "mime_type", "content", "extra_fields")
Progress = Callable[[int, int], object]


class _Row(NamedTuple):
    """A block as it is stored: the id of its tool call, type, modality, MIME type, content and extra fields."""

    call: str | None
    kind: str
    modality: int
    mime: str
    content: str
    extra: dict[str, Any] | None


class TurnPart(NamedTuple):
    """One message of CPE: a whole message of clew, or some of its blocks."""

    role: str
    failed: bool
    blocks: list[_Row]


def write_file(
    store: Store, path: str, sessions: Iterable[Session], *, damaged: list[str], progress: Progress | None = None
) -> int:
    """Writes sessions, with branches and the traces of subagents, to a new file; returns their number.

    Messages that cannot be read are left out, and added to `damaged`.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.executescript(f"PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; {SCHEMA}")
        waiting, done = list(sessions), 0
        conn.execute("BEGIN")
        while waiting:
            session = waiting.pop(0)
            waiting += session.subagents()
            _Tree(conn, store, session, damaged).write()
            done += 1
            if progress is not None:
                progress(done, done + len(waiting))
        conn.execute("COMMIT")
    return done


def free_id(conn: sqlite3.Connection, names: Iterator[str]) -> str:
    """The first of these ids that no message has; Conflict if the first ten are taken. Call it in the transaction."""
    for name in islice(names, ATTEMPTS):
        if conn.execute("SELECT 1 FROM messages WHERE id = ?", [name]).fetchone() is None:
            return name
    raise Conflict(f"no free id for a message after {ATTEMPTS} attempts", hint="Try again.")


def random_ids() -> Iterator[str]:
    """Ids as CPE makes them: 6 random letters and digits."""
    return ("".join(secrets.choice(_LETTERS) for _ in range(6)) for _ in count())


def insert(
    conn: sqlite3.Connection, id: str, parent: str | None, title: str | None, part: TurnPart, created_at: datetime
) -> None:
    """Adds a message and its blocks."""
    at = f"{created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00"
    columns = "id, parent_id, title, role, tool_result_error, created_at"
    row = (id, parent, title, part.role, part.failed, at)
    conn.execute(f"INSERT INTO messages ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)
    conn.executemany(
        "INSERT INTO blocks (id, message_id, block_type, modality_type, mime_type, content, extra_fields,"
        " sequence_order) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (one.call, id, one.kind, one.modality, one.mime, one.content, _json(one.extra), order)
            for order, one in enumerate(part.blocks)
        ],
    )


class _Tree:
    """Writes the tree of one session."""

    def __init__(self, conn: sqlite3.Connection, store: Store, session: Session, damaged: list[str]) -> None:
        self._conn, self._store, self._session, self._damaged = conn, store, session, damaged
        self._rows = MessageRows(session.blobs)

    def write(self) -> None:
        for way in self._ways():
            above: str | None = None
            for node in way:
                if node.parent_id is not None:
                    above = self._name_of(node.parent_id) or above
                above = self._write(node, above)

    def _ways(self) -> Iterator[Iterable[Node]]:
        yield self._session.history()
        for branch in self._session.branches():
            yield self._store.nodes.path(branch.head_id)

    def _write(self, node: Node, above: str | None) -> str | None:
        """Writes a message unless it is written already; returns the id of the row that its children follow."""
        known = self._conn.execute("SELECT id FROM written WHERE node = ?", [node.id]).fetchone()
        if known is not None:
            return known[0] or above
        try:
            message = node.message
            parts = self._rows.parts(message)
        except Corrupted:
            self._damaged.append(node.id)
            parts = []
        given = None if not parts else (message.extra or {}).get(CPE_NOTE)
        for number, part in enumerate(parts):
            name = self._new_name(node, number, given if number == 0 else None)
            title = (message.label or (self._title() if above is None else None)) if number == 0 else None
            at = node.created_at + timedelta(microseconds=number)
            insert(self._conn, name, above, title, part, at)
            above = name
        self._conn.execute("INSERT INTO written VALUES (?, ?)", [node.id, above])
        return above

    def _name_of(self, node: str) -> str | None:
        row = self._conn.execute("SELECT id FROM written WHERE node = ?", [node]).fetchone()
        return None if row is None else row[0]

    def _new_name(self, node: Node, number: int, given: object) -> str:
        """An id that is free: the one that CPE gave, or one made from the message's id."""
        made = (sha256(f"{node.id} {number} {tries}".encode()).digest() for tries in count())
        names = map(_base62, made)
        return free_id(self._conn, chain([given], names) if isinstance(given, str) and given else names)

    def _title(self) -> str | None:
        session = self._session
        if session.agent is None or (session.title or "").startswith("subagent:"):
            return session.title
        return f"subagent:{session.agent}:{session.handle}"


class MessageRows:
    """Converts messages to rows of CPE; `blobs` has their attachments."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def parts(self, message: Message) -> list[TurnPart]:
        """The messages of CPE that a message becomes: one has either results, all failed or none, or other blocks.

        CPE has no system messages: these become none.
        """
        if message.role == "system":
            return []
        role = _ROLES[message.role]
        parts: list[TurnPart] = []
        for block in message.blocks:
            if isinstance(block, ToolResult):
                kind, failed = "tool_result", block.is_error
                rows = [self._row(one, block.call_id) for one in block.content or (Text(text=""),)]
            else:
                kind = role
                failed = bool(parts) and parts[-1].role == role and parts[-1].failed
                rows = [self._row(block)]
            if not parts or (parts[-1].role, parts[-1].failed) != (kind, failed):
                parts.append(TurnPart(kind, failed, []))
            parts[-1].blocks.extend(rows)
        return parts or [TurnPart(role, False, [])]

    def _row(self, block: Block, call: str | None = None) -> _Row:
        if isinstance(block, Text):
            return _Row(call, "content", 0, "text/plain", _text(block.text), block.extra)
        if isinstance(block, Thinking):
            signed = {"thinking_signature": block.signature, "redacted_thinking": block.redacted}
            extra = {**(block.extra or {}), **{name: value for name, value in signed.items() if value is not None}}
            return _Row(call, "thinking", 0, "text/plain", _text(block.text), extra or None)
        if isinstance(block, ToolCall):
            asked = _json({"name": block.name, "parameters": block.arguments}) or ""
            return _Row(block.id or None, "tool_call", 0, "application/json", asked, block.extra)
        if isinstance(block, Media):
            return self._media(block, call)
        assert isinstance(block, Opaque)
        return _opaque(block, call)

    def _media(self, block: Media, call: str | None) -> _Row:
        extra = {**(block.extra or {}), **({} if block.name is None else {"filename": block.name})} or None
        if block.blob is None:
            return _Row(call, "content", 0, "text/plain", _text(block.url or ""), extra)
        try:
            content = base64.b64encode(self._blobs.get(block.blob)).decode()
        except NotFound:
            return _Row(call, "content", 0, "text/plain", f"[{block.mime_type}: deleted]", extra)
        return _Row(call, "content", _MODALITIES[block.modality], block.mime_type, content, extra)


def _opaque(block: Opaque, call: str | None) -> _Row:
    """A block of an unknown kind. A block that came from CPE is written unchanged."""
    data = block.data
    if isinstance(data, dict) and {*_OPAQUE} == {*data}:
        id, modality, mime, content, extra = (data[name] for name in _OPAQUE)
        return _Row(id, block.kind, modality, mime, content, extra)
    if block.kind == "content" and isinstance(data, dict) and {"mime_type", "modality", "content"} == {*data}:
        return _Row(call, "content", _MODALITIES[data["modality"]], data["mime_type"], data["content"], block.extra)
    return _Row(call, block.kind, 0, "application/json", _json(data) or "null", block.extra)


def _base62(digest: bytes) -> str:
    value = int.from_bytes(digest, "big")
    return "".join(_LETTERS[value // 62**place % 62] for place in range(6))


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    return text.encode(errors="replace").decode()


class CpeFile:
    """Writes to a file that CPE may use at the same time: each call is one transaction, and durable on return.

    A call waits up to `timeout` seconds for another writer. It raises NotFound and Invalid if there is no CPE file at
    `path`, Unavailable, ReadOnly or StorageFull if it cannot be written; then nothing has changed.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = WAIT, ids: Callable[[], Iterator[str]] = random_ids
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._timeout = timeout
        self._new_ids = ids

    def save(self, session: Session, nodes: Sequence[Node], *, parent: str | None = None) -> list[str | None]:
        """Appends messages of a session, each after the one before it, the first after `parent` or as a root.

        Returns for each the id that the next one follows; None for system messages, which CPE does not have. NotFound
        if the parent is missing; Conflict if no free id is found.
        """
        rows, above, ids = MessageRows(session.blobs), parent, list[str | None]()
        with self._transaction() as conn:
            if parent is not None and not _children(conn, "id", parent):
                raise NotFound("message", parent, hint=f"It was deleted from {self.path}.")
            for node in nodes:
                message = node.message
                for number, part in enumerate(rows.parts(message)):
                    id = free_id(conn, self._new_ids())
                    title = message.label if number == 0 else None
                    insert(conn, id, above, title, part, node.created_at + timedelta(microseconds=number))
                    above = id
                ids.append(above if message.role != "system" else None)
        return ids

    def delete(self, ids: str | Iterable[str], *, recursive: bool = False, dry_run: bool = False) -> int:
        """Deletes messages, all or none, and returns how many; ignores unknown ids.

        Conflict if a message has children, unless `recursive`, which deletes everything below it too.
        """
        with self._transaction(dry_run=dry_run) as conn:
            found = dict.fromkeys([ids] if isinstance(ids, str) else ids)
            order = [id for id in found if _children(conn, "id", id)]
            for id in order:  # grows meanwhile
                below = [child for child in _children(conn, "parent_id", id) if child not in found]
                if below and not recursive:
                    raise Conflict(f"message {id} has children", hint="Delete recursively.")
                found.update(dict.fromkeys(below))
                order += below
            each = [[id] for id in order]
            # Without parents, they can be deleted in any order; SQLite still refuses one that others follow.
            conn.executemany("UPDATE messages SET parent_id = NULL WHERE id = ?", each)
            conn.executemany("DELETE FROM blocks WHERE message_id = ?", each)  # files without foreign keys exist
            conn.executemany("DELETE FROM messages WHERE id = ?", each)
            return len(order)

    @contextmanager
    def _transaction(self, *, dry_run: bool = False) -> Iterator[sqlite3.Connection]:
        with open_database(self.path, timeout=self._timeout, write=True) as conn:
            conn.execute("BEGIN IMMEDIATE")
            try:
                yield conn
            except BaseException:
                conn.execute("ROLLBACK")
                raise
            conn.execute("ROLLBACK" if dry_run else "COMMIT")


def _children(conn: sqlite3.Connection, column: str, id: str) -> list[str]:
    return [found for (found,) in conn.execute(f"SELECT id FROM messages WHERE {column} = ?", [id])]
