"""Where a key comes from: a file, the environment, the keyring of the system, a passphrase.

A key is never an argument: other users see those in the list of processes, and shells write them down.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

import clew
from clew.cli import settings
from clew.cli.ask import can_ask_secret, new_passphrase
from clew.cli.exits import NoKey

if TYPE_CHECKING:
    from clew.keys import Key

VARIABLES = ("CLEW_KEY_FILE", "CLEW_KEY", "CLEW_KEYRING", "CLEW_PASSPHRASE")
NEW_VARIABLES = tuple(name.replace("CLEW_", "CLEW_NEW_") for name in VARIABLES)
ASKED = "asked"
"""Stands in the place of a variable for a flag that makes us ask for a new passphrase."""


class Source(NamedTuple):
    """One way in which a key was given."""

    name: str
    """The flag or the variable."""
    kind: str
    value: str

    def key(self) -> Key:
        """The key. NoKey if what was given is none; Unavailable if the keyring cannot be asked."""
        try:
            return _READERS[self.kind](self)
        except clew.NotFound as error:
            flag = f"--keyring {self.value}" if self.kind == "KEYRING" else f"--out {self.value}"
            hint = f"A sealed store needs the key it was sealed with; 'clew key generate {flag}' makes a new one."
            raise NoKey(f"{self.name}: {error.message}", hint=hint) from error
        except clew.Invalid as error:
            raise NoKey(f"{self.name}: {error.message}", hint=error.hint) from error


def find(variables: tuple[str, ...] = VARIABLES, flags: Mapping[str, str | None] | None = None) -> Source | None:
    """How a key was given: by a variable, or by one of `flags`, each named with the kind it is of before a colon.

    A flag stands above the variable of its kind. None if there is no key; UsageError if there are two.
    """
    found: dict[str, Source] = {}
    for name in variables:
        if name in os.environ:
            kind = name.removeprefix("CLEW_").removeprefix("NEW_")
            found[kind] = Source(name, kind, os.environ[name])
    for both, value in (flags or {}).items():
        kind, _, flag = both.partition(":")
        if value is not None:
            found[kind] = Source(flag, kind, value)
    if len(found) > 1:
        names = " and ".join(source.name for source in found.values())
        raise click.UsageError(f"{names} both give a key: leave one of them out")
    return next(iter(found.values()), None)


def in_settings() -> Source | None:
    """How the nearest file of settings that names a key does so. UsageError if it names two."""
    for file in settings.current().files:
        names = [name for name in ("key_file", "keyring") if name in file.values]
        if len(names) > 1:
            raise click.UsageError(
                f"{file.path} has key_file and keyring, which both give a key: leave one of them out"
            )
        for name in names:
            return Source(f"{name} in {file.path}", name.upper(), file.value(name))
    return None


def _from_prompt(source: Source) -> Key:
    if not can_ask_secret():
        raise click.UsageError(f"{source.name} asks on a terminal, and there is none: set a variable instead")
    return clew.keys.from_passphrase(new_passphrase())


_READERS: dict[str, Callable[[Source], Key]] = {
    "KEY_FILE": lambda source: clew.keys.from_file(source.value),
    "KEY": lambda source: clew.keys.from_env(source.name),
    "KEYRING": lambda source: clew.keys.from_keyring(source.value),
    "PASSPHRASE": lambda source: clew.keys.from_passphrase(source.value),
    ASKED: _from_prompt,
}
