"""`clew import`: imports sessions from files into the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import clew
from clew.base.visible import plain
from clew.cli.exits import PARTIAL
from clew.cli.options import dry_run_option, examples
from clew.cli.output.json import Form, json_options, out_lines
from clew.cli.output.text import bold, dim, many, out_json, out_jsonl, warn
from clew.cli.setup.open_store import open_for_reading, open_or_create, store_option

if TYPE_CHECKING:
    from clew.agents import ImportReport, SkippedFile
    from clew.sources.registry import Found


@click.command(
    name="import",
    epilog=examples(
        "clew import ~/.claude/projects",
        "clew import chatgpt-export.zip --dry-run",
        "clew import ~/agent/projects --dry-run",
        "clew import ~/agent/projects/1f3a",
        "clew import .cpeconvo",
        more="FOLDER contains {project}/sessions/{id}/ with metadata.json, messages.jsonl and transcript.jsonl,\n"
        "and {project}/memory/summary.md; it can be any level of this structure. FILE is a .cpeconvo file\n"
        "of CPE; to read one without importing it, use 'clew --db .cpeconvo ls'.",
    ),
)
@click.argument("folder", metavar="FOLDER|FILE", type=click.Path())
@dry_run_option
@json_options
@store_option
@click.pass_context
def import_(ctx: click.Context, folder: str, dry_run: bool, form: Form) -> None:
    """Import all conversations below FOLDER, or in FILE. Messages already stored do not change.

    Logs of Claude Code and exports of ChatGPT and Claude.ai, also in a zip archive, are recognised by their content.
    From a folder of an agent runtime, each conversation is imported with its messages,
    transcript and file checkpoints.

    Unreadable parts are skipped and listed on stderr; the exit code is then 8. A conversation of a few megabytes is
    imported completely or not at all, a larger one in parts; if interrupted, run the same command again. Other programs
    can write meanwhile; during --dry-run they wait only on a server, or if attachments are in object storage.
    """
    from clew import agents
    from clew.sources.registry import find

    found = [one for one in find([folder]) if one.source is not None]
    if found:
        ctx.exit(_from_histories(found, dry_run, form))
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


def _from_histories(found: list[Found], dry_run: bool, form: Form) -> int:
    """Imports files of other programs and prints the result of each; returns the exit code."""
    from clew.sources.run import run

    with _store(dry_run) as store:
        done = list(run(store, found, dry_run=dry_run))
    skipped = any(one.skipped for one in done)
    rows = [{**one._asdict(), "conversations": [each._asdict() for each in one.conversations]} for one in done]
    if form == "json":
        out_json({"files": rows})
    elif form == "jsonl":
        out_jsonl(rows)
    else:
        for one in done:
            for why in one.skipped:
                warn(f"{bold('skipped')} {plain(one.path)}: {plain(why)}")
        conversations = sum(len(one.conversations) for one in done)
        unchanged = sum(one.state == "unchanged" for one in done)
        verb = "would be imported" if dry_run else "imported"
        new = sum(one.messages for one in done)
        out_lines([
            f"{many(new, 'new message')} in {many(conversations, 'conversation')} {verb}"
            + (f"; {many(unchanged, 'file')} unchanged" if unchanged else "")
        ])  # fmt: skip
    return PARTIAL if skipped else 0


def _from_file(path: str, dry_run: bool, form: Form) -> int:
    """Imports a CPE file and prints the result; returns the exit code."""
    from clew.agents import cpe

    with _store(dry_run) as store:
        done = cpe.import_file(store, path, dry_run=dry_run)
    sessions, skipped = ([one._asdict() for one in many] for many in done)
    if form == "json":
        out_json({"sessions": sessions, "skipped": skipped})
    elif form == "jsonl":
        out_jsonl([*({"session": one} for one in sessions), *({"skipped": one} for one in skipped)])
    else:
        lines = [f"{one.id}  {many(one.messages, 'message')}{_stored_before(one.known)}" for one in done.sessions]
        out_lines([*lines, _summary(len(sessions), len(skipped), dry_run)])
        for other in done.skipped:
            warn(f"{bold('skipped')} message {plain(other.id)}: {plain(other.why)}")
    return PARTIAL if skipped else 0


def _store(dry_run: bool) -> clew.Store:
    """The store; a dry run does not create one, and uses an empty store instead."""
    if not dry_run:
        return open_or_create()
    try:
        return open_for_reading()
    except clew.NotFound:
        return clew.open(":memory:")


def _lines(done: ImportReport, dry_run: bool) -> Iterator[str]:
    for one in done.sessions:
        checkpoints = f"  {many(one.checkpoints, 'checkpoint')}" if one.checkpoints else ""
        counts = f"{many(one.messages, 'message')}  {many(one.events, 'event')}{checkpoints}"
        yield f"{one.id}  {counts}{_stored_before(one.known)}"
    for project in done.memories:
        yield f"memory of project {plain(project)}"
    yield _summary(len(done.sessions), len(done.skipped), dry_run)


def _stored_before(count: int) -> str:
    return f"  {dim(f'{count:,} already stored')}" if count else ""


def _summary(count: int, skipped: int, dry_run: bool) -> str:
    verb = "would be imported" if dry_run else "imported"
    return dim(f"{many(count, 'conversation')} {verb}, {many(skipped, 'item')} skipped")


def _where(one: SkippedFile, root: str) -> str:
    name = plain(os.path.relpath(one.path, root)) if os.path.isabs(one.path) else plain(one.path)
    return name if one.line is None else f"{name}, line {one.line}"


def _json(done: ImportReport) -> dict[str, Any]:
    return {
        "sessions": [one._asdict() for one in done.sessions],
        "memories": list(done.memories),
        "skipped": [one._asdict() for one in done.skipped],
    }
