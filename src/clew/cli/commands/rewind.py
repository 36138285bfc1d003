"""`clew rewind | undo`: rewinds a conversation and its files to a message, and undoes that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

import clew
from clew.base.visible import many, plain
from clew.checkpoints import Mode, Rewound
from clew.checkpoints.diff import LineCount
from clew.checkpoints.serial import display_path
from clew.cli.options import dry_run_option, examples, yes_option
from clew.cli.output.json import Form, json_options, out_value, session_json
from clew.cli.output.outcomes import roll_back
from clew.cli.output.text import clip, out, warn
from clew.cli.output.tree_layout import snippet
from clew.cli.output.working_files import (
    checkpoints_of,
    line_of,
    pair,
    planned_lines,
    report_rewind,
    root_option,
    summary,
    untouched_lines,
)
from clew.cli.setup.ask import can_ask, confirm
from clew.cli.setup.find import find_session, message_id
from clew.cli.setup.open_store import open_existing, store_option
from clew.errors import NotFound
from clew.store.origin import name_of
from clew.turns.model import entry

force_option = click.option(
    "--force", is_flag=True, help="Overwrite files that others changed since, or that imported checkpoints change."
)


@click.command(
    epilog=examples(
        "clew rewind k3m9qa 7dq2xe", "clew rewind 7dq2xe --files --dry-run", "clew rewind 7dq2xe --both --yes"
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="[CONVERSATION] MESSAGE")
@click.option("--files", "mode", flag_value="files", help="Rewind only the files.")
@click.option("--conversation", "mode", flag_value="conversation", help="Rewind only the conversation (default).")
@click.option("--both", "mode", flag_value="both", help="Rewind the conversation and the files.")
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
    """Go back to MESSAGE: make it the last message of the conversation. Undo this with 'clew undo'.

    Later messages are kept as a branch. With --files or --both, restores the checkpointed files to their state at
    MESSAGE, after saving their current state. Without CONVERSATION, uses the latest conversation of this directory.
    """
    typed, message = pair(names)
    with open_existing() as store:
        session, message = find_session(store, typed), message_id(store, message)
        if mode in (None, "conversation"):
            _conversation(store, session, message, dry_run, root, form)
            return
        checkpoints = checkpoints_of(session, root)
        if not dry_run and not yes:
            planned = checkpoints.rewind(message, dry_run=True, mode=mode, force=force)
            if planned.imported and planned.can_rewind and not can_ask():
                raise clew.Invalid(_imported(checkpoints.root), hint="Look at it with --dry-run, then use --yes.")
            lines = (
                {display_path(one.path): line_of(one) for one in checkpoints.diff(message)}
                if planned.can_rewind and can_ask()
                else {}
            )
            if planned.imported:
                warn(_imported(checkpoints.root))
            if can_ask() and planned.can_rewind and not _confirm(planned, lines):
                ctx.exit(1)
        done = checkpoints.rewind(message, dry_run=dry_run, mode=mode, force=force)
        if done.imported and (dry_run or yes):
            warn(_imported(checkpoints.root))
        ctx.exit(report_rewind(done, form, lambda: _sentence(done, session)))


@click.command(epilog=examples("clew undo", "clew undo --steps 2", "clew undo k3m9qa --dry-run"))
@click.argument("session", required=False, metavar="[CONVERSATION]")
@click.option("--steps", type=click.IntRange(min=1), default=1, show_default=True, help="Number of rewinds to undo.")
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
    """Undo the last rewind of the conversation and its files.

    Run it again to undo the rewind before that. To redo a rewind, rewind again. To revert an undo of files, rewind
    to the ID that 'clew checkpoint ls' shows for it. Without CONVERSATION, uses the latest conversation of this
    directory.
    """
    with open_existing() as store:
        found = find_session(store, session)
        checkpoints = checkpoints_of(found, root)
        if not dry_run and not yes and can_ask():
            planned = checkpoints.undo(steps=steps, dry_run=True, force=force)
            if planned.can_rewind and planned.files_changed and not _confirm(planned, {}):
                ctx.exit(1)
        done = checkpoints.undo(steps=steps, dry_run=dry_run, force=force)
        ctx.exit(report_rewind(done, form, lambda: _undone(done, found)))


def _imported(root: str) -> str:
    return f"these checkpoints were imported from another program's history; they are for files in {plain(root)}"


def _confirm(planned: Rewound, lines: Mapping[str, str]) -> bool:
    """Shows what would change, with `lines` for files, and asks."""
    for line in (*planned_lines(planned, lambda path: lines.get(path, plain(path))), *untouched_lines(planned)):
        warn(line)
    warn(summary(len(planned.files_changed), LineCount(planned.insertions, planned.deletions)))
    return confirm("Change these files?")


def _sentence(done: Rewound, session: clew.Session) -> str:
    counted = summary(len(done.files_changed), LineCount(done.insertions, done.deletions))
    if done.dry_run:
        deleting = f" and delete {many(len(done.removed), 'file')} of them" if done.removed else ""
        return f"would change {counted}{deleting}"
    if done.undo is None:
        return f"conversation {session.handle}: nothing to change"
    return f"conversation {session.handle}: {counted}; undo with: clew undo"


def _undone(done: Rewound, session: clew.Session) -> str:
    """What an undo changed, and where the conversation is now."""
    counted = summary(len(done.files_changed), LineCount(done.insertions, done.deletions))
    if done.dry_run:
        return f"would change {counted}" if done.files_changed else "would change no files, only the conversation"
    now = session.refresh()
    files = f"{counted}; " if done.files_changed else ""
    title = f" ({plain(clip(now.title, 40))})" if now.title else ""
    return f"{files}conversation {now.handle}{title} is back at {_where(now)}"


def _where(session: clew.Session) -> str:
    """The last message of a conversation: its handle, role and first words."""
    last = next(iter(session.path(last=1)), None)
    if last is None:
        return "its beginning, before the first message"
    message = entry(last).message
    words = "(damaged)" if message is None else plain(snippet(message))
    return f"{name_of(last)}, {last.role}: {words}"


def _conversation(
    store: clew.Store, session: clew.Session, message: str, dry_run: bool, root: str | None, form: Form
) -> None:
    target, before = store.nodes.resolve(message), session.head_id
    if dry_run:
        left = len(session.path()) - len(session.path(until=target))
        warn(f"would keep {many(left, 'message')} as a branch")
        if form != "text":
            out_value(roll_back(store, lambda: _rewind_json(session, target)), form)
        return
    if before != target:
        _rewind_session(session, target, root)
    if form != "text":
        out_value(session_json(session), form)
        return
    out(session.id)
    if before == target or before is None:
        warn(f"conversation {session.handle} is already there")
    else:
        end = store.nodes.handles([before])[0]
        warn(f"conversation {session.handle} rewound to {plain(message)}; the branch left behind ends at {end}")


def _rewind_json(session: clew.Session, target: str) -> dict[str, Any]:
    session.rewind(to=target)
    return session_json(session)


def _rewind_session(session: clew.Session, target: str, root: str | None) -> None:
    """Rewinds through the checkpoints if there is a folder for them, so that `clew undo` can undo it."""
    if not os.path.isdir(root or session.cwd or ""):
        session.rewind(to=target)
    elif not checkpoints_of(session, root).rewind(target, mode="conversation").can_rewind:
        raise NotFound("node", target, hint=f"It is not a message of conversation {session.id}.")
