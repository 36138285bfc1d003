"""What `clew` does without a command: the picker, and then what was picked."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import click

import clew
from clew.cli import settings
from clew.cli.place import reading
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
    words = ["clew", *_store(), "chat", "-c", session.handle]
    here = session.cwd is None or session.cwd == os.getcwd()
    return shlex.join(words) if here else f"cd {shlex.quote(session.cwd or '')} && {shlex.join(words)}"


def _store() -> Iterator[str]:
    """The flags that name the store, and its key, as they are named now."""
    found, key_file = settings.current().find("db"), settings.flagged("key_file")
    if found.value is not None:
        is_url = "://" in found.value
        if not is_url or found.source in ("flag", "project"):  # elsewhere it may have a password, and is said anyway
            yield from ("--db", found.value if is_url else os.path.abspath(found.value))
    if key_file is not None:
        yield from ("--key-file", os.path.abspath(key_file))
