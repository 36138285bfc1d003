"""`clew fork | rename | tag`: a session goes elsewhere, or says something else of itself."""

from __future__ import annotations

import click

import clew
from clew.cli.forms import Form, json_options, out_value, session_json
from clew.cli.place import existing, store_option
from clew.cli.text import many, out, plain, warn


def _told(session: clew.Session, sentence: str, form: Form) -> None:
    """The session's id, or all of it as JSON, to stdout; what happened, to stderr."""
    if form == "text":
        out(session.id)
        warn(sentence)
    else:
        out_value(session_json(session), form)


@click.command(
    short_help="Begin a new session that shares the talk so far.",
    epilog='\b\nExamples:\n  clew fork k3m9qa\n  clew fork k3m9qa --at 7dq2xe --title "Other idea"',
)
@click.argument("id")
@click.option("--at", metavar="MESSAGE", help="Share up to this message.  [default: the last one]")
@click.option("--title", help="Title of the new session.  [default: the same]")
@json_options
@store_option
def fork(id: str, at: str | None, title: str | None, form: Form) -> None:
    """Begins a new session that shares everything session ID has said so far, and prints its id. Nothing is copied."""
    with existing() as store:
        made = store.sessions.fork(id, at=at, title=title)
        shared = many(made.counters.messages, "message")
        _told(made, f"session {made.handle} shares {shared} with {plain(id)}", form)


@click.command(
    short_help="Give a session another title.",
    epilog='\b\nExample:\n  clew rename k3m9qa "Lint step fixed"',
)
@click.argument("id")
@click.argument("title")
@json_options
@store_option
def rename(id: str, title: str, form: Form) -> None:
    """Gives session ID another TITLE."""
    with existing() as store:
        session = store.sessions.rename(id, title)
        _told(session, f"session {session.handle} is now: {plain(title)}", form)


@click.command(
    short_help="Add labels to a session, or take them away.",
    epilog="\b\nExamples:\n  clew tag k3m9qa work urgent\n  clew tag k3m9qa --remove urgent",
)
@click.argument("id")
@click.argument("labels", nargs=-1)
@click.option("--remove", multiple=True, metavar="LABEL", help="Take this one away; may be repeated.")
@json_options
@store_option
def tag(id: str, labels: tuple[str, ...], remove: tuple[str, ...], form: Form) -> None:
    """Adds LABELS to session ID, and takes others away."""
    if not labels and not remove:
        raise click.UsageError("name a label to add, or one to --remove")
    with existing() as store:
        session = store.sessions.label(id, *labels, remove=remove)
        _told(session, f"session {session.handle} has {plain(', '.join(session.labels)) or 'no labels'}", form)
