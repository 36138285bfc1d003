"""Transcripts of Cursor's agents: ``~/.cursor/projects/<project>/agent-transcripts/<conversation>.jsonl`` or ``.txt``.

Messages have neither ids nor times. A message is named by its bytes and the message before it, so that a transcript
that has grown keeps the names of its first messages. Its time is that of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from clew.base.messages import Block, Message, Text, Thinking, ToolCall, ToolResult
from clew.providers.json_values import Json
from clew.sources.contract import Entry, Part, Skip, derived_id
from clew.sources.documents import read_document
from clew.sources.items import Item
from clew.sources.json_lines import head_lines, json_lines
from clew.sources.values import composed, digest, when

NAME = "cursor"
_TURN = re.compile(rb"^(user|assistant|system|tool):[ \t]*\r?\n", re.MULTILINE)
_PART = re.compile(r"^\[(Thinking|Tool call|Tool result)\][ \t]*(.*)$", re.MULTILINE)
_FOLDER = "agent-transcripts"


def is_lines(path: str, head: bytes) -> bool:
    """Whether a file is a transcript in JSONL: nothing but a role and a message on its lines."""
    lines = list(head_lines(head))
    return bool(lines) and all(line.keys() >= {"role", "message"} and "type" not in line for line in lines[:3])


def is_text(path: str, head: bytes) -> bool:
    """Whether a file is a transcript in plain text."""
    return path.endswith(".txt") and _TURN.match(head) is not None and (_FOLDER in path or b"<user_query>" in head)


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
                conversation=name, raw=b"", key=before, id=id, message=_message(turn[1].decode(), said), parent=parent,
                created_at=when(item.modified),
            )  # fmt: skip
            parent = id

    return read_document(item, read)


def _name(item: Item) -> str:
    """The name of the conversation; not that of the conversation whose transcript it is, as it has other messages."""
    return f"transcript {os.path.basename(item.member or item.path).rpartition('.')[0]}"


def _message(role: str, text: str) -> Message:
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
