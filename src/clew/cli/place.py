"""Where the store is, and how a command opens it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import click

import clew
from clew.errors import NotFound

if TYPE_CHECKING:
    from clew.redaction import Rules

F = TypeVar("F", bound=Callable[..., object])
_DB = "clew.db"
"""Under this name the path travels from an option, of `clew` or of the command, to whoever opens the store."""


def store_option(command: F) -> F:
    """Adds `--db` to a command."""
    return click.option(
        "--db",
        metavar="PATH",
        expose_value=False,
        is_eager=True,
        callback=_remember,
        help="The store.  [default: CLEW_DB, or your data folder]",
    )(command)


def _remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value == "":
        raise click.BadParameter("a store is named by a path")
    if value is not None:
        ctx.meta[_DB] = value


def writing(*, redact: Rules | None = None) -> clew.Store:
    """The store, made if it is not there. A default folder is for its owner alone."""
    path, named = _location()
    if not named:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return clew.open(path, timeout=_timeout(), redact=redact)


def existing() -> clew.Store:
    """The store. NotFound if there is none: what only reads leaves no file behind."""
    path, _ = _location()
    if "://" not in path and not os.path.exists(path):
        raise NotFound("store", path, hint="'clew append' makes one; --db or CLEW_DB names another.")
    return clew.open(path, timeout=_timeout(), create=False)


def reading() -> clew.Store:
    """`existing`; before the first message, the default store reads as an empty one."""
    path, named = _location()
    if not named and not os.path.exists(path):
        return clew.open(":memory:")
    return existing()


def _location() -> tuple[str, bool]:
    """The path of the store, and whether somebody named it."""
    named = click.get_current_context().meta.get(_DB) or os.environ.get("CLEW_DB")
    if named:
        return str(named), True
    from platformdirs import user_data_dir

    return os.path.join(user_data_dir("clew", appauthor=False), "clew.db"), False


def _timeout() -> float:
    text = os.environ.get("CLEW_TIMEOUT", "")
    try:
        seconds = float(text) if text else 60.0
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise click.UsageError(f"CLEW_TIMEOUT is a number of seconds, not {text!r}")
    return seconds


def find(store: clew.Store, typed: str) -> clew.Session | clew.Node:
    """What an id or a handle means: a session, or else a message. NotFound; Ambiguous if it may mean either."""
    session = node = None
    with suppress(NotFound):
        session = store.sessions.get(typed)
    try:
        node = store.nodes.get(typed)[0]
    except NotFound as error:
        if session is None:
            raise NotFound("session or message", typed, hint=error.hint) from None
    if session is not None and node is not None and session.id != node.id:
        raise clew.Ambiguous("handle", typed, [f"session {session.id}", f"message {node.id}"])
    return session or node  # type: ignore[return-value]
