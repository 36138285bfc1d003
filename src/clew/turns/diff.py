"""Changes to a file as lines: from two texts, or from a patch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

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


def compare(before: str, after: str, read: int | None = None) -> list[DiffLine]:
    """The lines that change `before` into `after`, with three lines around them; of the first `read` lines only."""
    old, new = before.splitlines()[:read], after.splitlines()[:read]
    if max(len(old), len(new)) > COMPARED:
        removed = [DiffLine("-", number, None, text) for number, text in enumerate(old, 1)]
        return removed + [DiffLine("+", None, number, text) for number, text in enumerate(new, 1)]
    if not old:
        return [DiffLine("+", None, number, text) for number, text in enumerate(new, 1)]
    return list(_number_lines(list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]))


def patch(text: str, read: int | None = None) -> list[DiffLine]:
    """The lines of a patch, as `diff` or as the patch tools of agents write them."""
    lines = text.splitlines()[:read]
    return list(_number_lines(line for line in lines if not line.startswith(("--- ", "+++ "))))


def patched_files(text: str, read: int | None = None) -> dict[str, list[DiffLine]]:
    """The lines of a patch for each file that it names, in order."""
    parts: dict[str, list[str]] = {}
    inside: list[str] = []
    before = ""
    for line in text.splitlines()[:read]:
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
