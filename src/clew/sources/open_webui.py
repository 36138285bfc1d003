"""Open WebUI: an export of chats as JSON, and the database ``webui.db``.

A chat is a tree: ``history.messages`` has each message with its parent, and ``currentId`` is where it ended. Answers
of several models to one prompt are siblings. ``messages`` beside ``history`` repeats the path that was shown, and the
table ``chat_message`` repeats the messages of ``chat``; neither is read.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from clew.base.messages import Native
from clew.errors import Invalid
from clew.providers.json_values import Json, as_dict
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import FRAME, frame, framed_row, read_document, read_elements
from clew.sources.items import SQLITE, Item
from clew.sources.sqlite import open_database, row_record, scan, tables
from clew.sources.trees import parent_fault, parents_first, path_to
from clew.sources.values import digest, fields, nonblank, tokens, when

NAME = "open-webui"
_TABLE = "chat"


class OpenWebUI:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "Open WebUI"
    deletes_after = None

    def discover(self, home: Home) -> tuple[str, ...]:
        folder = home.env.get("DATA_DIR")
        return (os.path.join(folder, "webui.db"),) if folder else ()

    def resume(self, conversation: str) -> None:
        return None

    def recognise(self, path: str, head: bytes) -> bool:
        if head.startswith(SQLITE):
            return os.path.basename(path) == "webui.db" or (b"share_id" in head and b"TABLE chat" in head)
        return head.lstrip()[:1] in (b"[", b"{") and b'"history"' in head and b'"childrenIds"' in head

    def read(self, item: Item) -> Iterator[Part]:
        head = item.head()
        if head.startswith(SQLITE):
            return _database(item)
        if head.lstrip()[:1] == b"{":
            return read_document(item, lambda raw: _entry(1, raw))
        return read_elements(item, _entry)


def _entry(number: int, raw: bytes) -> Iterator[Part]:
    """A chat of an export; older exports have the chat without what is around it."""
    about = parse(raw)
    body = bytes(fields(raw)["chat"]) if isinstance(about.get("chat"), dict) else raw
    chat = as_dict(about.get("chat")) or about
    name = nonblank(about.get("id")) or nonblank(chat.get("id"))
    if name is None:
        yield Skip(number, "the chat has no id")
        return
    bodies = yield from _chat(name, about, chat, body)
    yield Entry(conversation=name, raw=frame(raw, bodies), key=FRAME)


def _database(item: Item) -> Iterator[Part]:
    """The chats of a database. A row is kept with its chat as a frame, without the messages."""
    with open_database(item) as connection:
        if not {"id", "chat"} <= set(tables(connection).get(_TABLE, ())):
            yield Skip(None, f"the database has no table {_TABLE}")
            return
        for number, row in enumerate(scan(connection, _TABLE), 1):
            values: dict[str, Any] = {name: row[name] for name in row.keys() if name != "clew_rowid"}  # noqa: SIM118
            name, chat = values["id"], values["chat"]
            if not isinstance(name, str) or not isinstance(chat, str):
                yield Skip(number, "the row has no id or no chat")
                continue
            try:
                body = chat.encode()
                bodies = yield from _chat(name, values, parse(body), body)
            except (msgspec.MsgspecError, UnicodeError, RecursionError, Invalid) as error:
                yield Skip(number, f"the chat is not JSON: {type(error).__name__}")
                continue
            record = row_record(_TABLE, {**values, "chat": ""})
            yield Entry(conversation=name, raw=framed_row(record, "chat", body, bodies), key=FRAME)


def _chat(name: str, about: Mapping[str, Any], chat: Json, body: bytes) -> Generator[Part, None, dict[str, bytes]]:
    """The messages of a chat; returns their bytes by their ids."""
    history = as_dict(chat.get("history"))
    listed = as_dict(history.get("messages"))
    raws = fields(fields(fields(body)["history"])["messages"]) if listed else {}
    messages = {key: message for key, message in listed.items() if isinstance(message, dict) and key in raws}
    parents = {key: _parent(key, message) for key, message in messages.items()}
    current = nonblank(history.get("currentId"))
    keys = {key: _key(key, message, bytes(raws[key])) for key, message in messages.items()}
    shown = path_to(current, parents)
    models = [model for key in shown if (model := nonblank(messages[key].get("model")))]
    yield About(
        conversation=name,
        title=nonblank(about.get("title")) or nonblank(chat.get("title")),
        model=models[-1] if models else None,
        head=derived_id(NAME, name, keys[current]) if current in keys else None,
    )
    at = when(about.get("created_at")) or when(chat.get("timestamp"))
    given: set[str] = set()
    for key in parents_first(parents, current):
        above = parents[key]
        at = when(messages[key].get("timestamp")) or at
        yield _message(name, keys[key], bytes(raws[key]), messages[key], keys[above] if above in given else None, at,
                       note=parent_fault(above, given, parents))  # fmt: skip
        given.add(key)
    return {derived_id(NAME, name, keys[key]): bytes(raws[key]) for key in messages}


def _message(
    name: str, key: str, raw: bytes, message: Json, above: str | None, at: datetime | None, *, note: str | None
) -> Entry:
    info = as_dict(message.get("info"))
    used = tokens(input=info.get("prompt_eval_count"), output=info.get("eval_count"))
    return Entry(
        conversation=name,
        raw=raw,
        key=key,
        id=derived_id(NAME, name, key),
        message=Native(NAME, raw, extra=None if used is None else {"usage": used}),
        parent=None if above is None else derived_id(NAME, name, above),
        created_at=at,
        note=note,
    )


def _parent(key: str, message: Json) -> str | None:
    above = nonblank(message.get("parentId"))
    return None if above == key else above


def _key(key: str, message: Json, raw: bytes) -> str:
    """The name of a message; one that is still being written has a name of its own."""
    return f"{key} {digest(raw)}" if message.get("done") is False and message.get("role") == "assistant" else key
