"""Asking a person: only where one is, and secrets without showing them."""

from __future__ import annotations

import os
import sys

import click

from clew.cli.exits import NoKey
from clew.cli.text import is_terminal

TRIES = 3
"""How often something that is hard to type may be typed."""


def can_ask() -> bool:
    """True if a person reads along and can answer."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def can_ask_secret() -> bool:
    """True if a person reads along and has a terminal to type at; stdin may be a pipe all the same."""
    if not is_terminal(sys.stderr):
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def agrees(question: str) -> bool:
    """Whether the answer is yes; no by default."""
    return click.confirm(question, default=False, err=True)


def secret(prompt: str) -> str:
    """What is typed at the terminal, which does not show it."""
    from getpass import getpass

    return getpass(prompt)


def new_passphrase() -> str:
    """A passphrase that was typed twice the same. NoKey if the two differ."""
    typed = secret("New passphrase: ")
    if typed and secret("Once more: ") != typed:
        raise NoKey("the two passphrases differ", hint="Nothing was changed: do it again.")
    return typed
