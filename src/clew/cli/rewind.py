"""`clew rewind | undo`: a conversation goes back to a message, and so do the files; and forward again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

import clew
from clew.checkpoints import Mode, Rewound
from clew.checkpoints.lines import Count
from clew.checkpoints.wire import shown
from clew.cli.ask import agrees, can_ask
from clew.cli.forms import Form, json_options, out_value, session_json
from clew.cli.outcomes import undone
from clew.cli.place import existing, store_option
from clew.cli.text import many, out, plain, warn
from clew.cli.workfiles import (
    checkpoints_of,
    line_of,
    pair,
    planned_lines,
    root_option,
    session_of,
    staying,
    summary,
    told,
)
from clew.errors import NotFound

dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
force_option = click.option("--force", is_flag=True, help="Also files that someone else has changed since.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command(
    short_help="Go back to a message: the conversation, the files, or both.",
    epilog="\b\nExamples:\n  clew rewind k3m9qa 7dq2xe\n  clew rewind 7dq2xe --files --dry-run\n"
    "  clew rewind 7dq2xe --both --yes\n  clew undo",
)
@click.argument("names", nargs=-1, required=True, metavar="[SESSION] MESSAGE")
@click.option("--files", "mode", flag_value="files", help="The files alone.")
@click.option("--conversation", "mode", flag_value="conversation", help="The conversation alone; the default.")
@click.option("--both", "mode", flag_value="both", help="The conversation and the files.")
@dry_run_option
@force_option
@yes_option
@root_option
@json_options
@store_option
@click.pass_context
def rewind(
    ctx: click.Context,
    names: tuple[str, ...],
    mode: Mode | None,
    dry_run: bool,
    force: bool,
    yes: bool,
    root: str | None,
    form: Form,
) -> None:
    """Makes MESSAGE the last one of a session: of SESSION, or of the last one of this directory.

    What came after it stays in the tree, as a branch. With --files or --both the files that were checkpointed go back
    to what they were when it was said; what they are now is kept first. 'clew undo' takes a rewind back.
    """
    typed, message = pair(names)
    with existing() as store:
        session = session_of(store, typed)
        if mode in (None, "conversation"):
            _conversation(store, session, message, dry_run, root, form)
            return
        checkpoints = checkpoints_of(session, root)
        if not dry_run and not yes and can_ask():
            planned = checkpoints.rewind(message, dry_run=True, mode=mode, force=force)
            lines = {shown(one.path): line_of(one) for one in checkpoints.diff(message)} if planned.can_rewind else {}
            if planned.can_rewind and not _agreed(planned, lines):
                ctx.exit(1)
        done = checkpoints.rewind(message, dry_run=dry_run, mode=mode, force=force)
        ctx.exit(told(done, form, lambda: _sentence(done, session)))


@click.command(
    short_help="Take back the last rewind.",
    epilog="\b\nExamples:\n  clew undo\n  clew undo --steps 2\n  clew undo k3m9qa --dry-run",
)
@click.argument("session", required=False)
@click.option(
    "--steps", type=click.IntRange(min=1), default=1, show_default=True, help="How many rewinds to take back."
)
@dry_run_option
@force_option
@yes_option
@root_option
@json_options
@store_option
@click.pass_context
def undo(
    ctx: click.Context,
    session: str | None,
    steps: int,
    dry_run: bool,
    force: bool,
    yes: bool,
    root: str | None,
    form: Form,
) -> None:
    """Takes back the last rewind of SESSION, or of the last one of this directory: files and conversation.

    Each undo goes back by one more rewind. To redo a rewind, rewind again. To take back an undo, rewind to the id that
    'clew checkpoint ls' lists for it.
    """
    with existing() as store:
        found = session_of(store, session)
        checkpoints = checkpoints_of(found, root)
        if not dry_run and not yes and can_ask():
            planned = checkpoints.undo(steps=steps, dry_run=True, force=force)
            if planned.can_rewind and not _agreed(planned, {}):
                ctx.exit(1)
        done = checkpoints.undo(steps=steps, dry_run=dry_run, force=force)
        ctx.exit(told(done, form, lambda: _sentence(done, found)))


def _agreed(planned: Rewound, lines: Mapping[str, str]) -> bool:
    """Shows what would change, by its line if there is one, and asks."""
    for line in (*planned_lines(planned, lambda path: lines.get(path, plain(path))), *staying(planned)):
        warn(line)
    warn(summary(len(planned.files_changed), Count(planned.insertions, planned.deletions)))
    return agrees("Change these files?")


def _sentence(done: Rewound, session: clew.Session) -> str:
    counted = summary(len(done.files_changed), Count(done.insertions, done.deletions))
    if done.dry_run:
        deleting = f" and delete {many(len(done.removed), 'file')} of them" if done.removed else ""
        return f"would change {counted}{deleting}"
    if done.undo is None:
        return f"session {session.handle}: everything is as it was then"
    return f"session {session.handle}: {counted}; 'clew undo' takes it back"


def _conversation(
    store: clew.Store, session: clew.Session, message: str, dry_run: bool, root: str | None, form: Form
) -> None:
    target, before = store.nodes.resolve(message), session.head_id
    if dry_run:
        left = len(session.path()) - len(session.path(until=target))
        warn(f"would leave {many(left, 'message')} behind, as a branch")
        if form != "text":
            out_value(undone(store, lambda: _gone_back(session, target)), form)
        return
    if before != target:
        _go_back(session, target, root)
    if form != "text":
        out_value(session_json(session), form)
        return
    out(session.id)
    if before == target or before is None:
        warn(f"session {session.handle} is there already")
    else:
        tip = store.nodes.handles([before])[0]
        warn(f"session {session.handle} is back at {plain(message)}; what it left ends at {tip}")


def _gone_back(session: clew.Session, target: str) -> dict[str, Any]:
    session.rewind(to=target)
    return session_json(session)


def _go_back(session: clew.Session, target: str, root: str | None) -> None:
    """By way of the checkpoints where there is a folder for them: then it can be undone by name."""
    if not os.path.isdir(root or session.cwd or ""):
        session.rewind(to=target)
    elif not checkpoints_of(session, root).rewind(target, mode="conversation").can_rewind:
        raise NotFound("node", target, hint=f"It is not among the messages of session {session.id}.")
