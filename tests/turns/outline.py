"""What is shown, one line for each item, as a test can expect it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import clew
from clew.base.messages import AnyMessage, Media, Text
from clew.sources.contract import Source
from clew.sources.importer import import_item
from clew.sources.items import Item as File
from clew.sources.registry import rules_for
from clew.turns.derive import items
from clew.turns.faces import panels, summary
from clew.turns.model import (
    PLAIN,
    Entry,
    Item,
    ModelAnswer,
    ProgramNote,
    Said,
    ShowRules,
    Step,
    Thought,
    UserPrompt,
    entry,
)
from clew.turns.words import token_words


@contextmanager
def importing(source: Source, data: bytes, path: str) -> Iterator[list[list[Item]]]:
    """What is shown of each conversation in a file, while its store is open."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        with clew.open(Path(folder) / "store.db") as store:
            import_item(store, source, File(str(file), len(data), 0))
            yield [
                items(map(entry, session.history()), rules_for(session), project=session.cwd or "")
                for session in store.sessions.list()
            ]


def imported(source: Source, data: bytes, path: str) -> list[list[Item]]:
    """What is shown of each conversation in a file."""
    with importing(source, data, path) as found:
        return found


def entries(messages: Iterable[AnyMessage]) -> list[Entry]:
    """Stored messages."""
    with tempfile.TemporaryDirectory() as folder, clew.open(Path(folder) / "store.db") as store:
        session = store.sessions.create()
        for message in messages:
            session.append(message)
        return [entry(node) for node in session.path()]


def made(*messages: AnyMessage, rules: ShowRules = PLAIN, project: str = "") -> list[Item]:
    """What is shown of these messages."""
    return items(entries(messages), rules, project=project)


def outline(found: Iterable[Item]) -> list[str]:
    """Each item on a line."""
    return list(map(_line, found))


def steps(found: Iterable[Item]) -> list[Step]:
    """All steps."""
    return [step for item in found if isinstance(item, ModelAnswer) for step in item.steps]


def _line(item: Item) -> str:
    if isinstance(item, UserPrompt):
        return " ".join(["You:", repr(item.text), *_media(item.blocks), *map(_note, item.notes)])
    if isinstance(item, ProgramNote):
        return _note(item)
    parts = " | ".join(_part(part) for part in item.parts)
    used = ", ".join(token_words(item.usage))
    return f"AI: {parts}" + (f" [{used}]" if used else "") + (" (interrupted)" if item.interrupted else "")


def _note(note: ProgramNote) -> str:
    words = " ".join(note.text.split())
    return f"({note.kind}: {note.title}{f' / {words}' if words else ''})"


def _part(part: Any) -> str:
    if isinstance(part, Said):
        return " ".join([*(block.text for block in part.blocks if isinstance(block, Text)), *_media(part.blocks)])
    if isinstance(part, Thought):
        return f"thinking {part.block.text!r}"
    if isinstance(part, Step):
        shown = " ".join(type(panel).__name__ for panel in panels(part))
        notes = "".join(map(_note, part.notes))
        return f"{part.label}<{part.line}> {part.state}, {summary(part)}: {shown}{notes}".rstrip(": ")
    return f"unknown {part.block.kind}"


def _media(blocks: Sequence[object]) -> list[str]:
    return [f"<{block.mime_type}>" for block in blocks if isinstance(block, Media)]
