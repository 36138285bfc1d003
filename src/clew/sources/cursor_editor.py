"""Cursor's editor: ``state.vscdb``, a table of keys and values that reaches 50 GB.

``composerData:<id>`` is a conversation and lists its messages in order; ``bubbleId:<id>:<bubble>`` is a message. Every
row is looked up by its key. Rows of messages that a conversation no longer lists are kept in its log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from clew.base.messages import Native
from clew.errors import Invalid
from clew.providers.json_values import Json, as_dict, as_list
from clew.sources.contract import About, Entry, Part, Skip, derived_id
from clew.sources.items import Item
from clew.sources.sqlite import look_up, open_database, row_record, tables
from clew.sources.values import composed, digest, object_or_empty, title_of, tokens, when

NAME = "cursor"
TABLE, HEADERS = "cursorDiskKV", "composerHeaders"
_COMPOSER, _BUBBLE = "composerData:", "bubbleId:"
_PAGE = 500


class _Composer(NamedTuple):
    """A conversation: its name, its row, what the row says, and what the index says of it."""

    name: str
    row: sqlite3.Row
    data: Json
    header: Json

    @property
    def owner(self) -> str | None:
        """The conversation that a subagent's belongs to."""
        return title_of(self._subagent.get("parentComposerId"))

    @property
    def agent(self) -> str | None:
        about = self._subagent
        return title_of(about.get("subagentTypeName")) or title_of(about.get("toolCallId"))

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
    name = title_of(data.get("composerId")) or key.removeprefix(_COMPOSER)
    header = look_up(connection, HEADERS, "composerId", name) if has_headers else []
    return _Composer(name, row, data, _json(header[0]) if header else {})


def _conversation(connection: sqlite3.Connection, composer: _Composer) -> Iterator[Part]:
    name, data, header = composer.name, composer.data, composer.header
    place = as_dict(header.get("workspaceIdentifier")) or as_dict(data.get("workspaceIdentifier"))
    folder = as_dict(place.get("uri") or place.get("configPath"))
    model = title_of(as_dict(data.get("modelConfig")).get("modelName"))
    listed = [title_of(one.get("bubbleId")) for one in as_list(data.get("fullConversationHeadersOnly"))]
    names = list(dict.fromkeys(name for name in listed if name is not None))
    if not names and not as_list(data.get("conversation")):
        return
    yield About(
        conversation=name,
        title=title_of(header.get("name")) or title_of(data.get("name")),
        cwd=title_of(folder.get("fsPath")) or title_of(folder.get("path")),
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
        yield _message(name, key, id, row_record(TABLE, row), said, parent, at, model)
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
        key = title_of(said.get("bubbleId"))
        key = f"message {number}" if key is None or key in seen else key
        seen.add(key)
        at = _time(said) or at
        id = derived_id(NAME, name, key)
        yield _message(name, key, id, None, said, parent, at, model)
        parent = id


def _message(
    name: str, key: str, id: str, raw: bytes | None, said: Json, parent: str | None, at: datetime | None,
    model: str | None,
) -> Entry:  # fmt: skip
    extra: Json = {}
    if said.get("type") == 2:
        counted = as_dict(said.get("tokenCount"))
        used = tokens(input=counted.get("inputTokens") or None, output=counted.get("outputTokens") or None)
        model = title_of(as_dict(said.get("modelInfo")).get("modelName")) or model
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
            if name := title_of(branch.get("branchName")):
                return name
    return title_of(data.get("createdOnBranch"))
