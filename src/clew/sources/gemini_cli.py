"""Gemini CLI: ``~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl``, and subagents in ``chats/<session>``.

A file is a log of changes. Its first line is a header; a line with an id is a message; ``$set`` replaces fields, also
all messages; ``$rewindTo`` drops a message and all after it.

* A resume writes the header again, and then all messages so far in a poorer form. These copies are kept in the log:
  the first form of a message is the message.
* A message is written again once its tool calls have ended. Each new call is a message of its own that follows, so
  that nothing stored has to change. The line with the same results that comes next is kept in the log.
* A compaction is a ``$set`` with new messages: the first of them is a root that stands for the path before it. A
  ``$set`` with known messages only takes back what is not in it, as after a failed request.

Older versions wrote one JSON object with all messages: ``session-….json``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from clew.base.messages import Native
from clew.providers.histories.programs import GEMINI_CLI_CONTEXT, gemini_cli_results
from clew.providers.json_values import Json, as_dict, as_list, as_text
from clew.providers.view import parse
from clew.sources.contract import About, Entry, Home, Part, Skip, derived_id, moment
from clew.sources.documents import FRAME, frame, read_document
from clew.sources.items import Item
from clew.sources.lines import JsonLine, head_lines, json_lines
from clew.sources.values import element_bytes, field_bytes, object_or_empty, pieces, tokens
from clew.turns.model import ShowRules, tag

NAME = "gemini-cli"
_MESSAGES = ("user", "gemini")
_ENDED = ("success", "error", "cancelled")
_FOLDER = re.compile(r"Workspace Directories:\**\s+- (.*)")


RULES = ShowRules(
    notes=(
        tag("instructions", "session_context", "Environment"),
        tag("summary", "state_snapshot"),
        tag("reminder", "hook_context|system-reminder"),
    ),
    loose_calls=True,
)


class GeminiCLI:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "Gemini CLI"
    deletes_after = 30

    def discover(self, home: Home) -> Iterator[str]:
        yield os.path.join(home.env.get("GEMINI_CLI_HOME") or home.path, ".gemini", "tmp", "*", "chats")

    def resume(self, conversation: str) -> str | None:
        return None if "/" in conversation else f"gemini --resume {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        if head.lstrip()[:1] != b"{":
            return False
        if any({"sessionId", "projectHash", "startTime"} <= fields.keys() for fields in head_lines(head)):
            return True
        return b'"projectHash"' in head and b'"sessionId"' in head and b'"messages"' in head

    def read(self, item: Item) -> Iterator[Part]:
        path = item.member or item.path
        reader = _Reader(path)
        if path.endswith(".json"):
            yield from read_document(item, lambda raw: _read_old(raw, reader))
            return
        for line in json_lines(item):
            if isinstance(line, Skip):
                yield line
            else:
                yield from reader.line(line)
        yield from reader.end()


class _Step(NamedTuple):
    """A message on the path: its own id, and the id of the node that stands for it, if one does."""

    id: str
    node: str | None


class _Reader:
    """One file on its way. Memory grows with the number of messages, not with the bytes."""

    def __init__(self, path: str) -> None:
        name, folder = os.path.basename(path), os.path.basename(os.path.dirname(path))
        self._session = name.removesuffix(".jsonl").removesuffix(".json")
        self._owner = None if name.startswith("session-") or folder == "chats" else folder
        self._header: Json | None = None
        self._copies = False
        """True from a repeated header to the next message: what is set there is a copy."""
        self._path: list[_Step] = []
        self._nodes: dict[str, str | None] = {}
        self._calls: set[str] = set()
        self._derived: str | None = None
        """The message that the next root stands for."""
        self._last: datetime | None = None

    def line(self, line: JsonLine) -> Iterator[Part]:
        """What one line of the log does."""
        fields = line.fields
        if "sessionId" in fields and "startTime" in fields:
            yield from self.header(fields)
        elif "$rewindTo" in fields:
            self._rewind(fields["$rewindTo"])
        elif "$set" in fields:
            changes = as_dict(fields["$set"])
            yield from self.facts(changes)
            if isinstance(changes.get("messages"), list) and not self._copies:
                yield from self._replace(line, as_list(changes["messages"]))
                return
        elif as_text(fields.get("type")) in _MESSAGES and isinstance(fields.get("id"), str):
            self._copies = False
            yield from self._message(line)
            return
        yield self._keep(line)

    def end(self) -> Iterator[Part]:
        """Where the program would continue."""
        if (head := self._above()) is not None:
            yield About(conversation=self.conversation, head=head)

    @property
    def conversation(self) -> str:
        """The name of the conversation."""
        return self._session if self._owner is None else f"{self._owner}/{self._session}"

    def facts(self, fields: Json) -> Iterator[About]:
        """Title and folder, where a header or a ``$set`` has them."""
        title, folders = as_text(fields.get("summary")), fields.get("directories")
        cwd = as_text(folders[0]) if isinstance(folders, list) and folders else None
        if self._owner is not None:
            title = None
        if title or cwd:
            yield About(conversation=self.conversation, title=title, cwd=cwd)

    def entry(self, raw: bytes, message: Native, fields: Json, key: str) -> Entry:
        """A message as the next one of the path. A call that was added to a message belongs to that message."""
        node = derived_id(NAME, self.conversation, key)
        parent, derived = self._above(), self._derived
        self._derived = None
        self._last = moment(fields.get("timestamp")) or self._last
        self._path.append(_Step(as_text(fields.get("id")) or key, node))
        self._nodes[key] = node
        return Entry(
            conversation=self.conversation,
            raw=raw,
            key=key,
            id=node,
            message=message,
            parent=parent,
            derived=derived if parent is None else None,
            created_at=self._last,
        )

    def about(self, fields: Json) -> Iterator[About]:
        """What a message says about its conversation: the model, and the folder in the program's own context."""
        if model := as_text(fields.get("model")):
            yield About(conversation=self.conversation, model=model)
        for part in as_list(fields.get("content")):
            text = as_text(part.get("text")) or ""
            if text.startswith(GEMINI_CLI_CONTEXT) and (found := _FOLDER.search(text)):
                yield About(conversation=self.conversation, cwd=found[1].strip())

    def header(self, fields: Json) -> Iterator[Part]:
        """The first line, or a copy of it that a resume has written."""
        if self._header is not None:
            self._copies = fields != self._header
        else:
            self._header = fields
            self._session = as_text(fields.get("sessionId")) or self._session
            agent = None if self._owner is None else "subagent"
            yield About(conversation=self.conversation, owner=self._owner, agent=agent)
        yield from self.facts(fields)

    def _message(self, line: JsonLine) -> Iterator[Part]:
        fields = line.fields
        id = fields["id"]
        if id in self._nodes:
            yield from self._update(line, id)
            return
        answered = gemini_cli_results(fields)
        if answered and answered <= self._calls:
            self._path.append(_Step(id, None))
            self._nodes[id] = None
            yield self._keep(line)
            return
        yield from self.about(fields)
        self._calls.update(_end_call(fields))
        yield self.entry(line.data, line.native(NAME, **usage_extra(fields)), fields, id)

    def _update(self, line: JsonLine, id: str) -> Iterator[Part]:
        """The calls that have ended since the message was written before."""
        calls = as_list(line.fields.get("toolCalls"))
        raws = element_bytes(field_bytes(line.data, "toolCalls"))
        new: dict[str, tuple[bytes, Json]] = {}
        for raw, call in zip(raws, calls, strict=False):
            for ended in _end_call({"toolCalls": [call]}) - self._calls:
                new.setdefault(ended, (raw, call))
        if not new or len(raws) != len(calls):
            yield self._keep(line)
            return
        cut = pieces(NAME, line.data, [raw for raw, _ in new.values()])
        for piece, (name, (_, call)) in zip(cut, new.items(), strict=True):
            self._calls.add(name)
            yield self.entry(piece.raw, piece.message, {**call, "id": id}, f"{id} {name}")

    def _replace(self, line: JsonLine, messages: list[Json]) -> Iterator[Part]:
        """A new list of messages: what is not in it is left, what is new in it is added."""
        raws = element_bytes(field_bytes(line.data, "$set", "messages"))
        known = {step.id for step in self._path}
        new: dict[str, tuple[bytes, Json]] = {}
        last: str | None = None
        for raw, message in zip(raws, messages, strict=False):
            id = as_text(message.get("id")) or ""
            if id in self._nodes or id.removesuffix("_response") in self._nodes:
                last = id if id in known else last
            elif id and message.get("type") in _MESSAGES:
                new.setdefault(id, (raw, message))
        before = self._above()
        if new and before is not None and last != self._path[-1].id:
            self._path, self._derived = [], before
        elif last is not None:
            self._path = self._path[: 1 + max(at for at, step in enumerate(self._path) if step.id == last)]
        if not new or len(raws) != len(messages):
            yield self._keep(line)
            return
        extras = [usage_extra(message) for _, message in new.values()]
        cut = pieces(NAME, line.data, [raw for raw, _ in new.values()], extras)
        for piece, (id, (_, message)) in zip(cut, new.items(), strict=True):
            yield from self.about(message)
            self._calls.update(_end_call(message))
            yield self.entry(piece.raw, piece.message, message, id)

    def _rewind(self, id: object) -> None:
        """Drops a message and all after it; an id that never was there drops all, as in the program itself."""
        unknown = len(self._path) if isinstance(id, str) and id in self._nodes else 0
        self._path = self._path[: next((at for at, step in enumerate(self._path) if step.id == id), unknown)]

    def _above(self) -> str | None:
        """The node that the next message follows."""
        return next((step.node for step in reversed(self._path) if step.node is not None), None)

    def _keep(self, line: JsonLine) -> Entry:
        at = moment(line.fields.get("timestamp"))
        return Entry(conversation=self.conversation, raw=line.data, key=f"line {line.number}", created_at=at)


def _read_old(raw: bytes, reader: _Reader) -> Iterator[Part]:
    """A conversation that is one JSON object."""
    fields = parse(raw)
    yield from reader.header(fields)
    named: set[str] = set()
    bodies: dict[str, bytes] = {}
    for at, body in enumerate(element_bytes(field_bytes(raw, "messages"))):
        message = object_or_empty(body)
        if message.get("type") not in _MESSAGES:
            continue
        id = as_text(message.get("id"))
        key = id if id and id not in named else f"message {at}"
        named.add(key)
        yield from reader.about(message)
        entry = reader.entry(body, Native(NAME, body, extra=usage_extra(message) or None), message, key)
        bodies[entry.id or ""] = body
        yield entry
    yield Entry(conversation=reader.conversation, raw=frame(raw, bodies), key=FRAME)


def usage_extra(fields: Json) -> dict[str, Any]:
    """The tokens of a message, as its free data keeps them."""
    count = as_dict(fields.get("tokens")).get
    known = tokens(input=count("input"), output=count("output"), cached=count("cached"), reasoning=count("thoughts"))
    return {"usage": known} if known else {}


def _end_call(fields: Json) -> set[str]:
    """The calls of a message that have ended."""
    return {
        id
        for call in as_list(fields.get("toolCalls"))
        if as_text(call.get("status")) in _ENDED and (id := as_text(call.get("id")))
    }
