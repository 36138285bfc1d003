"""Changes to a file as lines: from two texts, or from a patch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

COMPARED = 4_000
"""Lines of the larger text up to which two texts are compared; beyond that all lines count as replaced."""
AROUND = 3
"""Unchanged lines that are shown around changed ones."""
_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: (.+)")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class DiffLine(NamedTuple):
    """A line of a diff. `kind` is a space, ``+``, ``-`` or ``@``."""

    kind: str
    old: int | None
    new: int | None
    text: str


def compare(before: str, after: str, read: int | None = None) -> list[DiffLine]:
    """The lines that change `before` into `after`, with `AROUND` lines around them; of the first `read` lines only."""
    old, new = before.splitlines()[:read], after.splitlines()[:read]
    if max(len(old), len(new)) > COMPARED:
        removed = [DiffLine("-", number, None, text) for number, text in enumerate(old, 1)]
        return removed + [DiffLine("+", None, number, text) for number, text in enumerate(new, 1)]
    if not old:
        return [DiffLine("+", None, number, text) for number, text in enumerate(new, 1)]
    return list(_hunks(old, new))


def patch(text: str, read: int | None = None) -> list[DiffLine]:
    """The lines of a patch, as `diff` or as the patch tools of agents write them."""
    return list(_number_lines(line for _, line in _lines(text.splitlines()[:read]) if line is not None))


def patched_files(text: str, read: int | None = None) -> dict[str, list[DiffLine]]:
    """The lines of a patch for each file that it names, in order."""
    parts: dict[str, list[str]] = {}
    inside: list[str] = []
    for name, line in _lines(text.splitlines()[:read]):
        if name is not None:
            inside = parts.setdefault(name, [])
        elif line is not None:
            inside.append(line)
    return {name: list(_number_lines(lines)) for name, lines in parts.items()}


def counts(lines: Iterable[DiffLine]) -> tuple[int, int]:
    """How many lines were added, and how many removed."""
    kinds = [line.kind for line in lines]
    return kinds.count("+"), kinds.count("-")


def _hunks(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    """The hunks of two texts. What both begin and end with is not compared: most edits change little of a long text."""
    least = min(len(old), len(new))
    above = next((at for at in range(least) if old[at] != new[at]), least)
    below = next((at for at in range(least - above) if old[-1 - at] != new[-1 - at]), least - above)
    first, last = max(0, above - AROUND), max(0, below - AROUND)
    changed = difflib.SequenceMatcher(None, old[first : len(old) - last], new[first : len(new) - last])
    for group in changed.get_grouped_opcodes(AROUND):
        (_, a, _, b, _), (_, _, a_end, _, b_end) = group[0], group[-1]
        yield DiffLine("@", None, None, f"@@ -{_range(first + a, a_end - a)} +{_range(first + b, b_end - b)} @@")
        for tag, low, high, new_low, new_high in group:
            olds, news = range(first + low, first + high), range(first + new_low, first + new_high)
            if tag == "equal":
                yield from (DiffLine(" ", at + 1, to + 1, old[at]) for at, to in zip(olds, news, strict=True))
            else:
                yield from (DiffLine("-", at + 1, None, old[at]) for at in olds)
                yield from (DiffLine("+", None, to + 1, new[to]) for to in news)


def _range(begin: int, count: int) -> str:
    """Lines in the head of a hunk, as `diff` writes them."""
    return str(begin + 1) if count == 1 else f"{begin + (count > 0)},{count}"


def _number_lines(lines: Iterable[str]) -> Iterator[DiffLine]:
    old = new = 1
    known = False
    for line in lines:
        if found := _HUNK.match(line):
            old, new, known = int(found[1]), int(found[3]), True
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


def _lines(lines: list[str]) -> Iterator[tuple[str | None, str | None]]:
    """Each line of a patch, with the name of the file that begins there; None for a line that only names files.

    In a hunk, ``--- x`` is a removed line that begins with ``-- ``, as comments of SQL do. A hunk ends with its last
    line, or before a header that another hunk follows, as models often write wrong counts or none. The patches that
    begin with ``***`` have no such headers.
    """
    old = new = 0  # lines of the hunk that are still to come
    counted, by_agent, skipped = True, False, False
    for number, line in enumerate(lines):
        if skipped:
            skipped = False
        elif found := _PATCHED.match(line):
            by_agent = True
            yield found[1], line
        elif not by_agent and _is_header(lines[number : number + 3], counted, old, new):
            yield _name(line, lines[number + 1]), None
            old, new, counted, skipped = 0, 0, True, True
        else:
            if line.startswith("@@"):
                hunk = _HUNK.match(line)
                counted = hunk is not None
                old, new = (0, 0) if hunk is None else (int(hunk[2] or 1), int(hunk[4] or 1))
            elif line.startswith("diff "):
                old, new, counted = 0, 0, True
            elif not line.startswith("\\"):
                old, new = max(0, old - (line[:1] != "+")), max(0, new - (line[:1] != "-"))
            yield None, line


def _is_header(lines: list[str], counted: bool, old: int, new: int) -> bool:
    """True if the first two of these lines name a file."""
    if not lines[0].startswith("--- ") or not lines[1:] or not lines[1].startswith("+++ "):
        return False
    if counted and not old and not new:
        return True
    is_end = counted and old == new == 1
    return not is_end and len(lines) == 3 and lines[2].startswith("@@")


def _name(before: str, after: str) -> str:
    """The name of a file in its two lines; the old one if it is deleted."""
    old, new = (line[4:].partition("\t")[0] for line in (before, after))
    return old.removeprefix("a/") if new in ("/dev/null", old) else new.removeprefix("b/")
