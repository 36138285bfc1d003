"""`clew` without a command: runs the picker, then the chosen action."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import click

import clew
from clew.cli.output.text import out, warn
from clew.cli.setup import settings
from clew.cli.setup.open_store import open_for_reading


def pick(ctx: click.Context) -> None:
    """Shows the picker; resumes the chosen session, or prints the command that does."""
    from clew.cli.commands.chat import chat

    with open_for_reading() as store:
        if not store.sessions.list(limit=1).items:
            warn("No conversations yet. Start one with 'clew chat'; list all commands with 'clew --help'.")
            return
        from clew.cli.picker.app import Picker

        choice = Picker(store, os.getcwd()).run()
        command = resume_command(store.sessions.get(choice.id)) if choice is not None and choice.id else ""
    if choice is None:
        return
    if choice.what == "print":
        out(command)
    else:
        ctx.invoke(chat, **({"new": True} if choice.what == "new" else {"resume_id": choice.id}))


def resume_command(session: clew.Session) -> str:
    """The command line that resumes a session from the current directory."""
    words = ["clew", *_store(), "chat", "-c", session.handle]
    here = session.cwd is None or session.cwd == os.getcwd()
    return shlex.join(words) if here else f"cd {shlex.quote(session.cwd or '')} && {shlex.join(words)}"


def _store() -> Iterator[str]:
    """The flags for the current store and its key."""
    found, key_file = settings.current().find("db"), settings.flagged("key_file")
    if found.value is not None:
        is_url = "://" in found.value
        if not is_url or found.source in (
            "flag",
            "project",
        ):  # other sources still apply, and the URL may contain a password
            yield from ("--db", found.value if is_url else os.path.abspath(found.value))
    if key_file is not None:
        yield from ("--key-file", os.path.abspath(key_file))
