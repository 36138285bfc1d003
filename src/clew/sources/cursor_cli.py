"""Cursor's command line: ``~/.cursor/chats/<folder>/<conversation>/store.db``.

Messages are JSON in rows that are named by the hash of their bytes. Other rows are protobuf; the one that ``meta``
names as the root lists the messages of the conversation in order. A message that is not listed was rewound, or the list
could not be read: it follows the message that was written before it.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator

from clew.base.messages import Native
from clew.providers.json_values import Json
from clew.sources.contract import About, Entry, Part, Skip, derived_id
from clew.sources.items import Item
from clew.sources.sqlite import look_up, open_database, row_record, scan, tables
from clew.sources.trees import Nearest, parents_first
from clew.sources.values import object_or_empty, title_of, when

NAME = "cursor"
_FOLDER = re.compile(r"Workspace Path: (.+)")
_HASH = re.compile(rb"\x0a\x20(.{32})", re.DOTALL)
"""A field of 32 bytes in a protobuf row: the name of a message."""


def read_store(item: Item) -> Iterator[Part]:
    """The conversation of a database."""
    with open_database(item) as connection:
        known = tables(connection)
        if not ({"id", "data"} <= set(known.get("blobs", ())) and {"key", "value"} <= set(known.get("meta", ()))):
            yield Skip(None, "the database has no tables blobs and meta")
            return
        meta = _meta(connection)
        folder = os.path.basename(os.path.dirname(item.member or item.path))
        name = title_of(meta.get("agentId")) or folder or NAME
        yield About(conversation=name, title=title_of(meta.get("name")), model=title_of(meta.get("lastUsedModel")))
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
        if not title_of(said.get("role")):
            yield Entry(conversation=name, raw=raw, key=one)
            continue
        if place := _FOLDER.search(str(said.get("content"))):
            yield About(conversation=name, cwd=place[1].partition("\\n")[0].strip())
        parent = ids.get(nearest(before[one]) or "")
        ids[one] = derived_id(NAME, name, one)
        message = Native(NAME, raw)
        yield Entry(conversation=name, raw=raw, key=one, id=ids[one], message=message, parent=parent, created_at=time)
    if last := next((ids[one] for one in reversed(listed) if one in ids), None):
        yield About(conversation=name, head=last)


def _list_blobs(connection: sqlite3.Connection, meta: Json) -> list[str]:
    """The names of messages in the root of the conversation."""
    for row in look_up(connection, "blobs", "id", title_of(meta.get("latestRootBlobId"))):
        if isinstance(row["data"], bytes):
            return [found.hex() for found in _HASH.findall(row["data"])]
    return []
