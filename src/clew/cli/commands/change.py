"""`clew fork | rename | label`: forks a session, or changes its title or labels."""

from __future__ import annotations

import click

import clew
from clew.base.visible import plain
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options, out_value, session_json
from clew.cli.output.text import many, out, warn
from clew.cli.setup.find import find_point, find_session, message_id
from clew.cli.setup.open_store import open_existing, store_option


def _print_result(session: clew.Session, sentence: str, form: Form) -> None:
    """Prints the session's ID, or the session as JSON, to stdout, and the sentence to stderr."""
    if form == "text":
        out(session.id)
        warn(sentence)
    else:
        out_value(session_json(session), form)


@click.command(epilog=examples("clew fork k3m9qa", 'clew fork k3m9qa --at 7dq2xe --title "Other idea"'))
@click.argument("id", required=False, metavar="[CONVERSATION]")
@click.option("--at", metavar="MESSAGE", help="Fork after this message.  [default: the last one]")
@click.option("--title", help="Title of the new conversation.  [default: the same]")
@json_options
@store_option
def fork(id: str | None, at: str | None, title: str | None, form: Form) -> None:
    """Start a new conversation with the messages of CONVERSATION, and print its ID.

    Without CONVERSATION, forks the latest one of the current directory; with a message in its place, forks after that
    message. Both share the messages up to the fork; nothing is copied.
    """
    with open_existing() as store:
        source, point = find_point(store, id)
        made = source.fork(at=point if at is None else message_id(store, at), title=title)
        shared = many(made.counters.messages, "message")
        _print_result(made, f"conversation {made.handle} shares {shared} with {source.handle}", form)


@click.command(epilog=examples('clew rename k3m9qa "Lint step fixed"'))
@click.argument("id", metavar="CONVERSATION")
@click.argument("title")
@json_options
@store_option
def rename(id: str, title: str, form: Form) -> None:
    """Change the title of CONVERSATION to TITLE."""
    with open_existing() as store:
        session = find_session(store, id).rename(title)
        _print_result(session, f"conversation {session.handle} renamed to: {plain(title)}", form)


@click.command(
    epilog=examples("clew label k3m9qa work urgent", "clew label k3m9qa --remove urgent", more="Other name: clew tag")
)
@click.argument("id", metavar="CONVERSATION")
@click.argument("labels", nargs=-1, metavar="[LABEL]...")
@click.option("--remove", multiple=True, metavar="LABEL", help="Remove this label; repeatable.")
@json_options
@store_option
def label(id: str, labels: tuple[str, ...], remove: tuple[str, ...], form: Form) -> None:
    """Add each LABEL to CONVERSATION, and remove others with --remove."""
    if not labels and not remove:
        raise click.UsageError("no label given; name one to add, or use --remove")
    with open_existing() as store:
        session = find_session(store, id).label(*labels, remove=remove)
        labels_now = plain(", ".join(session.labels)) or "none"
        _print_result(session, f"labels of conversation {session.handle}: {labels_now}", form)
