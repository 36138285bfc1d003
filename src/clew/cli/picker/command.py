"""`clew` without a command: runs the picker, then the chosen action."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import click

import clew
from clew.base.visible import plain
from clew.cli.exits import NOT_FOUND
from clew.cli.output.text import bold, dim, note, out, warn
from clew.cli.setup import settings
from clew.cli.setup.open_store import location, open_for_reading
from clew.store.origin import origin_of


def pick(ctx: click.Context) -> None:
    """Shows the picker; resumes the chosen session, or prints the command that does. Greets if the store is empty."""
    from clew.cli.commands.chat import chat

    hint = ""
    if _is_empty():
        from clew.cli.importing.welcome import welcome, what_else_line

        if not welcome(ctx):
            return
        hint = what_else_line()
    with open_for_reading() as store:
        from clew.cli.picker.app import Picker

        choice = Picker(store, os.getcwd(), hint=hint, read=partial(_read, ctx)).run()
        session = store.sessions.get(choice.id) if choice is not None and choice.id else None
        command = "" if session is None else resume_command(session)
        theirs = None if session is None else _own_command(session)
    if choice is None:
        return
    if choice.what == "page":
        from clew.cli.commands.serve import open as open_page

        ctx.invoke(open_page, id=choice.id)
    elif choice.what == "print":
        out(command)
        if theirs is not None:
            note(f"Or in {theirs.tool}: {theirs}")
    elif choice.what == "resume" and theirs is not None and not _choose_clew(command, theirs):
        ctx.exit(_run(theirs))
    else:
        ctx.invoke(chat, **({"new": True} if choice.what == "new" else {"resume_id": choice.id}))


def _read(ctx: click.Context, id: str) -> None:
    """Shows a conversation in a pager, or waits for a key after it."""
    from clew.cli.commands.show import show

    pager = os.environ.get("PAGER") or ("less -R" if shutil.which("less") else "")
    if pager:
        os.environ["PAGER"] = pager
    with suppress(click.exceptions.Exit):
        ctx.invoke(show, id=id)
    if not pager:
        click.pause(err=True)


def _is_empty() -> bool:
    """True if there is no conversation to choose, or no store yet."""
    path, _ = location()
    if "://" not in path and not os.path.exists(path):
        return True
    with open_for_reading() as store:
        return not store.sessions.list(limit=1).items


class OwnCommand(NamedTuple):
    """How another tool continues a conversation that was imported from it."""

    tool: str
    command: str
    cwd: str | None

    def __str__(self) -> str:
        return _in_directory(self.cwd, self.command)


def _own_command(session: clew.Session) -> OwnCommand | None:
    from clew.sources.registry import resume_elsewhere, tool_title  # loads every source

    origin = origin_of(session)
    command = resume_elsewhere(origin.tool, origin.id)
    return None if command is None else OwnCommand(tool_title(origin.tool), command, session.cwd)


def _choose_clew(command: str, theirs: OwnCommand) -> bool:
    """Asks which program is to continue a conversation; True for clew. The tool it is from is first if it is here."""
    ours = f"{plain(command)}   {dim(f'here; {theirs.tool} does not see it', sys.stderr)}"
    is_here = shutil.which(shlex.split(theirs.command)[0]) is not None
    choices = [plain(str(theirs)), ours] if is_here else [ours, plain(str(theirs))]
    warn(f"This conversation was imported from {bold(theirs.tool, sys.stderr)}. Continue it with:")
    for number, choice in enumerate(choices, 1):
        warn(f"  {number}  {choice}")
    answer = click.prompt("Which", type=click.Choice(["1", "2"]), default="1", show_choices=False, err=True)
    return choices[int(answer) - 1] is ours


def _run(theirs: OwnCommand) -> int:
    """Runs the other tool in the directory of the conversation; prints the command if it is not installed."""
    words = shlex.split(theirs.command)
    if shutil.which(words[0]) is None:
        warn(f"{plain(words[0])} is not installed here. Where it is, run:")
        out(plain(str(theirs)))
        return NOT_FOUND
    there = theirs.cwd if theirs.cwd is not None and os.path.isdir(theirs.cwd) else None
    return subprocess.call(words, cwd=there)


def resume_command(session: clew.Session) -> str:
    """The command line that resumes a session from the current directory."""
    words = ["clew", *_store(), "chat", "-c", session.handle]
    return _in_directory(session.cwd, shlex.join(words))


def _in_directory(cwd: str | None, command: str) -> str:
    """A command line that changes to a directory first, unless it is the current one or does not exist here."""
    there = cwd is not None and cwd != os.getcwd() and os.path.isdir(cwd)
    return f"cd {shlex.quote(cwd or '')} && {command}" if there else command


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
