"""Where the store is, what opens it, and how a command does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

import clew
from clew.cli import settings, sources
from clew.cli.ask import TRIES, can_ask_secret, secret
from clew.cli.folders import user_folder
from clew.cli.markers import keep_from_sync
from clew.cli.rules import in_settings
from clew.cli.sources import Source
from clew.cli.text import plain, warn
from clew.errors import NotFound

if TYPE_CHECKING:
    from clew.keys import Key
    from clew.redaction import Rules

F = TypeVar("F", bound=Callable[..., object])
_NAMES = "clew.names"
"""Under this name travel ids that another program gave, each with ours."""
_GIVE = "Give its key: --key-file, or a variable that 'clew --help' names."
_WRONG = "Nothing was changed. Give the key it was sealed with."


def store_option(command: F) -> F:
    """Adds `--db`, `--key-file` and `--blobs` to a command."""

    def option(flag: str, name: str, help: str, metavar: str = "PATH") -> Callable[[F], F]:
        def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
            if value == "" and name == "db":
                raise click.BadParameter("a store is named by a path")
            if value is not None:
                settings.remember(ctx, name, flag, value)

        return click.option(flag, metavar=metavar, expose_value=False, is_eager=True, callback=remember, help=help)

    help = "The file with the key of a sealed store.  [default: CLEW_KEY_FILE, or your settings]"
    key_file = option("--key-file", "key_file", help)
    help = "Where large attachments are, like s3://bucket/prefix.  [default: CLEW_BLOBS, or your settings]"
    command = option("--blobs", "blobs", help, "URL")(command)
    return option("--db", "db", "The store.  [default: CLEW_DB, your settings, or your data folder]")(key_file(command))


def writing(*, redact: Rules | None = None, timeout: float | None = None) -> clew.Store:
    """The store, made if it is not there: sealed if there is a key. A default folder is for its owner alone.

    `redact` are the rules by which it stores, if not those of the settings; `timeout` is how long to wait for other
    writers at most, whatever the settings say.
    """
    path, named = location()
    if not named and not os.path.exists(path):
        _make(os.path.dirname(path))
    return _open(path, create=True, redact=in_settings() if redact is None else redact, timeout=timeout)[0]


def _make(folder: str) -> None:
    """The folder of the default store."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        hint = "It would be the folder of your store: --db or CLEW_DB names another place."
        raise clew.ReadOnly(f"{folder} cannot be made: {error.strerror}", hint=hint) from error
    keep_from_sync(folder)


def existing(*, tidy: bool = True) -> clew.Store:
    """The store. NotFound if there is none: what only reads leaves no file behind. `tidy` as for `clew.open`."""
    return _open(_existing(), create=False, tidy=tidy, redact=in_settings())[0]


def looking() -> clew.Store:
    """`existing`, for who changes nothing in it."""
    return _open(_existing(), create=False, tidy=False)[0]


def reading() -> clew.Store:
    """`existing`, for commands that only read; before the first message, the default store reads as an empty one.

    A file of CPE's reads as a store in memory that has what it has; ids of its messages mean what they mean there.
    """
    path, named = location()
    if not named and not os.path.exists(path):
        return clew.open(":memory:")
    try:
        return _open(_existing(), create=False)[0]
    except clew.NotAStore:
        shown = _foreign(path)
        if shown is None:
            raise
        return shown


def _foreign(path: str) -> clew.Store | None:
    """Another program's file, to be looked at; None if it is none that can be read."""
    from clew import cpeconvo

    if not cpeconvo.recognised(path):
        return None
    shown = cpeconvo.view(path)
    click.get_current_context().meta[_NAMES] = shown.ids
    for one in shown.skipped:
        warn(f"clew: message {plain(one.id)} of {plain(path)} is left out: {plain(one.why)}")
    return shown.store


def at_once() -> clew.Store | None:
    """The store, if it is there and opens without a word to anybody; nothing in it is tidied up. For completion."""
    path, source = location()[0], given()
    if "://" not in path and not os.path.isfile(path):
        return None
    warnings.simplefilter("ignore")
    return clew.open(path, key=None if source is None else source.key(), timeout=0.2, create=False, tidy=False)


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
    """How the key of the store was given: by a flag, by a variable, or by the nearest file of settings."""
    flagged = settings.flagged("key_file")
    return sources.find(flags={"KEY_FILE:--key-file": flagged}) or sources.in_settings()


def _open(path: str, **how: Any) -> tuple[clew.Store, Key | None]:
    """The store, and the key it was opened with. Sealed, WrongKey; on a terminal a passphrase is asked for."""
    source = given()
    key, tries = None if source is None else source.key(), 0
    while True:
        try:
            return _connect(path, key=key, **how), key
        except clew.NotAStore as error:
            from clew import cpeconvo

            if cpeconvo.recognised(path):
                error.hint = "It is CPE's: it can be looked at, and 'clew import' takes it into a store."
            raise
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
    timeout: float | None = None,
) -> clew.Store:
    seconds = settings.current().value("timeout")
    seconds = seconds if timeout is None else min(seconds, timeout)
    return clew.open(
        path, key=key, blobs=settings.current().value("blobs"), timeout=seconds, create=create, tidy=tidy,
        redact=redact, actor=_actor(),
    )  # fmt: skip


def _typed(path: str) -> Key:
    return sources.Source("what was typed", "PASSPHRASE", secret(f"Passphrase of {plain(path)}: ")).key()


def _existing() -> str:
    path, _ = location()
    if "://" not in path and not os.path.exists(path):
        raise NotFound("store", path, hint="'clew append' makes one; --db or CLEW_DB names another.")
    return path


def location() -> tuple[str, bool]:
    """The path of the store, and whether somebody named it."""
    named = settings.current().value("db")
    return (default(), False) if named is None else (str(named), True)


def default() -> str:
    """The path of the store that nobody has to name."""
    return os.path.join(user_folder("data"), "clew.db")


def _actor() -> str | None:
    """Who the audit says it was: the user of this system."""
    from getpass import getuser

    try:
        name = getuser()
    except (KeyError, OSError, ImportError):  # a process may run as a user without a name
        return None
    return name if name.isprintable() and len(name) <= 128 else None


def find(store: clew.Store, typed: str) -> clew.Session | clew.Node:
    """What an id or a handle means: a session, or else a message. NotFound; Ambiguous if it may mean either."""
    session = node = None
    typed = click.get_current_context().meta.get(_NAMES, {}).get(typed, typed)
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
