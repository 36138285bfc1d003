"""Cursor: the editor's ``state.vscdb``, the command line's ``store.db``, and the transcripts of agents.

There is no published schema; the forms were worked out by others.

* The editor: a table of keys and values that reaches 50 GB. ``composerData:<id>`` is a conversation and lists its
  messages in order; ``bubbleId:<id>:<bubble>`` is a message. Every row is looked up by its key. Rows of messages that a
  conversation no longer lists are kept in its log.
* The command line: ``~/.cursor/chats/<folder>/<conversation>/store.db``. Messages are JSON in rows that are named by
  the hash of their bytes. Other rows are protobuf; the one that ``meta`` names as the root lists the messages of the
  conversation in order. A message that is not listed was rewound, or the list could not be read: it follows the
  message that was written before it.
* Transcripts of agents: ``~/.cursor/projects/<project>/agent-transcripts/<conversation>.jsonl`` or ``.txt``. Messages
  have neither ids nor times. A message is named by its bytes and the message before it, so that a transcript that has
  grown keeps the names of its first messages. Its time is that of the file. Transcripts repeat conversations of the
  databases, so they are conversations of their own, and are imported only if their path is given.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from clew.base.messages import Block, Message, Native, Text, Thinking, ToolCall, ToolResult
from clew.errors import Invalid
from clew.providers.json_values import Json, as_dict, as_list
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import read_document
from clew.sources.items import SQLITE, Item
from clew.sources.lines import head_lines, json_lines
from clew.sources.sqlite import look_up, open_database, row_record, scan, tables
from clew.sources.trees import Nearest, parents_first
from clew.sources.values import composed, digest, nonblank, object_or_empty, tokens, when
from clew.sources.vscode import user_folders
from clew.turns.model import ShowRules, tag

NAME = "cursor"
TABLE, HEADERS = "cursorDiskKV", "composerHeaders"
"""Tables of the editor."""
_COMPOSER, _BUBBLE = "composerData:", "bubbleId:"
_PAGE = 500
_WORKSPACE = re.compile(r"Workspace Path: (.+)")
_HASH = re.compile(rb"\x0a\x20(.{32})", re.DOTALL)
"""A field of 32 bytes in a protobuf row of the command line: the name of a message."""
_TRANSCRIPTS = "agent-transcripts"
_TURN = re.compile(rb"^(user|assistant|system|tool):[ \t]*\r?\n", re.MULTILINE)
_PART = re.compile(r"^\[(Thinking|Tool call|Tool result)\][ \t]*(.*)$", re.MULTILINE)
"""The beginnings of a turn and of a part of it, in a transcript in plain text."""
RULES = ShowRules(
    notes=(
        tag("instructions", "user_info|project_layout|git_status|rules|agent_skills", "Environment"),
        tag("reminder", r"attached_files|additional_data|system_reminder|open_and_recently_viewed_files|\w+_context"),
    )
)


class CursorHistory:
    """See `clew.sources.contract.Source`."""

    name = "cursor"
    rules = RULES
    title = "Cursor"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        for user in user_folders(home, ("Cursor",)):
            yield os.path.join(user, "globalStorage", "state.vscdb")
        yield os.path.join(home.path, ".cursor", "chats")

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        if head.startswith(SQLITE):
            return _is_editor(path, head) or _is_store(path, head)
        return is_lines(path, head) or is_text(path, head)

    def read(self, item: Item) -> Iterator[Part]:
        path, head = item.member or item.path, item.head()
        if head.startswith(SQLITE):
            return read_editor(item) if _is_editor(path, head) else read_store(item)
        return read_text(item) if is_text(path, head) else read_lines(item)


def _is_editor(path: str, head: bytes) -> bool:
    """By its table; if all of it is still in the journal, by its name."""
    is_named = os.path.basename(path) == "state.vscdb" and f"Cursor{os.sep}" in path
    return b"cursorDiskKV" in head or (b"CREATE TABLE" not in head and is_named)


def _is_store(path: str, head: bytes) -> bool:
    is_named = os.path.basename(path) == "store.db" and os.path.join(".cursor", "chats") in path
    has_tables = b"CREATE TABLE blobs" in head and b"CREATE TABLE meta" in head
    return has_tables or (b"CREATE TABLE" not in head and is_named)


def read_store(item: Item) -> Iterator[Part]:
    """The conversation of a database."""
    with open_database(item) as connection:
        known = tables(connection)
        if not ({"id", "data"} <= set(known.get("blobs", ())) and {"key", "value"} <= set(known.get("meta", ()))):
            yield Skip(None, "the database has no tables blobs and meta")
            return
        meta = _meta(connection)
        folder = os.path.basename(os.path.dirname(item.member or item.path))
        name = nonblank(meta.get("agentId")) or folder or NAME
        yield About(conversation=name, title=nonblank(meta.get("name")), model=nonblank(meta.get("lastUsedModel")))
        for row in scan(connection, "meta"):
            yield Entry(conversation=name, raw=row_record("meta", row), key=f"meta {row['key']}")
        yield from _messages(connection, name, meta)


def _meta(connection: sqlite3.Connection) -> Json:
    """What is known about the conversation: JSON, as hexadecimal digits."""
    for row in look_up(connection, "meta", "key", "0"):
        value = row["value"]
        try:
            return object_or_empty(bytes.fromhex(value) if isinstance(value, str) else value)
        except (ValueError, TypeError, AttributeError):
            return object_or_empty(value) if isinstance(value, str) else {}
    return {}


def _messages(connection: sqlite3.Connection, name: str, meta: Json) -> Iterator[Part]:
    written: list[str] = []
    """The names of the rows with JSON, in the order in which they were written."""
    for row in scan(connection, "blobs", "id, substr(data, 1, 1) AS first"):
        if row["first"] in (b"{", "{") and isinstance(row["id"], str):
            written.append(row["id"])
        else:
            for other in look_up(connection, "blobs", "rowid", row["clew_rowid"]):
                yield Entry(conversation=name, raw=row_record("blobs", other), key=str(row["id"]))
    known = set(written)
    listed = [one for one in dict.fromkeys(_list_blobs(connection, meta)) if one in known]
    before: dict[str, str | None] = dict(zip(listed, [None, *listed], strict=False))
    for at, one in enumerate(written):
        before.setdefault(one, written[at - 1] if at else None)
    ids: dict[str, str] = {}
    nearest = Nearest(before, ids)
    time = when(meta.get("createdAt"))
    for one in parents_first(before, listed[-1] if listed else None):
        rows = look_up(connection, "blobs", "id", one)
        if not rows:  # deleted meanwhile
            continue
        raw, data = row_record("blobs", rows[0]), rows[0]["data"]
        said = object_or_empty(data) if isinstance(data, str | bytes) else {}
        if not nonblank(said.get("role")):
            yield Entry(conversation=name, raw=raw, key=one)
            continue
        if place := _WORKSPACE.search(str(said.get("content"))):
            yield About(conversation=name, cwd=place[1].partition("\\n")[0].strip())
        parent = ids.get(nearest(before[one]) or "")
        ids[one] = derived_id(NAME, name, one)
        message = Native(NAME, raw)
        yield Entry(conversation=name, raw=raw, key=one, id=ids[one], message=message, parent=parent, created_at=time)
    if last := next((ids[one] for one in reversed(listed) if one in ids), None):
        yield About(conversation=name, head=last)


def _list_blobs(connection: sqlite3.Connection, meta: Json) -> list[str]:
    """The names of messages in the root of the conversation."""
    for row in look_up(connection, "blobs", "id", nonblank(meta.get("latestRootBlobId"))):
        if isinstance(row["data"], bytes):
            return [found.hex() for found in _HASH.findall(row["data"])]
    return []


class _Composer(NamedTuple):
    """A conversation: its name, its row, what the row says, and what the index says of it."""

    name: str
    row: sqlite3.Row
    data: Json
    header: Json

    @property
    def owner(self) -> str | None:
        """The conversation that a subagent's belongs to."""
        return nonblank(self._subagent.get("parentComposerId"))

    @property
    def agent(self) -> str | None:
        about = self._subagent
        return nonblank(about.get("subagentTypeName")) or nonblank(about.get("toolCallId"))

    @property
    def _subagent(self) -> Json:
        return as_dict(self.header.get("subagentInfo")) or as_dict(self.data.get("subagentInfo"))


def read_editor(item: Item) -> Iterator[Part]:
    """The conversations of a database; those of subagents after all others, so that their owners are known."""
    with open_database(item) as connection:
        known = tables(connection)
        if not {"key", "value"} <= set(known.get(TABLE, ())):
            yield Skip(None, f"the database has no table {TABLE}")
            return
        has_headers = {"composerId", "value"} <= set(known.get(HEADERS, ()))
        later: list[str] = []
        for key in _keys(connection, _COMPOSER):
            composer = _composer(connection, key, has_headers)
            if composer is not None and composer.owner is not None:
                later.append(key)
            elif composer is not None:
                yield from _conversation(connection, composer)
        for key in later:
            composer = _composer(connection, key, has_headers)
            if composer is not None:
                yield from _conversation(connection, composer)


def _keys(connection: sqlite3.Connection, prefix: str) -> Iterator[str]:
    """The keys that begin with a text, from the index alone: no value is read."""
    # As bytes: a key that is not text changes when it is decoded, and would come before itself.
    between = prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)
    after, end = connection.execute("SELECT CAST(? AS BLOB), CAST(? AS BLOB)", between).fetchone()
    query = f"""SELECT key, CAST(key AS BLOB) FROM {TABLE}
        WHERE key > CAST(? AS TEXT) AND key < CAST(? AS TEXT) ORDER BY key LIMIT {_PAGE}"""
    while rows := connection.execute(query, (after, end)).fetchall():
        yield from (row[0] for row in rows)
        if rows[-1][1] <= after:
            raise Invalid(f"the keys of the table {TABLE} are not in order")
        after = rows[-1][1]


def _composer(connection: sqlite3.Connection, key: str, has_headers: bool) -> _Composer | None:
    row = _row(connection, key)
    data = {} if row is None else _json(row)
    if row is None or not data:
        return None
    name = nonblank(data.get("composerId")) or key.removeprefix(_COMPOSER)
    header = look_up(connection, HEADERS, "composerId", name) if has_headers else []
    return _Composer(name, row, data, _json(header[0]) if header else {})


def _conversation(connection: sqlite3.Connection, composer: _Composer) -> Iterator[Part]:
    name, data, header = composer.name, composer.data, composer.header
    place = as_dict(header.get("workspaceIdentifier")) or as_dict(data.get("workspaceIdentifier"))
    folder = as_dict(place.get("uri") or place.get("configPath"))
    model = nonblank(as_dict(data.get("modelConfig")).get("modelName"))
    listed = [nonblank(one.get("bubbleId")) for one in as_list(data.get("fullConversationHeadersOnly"))]
    names = list(dict.fromkeys(name for name in listed if name is not None))
    if not names and not as_list(data.get("conversation")):
        return
    yield About(
        conversation=name,
        title=nonblank(header.get("name")) or nonblank(data.get("name")),
        cwd=nonblank(folder.get("fsPath")) or nonblank(folder.get("path")),
        branch=_branch(header) or _branch(data),
        model=model,
        owner=composer.owner,
        agent=composer.agent if composer.owner else None,
    )
    yield Entry(conversation=name, raw=row_record(TABLE, composer.row), key=f"{_COMPOSER}{name}")
    at = when(data.get("createdAt"))
    parent: str | None = None
    prefix = f"{_BUBBLE}{name}:"
    for bubble in names:
        row = _row(connection, prefix + bubble)
        said = {} if row is None else _json(row)
        if row is None or not said:
            continue
        at = _time(said) or at
        running = bubble == names[-1] and data.get("status") == "generating"
        key = f"{bubble} {digest(row_record(TABLE, row))}" if running else bubble
        id = derived_id(NAME, name, key)
        yield _bubble(name, key, id, row_record(TABLE, row), said, parent, at, model)
        parent = id
    if not names:
        yield from _inline(name, data, at, model)
    for key in _keys(connection, prefix):
        if key.removeprefix(prefix) not in names and (row := _row(connection, key)) is not None:
            yield Entry(conversation=name, raw=row_record(TABLE, row), key=key)


def _inline(name: str, data: Json, at: datetime | None, model: str | None) -> Iterator[Entry]:
    """The messages of older conversations, which are in the conversation's own row."""
    parent: str | None = None
    seen: set[str] = set()
    for number, said in enumerate(as_list(data.get("conversation"))):
        key = nonblank(said.get("bubbleId"))
        key = f"message {number}" if key is None or key in seen else key
        seen.add(key)
        at = _time(said) or at
        id = derived_id(NAME, name, key)
        yield _bubble(name, key, id, None, said, parent, at, model)
        parent = id


def _bubble(
    name: str, key: str, id: str, raw: bytes | None, said: Json, parent: str | None, at: datetime | None,
    model: str | None,
) -> Entry:  # fmt: skip
    extra: Json = {}
    if said.get("type") == 2:
        counted = as_dict(said.get("tokenCount"))
        used = tokens(input=counted.get("inputTokens") or None, output=counted.get("outputTokens") or None)
        model = nonblank(as_dict(said.get("modelInfo")).get("modelName")) or model
        extra = {name: value for name, value in {"usage": used, "model": model}.items() if value is not None}
    return Entry(
        conversation=name,
        raw=b"" if raw is None else raw,
        key=key,
        id=id,
        message=composed(NAME, said, **extra) if raw is None else Native(NAME, raw, extra=extra or None),
        parent=parent,
        created_at=at,
    )


def _row(connection: sqlite3.Connection, key: str) -> sqlite3.Row | None:
    rows = look_up(connection, TABLE, "key", key)
    return rows[0] if rows else None


def _json(row: sqlite3.Row) -> Json:
    value = row["value"]
    return object_or_empty(value) if isinstance(value, str | bytes) else {}


def _time(said: Json) -> datetime | None:
    return when(said.get("createdAt")) or when(as_dict(said.get("timingInfo")).get("clientStartTime"))


def _branch(data: Json) -> str | None:
    for repository in as_list(data.get("trackedGitRepos")):
        for branch in as_list(repository.get("branches")):
            if name := nonblank(branch.get("branchName")):
                return name
    return nonblank(data.get("createdOnBranch"))


def is_lines(path: str, head: bytes) -> bool:
    """Whether a file is a transcript in JSONL: nothing but a role and a message on its lines."""
    lines = list(head_lines(head))
    return bool(lines) and all(line.keys() >= {"role", "message"} and "type" not in line for line in lines[:3])


def is_text(path: str, head: bytes) -> bool:
    """Whether a file is a transcript in plain text."""
    return path.endswith(".txt") and _TURN.match(head) is not None and (_TRANSCRIPTS in path or b"<user_query>" in head)


def read_lines(item: Item) -> Iterator[Part]:
    """The messages of a transcript in JSONL."""
    name = _name(item)
    before = ""
    parent: str | None = None
    for line in json_lines(item):
        if isinstance(line, Skip):
            yield line
        elif isinstance(line.fields.get("role"), str):
            before = digest(before, line.data)
            id = derived_id(NAME, name, before)
            yield Entry(
                conversation=name, raw=line.data, key=before, id=id, message=line.native(NAME), parent=parent,
                created_at=when(item.modified),
            )  # fmt: skip
            parent = id
        else:
            yield Entry(conversation=name, raw=line.data, key=f"line {line.number}")


def read_text(item: Item) -> Iterator[Part]:
    """The messages of a transcript in plain text. The text is kept as it is; the last message may still grow."""
    name = _name(item)

    def read(data: bytes) -> Iterator[Part]:
        before = ""
        parent: str | None = None
        turns = list(_TURN.finditer(data))
        for at, turn in enumerate(turns):
            end = turns[at + 1].start() if at + 1 < len(turns) else len(data)
            raw = data[turn.start() : end]
            before = digest(before, raw)
            id = derived_id(NAME, name, before)
            yield Entry(conversation=name, raw=raw, key=f"text {before}")
            said = data[turn.end() : end].decode(errors="replace")
            yield Entry(
                conversation=name, raw=b"", key=before, id=id, message=_turn_message(turn[1].decode(), said),
                parent=parent, created_at=when(item.modified),
            )  # fmt: skip
            parent = id

    return read_document(item, read)


def _name(item: Item) -> str:
    """The name of the conversation; not that of the conversation whose transcript it is, as it has other messages."""
    return f"transcript {os.path.basename(item.member or item.path).rpartition('.')[0]}"


def _turn_message(role: str, text: str) -> Message:
    """A turn in plain text: words, and what stands below markers in brackets."""
    marks = list(_PART.finditer(text))
    data: Json = {"role": role, "content": text[: marks[0].start()].strip() if marks else text.strip()}
    said = composed(NAME, data)
    found: list[Block] = [block for block in said.blocks if not (isinstance(block, Text) and not block.text)]
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        below, label = text[mark.end() : end].strip(), mark[2].strip()
        if mark[1] == "Thinking":
            found.append(Thinking(text=f"{label}\n{below}".strip()))
        elif mark[1] == "Tool call":
            found.append(ToolCall(id=label, name=label, arguments=_arguments(below)))
        else:
            found.append(ToolResult(call_id=label, content=(Text(text=below),) if below else ()))
    return Message(said.role, tuple(found))


def _arguments(text: str) -> Json:
    pairs = (line.strip().partition(": ") for line in text.splitlines())
    return {name: value for name, colon, value in pairs if colon}
