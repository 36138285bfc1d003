"""`clew hook install`: the settings by which Claude Code calls `clew hook`."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from clew import files
from clew.cli.text import out_json, plain, warn
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
"""Each event, and the tools that it is wanted for."""
SECONDS = 60


@click.command(
    short_help="Have Claude Code call 'clew hook'.",
    epilog="\b\nExamples:\n  clew hook install --dry-run\n  clew hook install .claude/settings.json",
)
@click.argument("settings", required=False, type=click.Path(dir_okay=False))
@click.option("--dry-run", is_flag=True, help="Print the settings to add, and change nothing.")
@click.option("--command", default="clew hook", show_default=True, help="What is called.")
def install(settings: str | None, dry_run: bool, command: str) -> None:
    """Adds what is needed to the SETTINGS of Claude Code; whatever else is in the file stays as it is.

    Settings of a project are in .claude/settings.json, those that are not shared in .claude/settings.local.json, those
    for all projects in ~/.claude/settings.json.
    """
    if dry_run:
        out_json(merged(_read(settings), command) if settings is not None else merged({}, command))
        return
    if settings is None:
        raise click.UsageError("name the settings file, or give --dry-run")
    old = _read(settings)
    new = merged(old, command)
    if new == old:
        warn(f"{plain(settings)} has it already")
        return
    target = os.path.realpath(settings)  # a link stays a link
    os.makedirs(os.path.dirname(target), exist_ok=True)
    files.replace(target, json.dumps(new, indent=2, ensure_ascii=False).encode() + b"\n")
    warn(f"{plain(settings)} now has Claude Code call '{plain(command)}'")


def merged(settings: dict[str, Any], command: str) -> dict[str, Any]:
    """Settings with the hooks added that are not there; nothing else is changed. Invalid if they are no settings."""
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(one, list) for one in hooks.values()):
        raise Invalid("the settings have hooks that are none", hint="Look at the file; nothing was changed.")
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
        raise Invalid(f"{plain(path)} is not a JSON object", hint="Mend it by hand; nothing was changed.")
    return settings
