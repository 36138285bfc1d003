"""Prompts: questions are asked only on a terminal, and secrets are not echoed."""

from __future__ import annotations

import os
import sys

import click

from clew.cli.exits import InvalidKey
from clew.cli.output.text import is_terminal

TRIES = 3
"""Attempts to type a passphrase or a recovery key."""


def can_ask() -> bool:
    """True if stdin and stderr are a terminal."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def can_ask_secret() -> bool:
    """True if there is a terminal to type at, even if stdin is a pipe."""
    if not is_terminal(sys.stderr):
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def confirm(question: str) -> bool:
    """Asks a yes-or-no question; the default is no."""
    return click.confirm(question, default=False, err=True)


def ask_secret(prompt: str) -> str:
    """Reads a secret from the terminal, without echo."""
    from getpass import getpass

    return getpass(prompt)


def new_passphrase() -> str:
    """Asks for a new passphrase twice. InvalidKey if the two differ."""
    typed = ask_secret("New passphrase: ")
    if typed and ask_secret("Repeat passphrase: ") != typed:
        raise InvalidKey("the passphrases do not match", hint="Nothing was changed. Try again.")
    return typed
