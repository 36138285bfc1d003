"""pi: ``~/.pi/agent/sessions/--<path>--/<time>_<session>.jsonl``, in the format that pi documents (version 3).

A line has an id and the id of the line before it; the last line is where pi would continue. Ids are unique in a file
only, but a fork copies lines with their ids and times: a message is known by both. Version 1 has no ids: its lines
follow each other.

A compaction is a root that stands for what came before it; the summary of a branch that was left is a message.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from clew.base.messages import Native
from clew.providers.json_values import Json, as_dict, as_text
from clew.sources.contract import About, Entry, Home, Part, derived_id, moment
from clew.sources.items import Item
from clew.sources.lines import JsonLine, head_lines, read_lines_with
from clew.sources.trees import ChainLink, LinkMap
from clew.sources.values import field_bytes, nonblank, pieces, tokens
from clew.turns.model import MessageMark, ShowRules

NAME = "pi"
_MESSAGES = ("compaction", "branch_summary", "custom_message")
"""Entries that are messages without having one inside."""


RULES = ShowRules(marks=(MessageMark('"role":"bashExecution"', "shell"),))


class Pi:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "pi"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        root = home.env.get("PI_CODING_AGENT_DIR") or os.path.join(home.path, ".pi", "agent")
        yield os.path.join(root, "sessions")

    def resume(self, conversation: str) -> str | None:
        return f"pi --session {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        first = next(head_lines(head), {})
        return first.get("type") == "session" and {"id", "timestamp", "cwd"} <= first.keys() and "harness" not in first

    def read(self, item: Item) -> Iterator[Part]:
        return read_lines_with(_Reader(item.member or item.path), item)


class _Reader:
    """One file on its way. Memory grows with the number of lines, not with the bytes."""

    def __init__(self, path: str) -> None:
        self._name = _session_of(path) or ""
        self._links = LinkMap()
        self._seen: set[str] = set()
        self._before: str | None = None
        """The id of the line before, for lines that do not name it."""

    def line(self, line: JsonLine) -> Iterator[Part]:
        """A line as a message, or as a record of the log."""
        fields = line.fields
        if fields.get("type") == "session" and self._before is None:
            self._name = as_text(fields.get("id")) or self._name
        yield from self._facts(fields)
        native = as_text(fields.get("id")) if fields.get("type") != "session" else None
        key = native or f"line {line.number}"
        parent = fields.get("parentId", self._before)
        link, note = self._links.above(key, parent)
        message = _message(line)
        name = f"{native} {fields.get('timestamp')}" if native else f"{self._name} {key}"
        id = derived_id(NAME, name)
        at = moment(fields.get("timestamp"))
        self._before = key
        if message is None or id in self._seen:
            self._links.add(key, link if message is None else ChainLink(id))
            yield Entry(conversation=self._name, raw=line.data, key=key, created_at=at, note=note)
            return
        if fields.get("type") == "compaction":
            link = ChainLink(None, link.parent)
        self._seen.add(id)
        self._links.add(key, ChainLink(id))
        yield Entry(
            conversation=self._name,
            raw=line.data,
            key=key,
            id=id,
            message=message,
            parent=link.parent,
            derived=link.derived,
            created_at=at,
            note=note,
        )

    def end(self) -> Iterator[Part]:
        """Where pi would continue."""
        if self._links.head is not None:
            yield About(conversation=self._name, head=self._links.head)

    def _facts(self, fields: Json) -> Iterator[About]:
        kind = fields.get("type")
        if kind == "session":
            above = _session_of(as_text(fields.get("parentSession")) or "")
            yield About(conversation=self._name, cwd=as_text(fields.get("cwd")), forked_from=above)
        elif kind == "session_info":
            yield About(conversation=self._name, title=nonblank(fields.get("name")))
        elif kind == "model_change":
            yield About(conversation=self._name, model=as_text(fields.get("modelId")))


def _session_of(path: str) -> str | None:
    """The session that a file is named after."""
    return os.path.basename(path).removesuffix(".jsonl").rpartition("_")[2] or None


def _message(line: JsonLine) -> Native | None:
    fields = line.fields
    if fields.get("type") in _MESSAGES:
        return line.native(NAME, **_count_usage(fields))
    inner = as_dict(fields.get("message"))
    if fields.get("type") != "message" or not isinstance(inner.get("role"), str):
        return None
    body = field_bytes(line.data, "message")
    return pieces(NAME, line.data, [body], [_count_usage(inner)])[0].message if body else None


def _count_usage(fields: Json) -> dict[str, Any]:
    """The tokens and the cost of an answer, as the free data of a message keeps them."""
    used = as_dict(fields.get("usage"))
    cost = as_dict(used.get("cost")).get("total")
    known = tokens(
        input=used.get("input"),
        output=used.get("output"),
        cached=used.get("cacheRead"),
        cost=round(cost * 1_000_000) if isinstance(cost, int | float) and cost > 0 else None,
    )
    return {"counted": known} if known else {}
