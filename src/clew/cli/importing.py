"""`clew import`: sessions that are kept as files, into the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.cli.exits import PARTIAL
from clew.cli.forms import Form, json_options, out_lines
from clew.cli.place import reading, store_option, writing
from clew.cli.text import bold, dim, many, out_json, out_jsonl, plain, warn

if TYPE_CHECKING:
    from clew.agents import Imported, Skipped


@click.command(
    name="import",
    short_help="Read session files into the store.",
    epilog="\b\nExamples:\n  clew import ~/agent/projects --dry-run\n  clew import ~/agent/projects/1f3a\n"
    "  clew import .cpeconvo\n\n\b\n"
    "A folder holds sessions as {project}/sessions/{id}/ with metadata.json, messages.jsonl and\n"
    "transcript.jsonl, and {project}/memory/summary.md. Any folder on the way may be named.\n"
    "A file is a .cpeconvo of CPE's; 'clew --db .cpeconvo ls' looks at one where it is.",
)
@click.argument("folder", metavar="FOLDER|FILE", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Only say what would be imported.")
@json_options
@store_option
@click.pass_context
def import_(ctx: click.Context, folder: str, dry_run: bool, form: Form) -> None:
    """Imports every session below FOLDER, or every conversation of FILE. What is stored already stays as it is.

    Of a folder each session comes with its messages, its transcript and its checkpoints of files.

    What cannot be read is skipped, and named line by line on stderr; the exit code is then 8. Other
    writers do not wait for files that are read. A session of a few megabytes is imported whole or not at all, a larger
    one in parts; if an import is interrupted, repeat it. With --dry-run other writers wait until it is done.
    """
    from clew import agents

    if os.path.isfile(folder):
        ctx.exit(_from_file(folder, dry_run, form))
    with _store(dry_run) as store, agents.SessionStore(store) as sessions:
        done = agents.import_tree(sessions, folder, dry_run=dry_run)
    if form == "text":
        out_lines(_lines(done, dry_run))
        for one in done.skipped:
            warn(f"{bold('skipped')} {_where(one, folder)}: {plain(one.why)}")
    elif form == "json":
        out_json(_json(done))
    else:
        out_jsonl([{"session": one._asdict()} for one in done.sessions])
        out_jsonl([{"skipped": one._asdict()} for one in done.skipped])
    ctx.exit(PARTIAL if done.skipped else 0)


def _from_file(path: str, dry_run: bool, form: Form) -> int:
    """Imports a file of CPE's, and tells what became of it."""
    from clew import cpeconvo

    with _store(dry_run) as store:
        done = cpeconvo.import_file(store, path, dry_run=dry_run)
    sessions, skipped = ([one._asdict() for one in many] for many in done)
    if form == "json":
        out_json({"sessions": sessions, "skipped": skipped})
    elif form == "jsonl":
        out_jsonl([*({"session": one} for one in sessions), *({"skipped": one} for one in skipped)])
    else:
        lines = [f"{one.id}  {many(one.messages, 'message')}{_known(one.known)}" for one in done.sessions]
        out_lines([*lines, _summary(len(sessions), len(skipped), dry_run)])
        for other in done.skipped:
            warn(f"{bold('skipped')} message {plain(other.id)}: {plain(other.why)}")
    return PARTIAL if skipped else 0


def _store(dry_run: bool) -> clew.Store:
    """A look makes no store: one that is not there is taken for empty."""
    if not dry_run:
        return writing()
    try:
        return reading()
    except clew.NotFound:
        return clew.open(":memory:")


def _lines(done: Imported, dry_run: bool) -> Iterator[str]:
    for one in done.sessions:
        beside = f"  {many(one.checkpoints, 'checkpoint')}" if one.checkpoints else ""
        yield f"{one.id}  {many(one.messages, 'message')}  {many(one.events, 'event')}{beside}{_known(one.known)}"
    for project in done.memories:
        yield f"memory of {plain(project)}"
    yield _summary(len(done.sessions), len(done.skipped), dry_run)


def _known(count: int) -> str:
    return f"  {dim(f'{count:,} known')}" if count else ""


def _summary(count: int, skipped: int, dry_run: bool) -> str:
    verb = "would be imported" if dry_run else "imported"
    return dim(f"{many(count, 'session')} {verb}, {many(skipped, 'thing')} skipped")


def _where(one: Skipped, root: str) -> str:
    name = plain(os.path.relpath(one.path, root)) if os.path.isabs(one.path) else plain(one.path)
    return name if one.line is None else f"{name}, line {one.line}"


def _json(done: Imported) -> dict[str, Any]:
    return {
        "sessions": [one._asdict() for one in done.sessions],
        "memories": list(done.memories),
        "skipped": [one._asdict() for one in done.skipped],
    }
