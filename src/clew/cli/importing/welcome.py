"""The first minute: what clew is, the histories on this machine, one question, and then the picker.

Nothing here needs an API key, and nothing is sent anywhere.
"""

from __future__ import annotations

import os
from contextlib import suppress

import click

import clew
from clew.cli.commands.serve import has_page, serve
from clew.cli.importing.found import CHOSEN, HISTORY, PAGE, show_looked_at
from clew.cli.output.text import bold, dim, note, out
from clew.cli.setup.installation import local_model, missing_sdks
from clew.web import HOST, PORT

ABOUT = (
    "keeps your conversations with Claude Code, Codex, ChatGPT and other tools",
    "in one place: searchable, safe from deletion, on this machine. It sends nothing.",
)
ELSE = (
    ("clew hook install", "record Claude Code while it works"),
    ("clew import --watch", "follow the histories of all tools"),
    ("clew chat", "chat with a model"),
    ("clew serve", "show the conversations in a browser"),
)


def welcome(ctx: click.Context) -> bool:
    """Greets a user whose store is empty; True if there are conversations to choose from now.

    If the user chose the web page, shows it and returns False.
    """
    out(f"{bold('clew')} {ABOUT[0]}")
    out(ABOUT[1])
    out()
    if has_page():
        ctx.meta[PAGE] = f"http://{HOST}:{PORT}"
    try:
        imported = _import(ctx)
    except clew.NotFound as error:
        if error.what != HISTORY:
            raise
        return _nothing_found(ctx)
    _what_else()
    if imported and ctx.meta.get(CHOSEN) == "w":
        out()
        ctx.invoke(serve)
        return False
    return imported


def what_else_line() -> str:
    """What else there is, on one line."""
    return "Also: " + " · ".join(command for command, _ in ELSE)


def _import(ctx: click.Context, path: str | None = None) -> bool:
    """Runs `clew import`, which lists, asks and imports; True if something was stored."""
    from clew.cli.commands.import_ import import_
    from clew.cli.setup.open_store import open_for_reading

    with suppress(click.exceptions.Exit):  # it has reported what was skipped; the rest is there
        ctx.invoke(import_, paths=() if path is None else (path,))
    try:
        with open_for_reading() as store:
            return bool(store.sessions.list(limit=1).items)
    except clew.NotFound:
        return False


def _nothing_found(ctx: click.Context) -> bool:
    """Says where it looked, and offers a file, the tour or a chat; True if something was imported."""
    show_looked_at()
    out()
    out("What now?")
    out(f"  e  import an export file   {dim('of ChatGPT or Claude.ai: Settings, Data controls')}")
    out(f"  t  take the tour           {dim('a few seconds, in a temporary store')}")
    out(f"  c  chat                    {dim(_chat_note())}")
    out("  q  quit")
    answer = click.prompt(
        "Your choice", type=click.Choice(["e", "t", "c", "q"]), default="t", show_choices=False, err=True
    )
    if answer == "e":
        path = os.path.expanduser(click.prompt("Path of the file", err=True).strip())
        return _import(ctx, path)
    if answer == "t":
        from clew.cli.commands.tour import tour

        ctx.invoke(tour)
    elif answer == "c":
        from clew.cli.commands.chat import chat

        ctx.invoke(chat, new=True)
    return False


def _what_else() -> None:
    out()
    local = local_model()
    needs_no_key = [] if local is None else [(local, "chat through the program claude; needs no API key")]
    rows = [*ELSE, *needs_no_key]
    wide = max(len(command) for command, _ in rows) + 2
    for command, what in rows:
        out(f"  {bold(command.ljust(wide))}{dim(what)}")
    for line in missing_sdks():
        note(line)


def _chat_note() -> str:
    return f"{local_model()} needs no API key" if local_model() is not None else "without an API key, it only echoes"
