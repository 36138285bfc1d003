"""`clew completion`: what a shell offers after Tab. Commands and options are click's business; ids and labels are ours.

A parameter is completed by its name: a command that calls its argument `session` need not say more. While a shell waits
nothing is asked or written, and nothing is waited for longer than three seconds: a store that does not open by then
offers nothing.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import click
from click.shell_completion import CompletionItem, get_completion_class

import clew
from clew.cli import settings
from clew.cli.place import at_once, find
from clew.cli.text import clip, out, plain

PATIENCE = 3.0
"""Seconds that somebody who has pressed Tab waits."""
MOST = 200
"""Sessions that are looked at, last active first."""
HELP = 50
"""Columns of what is said beside a value."""

_SAFE = re.compile(r"[\w@%+=:,./][\w@%+=:,./-]*")
"""What no shell takes for anything but itself. A label that says `$(reboot)` is not put on anybody's command line."""

Items = list[CompletionItem[str]]
Offers = Iterator[tuple[str, str]]
"""Values, each with a few words about it."""


@click.command(
    short_help="Print the script that completes commands in a shell.",
    epilog='\b\nExamples:\n  eval "$(clew completion bash)"        # in ~/.bashrc\n'
    '  eval "$(clew completion zsh)"         # in ~/.zshrc, after compinit\n'
    "  clew completion fish | source         # in ~/.config/fish/config.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Prints the script with which a shell completes commands, options, ids, labels and models."""
    kind = get_completion_class(shell)
    assert kind is not None
    out(kind(click.get_current_context().find_root().command, {}, "clew", "_CLEW_COMPLETE").source().rstrip("\n"))


def teach(command: click.Command) -> None:
    """Has the parameters of a command, and of those below it, completed by their names."""
    for param in command.params:
        if param.type is click.STRING and param.name in _BY_NAME:
            param.type = _Completed(_BY_NAME[param.name])
    if isinstance(command, click.Group):
        for below in command.commands.values():
            teach(below)


class _Completed(click.types.StringParamType):
    """Text that is completed."""

    def __init__(self, items: Callable[[click.Context, str], Items]) -> None:
        self._items = items

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        found: Items = []

        def find() -> None:
            # Whatever goes wrong, a shell that waits for Tab is no place to tell it.
            with suppress(Exception), ctx.scope(cleanup=False):
                settings.current(quiet=True)
                found.extend(self._items(ctx, incomplete))

        finding = threading.Thread(target=find, daemon=True)
        finding.start()
        finding.join(PATIENCE)
        return list(found)


def _stored(offers: Callable[[clew.Store, click.Context], Offers]) -> Callable[[click.Context, str], Items]:
    """Items from the store."""

    def items(ctx: click.Context, incomplete: str) -> Items:
        store = at_once()
        if store is None:
            return []
        with store:
            return _fitting(offers(store, ctx), incomplete)

    return items


def _fitting(offers: Offers, incomplete: str) -> Items:
    """Each value once, if it goes on from what was typed and can stand in a command line as it is."""
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
    """The last messages of the session that the command line names, newest first."""
    named = ctx.params.get("id") or ctx.params.get("session")
    found = find(store, named) if isinstance(named, str) else None
    nodes = found.path(last=MOST) if isinstance(found, clew.Session) else store.nodes.list(limit=MOST).items[::-1]
    return ((node.handle, f"{node.role}: {node.text[:HELP]}") for node in reversed(nodes))


def _pair(store: clew.Store, ctx: click.Context) -> Offers:
    """A session, and once it is named its messages."""
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
    """Aliases, then models that were talked to."""
    offers = [(name, found.value) for name, found in settings.current().names("aliases").items()]
    store = at_once()
    if store is not None:
        with store:
            offers += [(session.model, "") for session in store.sessions.list(limit=MOST).items if session.model]
    return _fitting(iter(offers), incomplete)


def _names(_: click.Context, incomplete: str) -> Items:
    return _fitting(((one.name, one.what) for one in settings.SETTINGS.values()), incomplete)


def _values(ctx: click.Context, incomplete: str) -> Items:
    """What a setting could be."""
    name = str(ctx.params.get("setting"))
    kind = settings.SETTINGS[name.partition(".")[0]].kind
    if kind == "path":
        return [CompletionItem(incomplete, type="file")]
    return _models(ctx, incomplete) if name == "model" or kind == "names" else []


def _path(type: str) -> Callable[[click.Context, str], Items]:
    return lambda _, incomplete: [CompletionItem(incomplete, type=type)]


_BY_NAME: dict[str, Callable[[click.Context, str], Items]] = {
    **dict.fromkeys(("id", "session", "sessions"), _stored(_sessions)),
    **dict.fromkeys(("message", "at"), _stored(_messages)),
    "names": _stored(_pair),
    **dict.fromkeys(("snapshot_id", "snapshot_ids"), _stored(_snapshots)),
    **dict.fromkeys(("label", "labels", "remove"), _stored(_labels)),
    **dict.fromkeys(("db", "key_file", "new_key_file", "out", "folder", "place_name"), _path("file")),
    "cwd": _path("dir"),
    "model": _models,
    "setting": _names,
    "value": _values,
}
