"""What commands about working files have in common: which session, which folder, and how a change is shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import msgspec

import clew
from clew.checkpoints import Checkpoints, FileDiff, Rewound, State, unified
from clew.checkpoints.lines import Count, count
from clew.checkpoints.wire import shown
from clew.cli.exits import FAILED, NOT_FOUND, say
from clew.cli.forms import Form, out_value
from clew.cli.text import many, out, paragraphs, plain, style, warn

root_option = click.option(
    "--root", metavar="PATH", help="The folder of the files.  [default: the session's, or the current one]"
)


def session_of(store: clew.Store, typed: str | None) -> clew.Session:
    """The session that was named, or the last one of this directory. NotFound."""
    return store.sessions.latest(os.getcwd()) if typed is None else store.sessions.get(typed)


def pair(names: Sequence[str]) -> tuple[str | None, str]:
    """A session, if one was named, and a message."""
    if len(names) > 2:
        raise click.UsageError("name a session and a message, or a message of the last session of this directory")
    return (names[0] if len(names) == 2 else None), names[-1]


def checkpoints_of(session: clew.Session, root: str | None) -> Checkpoints:
    """The checkpoints of a session's files."""
    return Checkpoints(session, root or session.cwd or os.getcwd())


def summary(changed: int, counted: Count) -> str:
    """How much changes, as a diff tells it."""
    parts = [many(changed, "file")]
    if counted.insertions:
        parts.append(style(f"{many(counted.insertions, 'insertion')}(+)", "32"))
    if counted.deletions:
        parts.append(style(f"{many(counted.deletions, 'deletion')}(-)", "31"))
    return ", ".join(parts)


def line_of(one: FileDiff) -> str:
    """A file that would change, on one line: what happens to it, and how many lines of it change."""
    if one.new.kind == "missing":
        sign = style("-", "31")
    elif one.old.kind == "missing":
        sign = style("+", "32")
    else:
        sign = style("~", "33")
    added, removed = count(one.before or b"", one.after or b"")
    lines = [style(f"+{added}", "32")] * bool(added) + [style(f"-{removed}", "31")] * bool(removed)
    return " ".join([sign, plain(shown(one.path)), *lines, *_beside(one.old, one.new)])


def _beside(old: State, new: State) -> list[str]:
    """What a diff of lines does not show."""
    if old.kind != new.kind and "missing" not in (old.kind, new.kind):
        return [f"({old.kind} becomes {new.kind})"]
    if old.kind == new.kind == "file" and old.mode != new.mode:
        return [f"(mode {old.mode:03o} becomes {new.mode:03o})"]
    return []


def diff_lines(one: FileDiff) -> Iterator[str]:
    """A diff to read, in colour where that is wanted; nothing in it commands the terminal."""
    yield style(plain(f"diff {shown(one.path)}"), "1")
    yield from _beside(one.old, one.new)
    for number, line in enumerate(unified(shown(one.path), one.before, one.after)):
        text = " ".join(paragraphs(line))
        if number < 2 and line.startswith(("---", "+++")):
            yield style(text, "1")
        elif line.startswith("@@"):
            yield style(text, "36")
        else:
            yield style(text, {"+": "32", "-": "31"}[line[0]]) if line[:1] in ("+", "-") else text


def planned_lines(planned: Rewound, shown_as: Callable[[str], str] = plain) -> Iterator[str]:
    """What would be changed, and apart from it what would be deleted."""
    changed = [path for path in planned.files_changed if path not in {*planned.removed}]
    for title, paths in (("Change:", changed), ("Delete:", planned.removed)):
        if paths:
            yield title
            yield from (f"  {shown_as(path)}" for path in paths)


def staying(done: Rewound) -> Iterator[str]:
    """What a rewind leaves as it is, and why."""
    if done.unseen:
        yield f"not seen by the checkpoint, left as is: {plain(', '.join(done.unseen))}"
    if done.kept:
        yield f"not empty, not removed: {plain(', '.join(done.kept))}"


def wire(done: Rewound) -> dict[str, Any]:
    """A result as JSON; what it says of files is there even if it is nothing."""
    said: dict[str, Any] = msgspec.to_builtins(done)
    return {"filesChanged": (), "insertions": 0, "deletions": 0, **said}


def told(done: Rewound, form: Form, sentence: Callable[[], str]) -> int:
    """A result: paths or JSON to stdout, the rest to stderr. Returns the exit code."""
    if form != "text":
        out_value(wire(done), form)
    if not done.can_rewind:
        hint = "--force does it all the same; 'clew undo' takes it back." if done.conflicts or done.skipped else ""
        return say(
            done.error or "it cannot be done", hint, NOT_FOUND if done.error == "checkpoint not found" else FAILED
        )
    if form == "text":
        for line in planned_lines(done) if done.dry_run else map(plain, done.files_changed):
            out(line)
        warn(sentence())
    for line in staying(done):
        warn(line)
    return 0 if done.error is None else say(done.error, "Look at them, then rewind again.", FAILED)
