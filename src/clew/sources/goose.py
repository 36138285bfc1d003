"""Goose: ``~/.local/share/goose/sessions/sessions.db``; before that, one ``.jsonl`` file for each session.

A session is a line of messages in the order of their rows. A compaction writes all rows again, with other numbers: a
message is known by its own id, its time and its content. Messages that the model no longer sees stay where they are;
the summary that it sees instead is a root that stands for them.

Columns come and go with the version of the database. Goose counts tokens by session only, not by message.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from clew.base.messages import Native
from clew.providers.json_values import Json, as_dict, as_text, as_word
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.items import SQLITE, Item
from clew.sources.lines import head_lines, json_lines
from clew.sources.sqlite import look_up, open_database, row_bytes, row_fields, scan, tables
from clew.sources.values import digest, field_bytes, nonblank, object_or_empty, when
from clew.turns.model import ShowRules, tag

NAME = "goose"
_NO_TITLE = ("CLI Session", "New Chat", "New session")


RULES = ShowRules(notes=(tag("reminder", "info-msg"),), joins=True)


class Goose:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "Goose"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        if root := home.env.get("GOOSE_PATH_ROOT"):
            yield os.path.join(root, "data", "sessions")
        elif home.system == "win32":
            data = home.env.get("APPDATA") or os.path.join(home.path, "AppData", "Roaming")
            yield os.path.join(data, "Block", "goose", "data", "sessions")
        else:
            data = home.env.get("XDG_DATA_HOME") or os.path.join(home.path, ".local", "share")
            yield os.path.join(data, "goose", "sessions")

    def resume(self, conversation: str) -> str | None:
        return f"goose session --resume --session-id {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        if head.startswith(SQLITE):
            return b"CREATE TABLE sessions" in head or (
                os.path.basename(path) == "sessions.db" and "goose" in path.lower()
            )
        first = next(head_lines(head), {})
        return "working_dir" in first and "type" not in first

    def read(self, item: Item) -> Iterator[Part]:
        with item.open() as file:
            is_database = file.read(len(SQLITE)) == SQLITE
        return _read_database(item) if is_database else _read_lines(item)


def _read_database(item: Item) -> Iterator[Part]:
    with open_database(item) as connection:
        known = tables(connection)
        if not {"sessions", "messages"} <= known.keys() or "content_json" not in known["messages"]:
            yield Skip(None, "the database has no sessions of Goose")
            return
        for session in scan(connection, "sessions"):
            fields = row_fields(session)
            name = as_word(fields.get("id"))
            yield from _facts(name, fields)
            yield Entry(conversation=name, raw=row_bytes(session), key="session")
            path = _Path(name)
            for row in look_up(connection, "messages", "session_id", name, order="id"):
                raw = row_bytes(row, "content_json", "metadata_json")
                yield path.entry(raw, field_bytes(raw, "content_json"), object_or_empty(raw), Native(NAME, raw))
            yield from path.end()


def _read_lines(item: Item) -> Iterator[Part]:
    name = os.path.basename(item.member or item.path).removesuffix(".jsonl")
    path = _Path(name)
    for line in json_lines(item):
        if isinstance(line, Skip):
            yield line
        elif isinstance(line.fields.get("role"), str):
            yield path.entry(line.data, field_bytes(line.data, "content"), line.fields, line.native(NAME))
        else:
            yield from _facts(name, line.fields)
            yield Entry(conversation=name, raw=line.data, key=f"line {line.number}")
    yield from path.end()


def _facts(name: str, session: Json) -> Iterator[About]:
    title = nonblank(session.get("name")) or nonblank(session.get("description"))
    config = session.get("model_config_json")
    yield About(
        conversation=name,
        title=None if title in _NO_TITLE else title,
        cwd=as_text(session.get("working_dir")),
        model=as_text(object_or_empty(config).get("model_name")) if isinstance(config, str) else None,
    )


class _Path:
    """The messages of a session, one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._above: str | None = None
        self._hidden = False
        """True after messages that the model no longer sees."""
        self._seen: dict[str, int] = {}

    def entry(self, raw: bytes, content: bytes, fields: Json, message: Native) -> Entry:
        """The next message."""
        made = fields.get("created_timestamp", fields.get("created"))
        key = f"{fields.get('message_id') or fields.get('id')} {made} {digest(content)}"
        self._seen[key] = self._seen.get(key, 0) + 1
        id = derived_id(NAME, self._name, key if self._seen[key] == 1 else f"{key} {self._seen[key]}")
        seen_by = as_dict(fields.get("metadata_json") or fields.get("metadata"))
        is_summary = self._hidden and seen_by.get("agentVisible") is True and seen_by.get("userVisible") is False
        self._hidden = seen_by.get("agentVisible") is False or (self._hidden and not is_summary)
        above, self._above = self._above, id
        return Entry(
            conversation=self._name,
            raw=raw,
            key=key,
            id=id,
            message=message,
            parent=None if is_summary else above,
            derived=above if is_summary else None,
            created_at=when(made),
        )

    def end(self) -> Iterator[About]:
        """Where the program would continue."""
        if self._above is not None:
            yield About(conversation=self._name, head=self._above)
