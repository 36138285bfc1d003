"""`clew hook install`, `uninstall` and `status`: `clew hook` in the settings of Claude Code."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from clew.base import files
from clew.base.outside import open_outside
from clew.base.visible import plain
from clew.cli.options import examples
from clew.cli.output.json import Form, home_short, json_options
from clew.cli.output.text import out, out_foreign, out_json, out_jsonl, warn
from clew.cli.setup.ask import can_ask
from clew.errors import ClewError, Invalid

EDITS = "Edit|Write|MultiEdit|NotebookEdit"
EVENTS = {
    "PreToolUse": f"{EDITS}|Bash",
    "PostToolUse": EDITS,
    "UserPromptSubmit": None,
    "Stop": None,
    "SubagentStop": None,
    "SessionEnd": None,
}
"""Each event, and the tools that it applies to."""
SECONDS = 60


class UsualFiles(NamedTuple):
    """Where Claude Code looks for settings."""

    user: str
    """For all projects."""
    project: str
    """For this project and this person: an absolute program is of no use to others."""
    shared: str
    """For this project and everybody."""


def usual_files(home: str, env: Mapping[str, str], cwd: str) -> UsualFiles:
    """The settings files of a person in a project."""
    own = env.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    here = os.path.join(cwd, ".claude")
    return UsualFiles(
        os.path.join(own, "settings.json"),
        os.path.join(here, "settings.local.json"),
        os.path.join(here, "settings.json"),
    )


def own_command(program: str) -> str:
    """The command that runs this very clew, whatever PATH is: its absolute program, or its Python."""
    path = os.path.abspath(program)
    is_clew = os.path.basename(path) == "clew" and os.access(path, os.X_OK) and os.path.isfile(path)
    return shlex.join([path, "hook"] if is_clew else [sys.executable, "-m", "clew", "hook"])


def add_hooks(settings: dict[str, Any], command: str) -> dict[str, Any]:
    """The settings with this command at each event, in the place of another call of clew. Invalid if they are odd."""
    hooks = _hooks(settings)
    for event, tools in EVENTS.items():
        there = _without(hooks.get(event, []), keep=command)
        if not any(command in _commands(group) for group in there):
            called = {"hooks": [{"type": "command", "command": command, "timeout": SECONDS}]}
            there = [*there, called if tools is None else {"matcher": tools, **called}]
        hooks[event] = there
    return {**settings, "hooks": hooks}


def remove_hooks(settings: dict[str, Any], command: str | None = None) -> dict[str, Any]:
    """The settings without calls of clew, and without this command. Invalid if they have another structure."""
    hooks: dict[str, Any] = {}
    for event, there in _hooks(settings).items():
        left = _without(there, also=command)
        if left or not there:
            hooks[event] = left
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {**rest, "hooks": hooks} if hooks else rest


def installed(settings: dict[str, Any]) -> dict[str, str]:
    """The call of clew at each event that has one."""
    return {
        event: command
        for event, there in _hooks(settings).items()
        for group in there
        for command in _commands(group)
        if is_hook(command)
    }


def is_hook(command: str) -> bool:
    """True for a command that runs `clew hook`, with whatever program and options."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return words[-1:] == ["hook"] and any(os.path.basename(word) == "clew" for word in words)


def read_settings(path: str) -> dict[str, Any]:
    """The settings in a file; none if there is no file. Invalid."""
    try:
        with open_outside(path) as file:
            settings = json.load(file)
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise Invalid(f"{plain(path)} is not a JSON object", hint="Correct the file. Nothing was changed.")
    return settings


def write_settings(path: str, settings: dict[str, Any]) -> None:
    """Replaces a file in one step; a link stays a link."""
    target = os.path.realpath(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    files.replace(target, json.dumps(settings, indent=2, ensure_ascii=False).encode() + b"\n")


def _hooks(settings: dict[str, Any]) -> dict[str, list[Any]]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(one, list) for one in hooks.values()):
        raise Invalid("'hooks' in the settings has an unknown structure", hint="Check the file. Nothing was changed.")
    return dict(hooks)


def _without(there: list[Any], *, keep: str | None = None, also: str | None = None) -> list[Any]:
    """The groups of an event without calls of clew, other than `keep`; `also` is another command to remove."""
    left = []
    for group in there:
        gone = {one for one in _commands(group) if one != keep and (is_hook(one) or one == also)}
        if not gone:
            left.append(group)
            continue
        inner = [one for one in group["hooks"] if not (isinstance(one, dict) and one.get("command") in gone)]
        if inner:
            left.append({**group, "hooks": inner})
    return left


def _commands(group: Any) -> list[str]:
    inner = group.get("hooks") if isinstance(group, dict) else None
    found = [one.get("command") for one in inner if isinstance(one, dict)] if isinstance(inner, list) else []
    return [one for one in found if isinstance(one, str)]


_settings = click.argument("settings", required=False, type=click.Path(dir_okay=False))
_user = click.option("--user", "where", flag_value="user", help="Your settings, for all projects.")
_project = click.option("--project", "where", flag_value="project", help="Your settings for this project.")


@click.command(epilog=examples("clew hook install --user", "clew hook install --project --dry-run"))
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
        out_foreign(add_hooks({}, command))
        return
    path = _file(settings, where)
    old = read_settings(path)
    new = add_hooks(old, command)
    if dry_run:
        out_foreign(new)
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
