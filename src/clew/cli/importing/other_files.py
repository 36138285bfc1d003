"""Files that are no other program's history: clew's own export, a folder of an agent runtime, a file of CPE."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import clew
from clew.base.outside import open_outside
from clew.base.visible import many, plain
from clew.cli.exits import PARTIAL
from clew.cli.importing.run_import import left_out
from clew.cli.output.json import Form, out_lines
from clew.cli.output.progress import ProgressLine
from clew.cli.output.text import bold, dim, note, out_json, out_jsonl, warn
from clew.cli.setup.open_store import timeout_setting
from clew.store.store import trial

if TYPE_CHECKING:
    from clew.agents import ImportReport, SkippedFile


def from_export(store: clew.Store, path: str, dry_run: bool, again: bool, form: Form) -> int:
    """Imports clew's own JSONL and prints the result; returns the exit code."""
    from clew import exports

    total = os.path.getsize(path)
    with open_outside(path) as file, ProgressLine("Importing", in_bytes=True) as line:

        def restore(into: clew.Store) -> exports.Restored:
            return exports.restore(into, file, again=again, progress=lambda done: line(done, total))

        if dry_run:
            with trial(store) as copy:
                done = restore(copy)
        else:
            done = restore(store)
    if form == "text":
        verb = "would be imported" if dry_run else "imported"
        counts = f"{many(done.messages, 'new message')} in {many(done.sessions, 'new conversation')}"
        out_lines([f"{counts} {verb}{_stored_before(done.known)}"])
        if done.purged:
            note(left_out(done.purged))
        if not done.complete:
            warn(f"{bold('skipped')} {plain(path)}: the file was cut off; its end is missing")
    else:
        (out_json if form == "json" else lambda value: out_jsonl([value]))(done._asdict())
    return 0 if done.complete else PARTIAL


def from_runtime_folder(
    store: clew.Store, folder: str, unreadable: dict[str, str], dry_run: bool, again: bool, form: Form
) -> int:
    """Imports the sessions of an agent runtime and prints the result; returns the exit code.

    `unreadable` are paths below the folder that cannot be opened, with the reasons.
    """
    from clew import agents

    try:
        with agents.SessionStore(store) as sessions:
            done = agents.import_tree(sessions, folder, dry_run=dry_run, again=again)
    except clew.NotFound:
        if not unreadable:
            raise
        done = agents.ImportReport((), (), ())
    for path in unreadable.keys() - {one.path for one in done.skipped}:
        done = done._replace(skipped=(*done.skipped, agents.SkippedFile(path, None, unreadable[path])))
    if form == "text":
        out_lines(_lines(done, dry_run))
        if done.purged:
            note(left_out(done.purged))
        for one in done.skipped:
            warn(f"{bold('skipped')} {_where(one, folder)}: {plain(one.why)}")
    elif form == "json":
        out_json(_json(done))
    else:
        out_jsonl([{"session": one._asdict()} for one in done.sessions])
        out_jsonl([{"skipped": one._asdict()} for one in done.skipped])
    return PARTIAL if done.skipped else 0


def from_cpe_file(store: clew.Store, path: str, dry_run: bool, again: bool, form: Form) -> int:
    """Imports a CPE file and prints the result; returns the exit code."""
    from clew.agents import cpe

    done = cpe.import_file(store, path, dry_run=dry_run, again=again, timeout=timeout_setting())
    sessions, skipped = ([one._asdict() for one in many] for many in (done.sessions, done.skipped))
    if form == "json":
        out_json({"sessions": sessions, "skipped": skipped, "purged": done.purged})
    elif form == "jsonl":
        out_jsonl([*({"session": one} for one in sessions), *({"skipped": one} for one in skipped)])
    else:
        lines = [f"{one.id}  {many(one.messages, 'message')}{_stored_before(one.known)}" for one in done.sessions]
        out_lines([*lines, _summary(len(sessions), len(skipped), dry_run)])
        if done.purged:
            note(left_out(done.purged))
        for other in done.skipped:
            warn(f"{bold('skipped')} message {plain(other.id)}: {plain(other.why)}")
    return PARTIAL if skipped else 0


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
        "purged": done.purged,
    }
