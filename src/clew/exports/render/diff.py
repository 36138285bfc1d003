"""Changes to a file as HTML: from two texts, or from a patch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clew.exports.render.text import LINE, attribute, inline, limits

COMPARED = 4_000
"""Lines of the larger text up to which two texts are compared; beyond that all lines count as replaced."""
_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: (.+)")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class DiffLine(NamedTuple):
    """A line of a diff. `kind` is a space, ``+``, ``-`` or ``@``."""

    kind: str
    old: int | None
    new: int | None
    text: str


def compare(before: str, after: str) -> list[DiffLine]:
    """The lines that change `before` into `after`, with three lines around them."""
    read = limits().read
    old, new = before.splitlines()[:read], after.splitlines()[:read]
    if max(len(old), len(new)) > COMPARED:
        removed = [DiffLine("-", number, None, text) for number, text in enumerate(old, 1)]
        return removed + [DiffLine("+", None, number, text) for number, text in enumerate(new, 1)]
    if not old:
        return [DiffLine("+", None, number, text) for number, text in enumerate(new, 1)]
    return list(_number_lines(list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]))


def patch(text: str) -> list[DiffLine]:
    """The lines of a patch, as `diff` or as the patch tools of agents write them."""
    lines = text.splitlines()[: limits().read]
    return list(_number_lines(line for line in lines if not line.startswith(("--- ", "+++ "))))


def patched_files(text: str) -> dict[str, list[DiffLine]]:
    """The lines of a patch for each file that it names, in order."""
    parts: dict[str, list[str]] = {}
    inside: list[str] = []
    before = ""
    for line in text.splitlines()[: limits().read]:
        if found := _PATCHED.match(line):
            inside = parts.setdefault(found[1], [])
        elif line.startswith("+++ ") and before:
            name = line[4:].partition("\t")[0]
            name = before if name == "/dev/null" else name
            inside = parts.setdefault(name.removeprefix("a/" if name == before else "b/"), [])
        elif not line.startswith("--- "):
            inside.append(line)
        before = line[4:].partition("\t")[0] if line.startswith("--- ") else ""
    return {name: list(_number_lines(lines)) for name, lines in parts.items()}


def counts(lines: Iterable[DiffLine]) -> tuple[int, int]:
    """How many lines were added, and how many removed."""
    kinds = [line.kind for line in lines]
    return kinds.count("+"), kinds.count("-")


def summary(lines: Iterable[DiffLine]) -> str:
    """``+8 −4``."""
    added, removed = counts(lines)
    parts = [f'<span class="add">+{added:,}</span>'] if added or not removed else []
    return " ".join([*parts, *([f'<span class="rem">−{removed:,}</span>'] if removed else [])])


def render(lines: list[DiffLine], label: str) -> str:
    """The diff as a table of lines that scrolls on its own."""
    shown: list[str] = []
    size = 0
    most = limits()
    while len(shown) < min(most.lines, len(lines)) and size < most.text:
        line = lines[len(shown)]
        size += min(len(line.text), LINE)
        shown.append(_render_line(line))
    body, left = "".join(shown), len(lines) - len(shown)
    rest = f'<p class="out-more">{left:,} more lines {most.rest}</p>' if left else ""
    return (
        f'<div class="diff-w" tabindex="0" role="region" aria-label="Diff of {attribute(label)}">'
        f'<div class="diff">{body}</div></div>{rest}'
    )


def _render_line(line: DiffLine) -> str:
    text = inline(line.text if len(line.text) <= limits().line else f"{line.text[:LINE]}…")
    if line.kind == "@":
        return f'<div class="l h"><span>{text}</span></div>'
    sign = {"+": "+", "-": "−"}.get(line.kind, " ")
    name = {"+": " p", "-": " d"}.get(line.kind, "")
    numbers = "".join(f"<i>{'' if number is None else number}</i>" for number in (line.old, line.new))
    return f'<div class="l{name}">{numbers}<b>{sign}</b><span>{text}</span></div>'


def _number_lines(lines: Iterable[str]) -> Iterator[DiffLine]:
    old = new = 1
    known = False
    for line in lines:
        if found := _HUNK.match(line):
            old, new, known = int(found[1]), int(found[2]), True
            yield DiffLine("@", None, None, line)
        elif line.startswith(("@@", "***", "diff ", "index ")):
            known = False
            yield DiffLine("@", None, None, line)
        elif line.startswith("+"):
            yield DiffLine("+", None, new if known else None, line[1:])
            new += 1
        elif line.startswith("-"):
            yield DiffLine("-", old if known else None, None, line[1:])
            old += 1
        else:
            yield DiffLine(" ", old if known else None, new if known else None, line[1:])
            old, new = old + 1, new + 1
