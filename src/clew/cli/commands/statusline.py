"""`clew statusline`: one line for the status bar of an agent. `clew.cli.output.statusline` makes it."""

from __future__ import annotations

import click

from clew.cli.options import examples
from clew.cli.output.statusline import main


@click.command(
    epilog=examples(
        "clew statusline",
        'echo \'{"transcript_path": "session.jsonl"}\' | clew statusline',
        more='In ~/.claude/settings.json:\n  "statusLine": {"type": "command", "command": "clew statusline"}',
    )
)
@click.pass_context
def statusline(ctx: click.Context) -> None:
    """Print one line for the status bar of an agent: model, cost, tokens and context of its session.

    Reads what Claude Code writes to the command of its status line. Without input it shows the latest session of
    Claude Code in the current directory. Cost is the tool's own figure, else the list price. Nothing is stored.
    """
    ctx.exit(main())
