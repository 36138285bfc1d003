"""opencode: ``~/.local/share/opencode/opencode.db``; before that, a tree of JSON files; and ``opencode export``.

A message is a row of ``message`` with its rows of ``part``; a session is a line of messages in the order of time.

* A fork copies messages under new ids, without a pointer. The id of a message here is made of what a copy keeps (its
  time, its words, its calls and the message before it), so both sessions share their messages.
* A row changes while the model answers. The last message of a session is a message once it has ended; until then its
  rows are kept in the log.
* A compaction is a prompt with a ``compaction`` part: a root that stands for what came before it.
* ``revert`` in the row of the session says where the program would continue.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from clew.base.messages import Native
from clew.base.outside import names_in
from clew.errors import ClewError
from clew.providers.histories.programs import opencode_inner
from clew.providers.json_values import Json, as_dict, as_list, as_text, as_word
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id
from clew.sources.documents import LARGEST, read_document
from clew.sources.items import SQLITE, Item
from clew.sources.sqlite import look_up, open_database, row_bytes, row_fields, scan, tables
from clew.sources.values import digest, element_bytes, field_bytes, nonblank, object_or_empty, tokens, when
from clew.turns.model import ShowRules, tag

NAME = "opencode"
_NO_TITLE = ("New session - ", "Child session - ")
"""How the titles begin that the program gives before it has a better one."""


RULES = ShowRules(notes=(tag("reminder", "system-reminder|file|env"),))


class _Stored(NamedTuple):
    """A message with its parts."""

    raw: bytes
    fields: Json

    @property
    def info(self) -> Json:
        return opencode_inner(as_dict(self.fields.get("info")))

    @property
    def parts(self) -> list[Json]:
        return [opencode_inner(part) for part in as_list(self.fields.get("parts"))]


class OpenCode:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "opencode"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        data = home.env.get("XDG_DATA_HOME") or os.path.join(home.path, ".local", "share")
        yield os.path.join(data, "opencode", "opencode*.db")
        yield os.path.join(data, "opencode", "storage", "session")

    def resume(self, conversation: str) -> str | None:
        return f"opencode --session {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        name = os.path.basename(path)
        if head.startswith(SQLITE):
            return name.startswith("opencode") or b"CREATE TABLE `session_message`" in head
        if name.startswith("ses_") and name.endswith(".json"):
            return b'"directory"' in head or b'"projectID"' in head
        start = head.lstrip()
        return start[:1] == b"{" and b'"info"' in start[:64] and b'"ses_' in head

    def read(self, item: Item) -> Iterator[Part]:
        with item.open() as file:
            is_database = file.read(len(SQLITE)) == SQLITE
        return _read_database(item) if is_database else read_document(item, lambda raw: _read_json(item, raw))


def _read_database(item: Item) -> Iterator[Part]:
    with open_database(item) as connection:
        if not {"session", "message", "part"} <= tables(connection).keys():
            yield Skip(None, "the database has no sessions of opencode")
            return
        for session in scan(connection, "session"):
            row = row_fields(session)
            rows = look_up(connection, "message", "session_id", session["id"], order="time_created, id")
            stored = (
                _read_stored(
                    row_bytes(message, "data"),
                    [
                        row_bytes(part, "data")
                        for part in look_up(connection, "part", "message_id", message["id"], order="id")
                    ],
                )
                for message in rows
            )
            yield from _conversation(row, row_bytes(session), stored, len(rows))


def _read_json(item: Item, raw: bytes) -> Iterator[Part]:
    """A session in the tree of JSON files, or one that was exported."""
    fields = parse(raw)
    if "info" in fields:
        bodies = element_bytes(field_bytes(raw, "messages"))
        stored = (_Stored(body, object_or_empty(body)) for body in bodies)
        yield from _conversation(as_dict(fields["info"]), field_bytes(raw, "info"), stored, len(bodies))
    elif item.member is not None:
        yield Skip(None, "the messages of this session are in other files: unpack the archive first")
    else:
        messages = _files(item, "message", as_word(fields.get("id")))
        yield from _conversation(fields, raw, (_from_files(item, message) for message in messages), len(messages))


def _files(session: Item, kind: str, id: str) -> list[bytes]:
    """The JSON files of a session or message, in the order of their names; links are not followed.

    None for a file that is not in ``storage/session/PROJECT``: what is beside its folder is not this program's.
    """
    sessions = os.path.dirname(os.path.dirname(session.path))
    if not id or id in (".", "..") or os.sep in id or "\0" in id or os.path.basename(sessions) != "session":
        return []
    storage = os.path.dirname(sessions)
    folder = os.path.join(storage, kind, id)
    root = session.at(os.path.join(folder, "any")).root or storage
    found = []
    with suppress(OSError):
        for name in sorted(name for name in names_in(folder, root) if name.endswith(".json")):
            with suppress(ClewError), Item(os.path.join(folder, name), 0, 0, root=root).open() as file:
                found.append(file.read(LARGEST))
    return found


def _from_files(session: Item, message: bytes) -> _Stored:
    return _read_stored(message, _files(session, "part", as_word(object_or_empty(message).get("id"))))


def _read_stored(info: bytes, parts: list[bytes]) -> _Stored:
    raw = b'{"info":' + info + b',"parts":[' + b",".join(parts) + b"]}"
    return _Stored(raw, object_or_empty(raw))


def _conversation(session: Json, raw: bytes, messages: Iterable[_Stored], count: int) -> Iterator[Part]:
    name = as_text(session.get("id"))
    if not name:
        yield Skip(None, "a session without an id")
        return
    title = nonblank(session.get("title"))
    owner = as_text(session.get("parent_id") or session.get("parentID"))
    yield About(
        conversation=name,
        title=title if title and not title.startswith(_NO_TITLE) else None,
        cwd=as_text(session.get("directory")),
        version=as_text(session.get("version")),
        owner=owner,
        agent="subagent" if owner else None,
    )
    yield Entry(conversation=name, raw=raw, key="session")
    yield from _messages(name, session, messages, count)


def _messages(name: str, session: Json, messages: Iterable[_Stored], count: int) -> Iterator[Part]:
    above: str | None = None
    head: str | None = None
    reverted = as_text(_revert(session).get("messageID"))
    for number, one in enumerate(messages, 1):
        info = one.info
        native = as_word(as_dict(one.fields.get("info")).get("id")) or f"message {number}"
        if native == reverted:
            head = above
        at = when(_created_at(info))
        if (not _has_ended(one) and number == count) or not isinstance(info.get("role"), str):
            yield Entry(conversation=name, raw=one.raw, key=native, created_at=at)
            continue
        id = derived_id(NAME, above or "", _identity(one))
        is_compaction = any(part.get("type") == "compaction" for part in one.parts)
        yield About(conversation=name, model=as_text(info.get("modelID")), agent=_agent(session, info))
        yield Entry(
            conversation=name,
            raw=one.raw,
            key=native,
            id=id,
            message=Native(NAME, one.raw, extra=_facts(info) or None),
            parent=None if is_compaction else above,
            derived=above if is_compaction else None,
            created_at=at,
        )
        above = id
    if (head or above) is not None:
        yield About(conversation=name, head=head or above)


def _agent(session: Json, info: Json) -> str | None:
    """The name of the subagent that a session is the trace of."""
    return as_text(info.get("agent")) if session.get("parent_id") or session.get("parentID") else None


def _identity(one: _Stored) -> str:
    """What a copy of a message keeps, and what does not change once the message has ended."""
    words = [as_word(part.get("text")) for part in one.parts if part.get("type") in ("text", "reasoning")]
    calls = [as_word(part.get("callID")) for part in one.parts if part.get("type") == "tool"]
    said = digest(*words, "", *calls)
    return f"{one.info.get('role')} {one.info.get('agent')} {_created_at(one.info)} {said}"


def _has_ended(one: _Stored) -> bool:
    if one.info.get("role") == "user":
        return bool(one.parts)
    return "completed" in as_dict(one.info.get("time")) or "error" in one.info


def _revert(session: Json) -> Json:
    """Where a session was rewound to: an object, or its JSON as text."""
    value = session.get("revert")
    return object_or_empty(value) if isinstance(value, str) else as_dict(value)


def _created_at(info: Json) -> object:
    return as_dict(info.get("time")).get("created")


def _facts(info: Json) -> Json:
    """The model and the cost of an answer, as the free data of a message keeps them."""
    count, cost = as_dict(info.get("tokens")).get, info.get("cost")
    known = tokens(
        input=count("input"),
        output=count("output"),
        reasoning=count("reasoning"),
        cached=as_dict(count("cache")).get("read"),
        cost=round(cost * 1_000_000) if isinstance(cost, int | float) and cost > 0 else None,
    )
    facts: Json = {"usage": known} if known else {}
    return {**facts, "model": info["modelID"]} if isinstance(info.get("modelID"), str) else facts
