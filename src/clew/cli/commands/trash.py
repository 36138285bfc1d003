"""`clew rm | trash | hold`: the trash, and holds that protect from deletion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

import clew
from clew.base.visible import plain
from clew.cli.commands.ls import Filter, cursor_option, everything_option, limit_option, list_sessions
from clew.cli.options import Group, dry_run_option, examples
from clew.cli.output.json import Form, json_options, session_json
from clew.cli.output.outcomes import Success, for_each, report_outcomes, roll_back
from clew.cli.output.text import clip
from clew.cli.setup.find import act_on, find_trashed
from clew.cli.setup.open_store import open_existing, store_option

_sessions = click.argument("sessions", nargs=-1, required=True, metavar="CONVERSATION...")


@click.command(epilog=examples("clew rm k3m9qa", "clew rm --dry-run k3m9qa q8r2vt", "clew trash ls"))
@_sessions
@dry_run_option
@json_options
@store_option
@click.pass_context
def rm(ctx: click.Context, sessions: tuple[str, ...], dry_run: bool, form: Form) -> None:
    """Move each CONVERSATION to the trash, with its branches and subagents. Restore it with 'clew trash restore'.

    Conversations in the trash cannot be listed, found or resumed. Messages shared with a fork are kept in the fork.
    Exit code 8 if only some were moved.
    """
    ending = (
        "would be moved to the trash" if dry_run else "moved to the trash; restore with: clew trash restore {handle}"
    )
    with open_existing() as store:
        done = for_each(sessions, _action(act_on(store, store.sessions.trash), ending))
        ctx.exit(report_outcomes(roll_back(store, lambda: list(done)) if dry_run else done, form))


@click.group(cls=Group, default="ls", epilog=examples("clew trash ls", "clew trash restore k3m9qa"))
def trash() -> None:
    """List the trash, and restore conversations from it.

    'clew rm' moves conversations there, and 'clew purge --trash' deletes them permanently.
    """


@trash.command("ls", epilog=examples("clew trash ls", "clew trash ls --all --jsonl | jq -r .id"))
@limit_option
@everything_option
@cursor_option
@json_options
@store_option
@click.pass_context
def ls_(ctx: click.Context, limit: int, everything: bool, cursor: str | None, form: Form) -> None:
    """List the trash, most recently deleted first."""
    ctx.exit(list_sessions(Filter(1000 if everything else limit, cursor, trash=True), form, everything=everything))


@trash.command(epilog=examples("clew trash restore k3m9qa"))
@_sessions
@json_options
@store_option
@click.pass_context
def restore(ctx: click.Context, sessions: tuple[str, ...], form: Form) -> None:
    """Restore each CONVERSATION from the trash, with its branches and subagents.

    Exit code 8 if only some were restored.
    """
    with open_existing() as store:
        act = _action(lambda typed: store.sessions.restore(find_trashed(store, typed)), "restored")
        ctx.exit(report_outcomes(for_each(sessions, act), form))


@click.group(cls=Group, epilog=examples("clew hold add k3m9qa", "clew hold release k3m9qa"))
def hold() -> None:
    """Protect conversations from deletion, until their holds are removed."""


@hold.command(epilog=examples("clew hold add k3m9qa", 'clew hold add k3m9qa q8r2vt --reason "Audit of May"'))
@_sessions
@click.option("--reason", metavar="TEXT", help="The reason to store with the hold.")
@json_options
@store_option
@click.pass_context
def add(ctx: click.Context, sessions: tuple[str, ...], reason: str | None, form: Form) -> None:
    """Protect each CONVERSATION and its messages from deletion. It can still be continued.

    Remove the hold with 'clew hold release'. Exit code 8 if only some could be held.
    """
    with open_existing() as store:
        act = act_on(store, partial(store.sessions.hold, reason=reason))
        ending = "on hold; release with: clew hold release {handle}"
        ctx.exit(report_outcomes(for_each(sessions, _action(act, ending)), form))


@hold.command(epilog=examples("clew hold release k3m9qa"))
@_sessions
@json_options
@store_option
@click.pass_context
def release(ctx: click.Context, sessions: tuple[str, ...], form: Form) -> None:
    """Remove the hold from each CONVERSATION. Exit code 8 if only some could be released."""
    with open_existing() as store:
        done = for_each(sessions, _action(act_on(store, store.sessions.release), "released"))
        ctx.exit(report_outcomes(done, form))


def _action(act: Callable[[str], clew.Session], ending: str) -> Callable[[str], Success]:
    """Wraps `act` to return a Success; `ending` completes its sentence and may contain {handle}."""

    def do(asked: str) -> Success:
        session = act(asked)
        title = f" ({plain(clip(session.title, 40))})" if session.title else ""
        sentence = f"conversation {session.handle}{title} {ending.format(handle=session.handle)}"
        return Success(session.id, sentence, {"session": _json(session)})

    return do


def _json(session: clew.Session) -> dict[str, Any]:
    try:
        return session_json(session)
    except clew.Corrupted as error:  # the action itself succeeded
        return {"id": session.id, "handle": session.handle, "damaged": error.why}
