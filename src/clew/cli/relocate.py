"""`clew relocate`: a project that has moved keeps its history."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import click

import clew
from clew.cli.forms import Form, json_options, out_lines
from clew.cli.place import existing, store_option
from clew.cli.text import dim, many, out_json, out_jsonl, plain, warn
from clew.paging import every

PAGE = 500


@click.command(
    short_help="Follow a project that has moved.",
    epilog="\b\nExamples:\n  mv ~/src/app ~/work/app && clew relocate ~/src/app ~/work/app\n"
    "  clew relocate /src/app /work/app --dry-run",
)
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Say which would change, and change nothing.")
@json_options
@store_option
def relocate(old: str, new: str, dry_run: bool, form: Form) -> None:
    """Gives every session of the directory OLD, and of those below it, its place in NEW; all of them, or none.

    When they were last active stays as it is; checkpoints, and what an agent remembers of the project, come along.
    What is in the trash stays where it was.
    """
    before, after = os.path.abspath(old), os.path.abspath(new)
    if before == after:
        raise click.UsageError("OLD and NEW are the same directory")
    with existing() as store:
        moved = _move(store, before, after, dry_run)
        if not moved:
            raise clew.NotFound("session of", before, hint="'clew ls --all' shows the directories of all.")
    if form == "json":
        out_json({"sessions": moved})
    elif form == "jsonl":
        out_jsonl(moved)
    else:
        out_lines(f"{one['id']}  {plain(one['cwd'])}" for one in moved)
        verb = "would be" if dry_run else "is" if len(moved) == 1 else "are"
        warn(dim(f"{many(len(moved), 'session')} {verb} in {plain(after)} now"))
        if not os.path.isdir(after):
            warn(f"clew: there is no directory {plain(after)} here")


def _move(store: clew.Store, old: str, new: str, dry_run: bool) -> list[dict[str, str]]:
    """Moves sessions and memories in one transaction. Returns each session with its new directory."""
    from clew.agents import SessionStore, project_hash

    moved, places = [], dict[str, str]()
    with store.transaction():
        for session in _all(store):
            was = session.cwd
            if was is None or not (was == old or was.startswith(old.rstrip(os.sep) + os.sep)):
                continue
            cwd = os.path.normpath(os.path.join(new, os.path.relpath(was, old)))
            moved.append({"id": session.id, "cwd": cwd})
            places[was] = cwd
            if not dry_run:
                extra = session.extra
                if extra.get("project_hash") == project_hash(was):
                    extra["project_hash"] = project_hash(cwd)
                session.relocate(old, new).update(extra=extra or None)
        if not dry_run:
            agents = SessionStore(store)
            for was, cwd in places.items():
                text = agents.memory(was).read()
                if text and not agents.memory(cwd).read():
                    agents.memory(cwd).write(text)
                    agents.memory(was).write("")
    return moved


def _all(store: clew.Store) -> Iterator[clew.Session]:
    """Every session and every trace, also those whose retention has ended."""
    for subagents in (False, True):
        yield from every(partial(store.sessions.list, limit=PAGE, subagents=subagents, include_expired=True))
