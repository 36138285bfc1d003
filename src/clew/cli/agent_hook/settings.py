"""The settings files of Claude Code: which there are, and `clew hook` in them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from clew.base import files
from clew.base.outside import open_outside
from clew.base.visible import plain
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
