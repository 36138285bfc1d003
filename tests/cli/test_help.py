"""The help of every command: it fits a terminal, and shows how the command is used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from clew.cli.command_list import COMMANDS, FIRST, GROUPS
from clew.cli.root import cli
from tests.cli.conftest import Run

WIDTH = 80


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, click.Context(below, info_name=name, parent=context))


ALL = list(commands(cli, click.Context(cli, info_name="clew", terminal_width=WIDTH, max_content_width=WIDTH)))


@pytest.mark.parametrize("context", ALL, ids=[one.command_path for one in ALL])
def test_it_fits_and_has_an_example(context: click.Context) -> None:
    """No line is wider than 80 columns, and there is an example."""
    help = context.command.get_help(context)
    assert [line for line in help.splitlines() if len(line) > WIDTH] == []
    assert "Example" in help


def listed(text: str) -> list[str]:
    """The names of commands in a list."""
    return [line.split()[0] for line in text.splitlines() if line[:2] == "  " and line[2:].split(" ")[0] in COMMANDS]


def test_ten_commands_come_first(clew_cli: Run) -> None:
    """`clew --help` lists ten commands by group, then the options; it says how to list all of them."""
    shown = clew_cli("--help").out
    titles = [line[:-1] for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [*GROUPS, "Options"]
    assert len(FIRST) == 10
    assert sorted(listed(shown.partition("All commands")[0])) == sorted(FIRST)
    assert "All commands: clew help --all" in shown


def test_all_commands_are_listed(clew_cli: Run) -> None:
    """`clew help --all` has each command once, in its group, and takes no other word."""
    shown = clew_cli("help", "--all").out
    assert listed(shown) == list(COMMANDS)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert clew_cli("help", "--all", "ls").code == 2


def test_help_takes_less_than_150_ms(tmp_path: Path) -> None:
    """Of the processor, the start of Python included, once Python has compiled it."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}

    def once() -> float:
        before = os.times()
        subprocess.run([sys.executable, "-m", "clew", "--help"], env=env, stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(once() for _ in range(5)) < 0.15
