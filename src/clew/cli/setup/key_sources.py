"""Where a key comes from: a file, the environment, the system keyring, or a passphrase.

A key is never a command-line argument: other users could see it in the process list, and shells save it in a history.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

import clew
from clew.cli.exits import InvalidKey
from clew.cli.setup import settings
from clew.cli.setup.ask import can_ask_secret, new_passphrase

if TYPE_CHECKING:
    from clew.keys import Key

VARIABLES = ("CLEW_KEY_FILE", "CLEW_KEY", "CLEW_KEYRING", "CLEW_PASSPHRASE")
NEW_VARIABLES = tuple(name.replace("CLEW_", "CLEW_NEW_") for name in VARIABLES)
ASKED = "asked"
"""The kind of source for a flag that asks for a new passphrase."""


class KeySource(NamedTuple):
    """Where a key is to be read from."""

    name: str
    """The flag or the environment variable."""
    kind: str
    value: str

    def key(self) -> Key:
        """Reads the key. InvalidKey if it is missing or invalid; Unavailable if the keyring cannot be reached."""
        try:
            return _READERS[self.kind](self)
        except clew.NotFound as error:
            flag = f"--keyring {self.value}" if self.kind == "KEYRING" else f"--out {self.value}"
            hint = f"Use the key that sealed the store. 'clew key generate {flag}' creates a new one."
            raise InvalidKey(f"{self.name}: {error.message}", hint=hint) from error
        except clew.Invalid as error:
            raise InvalidKey(f"{self.name}: {error.message}", hint=error.hint) from error


def find(variables: tuple[str, ...] = VARIABLES, flags: Mapping[str, str | None] | None = None) -> KeySource | None:
    """The source of the key among environment variables and `flags`, which are named `KIND:--flag`.

    A flag takes precedence over the variable of its kind. None if there is no key; UsageError if there are two.
    """
    found: dict[str, KeySource] = {}
    for name in variables:
        if name in os.environ:
            kind = name.removeprefix("CLEW_").removeprefix("NEW_")
            found[kind] = KeySource(name, kind, os.environ[name])
    for both, value in (flags or {}).items():
        kind, _, flag = both.partition(":")
        if value is not None:
            found[kind] = KeySource(flag, kind, value)
    if len(found) > 1:
        names = " and ".join(source.name for source in found.values())
        raise click.UsageError(f"{names} both set a key; use only one of them")
    return next(iter(found.values()), None)


def in_settings() -> KeySource | None:
    """The source of the key in the nearest settings file that sets one. UsageError if it sets two."""
    for file in settings.current().files:
        names = [name for name in ("key_file", "keyring") if name in file.values]
        if len(names) > 1:
            raise click.UsageError(f"{file.path} sets both key_file and keyring; use only one of them")
        for name in names:
            return KeySource(f"{name} in {file.path}", name.upper(), file.value(name))
    return None


def _from_prompt(source: KeySource) -> Key:
    if not can_ask_secret():
        raise click.UsageError(
            f"{source.name} needs a terminal to ask on; set CLEW_PASSPHRASE or CLEW_NEW_PASSPHRASE instead"
        )
    return clew.keys.from_passphrase(new_passphrase())


_READERS: dict[str, Callable[[KeySource], Key]] = {
    "KEY_FILE": lambda source: clew.keys.from_file(source.value),
    "KEY": lambda source: clew.keys.from_env(source.name),
    "KEYRING": lambda source: clew.keys.from_keyring(source.value),
    "PASSPHRASE": lambda source: clew.keys.from_passphrase(source.value),
    ASKED: _from_prompt,
}
