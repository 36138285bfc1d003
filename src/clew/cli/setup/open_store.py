"""Finds and opens the store of a command: location, key, and the ways to open it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

import clew
from clew.base.files import exists, keep_from_sync, make_private_folder
from clew.base.outside import open_regular
from clew.base.visible import plain
from clew.cli.output.text import warn
from clew.cli.setup import key_sources, settings
from clew.cli.setup.ask import TRIES, ask_secret, can_ask_secret
from clew.cli.setup.find import NAMES
from clew.cli.setup.key_sources import KeySource
from clew.cli.setup.settings import user_folder
from clew.errors import NotFound

if TYPE_CHECKING:
    from clew.agents.cpe import CpeFile, CpeView
    from clew.keys import Key
    from clew.redaction import Rules


F = TypeVar("F", bound=Callable[..., object])
_NEEDS_KEY = "Provide the key with --key-file or an environment variable; see 'clew help environment'."
_CPE = "Here clew can read messages, chat, and delete them with 'clew conversation delete'."
_PLAIN = "Remove it to open this store, or encrypt the store with: clew key seal"
_WRONG = "Nothing was changed. Use the key that sealed the store."


def store_option(command: F) -> F:
    """Adds `--db`, `--key-file` and `--blobs` to a command."""

    def option(flag: str, name: str, help: str, metavar: str = "PATH") -> Callable[[F], F]:
        def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
            if value == "" and name == "db":
                raise click.BadParameter("the path is empty")
            if value is not None:
                settings.remember(ctx, name, flag, value)

        return click.option(flag, metavar=metavar, expose_value=False, is_eager=True, callback=remember, help=help)

    key_file = option("--key-file", "key_file", "Key file of a sealed store.")
    command = option("--blobs", "blobs", "Object storage for large attachments: s3://bucket/prefix.", "URL")(command)
    return option("--db", "db", "Path or URL of the store; see 'clew help environment'.")(key_file(command))


def open_or_create(*, redact: Rules | None = None, timeout: float | None = None) -> clew.Store:
    """Opens the store, or creates it: sealed if there is a key. Only its owner can read the default folder.

    `redact` replaces the redaction rules of the settings; `timeout` limits the wait for other writers.
    """
    path, named = location()
    if not named and not exists(path):
        folder = os.path.dirname(path)
        make_private_folder(folder, hint="Choose another location for the store with --db or CLEW_DB.")
        keep_from_sync(folder)
    return _open(path, create=True, redact=default_rules() if redact is None else redact, timeout=timeout)[0]


def open_existing(*, tidy: bool = True) -> clew.Store:
    """Opens the store. NotFound if it does not exist. `tidy` as for `clew.open`."""
    return _open(_existing(), create=False, tidy=tidy, redact=default_rules())[0]


def open_untouched() -> clew.Store:
    """`open_existing`, for commands that change nothing in the store."""
    return _open(_existing(), create=False, tidy=False)[0]


def open_for_reading() -> clew.Store:
    """`open_existing`, for commands that only read; a default store that does not exist yet reads as an empty one.

    A CPE file reads as a store in memory with the same content; the IDs of the file can be used.
    """
    path, named = location()
    if not named and not exists(path):
        return clew.open(":memory:")
    return view_cpe(path).store if is_cpe(path) else _open(_existing(), create=False)[0]


def is_cpe(path: str) -> bool:
    """True for a CPE file. Unavailable if it is locked."""
    try:
        with open_regular(path) as file:
            head = file.read(72)
    except (OSError, clew.ClewError):  # a store that is open here is refused: it is no CPE file
        return False
    if not head.startswith(b"SQLite format 3") or any(head[68:]):  # other programs mark their files there, clew too
        return False
    from clew.agents.cpe.reader import open_database

    try:
        with open_database(path, timeout=timeout_setting()):
            return True
    except (clew.Invalid, NotFound):
        return False


def view_cpe(path: str, *, redact: Rules | None = None) -> CpeView:
    """Loads a CPE file into a store in memory; its IDs can be used."""
    from clew.agents import cpe

    view = cpe.view(path, timeout=timeout_setting(), redact=redact)
    click.get_current_context().meta[NAMES] = view.ids
    for one in view.skipped:
        warn(f"clew: skipped message {plain(one.id)} of {plain(path)}: {plain(one.why)}")
    return view


def cpe_file() -> CpeFile | None:
    """The CPE file that --db names, to write to it; None if it names a store."""
    path, named = location()
    if not named or not is_cpe(path):
        return None
    from clew.agents import cpe

    return cpe.CpeFile(path, timeout=timeout_setting())


def timeout_setting() -> float:
    """Seconds to wait for other writers."""
    return float(settings.current().value("timeout"))


def open_for_completion() -> clew.Store | None:
    """Opens the store for shell completion: None if it does not exist; no prompts, no output, no cleanup."""
    path, source = location()[0], key_source()
    if "://" not in path and not os.path.isfile(path):
        return None
    warnings.simplefilter("ignore")
    return clew.open(path, key=None if source is None else source.key(), timeout=0.2, create=False, tidy=False)


def open_with_its_key() -> tuple[clew.Store, Key | None]:
    """`open_existing`, with the key that opened it; None for a plain store, even if a key was provided."""
    path = _existing()
    try:
        return _connect(path), None
    except clew.Sealed:
        return _open(path, create=False)


def open_with_key(key: Key) -> clew.Store:
    """`open_existing`, with this key."""
    return _connect(_existing(), key=key)


def open_unasked(key: Key | None) -> clew.Store:
    """`open_existing` with this key, or that of the command line; asks nothing on the terminal. Sealed, WrongKey."""
    source = key_source()
    return _connect(
        _existing(), key=source.key() if key is None and source is not None else key, redact=default_rules()
    )


def key_source() -> KeySource | None:
    """Where the key of the store comes from: a flag, a variable, or the nearest settings file."""
    flagged = settings.flagged("key_file")
    return key_sources.find(flags={"KEY_FILE:--key-file": flagged}) or key_sources.in_settings()


def _open(path: str, **how: Any) -> tuple[clew.Store, Key | None]:
    """Opens the store; returns it with its key. Sealed, WrongKey; on a terminal it asks for a passphrase."""
    if is_cpe(path):
        hint = f"{_CPE} Import it into a store with: clew import {plain(path)}"
        raise clew.NotAStore(path, "it is a CPE file", hint=hint)
    source = key_source()
    key, tries = None if source is None else source.key(), 0
    while True:
        try:
            return _connect(path, key=key, **how), key
        except clew.WrongKey as error:
            if not 0 < tries < TRIES:
                error.hint = _WRONG
                raise
            warn("Wrong passphrase.")
        except clew.Sealed as error:
            if not error.passphrase or not can_ask_secret():
                error.hint = _NEEDS_KEY
                raise
        except clew.Invalid as error:
            if source is not None and error.message.endswith("is not sealed"):
                error.hint = f"The key comes from {source.name}. {_PLAIN}"
            raise
        key, tries = _ask_passphrase(path), tries + 1


def _connect(
    path: str,
    *,
    key: Key | None = None,
    create: bool = False,
    tidy: bool = True,
    redact: Rules | None = None,
    timeout: float | None = None,
) -> clew.Store:
    seconds = timeout_setting()
    seconds = seconds if timeout is None else min(seconds, timeout)
    return clew.open(
        path, key=key, blobs=settings.current().value("blobs"), timeout=seconds, create=create, tidy=tidy,
        redact=redact, actor=_actor(),
    )  # fmt: skip


def _ask_passphrase(path: str) -> Key:
    return KeySource("passphrase", "PASSPHRASE", ask_secret(f"Passphrase for {plain(path)}: ")).key()


def _existing() -> str:
    path, _ = location()
    if "://" not in path and not exists(path):
        raise NotFound(
            "store", path, hint="'clew chat' or 'clew append' creates one. Choose another with --db or CLEW_DB."
        )
    return path


def location() -> tuple[str, bool]:
    """The path of the store, and False if it is the default location."""
    named = settings.current().value("db")
    return (default(), False) if named is None else (str(named), True)


def default() -> str:
    """The default path of the store."""
    return os.path.join(user_folder("data"), "clew.db")


def _actor() -> str | None:
    """The name for the audit log: the current user."""
    from getpass import getuser

    try:
        name = getuser()
    except (KeyError, OSError, ImportError):  # the user may have no name
        return None
    return name if name.isprintable() and len(name) <= 128 else None


def also_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--also` to a command."""
    return click.option(
        "--also",
        multiple=True,
        type=click.Choice(settings.PERSONAL),
        help="Also look for these, besides secrets; repeatable.",
    )(command)


def rules(also: Iterable[str]) -> Rules:
    """The built-in rules for secrets, plus those for `also`."""
    from clew.redaction import Rules, builtin

    return Rules(builtin(*also))


def default_rules() -> Rules | None:
    """The rules of the setting `redact`; None if it is off."""
    value = settings.current().value("redact")
    if value in (None, settings.OFF):
        return None
    return rules(name for name in settings.PERSONAL if name in value.split())
