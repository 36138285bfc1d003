"""`clew help | completion`: explains a command or a topic, and completes what is typed in a shell.

Click completes commands and options; this module completes IDs and labels, by the name of a parameter, such as
`session`. Completion asks nothing, writes nothing, and gives up after three seconds.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import click
from click.shell_completion import CompletionItem, get_completion_class

import clew
from clew.base.visible import plain
from clew.cli.command_list import COMMANDS, ENVIRONMENT, list_by_group
from clew.cli.exits import MEANINGS
from clew.cli.options import examples
from clew.cli.output.text import bold, clip, out
from clew.cli.setup import settings
from clew.cli.setup.find import find
from clew.cli.setup.open_store import open_for_completion


@click.command(
    name="help",
    epilog=examples("clew help --all", "clew help search", "clew help key seal", "clew help exit-codes"),
)
@click.argument("words", nargs=-1, metavar="[COMMAND|TOPIC]")
@click.option("--all", "everything", is_flag=True, help="List all commands.")
def help(words: tuple[str, ...], everything: bool) -> None:
    """Show the help of a command, or a topic: environment, exit-codes. Without either, the most used commands."""
    if everything and words:
        raise click.UsageError("--all takes no command")
    if everything:
        formatter = click.get_current_context().make_formatter()
        list_by_group(formatter, COMMANDS)
        out(formatter.getvalue().strip("\n"))
    elif words == ("exit-codes",):
        for code, meaning in MEANINGS.items():
            out(f"{bold(f'{code:>3}')}  {meaning}")
    elif words == ("environment",):
        out(ENVIRONMENT)
    else:
        out(_context(words).get_help())


def _context(words: tuple[str, ...]) -> click.Context:
    """The context of a command. UsageError if it does not exist."""
    root = click.get_current_context().find_root().command
    ctx = click.Context(root, info_name="clew", **root.context_settings)
    for word in words:
        group = ctx.command
        command = group.get_command(ctx, word) if isinstance(group, click.Group) else None
        if command is None:
            raise click.UsageError(f"unknown command or topic {' '.join(words)!r}; topics: environment, exit-codes")
        ctx = click.Context(command, parent=ctx, info_name=word, **command.context_settings)
    return ctx


PATIENCE = 3.0
"""Longest wait after Tab in seconds."""
MOST = 200
"""Number of sessions to offer, most recently active first."""
HELP = 50
"""Width of the description of a value."""

_SAFE = re.compile(r"[\w@%+=:,./][\w@%+=:,./-]*")
"""Text without shell syntax: a label like `$(reboot)` is never put on a command line."""

Items = list[CompletionItem[str]]
Offers = Iterator[tuple[str, str]]
"""Values, each with a short description."""


@click.command(
    epilog=examples(
        'eval "$(clew completion bash)"        # in ~/.bashrc',
        'eval "$(clew completion zsh)"         # in ~/.zshrc, after compinit',
        "clew completion fish | source         # in ~/.config/fish/config.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell; it completes commands, options, IDs, labels and models."""
    kind = get_completion_class(shell)
    assert kind is not None
    out(kind(click.get_current_context().find_root().command, {}, "clew", "_CLEW_COMPLETE").source().rstrip("\n"))


def add_completions(command: click.Command) -> None:
    """Adds completion to the parameters of a command and its subcommands, by their names."""
    for param in command.params:
        if param.type is click.STRING and param.name in _BY_NAME:
            param.type = _CompletedText(_BY_NAME[param.name])
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_completions(below)


class _CompletedText(click.types.StringParamType):
    """A text parameter with completion."""

    def __init__(self, items: Callable[[click.Context, str], Items]) -> None:
        self._items = items

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        found: Items = []

        def find() -> None:
            # Errors are not reported while a shell waits for completions.
            with suppress(Exception), ctx.scope(cleanup=False):
                settings.current(quiet=True)
                found.extend(self._items(ctx, incomplete))

        finding = threading.Thread(target=find, daemon=True)
        finding.start()
        finding.join(PATIENCE)
        return list(found)


def _from_store(offers: Callable[[clew.Store, click.Context], Offers]) -> Callable[[click.Context, str], Items]:
    """Completes from the content of the store."""

    def items(ctx: click.Context, incomplete: str) -> Items:
        store = open_for_completion()
        if store is None:
            return []
        with store:
            return _matches(offers(store, ctx), incomplete)

    return items


def _matches(offers: Offers, incomplete: str) -> Items:
    """The distinct values that start with the typed text and need no quoting."""
    found = dict[str, str]()
    for value, words in offers:
        if value.startswith(incomplete) and _SAFE.fullmatch(value):
            found.setdefault(value, clip(plain(words), HELP))
    return [CompletionItem(value, help=words or None) for value, words in found.items()]


def _sessions(store: clew.Store, ctx: click.Context) -> Offers:
    if ctx.info_name == "restore":
        page = store.sessions.trashed(limit=MOST)
    else:
        page = store.sessions.list(limit=MOST)
    return ((session.handle, session.title or "") for session in page.items)


def _messages(store: clew.Store, ctx: click.Context) -> Offers:
    """The last messages of the session on the command line, newest first."""
    named = ctx.params.get("id") or ctx.params.get("session")
    found = find(store, named) if isinstance(named, str) else None
    nodes = found.path(last=MOST) if isinstance(found, clew.Session) else store.nodes.list(limit=MOST).items[::-1]
    return ((node.handle, f"{node.role}: {node.text[:HELP]}") for node in reversed(nodes))


def _pair(store: clew.Store, ctx: click.Context) -> Offers:
    """Sessions; once one is typed, its messages."""
    (named,) = (ctx.params.get("names") or (None,))[:1]
    if named is None:
        return _sessions(store, ctx)
    found = find(store, named)
    nodes = found.path(last=MOST) if isinstance(found, clew.Session) else []
    return ((node.handle, f"{node.role}: {node.text[:HELP]}") for node in reversed(nodes))


def _snapshots(store: clew.Store, _: click.Context) -> Offers:
    return ((one.id, f"{one.provider} {one.model}") for one in store.snapshots.list()[:MOST])


def _labels(store: clew.Store, _: click.Context) -> Offers:
    return ((label, "") for session in store.sessions.list(limit=MOST).items for label in session.labels)


def _models(ctx: click.Context, incomplete: str) -> Items:
    """Aliases, then models of stored sessions."""
    offers = [(name, found.value) for name, found in settings.current().names("aliases").items()]
    store = open_for_completion()
    if store is not None:
        with store:
            offers += [(session.model, "") for session in store.sessions.list(limit=MOST).items if session.model]
    return _matches(iter(offers), incomplete)


def _names(_: click.Context, incomplete: str) -> Items:
    return _matches(((one.name, one.what) for one in settings.SETTINGS.values()), incomplete)


def _values(ctx: click.Context, incomplete: str) -> Items:
    """Values of a setting."""
    name = str(ctx.params.get("setting"))
    kind = settings.SETTINGS[name.partition(".")[0]].kind
    if kind == "path":
        return [CompletionItem(incomplete, type="file")]
    return _models(ctx, incomplete) if name == "model" or name.startswith("aliases.") else []


def _path(type: str) -> Callable[[click.Context, str], Items]:
    return lambda _, incomplete: [CompletionItem(incomplete, type=type)]


_BY_NAME: dict[str, Callable[[click.Context, str], Items]] = {
    **dict.fromkeys(("id", "session", "sessions"), _from_store(_sessions)),
    **dict.fromkeys(("message", "at"), _from_store(_messages)),
    "names": _from_store(_pair),
    **dict.fromkeys(("snapshot_id", "snapshot_ids"), _from_store(_snapshots)),
    **dict.fromkeys(("label", "labels", "remove"), _from_store(_labels)),
    **dict.fromkeys(("db", "key_file", "new_key_file", "out", "folder", "place_name"), _path("file")),
    "cwd": _path("dir"),
    "model": _models,
    "setting": _names,
    "value": _values,
}
