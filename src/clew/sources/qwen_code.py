"""Qwen Code: ``~/.qwen/projects/<project>/chats/<session>.jsonl``, and subagents in ``agent-<id>.jsonl``.

A line has a uuid and the uuid of the line before it. Lines of type user, assistant and tool_result have a message in
Gemini's format; the others (telemetry, snapshots, titles) are kept in the log. A uuid may be used again after a
resume, and a fork copies lines with their uuids and times: a message is known by both.

A rewind is a line whose parent is an earlier one. A compression is a line with a new history, whose first message is a
root that stands for what came before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from clew.providers.json_values import Json, as_dict, as_text
from clew.sources.contract import About, Entry, Home, Part, derived_id, moment
from clew.sources.items import Item
from clew.sources.lines import JsonLine, head_lines, read_lines_with
from clew.sources.trees import ChainLink, LinkMap
from clew.sources.values import RecordPiece, element_bytes, field_bytes, nonblank, pieces, tokens
from clew.turns.model import ShowRules, tag

NAME = "qwen-code"
FORMAT = "gemini"
_MESSAGES = ("user", "assistant", "tool_result")


RULES = ShowRules(notes=(tag("summary", "state_snapshot"), tag("reminder", "system-reminder")))


class QwenCode:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "Qwen Code"
    deletes_after = None

    def discover(self, home: Home) -> Iterator[str]:
        root = home.env.get("QWEN_HOME") or os.path.join(home.path, ".qwen")
        yield os.path.join(root, "projects")

    def resume(self, conversation: str) -> str | None:
        return None if "/" in conversation else f"qwen --resume {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        for fields in head_lines(head):
            if not {"uuid", "parentUuid", "sessionId"} <= fields.keys():
                continue
            if "systemPayload" in fields or "parts" in as_dict(fields.get("message")):
                return True
        return False

    def read(self, item: Item) -> Iterator[Part]:
        return read_lines_with(_Reader(item.member or item.path), item)


class _Reader:
    """One file on its way. Memory grows with the number of lines, not with the bytes."""

    def __init__(self, path: str) -> None:
        name = os.path.basename(path).removesuffix(".jsonl")
        self._agent = name.removeprefix("agent-") if name.startswith("agent-") else None
        self._name = name
        self._links = LinkMap()
        self._seen: set[str] = set()
        self._about: About | None = None
        self._began = False

    def line(self, line: JsonLine) -> Iterator[Part]:
        """A line as a message, or as a record of the log."""
        fields = line.fields
        if not self._began:
            self._began = True
            session = as_text(fields.get("sessionId"))
            if self._agent is not None and session:
                self._name = f"{session}/{self._agent}"
        yield from self._facts(fields)
        uuid = fields.get("uuid")
        link, note = self._links.above(uuid, fields.get("parentUuid"))
        found = self._pieces(line)
        keys = [f"{fields.get('timestamp')} {number}".removesuffix(" 0") for number in range(len(found))]
        ids = [derived_id(NAME, str(uuid), key) for key in keys]
        at = moment(fields.get("timestamp"))
        if not found or ids[0] in self._seen:
            self._links.add(uuid, link if not found else ChainLink(ids[-1]))
            yield Entry(conversation=self._name, raw=line.data, key=str(uuid), created_at=at, note=note)
            return
        if fields.get("type") == "system":
            link = ChainLink(None, link.parent)
        for id, piece in zip(ids, found, strict=True):
            yield Entry(
                conversation=self._name,
                raw=piece.raw,
                key=str(uuid),
                id=id,
                message=piece.message,
                parent=link.parent,
                derived=link.derived,
                created_at=at,
                note=note,
            )
            link, note = ChainLink(id), None
        self._seen.add(ids[0])
        self._links.add(uuid, link)

    def end(self) -> Iterator[Part]:
        """Where the program would continue."""
        if self._links.head is not None:
            yield About(conversation=self._name, head=self._links.head)

    def _pieces(self, line: JsonLine) -> list[RecordPiece]:
        """The messages in a line: one, or those of a compressed history."""
        fields = line.fields
        if fields.get("type") in _MESSAGES and isinstance(as_dict(fields.get("message")).get("parts"), list):
            body = field_bytes(line.data, "message")
            return pieces(FORMAT, line.data, [body], [_extra(fields)]) if body else []
        if fields.get("subtype") == "chat_compression":
            history = as_dict(fields.get("systemPayload")).get("compressedHistory")
            if isinstance(history, list) and history and all(isinstance(one, dict) for one in history):
                bodies = element_bytes(field_bytes(line.data, "systemPayload", "compressedHistory"))
                return pieces(FORMAT, line.data, bodies)
        return []

    def _facts(self, fields: Json) -> Iterator[About]:
        payload = as_dict(fields.get("systemPayload"))
        owner = self._name.partition("/")[0] if self._agent else as_text(payload.get("parentSessionId"))
        about = About(
            conversation=self._name,
            cwd=as_text(fields.get("cwd")),
            branch=as_text(fields.get("gitBranch")) or None,
            version=as_text(fields.get("version")),
            model=as_text(fields.get("model")),
            title=nonblank(payload.get("customTitle")),
            agent=self._agent or ("subagent" if owner else None),
            owner=owner,
            forked_from=as_text(as_dict(fields.get("forkedFrom")).get("sessionId")),
        )
        if about != self._about:
            self._about = about
            yield about


def _extra(fields: Json) -> dict[str, Any]:
    """The model and the tokens of an answer, which are beside the message."""
    count = as_dict(fields.get("usageMetadata")).get
    known = tokens(
        input=count("promptTokenCount"),
        output=count("candidatesTokenCount"),
        cached=count("cachedContentTokenCount"),
        reasoning=count("thoughtsTokenCount"),
    )
    extra: dict[str, Any] = {"usage": known} if known else {}
    return {**extra, "model": fields["model"]} if isinstance(fields.get("model"), str) else extra
