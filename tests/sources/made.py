"""Small histories, written line by line as each program writes them."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import clew
from clew.base.messages import Message
from clew.providers.neutral import neutral
from clew.sources.contract import About, Entry, Part, Skip, Source
from clew.sources.documents import FRAME, unframe
from clew.sources.importer import import_item
from clew.sources.items import Item


def an_id(number: int) -> str:
    return str(uuid.UUID(int=0x0123456789AB4DEF8123456789000000 + number))


SESSION = an_id(999)


def claude_line(number: int, parent: int | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A line of Claude Code; numbers stand for uuids."""
    message = {"role": role, "content": content, **more.pop("message", {})}
    return {
        "parentUuid": None if parent is None else an_id(parent),
        "isSidechain": False,
        "userType": "external",
        "cwd": "/src/app",
        "sessionId": SESSION,
        "version": "2.1.325",
        "gitBranch": "main",
        "type": role,
        "message": message,
        "uuid": an_id(number),
        "timestamp": f"2026-11-01T10:00:{number % 60:02}.000Z",
        **more,
    }


def jsonl(lines: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def read(source: Source, data: bytes, path: str = f"projects/p/{SESSION}.jsonl") -> list[Part]:
    """What a source reads in these bytes, in a file of that name."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
        return list(source.read(Item(str(file), len(data), 0)))


def titles(source: Source, data: bytes, path: str = f"projects/p/{SESSION}.jsonl") -> list[str | None]:
    """The titles of the conversations in these bytes, once they are imported."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        with clew.open(Path(folder) / "store.db") as store:
            import_item(store, source, Item(str(file), len(data), 0))
            return [session.title for session in store.sessions.list()]


def entries(parts: Iterable[Part]) -> list[Entry]:
    return [part for part in parts if isinstance(part, Entry)]


def document_of(parts: Iterable[Part]) -> bytes:
    """The document that the frame of a conversation and its messages give."""
    found = entries(parts)
    bodies = {entry.id: entry.raw for entry in found}
    (framed,) = (entry.raw for entry in found if entry.key == FRAME)
    return unframe(framed, lambda name, _: bodies[name])


def messages(parts: Iterable[Part]) -> dict[str, Entry]:
    return {part.id: part for part in parts if isinstance(part, Entry) and part.id is not None}


def skips(parts: Iterable[Part]) -> list[Skip]:
    return [part for part in parts if isinstance(part, Skip)]


def about(parts: Iterable[Part], name: str) -> list[Any]:
    """The values that a fact takes, in order."""
    return [value for part in parts if isinstance(part, About) and (value := getattr(part, name)) is not None]


def view(entry: Entry) -> Message:
    """A message in clew's own form."""
    assert entry.message is not None
    return neutral(entry.message)


def path(found: dict[str, Entry], leaf: str) -> list[str]:
    """The ids from the root to a leaf."""
    way: list[str] = []
    at: str | None = leaf
    while at is not None:
        way.append(at)
        at = found[at].parent
    return way[::-1]


REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"
RULE = '<explicit_instructions type="rule">\nBe brief.\n</explicit_instructions>'


def wrapped_prompts(folder: Path, prompt: str, *, first: int = 0) -> dict[str, Path]:
    """Histories whose first message has text of the program around the prompt, by form."""
    claude = {
        "before": f"{REMINDER}\n{prompt}",
        "after": f"{prompt}\n{REMINDER}",
        "one line": f"{prompt}<tick>1</tick>",
    }
    found = dict[str, Path]()
    for number, (form, text) in enumerate(claude.items(), 10 * first):
        session = an_id(700 + number)
        found[f"claude-code {form}"] = path = folder / "projects" / "p" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        asked = claude_line(800 + 2 * number, None, "user", text, sessionId=session)
        path.write_bytes(
            jsonl([asked, claude_line(801 + 2 * number, 800 + 2 * number, "assistant", "Yes", sessionId=session)])
        )
    for form, text in (("lines", f"{RULE}\n{prompt}"), ("task", f"{RULE}<task>{prompt}</task>")):
        found[f"cline {form}"] = path = folder / "tasks" / f"{form}{first}" / "api_conversation_history.json"
        path.parent.mkdir(parents=True)
        talk = [{"role": "user", "content": [{"type": "text", "text": text}]}, {"role": "assistant", "content": "Yes"}]
        path.write_text(json.dumps(talk))
    return found
