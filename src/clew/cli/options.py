"""What several commands share: groups that print their help, examples, and common options."""

from __future__ import annotations

import sys
from typing import Any

import click

from clew.cli.exits import USAGE
from clew.cli.output.text import is_terminal

dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


class Group(click.Group):
    """A group that lists its commands in order, and prints its help if none is named.

    `aliases` maps further names to commands; help does not list them. `default` is the command to run if none is named.
    """

    def __init__(
        self, *args: Any, aliases: dict[str, str] | None = None, default: str | None = None, **attrs: Any
    ) -> None:
        super().__init__(*args, **attrs | {"invoke_without_command": True, "callback": _show_help_alone})
        self.aliases = aliases or {}
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ([] if self.default is None else [self.default]))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))


@click.pass_context
def _show_help_alone(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        show_help(ctx)


def show_help(ctx: click.Context) -> None:
    """Prints the help of a group and exits: with code 0 on a terminal, elsewhere as a usage error on stderr."""
    interactive = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    click.echo(ctx.get_help(), err=not interactive)
    ctx.exit(0 if interactive else USAGE)


def examples(*commands: str, more: str = "") -> str:
    """The end of a command's help: examples, then `more`; lines are printed as they are."""
    lines = "\n".join(f"  {command}" for command in commands)
    return f"\b\nExample{'s' * (len(commands) > 1)}:\n{lines}" + (f"\n\n\b\n{more}" if more else "")
