"""`clew hook install`: adds `clew hook` to the settings of Claude Code."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from clew.base import files
from clew.base.visible import plain
from clew.cli.options import examples
from clew.cli.output.text import out_json, warn
from clew.errors import Invalid

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


@click.command(epilog=examples("clew hook install --dry-run", "clew hook install .claude/settings.json"))
@click.argument("settings", required=False, type=click.Path(dir_okay=False))
@click.option("--dry-run", is_flag=True, help="Print the resulting settings; change nothing.")
@click.option("--command", default="clew hook", show_default=True, help="The command for Claude Code to run.")
def install(settings: str | None, dry_run: bool, command: str) -> None:
    """Add 'clew hook' to the SETTINGS file of Claude Code. Keeps everything else in the file.

    The settings of a project are in .claude/settings.json, personal ones in .claude/settings.local.json, and those for
    all projects in ~/.claude/settings.json.
    """
    if dry_run:
        out_json(add_hooks(_read(settings), command) if settings is not None else add_hooks({}, command))
        return
    if settings is None:
        raise click.UsageError("name the settings file, or use --dry-run")
    old = _read(settings)
    new = add_hooks(old, command)
    if new == old:
        warn(f"{plain(settings)} already runs '{plain(command)}'")
        return
    target = os.path.realpath(settings)  # a link stays a link
    os.makedirs(os.path.dirname(target), exist_ok=True)
    files.replace(target, json.dumps(new, indent=2, ensure_ascii=False).encode() + b"\n")
    warn(f"Added '{plain(command)}' to {plain(settings)}")


def add_hooks(settings: dict[str, Any], command: str) -> dict[str, Any]:
    """The settings with missing hooks added. Invalid if the settings have another structure."""
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(one, list) for one in hooks.values()):
        raise Invalid("'hooks' in the settings has an unknown structure", hint="Check the file. Nothing was changed.")
    hooks = dict(hooks)
    for event, tools in EVENTS.items():
        there = hooks.get(event, [])
        if not any(_calls(one, command) for one in there):
            called = {"hooks": [{"type": "command", "command": command, "timeout": SECONDS}]}
            hooks[event] = [*there, called if tools is None else {"matcher": tools, **called}]
    return {**settings, "hooks": hooks}


def _calls(group: Any, command: str) -> bool:
    inner = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(inner, list) and any(isinstance(one, dict) and one.get("command") == command for one in inner)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            settings = json.load(file)
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise Invalid(f"{plain(path)} is not a JSON object", hint="Correct the file. Nothing was changed.")
    return settings
