"""The line of `clew statusline`. It imports no other part of the command line, because it runs after every answer."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from clew.base.messages import Native
from clew.base.outside import open_outside
from clew.base.visible import plain
from clew.providers.usage import AnswerUsage, Lanes, usage_of

if TYPE_CHECKING:
    from clew.providers.prices import Prices

LONGEST = 4 << 20
"""Bytes at the end of a transcript that are read: about 30 milliseconds."""
STDIN = 1 << 20
"""Bytes of input that are read."""


class _Line(msgspec.Struct):
    message: msgspec.Raw = msgspec.Raw()
    timestamp: Any = None


class _Answer(NamedTuple):
    """An answer, with the largest counts of its lines."""

    used: AnswerUsage
    lanes: Lanes
    day: str


_line = msgspec.json.Decoder(_Line).decode


def status_line(given: bytes, cwd: str, prices: Callable[[], Prices]) -> str:
    """Model, cost, tokens and context of a session: the one that `given` describes, else the latest.

    The latest is that of Claude Code in `cwd`. Empty if there is none. What is missing or odd is left out.
    """
    try:
        told = msgspec.json.decode(given)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        told = None
    told = told if isinstance(told, dict) else {}
    path = told.get("transcript_path")
    path = path if isinstance(path, str) else _latest(_at(told, "workspace", "current_dir") or told.get("cwd") or cwd)
    answers, whole = _read(path) if path else ([], True)
    last = answers[-1].used if answers else None
    model = _at(told, "model", "display_name") or (last.model if last else "")
    cost = _at(told, "cost", "total_cost_usd")
    if not isinstance(cost, int | float) and whole and answers:
        known = prices()
        costs = [known.cost(one.lanes, one.used.model, one.day) for one in answers]
        cost = None if None in costs else sum(one for one in costs if one is not None) / 1_000_000
    used = _at(told, "context_window", "used_percentage")
    parts = [
        plain(model) if isinstance(model, str) else "",
        f"${cost:,.2f}" if isinstance(cost, int | float) else "",
        *(_tokens(answers) if whole and answers else ()),
        f"context {used:.0f}%" if isinstance(used, int | float) else _context(last),
    ]
    return " · ".join(part for part in parts if part)


def _tokens(answers: list[_Answer]) -> Iterator[str]:
    lanes = Lanes()
    for one in answers:
        lanes = lanes.plus(one.lanes)
    read = lanes.all_input
    yield f"{_short(read)} in" + (f" ({lanes.cached * 100 // read}% cached)" if read and lanes.cached else "")
    yield f"{_short(lanes.output)} out"


def _context(last: AnswerUsage | None) -> str:
    return f"context {_short(last.lanes.all_input)}" if last is not None and last.lanes is not None else ""


def _short(count: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _at(told: dict[str, Any], name: str, inner: str) -> Any:
    one = told.get(name)
    return one.get(inner) if isinstance(one, dict) else None


def _latest(cwd: object) -> str | None:
    """The transcript of Claude Code in a directory that was written last."""
    if not isinstance(cwd, str):
        return None
    root = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    folder = os.path.join(root, "projects", re.sub(r"[^A-Za-z0-9-]", "-", cwd))
    try:
        files = (one for one in os.scandir(folder) if one.name.endswith(".jsonl"))
        found = [one for one in files if one.is_file(follow_symlinks=False)]
        return max(found, key=lambda one: one.stat().st_mtime).path if found else None
    except OSError:
        return None


def _read(path: str) -> tuple[list[_Answer], bool]:
    """The answers of a transcript, each once, and whether all of it was read."""
    answers: dict[str, _Answer] = {}
    try:
        with open_outside(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LONGEST))
            lines = file.read(LONGEST).split(b"\n")
    except OSError:
        return [], False
    for number, text in enumerate(lines):
        if b'"usage"' not in text or b'"assistant"' not in text:
            continue
        try:
            line = _line(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        used = usage_of(Native("anthropic", bytes(line.message)))
        if used is None or used.lanes is None:
            continue
        key = used.id or str(number)
        day = line.timestamp[:10] if isinstance(line.timestamp, str) else ""
        before = answers.pop(key, None)
        answers[key] = _Answer(used, used.lanes if before is None else before.lanes.most(used.lanes), day)
    return list(answers.values()), size <= LONGEST


def main() -> int:
    """Reads stdin if it is no terminal, prints the line, and never fails: a status bar has no place for errors."""
    given = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(STDIN)
    sys.stdout.write(status_line(given, os.getcwd(), _prices) + "\n")
    sys.stdout.flush()
    return 0


def _prices() -> Prices:
    """The user's own prices and the list; the list alone if the settings cannot be read."""
    from clew.cli.setup import settings
    from clew.errors import ClewError
    from clew.providers.prices import Prices

    try:
        return settings.prices()
    except ClewError:
        return Prices()
