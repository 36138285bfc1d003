"""The help of every command: it fits a terminal, and shows how the command is used."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from clew.cli.root import cli

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
