"""A tool call on one line: its name and the argument that says the most."""

from __future__ import annotations

from typing import Any

import msgspec

from clew.base.messages import ToolCall
from clew.base.visible import plain

_TELLING = (
    "command", "cmd", "script", "code", "file_path", "filepath", "path", "filename", "absolute_path", "notebook_path",
    "pattern", "query", "q", "url", "uri", "prompt", "description", "task", "input", "text", "name",
)  # fmt: skip
"""Names of arguments, the most telling first."""
WIDE = 120


def tool_line(call: ToolCall, width: int = WIDE) -> str:
    """``Bash: npm test``, ``Edit: src/app.py``; the name alone if there are no arguments."""
    name, argument = plain(call.name), plain(main_argument(call))
    line = f"{name}: {argument}" if argument else name
    return line if len(line) <= width else f"{line[: width - 1]}…"


def main_argument(call: ToolCall) -> str:
    """The argument that says the most about a call; all of them as JSON if none stands out."""
    arguments = call.arguments
    for name in _TELLING:
        if (shown := _as_line(arguments.get(name))) is not None:
            return shown
    if len(arguments) == 1 and (shown := _as_line(next(iter(arguments.values())))) is not None:
        return shown
    return msgspec.json.encode(arguments).decode() if arguments else ""


def _as_line(value: Any) -> str | None:
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return " ".join(value)  # a command with its arguments
    return None
