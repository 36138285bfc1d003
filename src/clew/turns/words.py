"""Words and numbers in the form that every renderer shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from clew.base.visible import many
from clew.turns.model import ProgramNote

if TYPE_CHECKING:
    from clew.providers.usage import AnswerUsage
    from clew.store.usage import Spent

_CLAUDE = re.compile(
    r"claude-(?:(?P<a>[a-z]+)-(?P<b>\d{1,2}(?:[-.]\d{1,2})?)|(?P<c>\d(?:[-.]\d{1,2})?)-(?P<d>[a-z]+))(?=-|@|:|$)"
)
_DATE = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest)(?=-|:|$)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SHORT = 100
"""Characters of a note that is shown on its line, and not folded."""
_LANES = (("input", "in"), ("cached", "cached"), ("cache_write", "cache writes"), ("output", "out"))


def short_model(name: str | None) -> str:
    """A model as people call it: ``Opus 4.5`` for ``claude-opus-4-5-20251101``."""
    if not name:
        return ""
    bare = name.rpartition("/")[2]
    if found := _CLAUDE.search(bare):
        family, number = found["a"] or found["d"], found["b"] or found["c"]
        return f"{family.capitalize()} {number.replace('-', '.')}"
    return _DATE.sub("", bare)


def short_models(names: Iterable[str]) -> dict[str, str]:
    """The short name of each model; the whole one where two have the same short name."""
    short = {name: short_model(name) for name in names}
    counts = Counter(short.values())
    return {name: one if counts[one] == 1 else name for name, one in short.items()}


def relative(path: str, project: str | None) -> str:
    """A path below the project's directory without that directory."""
    root = (project or "").rstrip("/\\")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("/", "\\"):
        return path[len(root) + 1 :] or path
    return path


def without_colours(text: str) -> str:
    """What a program printed on a terminal, without the sequences that only give it a colour or a weight."""
    return _COLOUR.sub("", text)


def token_words(used: AnswerUsage | None) -> list[str]:
    """``1,204 in``, ``89 out``; nothing for an answer whose tokens are unknown or all 0."""
    if used is None or used.lanes is None:
        return []
    counts = [(getattr(used.lanes, lane), word) for lane, word in _LANES]
    return [f"{count:,} {word}" for count, word in counts if count]


def money(millionths: float) -> str:
    """An amount, with as many digits as it needs."""
    value = millionths / 1_000_000
    return f"${value:,.2f}" if value >= 0.1 else f"${value:.4f}"


def price_origin(spent: Spent, listed_on: str) -> str:
    """Where a cost is from, and how much of it if there are several origins; empty without a cost."""
    origins = [
        (spent.noted, "as the tools noted it"),
        (spent.own, "at your own prices"),
        (spent.listed, f"at list price of {listed_on}"),
    ]
    known = [(cost, words) for cost, words in origins if cost]
    return ", ".join(f"{money(cost)} {words}" if len(known) > 1 else words for cost, words in known)


def duration(seconds: float | None) -> str:
    """``4 s``, ``2 min``; empty below a second."""
    if seconds is None or seconds < 1:
        return ""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def seam_text(before: int) -> str:
    """A notice for the place of a compaction."""
    return f"Compacted here. From here on, the model no longer sees the {many(before, 'message')} before."


def note_line(note: ProgramNote) -> str:
    """A note on one line: all of it if it is short, else its title and its size."""
    words = " ".join(note.text.split())
    if note.kind in ("interruption", "model"):
        return note.title
    if words and len(words) <= SHORT:
        return f"{note.title}: {words}"
    return f"{note.title}, {many(len(words.split()), 'word')}" if words else note.title


def thinking_line(text: str) -> str:
    """Reasoning on one line."""
    return f"thinking, {many(len(text.split()), 'word')}" if text else "(reasoning hidden by the provider)"
