"""The files that a conversation changed and the checkpoints to go back to: beside it, and on a page of their own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from time import thread_time
from typing import Any, NamedTuple

from clew.base.visible import plain
from clew.checkpoints import Checkpoints
from clew.errors import ClewError
from clew.exports.render.text import PAGE
from clew.store.session import Session
from clew.store.windows import window
from clew.turns.diff import counts
from clew.turns.faces import changed_files as files_of
from clew.turns.model import Entry, entry
from clew.turns.words import relative
from clew.web.outline import url, window_start
from clew.web.views import ago

SCANNED = 5_000
"""Messages that one page of changes covers."""
SECONDS = 1.0
"""Processor time for one page: hostile texts take long to compare. The next page continues where it ended."""
STEP = 500
"""Messages that are read at a time."""
LINKS = 12
"""Messages that are linked for each file, the newest ones."""


class ChangedFile(NamedTuple):
    """A file that tool calls changed, with the lines added and removed and the messages that changed it."""

    path: str
    added: int
    removed: int
    messages: list[int]


class FileChanges(NamedTuple):
    """The files that some messages of a conversation changed."""

    files: list[ChangedFile]
    first: int
    last: int
    total: int
    following: int | None
    """Where the next page begins."""


class CheckpointRow(NamedTuple):
    """A checkpoint of the working files, taken before the message after `message`."""

    message: str
    files: list[str]
    when: str
    moment: str


def changed_files(entries: Iterable[Entry], project: str | None = None) -> list[ChangedFile]:
    """Files that the tool calls changed, in the order of their first change, with paths relative to the project."""
    found: dict[str, ChangedFile] = {}
    for one in entries:
        for call in one.calls:
            for name, lines in files_of(call, PAGE.read).items():
                path, (added, removed) = relative(name, project), counts(lines)
                before = found.get(path) or ChangedFile(path, 0, 0, [])
                messages = [*before.messages, *([one.number] if one.number not in before.messages[-1:] else [])]
                found[path] = ChangedFile(path, before.added + added, before.removed + removed, messages)
    return list(found.values())


def file_changes(session: Session, first: int, *, head: str | None = None) -> FileChanges:
    """The changes of the messages from number `first` on, a page of them. NotFound."""
    total, until = window(session, 1, 0, head=head).total, thread_time() + SECONDS
    end, last = min(first + SCANNED - 1, total), first - 1

    def read() -> Iterator[Entry]:
        nonlocal last
        for start in range(first, end + 1, STEP):
            for node in window(session, start, min(start + STEP - 1, end), head=head).nodes:
                if last >= first and thread_time() > until:
                    return
                last += 1
                yield entry(node)

    files = changed_files(read(), session.cwd)
    return FileChanges(files, first, last, total, last + 1 if last < total else None)


def links(session: Session, one: ChangedFile, head: str | None) -> list[tuple[int, str]]:
    """The newest messages that changed a file, with their URLs."""
    return [(number, change_url(session, number, head)) for number in one.messages[-LINKS:]]


def change_url(session: Session, number: int, head: str | None) -> str:
    """The URL of a message in its window."""
    return url(session, head=head, start=window_start(number), anchor=f"m{number}")


def checkpoints(session: Session, now: datetime) -> list[CheckpointRow]:
    """The checkpoints of the working files, newest first; none if the folder is not on this machine."""
    remote = ("//", "\\\\")  # a name that was imported must not make Windows connect to a server
    if not session.cwd or session.cwd.startswith(remote) or not os.path.isdir(session.cwd):
        return []
    try:
        found = Checkpoints(session, session.cwd).list()
    except ClewError:
        return []
    return [
        CheckpointRow(one.message, sorted(one.states), ago(one.created_at, now), one.created_at.isoformat())
        for one in reversed(found)
        if one.rewound_to is None
    ]


def changes_value(found: FileChanges, rows: Iterable[CheckpointRow]) -> dict[str, Any]:
    """Changes and checkpoints as JSON."""
    return {
        "files": [one._asdict() for one in found.files],
        "from": found.first,
        "to": found.last,
        "total": found.total,
        "next": found.following,
        "checkpoints": [{"message": row.message, "files": row.files, "created_at": row.moment} for row in rows],
    }


def changes_lines(found: FileChanges, rows: Iterable[CheckpointRow]) -> Iterator[str]:
    """Changes and checkpoints as Markdown."""
    yield f"Messages {found.first} to {found.last} of {found.total}"
    yield ""
    for one in found.files:
        numbers = ", ".join(f"#{number}" for number in one.messages)
        yield f"- {plain(one.path)} +{one.added} -{one.removed} ({numbers})"
    for row in rows:
        yield f"- checkpoint after {row.message}: {', '.join(map(plain, row.files))}"
