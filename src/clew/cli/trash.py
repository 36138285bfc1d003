"""`clew rm | restore | hold | release`: sessions go to the trash and come back, or are kept from going."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

import clew
from clew.cli.forms import Form, json_options, session_json
from clew.cli.outcomes import Done, each, told, undone
from clew.cli.place import existing, store_option
from clew.cli.text import clip, plain

_sessions = click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")


@click.command(
    short_help="Put sessions in the trash.",
    epilog="\b\nExamples:\n  clew rm k3m9qa\n  clew rm --dry-run k3m9qa q8r2vt\n  clew ls --trash",
)
@_sessions
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@json_options
@store_option
@click.pass_context
def rm(ctx: click.Context, sessions: tuple[str, ...], dry_run: bool, form: Form) -> None:
    """Puts each SESSION in the trash, with its branches and subagents; 'clew restore' brings it back.

    What is in the trash is not listed, found or continued. Messages that a fork shares stay with the fork. Exit code 8
    if only some could go.
    """
    ending = "would go to the trash" if dry_run else "is in the trash; 'clew restore {handle}' brings it back"
    with existing() as store:
        done = each(sessions, _to(store.sessions.trash, ending))
        ctx.exit(told(undone(store, lambda: list(done)) if dry_run else done, form))


@click.command(
    short_help="Bring sessions back from the trash.",
    epilog="\b\nExamples:\n  clew ls --trash\n  clew restore k3m9qa",
)
@_sessions
@json_options
@store_option
@click.pass_context
def restore(ctx: click.Context, sessions: tuple[str, ...], form: Form) -> None:
    """Brings each SESSION back from the trash, with all that went there with it. Exit code 8 if only some came back."""
    with existing() as store:
        ctx.exit(told(each(sessions, _to(store.sessions.restore, "is back")), form))


@click.command(
    short_help="Keep sessions from being deleted.",
    epilog='\b\nExamples:\n  clew hold k3m9qa\n  clew hold k3m9qa q8r2vt --reason "Audit of May"',
)
@_sessions
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the session.")
@json_options
@store_option
@click.pass_context
def hold(ctx: click.Context, sessions: tuple[str, ...], reason: str | None, form: Form) -> None:
    """Keeps each SESSION, and all it has said, from being deleted or put in the trash. It can still be talked in.

    'clew release' ends the hold. Exit code 8 if only some could be held.
    """
    with existing() as store:
        hold = partial(store.sessions.hold, reason=reason)
        ctx.exit(told(each(sessions, _to(hold, "is held until 'clew release {handle}'")), form))


@click.command(
    short_help="Let held sessions be deleted again.",
    epilog="\b\nExample:\n  clew release k3m9qa",
)
@_sessions
@json_options
@store_option
@click.pass_context
def release(ctx: click.Context, sessions: tuple[str, ...], form: Form) -> None:
    """Ends the hold of each SESSION. Exit code 8 if only some could be released."""
    with existing() as store:
        ctx.exit(told(each(sessions, _to(store.sessions.release, "is not held")), form))


def _to(act: Callable[[str], clew.Session], ending: str) -> Callable[[str], Done]:
    """What does it to the session that a name means, and says so; `ending` may have its handle."""

    def do(asked: str) -> Done:
        session = act(asked)
        title = f" ({plain(clip(session.title, 40))})" if session.title else ""
        sentence = f"session {session.handle}{title} {ending.format(handle=session.handle)}"
        return Done(session.id, sentence, {"session": _json(session)})

    return do


def _json(session: clew.Session) -> dict[str, Any]:
    try:
        return session_json(session)
    except clew.Tampered as error:  # what was asked for is done all the same
        return {"id": session.id, "handle": session.handle, "damaged": error.why}
