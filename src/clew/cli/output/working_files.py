"""Shared by commands about working files: the session, the folder, and the display of changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import msgspec

import clew
from clew.base.visible import many, paragraphs, plain
from clew.checkpoints import Checkpoints, FileDiff, FileState, Rewound, unified
from clew.checkpoints.diff import LineCount, count
from clew.checkpoints.serial import display_path
from clew.cli.exits import FAILED, NOT_FOUND, say
from clew.cli.output.json import Form, out_value
from clew.cli.output.text import out, style, warn

root_option = click.option(
    "--root", metavar="PATH", help="Folder of the files.  [default: that of the conversation, or the current one]"
)


def pair(names: Sequence[str]) -> tuple[str | None, str]:
    """Splits the arguments into a session, or None, and a message."""
    if len(names) > 2:
        raise click.UsageError("expected [CONVERSATION] MESSAGE")
    return (names[0] if len(names) == 2 else None), names[-1]


def checkpoints_of(session: clew.Session, root: str | None) -> Checkpoints:
    """The checkpoints of a session."""
    return Checkpoints(session, root or session.cwd or os.getcwd(), home=os.path.expanduser("~"))


def summary(changed: int, counted: LineCount) -> str:
    """The size of a change, as in `git diff --stat`."""
    parts = [many(changed, "file")]
    if counted.insertions:
        parts.append(style(f"{many(counted.insertions, 'insertion')}(+)", "32"))
    if counted.deletions:
        parts.append(style(f"{many(counted.deletions, 'deletion')}(-)", "31"))
    return ", ".join(parts)


def line_of(one: FileDiff) -> str:
    """A changed file on one line: the kind of change, and the numbers of lines."""
    if one.new.kind == "missing":
        sign = style("-", "31")
    elif one.old.kind == "missing":
        sign = style("+", "32")
    else:
        sign = style("~", "33")
    added, removed = count(one.before or b"", one.after or b"")
    lines = [style(f"+{added}", "32")] * bool(added) + [style(f"-{removed}", "31")] * bool(removed)
    return " ".join([sign, plain(display_path(one.path)), *lines, *_other_changes(one.old, one.new)])


def _other_changes(old: FileState, new: FileState) -> list[str]:
    """Changes that a line diff does not show: kind and mode."""
    if old.kind != new.kind and "missing" not in (old.kind, new.kind):
        return [f"({old.kind} becomes {new.kind})"]
    if old.kind == new.kind == "file" and old.mode != new.mode:
        return [f"(mode {old.mode:03o} becomes {new.mode:03o})"]
    return []


def diff_lines(one: FileDiff) -> Iterator[str]:
    """A diff, in colour if wanted, with control characters escaped."""
    yield style(plain(f"diff {display_path(one.path)}"), "1")
    yield from _other_changes(one.old, one.new)
    for number, line in enumerate(unified(display_path(one.path), one.before, one.after)):
        text = " ".join(paragraphs(line))
        if number < 2 and line.startswith(("---", "+++")):
            yield style(text, "1")
        elif line.startswith("@@"):
            yield style(text, "36")
        else:
            yield style(text, {"+": "32", "-": "31"}[line[0]]) if line[:1] in ("+", "-") else text


def planned_lines(planned: Rewound, describe: Callable[[str], str] = plain) -> Iterator[str]:
    """The files that would be changed, and those that would be deleted."""
    changed = [path for path in planned.files_changed if path not in {*planned.removed}]
    for title, paths in (("Change:", changed), ("Delete:", planned.removed)):
        if paths:
            yield title
            yield from (f"  {describe(path)}" for path in paths)


def untouched_lines(done: Rewound) -> Iterator[str]:
    """The files and folders that a rewind leaves unchanged, and why."""
    if done.unseen:
        yield f"not in the checkpoint, left unchanged: {plain(', '.join(done.unseen))}"
    if done.kept:
        yield f"not empty, kept: {plain(', '.join(done.kept))}"


def _json(done: Rewound) -> dict[str, Any]:
    """A result as JSON, always with the fields about files."""
    fields: dict[str, Any] = msgspec.to_builtins(done)
    return {"filesChanged": (), "insertions": 0, "deletions": 0, **fields}


def report_rewind(done: Rewound, form: Form, sentence: Callable[[], str]) -> int:
    """Prints a result: paths or JSON to stdout, the rest to stderr. Returns the exit code."""
    if form != "text":
        out_value(_json(done), form)
    if not done.can_rewind:
        hint = "Use --force to overwrite them; 'clew undo' reverts it." if done.conflicts or done.skipped else ""
        code = NOT_FOUND if done.error == "checkpoint not found" else FAILED
        return say(done.error or "the files cannot be rewound", hint, code)
    if form == "text":
        for line in planned_lines(done) if done.dry_run else map(plain, done.files_changed):
            out(line)
        warn(sentence())
    for line in untouched_lines(done):
        warn(line)
    return 0 if done.error is None else say(done.error, "Check these files, then rewind again.", FAILED)
