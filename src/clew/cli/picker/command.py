"""What `clew` does without a command: the picker, and then what was picked."""

from __future__ import annotations

import os
import shlex

import click

import clew
from clew.cli.place import named_store, reading
from clew.cli.text import out, warn


def pick(ctx: click.Context) -> None:
    """Shows the picker; goes on in the session that was chosen, or prints the command that does."""
    from clew.cli.chat import chat

    with reading() as store:
        if not store.sessions.list(limit=1).items:
            warn("No sessions yet. 'clew chat' begins one; 'clew --help' lists all commands.")
            return
        from clew.cli.picker.app import Picker

        choice = Picker(store, os.getcwd()).run()
        command = resume_command(store.sessions.get(choice.id)) if choice is not None and choice.id else ""
    if choice is None:
        return
    if choice.what == "print":
        out(command)
    else:
        ctx.invoke(chat, **({"new": True} if choice.what == "new" else {"go_on": choice.id}))


def resume_command(session: clew.Session) -> str:
    """The command line that goes on in a session, from wherever one is."""
    store = named_store()
    words = ["clew", *(["--db", os.path.abspath(store)] if store is not None else []), "chat", "-c", session.handle]
    here = session.cwd is None or session.cwd == os.getcwd()
    return shlex.join(words) if here else f"cd {shlex.quote(session.cwd or '')} && {shlex.join(words)}"
