"""The command line as the document words it: each flag and each name of a command, in one table."""

from __future__ import annotations

import click
import pytest

from clew.cli.root import cli

FLAGS = [("chat", "-c", "--continue"), ("chat", "-n", "--new"), ("chat", "-G", "--incognito")]
NAMES = {
    ("conversation", "list"): [("convo", "ls"), ("conv", "ls"), ("convo", "list")],
    ("conversation", "print"): [("convo", "show"), ("conv", "view"), ("conversation", "show")],
    ("conversation", "delete"): [("convo", "rm"), ("conv", "remove"), ("conversation", "rm")],
}


def command(*names: str) -> click.Command:
    found: click.Command = cli
    for name in names:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), name)
        assert below is not None, names
        found = below
    return found


@pytest.mark.parametrize(("name", "short", "long"), FLAGS)
def test_flags(name: str, short: str, long: str) -> None:
    """Short and long are one option."""
    (option,) = [one for one in command(name).params if short in one.opts]
    assert option.opts == [short, long]


@pytest.mark.parametrize("name", NAMES)
def test_names(name: tuple[str, str]) -> None:
    """Every other name is the same command."""
    for other in NAMES[name]:
        assert command(*other) is command(*name)


def test_cascade() -> None:
    """What follows a message goes only when asked for."""
    (option,) = [one for one in command("conversation", "delete").params if "--cascade" in one.opts]
    assert isinstance(option, click.Option)
    assert option.is_flag
