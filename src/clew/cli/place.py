"""Where the store is, what opens it, and how a command does."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import click

import clew
from clew.cli import sources
from clew.cli.ask import TRIES, can_ask_secret, secret
from clew.cli.markers import keep_from_sync
from clew.cli.sources import Source
from clew.cli.text import plain, warn
from clew.errors import NotFound

if TYPE_CHECKING:
    from clew.keys import Key
    from clew.redaction import Rules

F = TypeVar("F", bound=Callable[..., object])
_DB, _KEY_FILE = "clew.db", "clew.key_file"
"""Under these names a path travels from an option, of `clew` or of the command, to whoever opens the store."""
_GIVE = "Give its key: --key-file, or a variable that 'clew --help' names."
_WRONG = "Nothing was changed. Give the key it was sealed with."


def store_option(command: F) -> F:
    """Adds `--db` and `--key-file` to a command."""

    def option(flag: str, name: str, help: str) -> Callable[[F], F]:
        def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
            if value == "" and name == _DB:
                raise click.BadParameter("a store is named by a path")
            if value is not None:
                ctx.meta[name] = value

        return click.option(flag, metavar="PATH", expose_value=False, is_eager=True, callback=remember, help=help)

    key_file = option("--key-file", _KEY_FILE, "The file with the key of a sealed store.  [default: CLEW_KEY_FILE]")
    return option("--db", _DB, "The store.  [default: CLEW_DB, or your data folder]")(key_file(command))


def writing(*, redact: Rules | None = None) -> clew.Store:
    """The store, made if it is not there: sealed if there is a key. A default folder is for its owner alone."""
    path, named = _location()
    if not named and not os.path.exists(path):
        folder = os.path.dirname(path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        keep_from_sync(folder)
    return _open(path, create=True, redact=redact)[0]


def existing(*, tidy: bool = True) -> clew.Store:
    """The store. NotFound if there is none: what only reads leaves no file behind. `tidy` as for `clew.open`."""
    return _open(_existing(), create=False, tidy=tidy)[0]


def reading() -> clew.Store:
    """`existing`; before the first message, the default store reads as an empty one."""
    path, named = _location()
    if not named and not os.path.exists(path):
        return clew.open(":memory:")
    return existing()


def as_it_is() -> tuple[clew.Store, Key | None]:
    """`existing`, and the key that opened it; a plain store opens whatever key is given, and None did it."""
    path = _existing()
    try:
        return _connect(path), None
    except clew.Sealed:
        return _open(path, create=False)


def with_key(key: Key) -> clew.Store:
    """`existing`, with this key."""
    return _connect(_existing(), key=key)


def given() -> Source | None:
    """How the key of the store was given."""
    return sources.find(flags={"KEY_FILE:--key-file": click.get_current_context().meta.get(_KEY_FILE)})


def _open(path: str, *, create: bool, tidy: bool = True, redact: Rules | None = None) -> tuple[clew.Store, Key | None]:
    """The store, and the key it was opened with. Sealed, WrongKey; on a terminal a passphrase is asked for."""
    source = given()
    key, tries = None if source is None else source.key(), 0
    while True:
        try:
            return _connect(path, key=key, create=create, tidy=tidy, redact=redact), key
        except clew.WrongKey as error:
            if not 0 < tries < TRIES:
                error.hint = _WRONG
                raise
            warn("That is not it.")
        except clew.Sealed as error:
            if not error.passphrase or not can_ask_secret():
                error.hint = _GIVE
                raise
        key, tries = _typed(path), tries + 1


def _connect(
    path: str,
    *,
    key: Key | None = None,
    create: bool = False,
    tidy: bool = True,
    redact: Rules | None = None,
) -> clew.Store:
    return clew.open(path, key=key, timeout=_timeout(), create=create, tidy=tidy, redact=redact, actor=_actor())


def _typed(path: str) -> Key:
    return sources.Source("what was typed", "PASSPHRASE", secret(f"Passphrase of {plain(path)}: ")).key()


def _existing() -> str:
    path, _ = _location()
    if "://" not in path and not os.path.exists(path):
        raise NotFound("store", path, hint="'clew append' makes one; --db or CLEW_DB names another.")
    return path


def _location() -> tuple[str, bool]:
    """The path of the store, and whether somebody named it."""
    named = click.get_current_context().meta.get(_DB) or os.environ.get("CLEW_DB")
    if named:
        return str(named), True
    from platformdirs import user_data_dir

    return os.path.join(user_data_dir("clew", appauthor=False), "clew.db"), False


def named_store() -> str | None:
    """The path of the store, if a flag or a variable names it."""
    path, named = _location()
    return path if named else None


def _actor() -> str | None:
    """Who the audit says it was: the user of this system."""
    from getpass import getuser

    try:
        name = getuser()
    except (KeyError, OSError, ImportError):  # a process may run as a user without a name
        return None
    return name if name.isprintable() and len(name) <= 128 else None


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
