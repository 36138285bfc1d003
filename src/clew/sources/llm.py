"""llm: ``logs.db``, where Simon Willison's command line keeps every prompt. Two generations may be in one file.

From 0.32 on, a message has the hash of its contents and of its parent; a thread points at the last one, a turn says
which model added what and when, and a fork is a thread that points into another's. Before that, a row of ``responses``
was a prompt and its answer. A conversation that a newer version continued is in both: the messages that the newer
tables repeat are those of the older rows.
"""

from __future__ import annotations

import io
import os
import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from typing import IO, Any, NamedTuple

import msgspec

from clew.base.messages import Native, texts
from clew.providers.histories.apps import LLM_REFERENCE, llm_blocks, llm_role
from clew.sources.contract import About, Attachment, Entry, Home, Part, derived_id, moment
from clew.sources.items import Item
from clew.sources.sqlite import look_up, open_database, row_record, scan, tables, tables_of

NAME = "llm"
_KNOWN = {
    "turns": ("thread_id", "tip_message_hash"),
    "responses": ("prompt", "response", "conversation_id"),
    "log": ("prompt", "response", "model"),
}
"""Tables by which a database is recognised; one is enough."""
_DEEPEST = 100_000
"""Messages of a thread at most; a hostile file could go round for ever."""
_ANSWER = (
    "response", "response_json", "reasoning", "input_tokens", "output_tokens", "token_details", "duration_ms",
    "resolved_model",
)  # fmt: skip
"""Columns of a row that belong to the answer; the others belong to the prompt."""


class Llm:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "llm"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        if root := home.env.get("LLM_USER_PATH"):
            yield os.path.join(root, "logs.db")
        elif home.system == "darwin":
            yield os.path.join(home.path, "Library", "Application Support", "io.datasette.llm", "logs.db")
        elif home.system == "win32":
            roaming = home.env.get("APPDATA") or os.path.join(home.path, "AppData", "Roaming")
            yield os.path.join(roaming, "io.datasette.llm", "logs.db")
        else:
            config = home.env.get("XDG_CONFIG_HOME") or os.path.join(home.path, ".config")
            yield os.path.join(config, "io.datasette.llm", "logs.db")

    def resume(self, conversation: str) -> str | None:
        return None if conversation.startswith("log ") else f"llm chat --cid {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        found = tables_of(path, head)
        return any(set(columns) <= set(found.get(table, ())) for table, columns in _KNOWN.items())

    def read(self, item: Item) -> Iterator[Part]:
        with open_database(item) as connection:
            known = tables(connection)
            reader = _Reader(item, connection, known)
            if "threads" in known:
                for row in scan(connection, "threads"):
                    yield from reader.thread(dict(row))
            yield from reader.rest()


class _Message(NamedTuple):
    """A message of the newer tables and the turn that added it."""

    row: dict[str, Any]
    turn: dict[str, Any] | None
    is_tip: bool
    is_own: bool
    """False if it was added to the thread that this one was forked from."""


class _Reader:
    def __init__(self, item: Item, connection: sqlite3.Connection, known: dict[str, tuple[str, ...]]) -> None:
        self._item = item
        self._connection = connection
        self._tables = known
        self._responses = Responses(connection, known)
        self._threads: set[str] = set()

    def thread(self, row: dict[str, Any]) -> Iterator[Part]:
        """A thread: its older responses, then what its turns added."""
        name = str(row.pop("clew_rowid") and row["id"])
        self._threads.add(name)
        lineage = self._lineage(row)
        scope = str(lineage[0]["id"])
        found = self._messages(row, lineage)
        sides = list(self._responses.sides(name))
        yield About(conversation=name, title=_text(row.get("name")), forked_from=_text(row.get("forked_from")))
        last: str | None = None
        for entry in self._older(name, sides):
            last = entry.id
            yield entry
        placed = dict(self._repeated(found, sides, name))
        for hash, message in found.items():
            if hash in placed:  # kept as a record: the message is that of an older response
                record = msgspec.json.encode({"table": "messages", "row": message.row, "parts": self._parts(hash)})
                yield Entry(conversation=name, raw=record, key=hash)
                continue
            above = message.row.get("parent_hash")
            parent = placed.get(above) if isinstance(above, str) else None
            entry = self._entry(name, scope, hash, message, parent if above is not None or not sides else last)
            placed[hash] = entry.id or ""
            yield entry
        tip = row.get("tip_message_hash")
        model = next((m.turn["model"] for m in reversed(found.values()) if m.turn and m.turn.get("model")), None)
        yield About(conversation=name, head=placed.get(tip) if isinstance(tip, str) else last, model=_text(model))
        yield from self._beside(name, row)

    def rest(self) -> Iterator[Part]:
        """Conversations that are only in the older tables."""
        for name in self._responses.conversations():
            if name in self._threads:
                continue
            rows = self._conversation(name)
            sides = list(self._responses.sides(name))
            title = _text(rows[0]["name"]) if rows else None
            yield About(conversation=name, title=title, model=_text(sides[-1].row.get("model")))
            yield from self._older(name, sides)
            for row in rows:
                yield Entry(conversation=name, raw=row_record("conversations", row), key="conversation")

    def _conversation(self, name: str) -> list[sqlite3.Row]:
        """The row of a conversation in the older tables; a thread that began there has one, too."""
        return look_up(self._connection, "conversations", "id", name) if "conversations" in self._tables else []

    # -- newer tables

    def _lineage(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        """The threads that a thread was forked from, the first one first, and itself."""
        found, seen = [row], {row["id"]}
        while (above := found[0].get("forked_from")) is not None and above not in seen:
            rows = look_up(self._connection, "threads", "id", above)
            if not rows:
                break
            seen.add(above)
            found.insert(0, dict(rows[0]))
        return found

    def _messages(self, row: dict[str, Any], lineage: Sequence[dict[str, Any]]) -> dict[str, _Message]:
        """The messages of a thread by their hashes, each after its parent."""
        path: dict[str, dict[str, Any]] = dict(self._path(row.get("tip_message_hash"), {}))
        own: dict[str, _Message] = {}
        added: dict[str, _Message] = {}
        for thread in lineage:
            is_own = thread["id"] == row["id"]
            turns = look_up(self._connection, "turns", "thread_id", thread["id"], order="id")
            for turn in map(dict, turns):
                tip = turn.get("tip_message_hash")
                for hash, message in self._path(tip, added):
                    added[hash] = _Message(message, turn, hash == tip, is_own)
                    if is_own or hash in path:
                        own[hash] = added[hash]
        for hash, message in path.items():
            own.setdefault(hash, _Message(message, None, False, True))
        in_path = [hash for hash in path if hash in own]
        return {hash: own[hash] for hash in [*in_path, *(hash for hash in own if hash not in path)]}

    def _path(self, tip: object, known: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The messages up to `tip`, from the first that is not known yet."""
        way: list[tuple[str, dict[str, Any]]] = []
        seen: set[str] = set()
        while isinstance(tip, str) and tip not in known and tip not in seen and len(way) < _DEEPEST:
            rows = look_up(self._connection, "messages", "hash", tip)
            if not rows:
                break
            seen.add(tip)
            way.append((tip, dict(rows[0])))
            tip = rows[0]["parent_hash"]
        yield from reversed(way)

    def _parts(self, hash: str) -> list[dict[str, Any]]:
        return [dict(part) for part in look_up(self._connection, "parts", "message_hash", hash, order="position")]

    def _entry(self, name: str, scope: str, hash: str, message: _Message, parent: str | None) -> Entry:
        parts = self._parts(hash)
        data: dict[str, Any] = {"table": "messages", "row": message.row, "parts": parts}
        for part in parts:
            about = _object(part.get("payload"))
            for piece in about.get("text_ref") or ():
                if isinstance(piece, dict) and "fragment" in piece:
                    text = fragment(self._connection, piece["fragment"])
                    data.setdefault("fragments", {})[str(piece["fragment"])] = text
            if part.get("type") == "attachment" and isinstance(file := about.get("attachment"), dict):
                data.setdefault("attachments", []).extend(attachment(self._connection, file.get("id")))
        turn = message.turn or {}
        id = derived_id(NAME, scope, hash)
        raw = msgspec.json.encode(data)
        above = message.row.get("parent_hash")
        return Entry(
            conversation=name,
            raw=raw,
            key=hash,
            id=id,
            message=Native(NAME, raw, extra=_extra(turn) if message.is_tip else None),
            parent=parent,
            created_at=_time(turn.get("datetime_utc")),
            note="its parent is missing" if above is not None and parent is None else None,
            inherited=not message.is_own,
            attachments=self._files(data),
        )

    def _beside(self, name: str, row: dict[str, Any]) -> Iterator[Entry]:
        """The rows around the messages: the thread, its turns, and their tools."""
        yield Entry(conversation=name, raw=row_record("threads", row), key="thread")
        for older in self._conversation(name):
            yield Entry(conversation=name, raw=row_record("conversations", older), key="conversation")
        seen: set[object] = set()
        for turn in look_up(self._connection, "turns", "thread_id", name, order="id"):
            yield Entry(conversation=name, raw=row_record("turns", turn), key=f"turn {turn['id']}")
            links = (
                look_up(self._connection, "turn_tools", "turn_id", turn["id"]) if "turn_tools" in self._tables else []
            )
            for link in links:
                yield Entry(conversation=name, raw=row_record("turn_tools", link), key=f"tool of {turn['id']}")
                rows = [] if link["tool_id"] in seen else look_up(self._connection, "tools", "id", link["tool_id"])
                seen.add(link["tool_id"])
                for tool in rows:
                    yield Entry(conversation=name, raw=row_record("tools", tool), key=f"tool {tool['id']}")

    # -- older tables

    def _older(self, name: str, sides: Sequence[LlmTables]) -> Iterator[Entry]:
        parent: str | None = None
        for side in sides:
            raw = msgspec.json.encode(side.data)
            id = derived_id(NAME, name, side.key)
            yield Entry(
                conversation=name,
                raw=raw,
                key=side.key,
                id=id,
                message=Native(NAME, raw, extra=_extra(side.row) if side.side == "response" else None),
                parent=parent,
                created_at=_time(side.row.get("datetime_utc")),
                attachments=self._files(side.data),
            )
            parent = id

    def _repeated(self, found: dict[str, _Message], sides: Sequence[LlmTables], name: str) -> Iterator[tuple[str, str]]:
        """Messages of the newer tables that are sides of older responses: as long as role and words agree."""
        above: str | None = None
        for side, (hash, message) in zip(sides, found.items(), strict=False):
            data = {"row": message.row, "parts": self._parts(hash)}
            alike = llm_role(data) == llm_role(side.data) and _words(data) == _words(side.data)
            if message.row.get("parent_hash") != above or not alike:
                return
            above = hash
            yield hash, derived_id(NAME, name, side.key)

    def _files(self, data: dict[str, Any]) -> tuple[Attachment, ...]:
        return tuple(
            Attachment(
                f"{LLM_REFERENCE}{file['id']}",
                None,
                _text(file.get("type")),
                partial(_content, self._item, file["id"]),
            )
            for file in data.get("attachments", ())
            if file["stored"] and not file.get("url") and not file.get("path")
        )


def _content(item: Item, id: str) -> IO[bytes]:
    """The bytes of an attachment, read when they are needed."""
    with open_database(item) as connection:
        return io.BytesIO(look_up(connection, "attachments", "id", id)[0]["content"])


def _extra(row: dict[str, Any]) -> dict[str, Any]:
    counts = {"input": row.get("input_tokens"), "output": row.get("output_tokens")}
    usage = {name: count for name, count in counts.items() if type(count) is int}
    model = _text(row.get("resolved_model")) or _text(row.get("model"))
    return {**({"model": model} if model else {}), **({"usage": usage} if usage else {})}


def _words(data: dict[str, Any]) -> list[str]:
    return "\n".join(texts(llm_blocks(data))).split()


def _object(value: object) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(value) if isinstance(value, str) else None
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _time(value: object) -> Any:
    """A time; one without a zone is UTC, as the name of the column says."""
    return moment(value) or (moment(f"{value}Z") if isinstance(value, str) else None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


class LlmTables(NamedTuple):
    """One message of a response."""

    response: str
    side: str
    """``system``, ``results``, ``prompt`` or ``response``."""
    data: dict[str, Any]
    """The record."""
    row: dict[str, Any]
    """The row it was made from."""

    @property
    def key(self) -> str:
        """What tells it from the others of its conversation."""
        return f"{self.response} {self.side}"


class Responses:
    """The older tables of a database, where one row is a prompt and its answer; only ids are kept in memory.

    Each side becomes a message: system prompt, results of tools, prompt, answer. Together their records have the whole
    row. The oldest form, a single table ``log``, is read as if it were such rows.
    """

    def __init__(self, connection: sqlite3.Connection, tables: dict[str, tuple[str, ...]]) -> None:
        self._connection = connection
        self._tables = tables
        self._of: dict[str, list[int]] = {}
        self._beside: dict[str, dict[str, list[int]]] = {"tool_calls": {}, "tool_results": {}}
        self.table = "responses" if "responses" in tables else "log" if "log" in tables else None
        if self.table is None:
            return
        for row in scan(connection, self.table, self._key()):
            self._of.setdefault(str(row["conversation"]), []).append(row["clew_rowid"])
        for table, ids in self._beside.items():
            if "response_id" in tables.get(table, ()):
                for row in scan(connection, table, "response_id"):
                    ids.setdefault(row["response_id"], []).append(row["clew_rowid"])

    def conversations(self) -> list[str]:
        """The ids of all conversations, in the order of their first response."""
        return list(self._of)

    def sides(self, conversation: str) -> Iterator[LlmTables]:
        """The messages of a conversation, in order."""
        rows = [self._row(number) for number in self._of.get(conversation, ())]
        system: str | None = None
        for row in sorted(rows, key=lambda row: (row["id"].rjust(32), row["id"])):
            yield from self._sides(row, system)
            system = row.get("system") or system

    def _sides(self, row: dict[str, Any], before: str | None) -> Iterator[LlmTables]:
        name = row["id"]
        data: dict[str, Any]
        prompt = {column: value for column, value in row.items() if column not in _ANSWER}
        answer = {column: value for column, value in row.items() if column in _ANSWER}
        fragments = self._fragments("system_fragments", name)
        if (row.get("system") and row["system"] != before) or fragments:
            data = {"side": "system", "row": {"system": row.get("system")}, "fragments": fragments}
            yield LlmTables(name, "system", {"table": self.table, "id": name, **data}, row)
        results = [dict(one) for one in self._rows("tool_results", name)]
        if results:
            data = {"side": "results", "tool_results": results}
            yield LlmTables(name, "results", {"table": self.table, "id": name, **data}, row)
        fragments, files = self._fragments("prompt_fragments", name), self._attachments(name)
        data = {"table": self.table, "id": name, "side": "prompt", "row": prompt}
        if row.get("prompt") or fragments or files or not results:
            yield LlmTables(name, "prompt", {**data, "fragments": fragments, "attachments": files}, row)
        else:
            answer = {**prompt, **answer}
        calls = [dict(one) for one in self._rows("tool_calls", name)]
        data = {"table": self.table, "id": name, "side": "response", "row": answer, "tool_calls": calls}
        yield LlmTables(name, "response", data, row)

    def _key(self) -> str:
        if self.table == "responses":
            return "coalesce(conversation_id, id) AS conversation"
        chat = "chat_id" if "chat_id" in self._tables["log"] else "NULL"
        return f"'log ' || coalesce({chat}, rowid) AS conversation"

    def _row(self, number: int) -> dict[str, Any]:
        row = dict(look_up(self._connection, self.table or "", "rowid", number)[0])
        if self.table == "log":
            row = {**row, "id": str(row.get("id") or number), "datetime_utc": row.get("timestamp")}
        return {**row, "id": str(row["id"])}

    def _rows(self, table: str, response: str) -> list[dict[str, Any]]:
        numbers = self._beside[table].get(response, ())
        return [dict(look_up(self._connection, table, "rowid", number)[0]) for number in numbers]

    def _fragments(self, table: str, response: str) -> dict[str, str]:
        if table not in self._tables or "fragments" not in self._tables:
            return {}
        links = look_up(self._connection, table, "response_id", response)
        ordered = sorted(links, key=lambda link: link["order"] if "order" in link.keys() else 0)  # noqa: SIM118
        return {str(link["fragment_id"]): fragment(self._connection, link["fragment_id"]) for link in ordered}

    def _attachments(self, response: str) -> list[dict[str, Any]]:
        if not {"prompt_attachments", "attachments"} <= self._tables.keys():
            return []
        links = look_up(self._connection, "prompt_attachments", "response_id", response)
        return [file for link in links for file in attachment(self._connection, link["attachment_id"])]


def fragment(connection: sqlite3.Connection, id: object) -> str:
    """The text of a fragment."""
    rows = look_up(connection, "fragments", "id", id)
    return str(rows[0]["content"]) if rows else ""


def attachment(connection: sqlite3.Connection, id: object) -> list[dict[str, Any]]:
    """What is known of a file, and whether its bytes are in the database; none if it is missing."""
    rows = look_up(connection, "attachments", "id", id)
    return [
        {**{name: row[name] for name in ("id", "type", "path", "url")}, "stored": row["content"] is not None}
        for row in rows
    ]
