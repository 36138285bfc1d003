"""`clew fork | rename | label | relocate`: forks a session, or changes its title, its labels or its directory."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

import clew
from clew.base.visible import many, plain
from clew.cli.options import dry_run_option, examples
from clew.cli.output.json import Form, json_options, out_lines, out_value, session_json
from clew.cli.output.text import dim, out, out_json, out_jsonl, warn
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


@click.command(epilog=examples("clew label k3m9qa work urgent", "clew label k3m9qa --remove urgent"))
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


PAGE = 500


@click.command(
    epilog=examples(
        "mv ~/src/app ~/work/app && clew relocate ~/src/app ~/work/app", "clew relocate /src/app /work/app --dry-run"
    ),
)
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@dry_run_option
@json_options
@store_option
def relocate(old: str, new: str, dry_run: bool, form: Form) -> None:
    """Change the directory of all conversations from OLD to NEW, including subdirectories.

    Either all are changed or none. Checkpoints and the agent's memory of the project are updated too. Conversations in
    the trash are not changed, nor are the times of last activity.
    """
    before, after = os.path.abspath(old), os.path.abspath(new)
    if before == after:
        raise click.UsageError("OLD and NEW are the same directory")
    with open_existing() as store:
        moved = _move(store, before, after, dry_run)
        if not moved:
            raise clew.NotFound("conversation in", before, hint="List all directories with: clew ls --all")
    if form == "json":
        out_json({"sessions": moved})
    elif form == "jsonl":
        out_jsonl(moved)
    else:
        out_lines(f"{one['id']}  {plain(one['cwd'])}" for one in moved)
        verb = "would be moved" if dry_run else "moved"
        warn(dim(f"{many(len(moved), 'conversation')} {verb} to {plain(after)}"))
        if not os.path.isdir(after):
            warn(f"clew: warning: directory {plain(after)} does not exist")


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
    """Every session and subagent session, including expired ones."""
    for subagents in (False, True):
        yield from store.sessions.list(limit=PAGE, subagents=subagents, include_expired=True).all()
