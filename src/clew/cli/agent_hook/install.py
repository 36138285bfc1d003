"""`clew hook install`, `uninstall` and `status`: `clew hook` in the settings of Claude Code."""

from __future__ import annotations

import os
import shlex
import sys

import click

from clew.base.visible import plain
from clew.cli.agent_hook.settings import (
    EVENTS,
    UsualFiles,
    add_hooks,
    installed,
    own_command,
    read_settings,
    remove_hooks,
    usual_files,
    write_settings,
)
from clew.cli.options import examples
from clew.cli.output.json import Form, home_short, json_options
from clew.cli.output.text import out, out_json, out_jsonl, warn
from clew.cli.setup.ask import can_ask
from clew.errors import ClewError

_settings = click.argument("settings", required=False, type=click.Path(dir_okay=False))
_user = click.option("--user", "where", flag_value="user", help="Your settings, for all projects.")
_project = click.option("--project", "where", flag_value="project", help="Your settings for this project.")


@click.command(epilog=examples("clew hook install", "clew hook install --user", "clew hook install --dry-run"))
@_settings
@_user
@_project
@click.option("--dry-run", is_flag=True, help="Print the resulting settings; change nothing.")
@click.option("--command", help="The command for Claude Code to run. Default: this program, by its absolute path.")
def install(settings: str | None, where: str | None, dry_run: bool, command: str | None) -> None:
    """Add 'clew hook' to a settings file of Claude Code. Keeps everything else in the file.

    Without SETTINGS it is ~/.claude/settings.json (--user) or .claude/settings.local.json (--project); on a terminal
    clew asks. An earlier call of clew in the file is replaced.
    """
    command = command or own_command(sys.argv[0])
    if dry_run and settings is None and where is None:
        out_json(add_hooks({}, command))
        return
    path = _file(settings, where)
    old = read_settings(path)
    new = add_hooks(old, command)
    if dry_run:
        out_json(new)
    elif new == old:
        warn(f"{plain(home_short(path))} already runs '{plain(command)}'")
    else:
        write_settings(path, new)
        warn(f"Added '{plain(command)}' to {plain(home_short(path))}")


@click.command(epilog=examples("clew hook uninstall", "clew hook uninstall --project"))
@_settings
@_user
@_project
@click.option("--command", help="Also remove this command, if it was installed with --command.")
def uninstall(settings: str | None, where: str | None, command: str | None) -> None:
    """Remove 'clew hook' from the settings of Claude Code. Keeps everything else.

    Without SETTINGS, --user and --project it is removed from all usual files. Conversations and checkpoints stay.
    """
    paths = [_file(settings, where)] if settings or where else list(dict.fromkeys(_usual()))
    changed = False
    for path in paths:
        old = read_settings(path)
        new = remove_hooks(old, command)
        if new != old:
            write_settings(path, new)
            warn(f"Removed 'clew hook' from {plain(home_short(path))}")
            changed = True
    if not changed:
        warn("'clew hook' is not installed")


@click.command(epilog=examples("clew hook status", "clew hook status --json"))
@json_options
def status(form: Form) -> None:
    """Show in which settings of Claude Code 'clew hook' is installed, and whether its program can be run."""
    rows = [_status(path) for path in dict.fromkeys(_usual())]
    if form != "text":
        (out_json if form == "json" else out_jsonl)(rows)
        return
    for row in rows:
        out(f"{plain(home_short(str(row['path'])))}  {plain(str(row['state']))}")
        if row["command"]:
            out(f"    {plain(str(row['command']))}")


def _status(path: str) -> dict[str, object]:
    import shutil  # here, because every hook loads this module

    try:
        found = installed(read_settings(path))
    except ClewError as error:
        return {"path": path, "state": error.message, "command": None, "missing": list(EVENTS)}
    command = next(iter(found.values()), None)
    missing = [event for event in EVENTS if event not in found]
    state = "installed"
    if command is None:
        state = "not installed"
    elif missing:
        state = f"incomplete: no {', '.join(missing)}; repeat 'clew hook install'"
    elif shutil.which(shlex.split(command)[0]) is None:
        state = "installed, but its program is missing; repeat 'clew hook install'"
    return {"path": path, "state": state, "command": command, "missing": missing}


def _usual() -> UsualFiles:
    return usual_files(os.path.expanduser("~"), os.environ, os.getcwd())


def _file(settings: str | None, where: str | None) -> str:
    """The settings file that is meant; asks for it on a terminal. UsageError."""
    if settings is not None:
        if where is not None:
            raise click.UsageError(f"name a settings file or use --{where}, not both")
        return settings
    if where is None:
        if not can_ask():
            raise click.UsageError("use --user or --project, or name a settings file")
        answer = click.prompt(
            "Install for all projects of this [u]ser, or for this [p]roject?", type=click.Choice(["u", "p"]),
            default="u", err=True, show_choices=False,
        )  # fmt: skip
        where = "user" if answer == "u" else "project"
    usual = _usual()
    return usual.user if where == "user" else usual.project
