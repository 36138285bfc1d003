"""The prompts of a conversation, a part at a time: a long conversation is never read as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from clew.base.messages import Media, Text
from clew.base.visible import many
from clew.sources.registry import rules_for
from clew.store.session import Session
from clew.store.windows import window
from clew.turns.derive import is_prompt, split_prompt
from clew.turns.model import Entry, ShowRules, entry
from clew.web.secrets import SecretFinder
from clew.web.views import shorten

WINDOW = 50
"""Messages on one page of a conversation: few, since the first paint waits for all of them."""
BATCH = 200
"""Messages that one request may ask for."""
PAGE = 120
"""Prompts on one page of the outline."""
BEFORE, AFTER = 20, 60
"""Prompts before the window, and from it on, that the outline beside a long conversation has."""
SCANNED = 6_000
"""Messages that one request reads to find prompts."""
STEP = 150
"""Messages that are read at a time."""
SHORT = 600
"""Messages of a conversation whose whole outline is on every page."""


class Prompt(NamedTuple):
    """A line of the outline."""

    number: int
    words: str
    url: str
    notes: list[tuple[str, str]]
    """Events until the next prompt: a kind (files, parts, warn, err) and its text."""
    seam: bool = False
    """True for a compaction."""


class Outline(NamedTuple):
    """Some prompts, in order."""

    prompts: list[Prompt]
    earlier: int | None
    """There may be prompts before this message."""
    later: int | None
    """There may be prompts from this message on."""


def outline(
    session: Session, finder: SecretFinder, first: int, *, head: str | None, forks: Sequence[tuple[int, str]]
) -> Outline:
    """The prompts around message `first`. `forks` has the numbers of messages before a fork, with a text for each."""
    total = window(session, 1, 0, head=head).total
    if total <= SHORT:
        return Outline(_lines(session, finder, _entries(session, 1, total, head), head, forks), None, None)
    before, earlier = _backward(session, first, head)
    after, later = _forward(session, first, total, head, AFTER)
    return Outline(_lines(session, finder, [*before, *after], head, forks), earlier, later)


def outline_page(session: Session, finder: SecretFinder, first: int, *, head: str | None = None) -> Outline:
    """The prompts from message `first` on, one page of them."""
    total = window(session, 1, 0, head=head).total
    found, later = _forward(session, max(1, first), total, head, PAGE)
    return Outline(_lines(session, finder, found, head, ()), first if first > 1 else None, later)


def url(session: Session, *, head: str | None = None, start: int = 1, anchor: str = "", **more: str) -> str:
    """The URL of a window of a conversation."""
    query = {**({"head": head} if head else {}), **({"from": str(start)} if start > 1 else {}), **more}
    return f"/c/{session.id}{'?' + urlencode(query) if query else ''}{'#' + anchor if anchor else ''}"


def window_start(number: int) -> int:
    """The first message of the window that a message is in."""
    return (number - 1) // WINDOW * WINDOW + 1


def outline_value(found: Outline) -> dict[str, Any]:
    """An outline as JSON."""
    prompts = [{"number": one.number, "text": one.words, "url": one.url} for one in found.prompts]
    return {"prompts": prompts, "next": found.later}


def _entries(session: Session, first: int, last: int, head: str | None) -> list[Entry]:
    return [entry(node) for node in window(session, first, last, head=head).nodes]


def _forward(session: Session, first: int, total: int, head: str | None, most: int) -> tuple[list[Entry], int | None]:
    """Entries from message `first` on with the next prompts, `most` of them, and the number after them."""
    found: list[Entry] = []
    rules, prompts = rules_for(session), 0
    for start in range(first, min(first + SCANNED, total + 1), STEP):
        for one in _entries(session, start, min(start + STEP - 1, total), head):
            prompts += is_prompt(one, rules)
            if prompts > most:
                return found, one.number
            found.append(one)
    following = first + SCANNED
    return found, following if following <= total else None


def _backward(session: Session, first: int, head: str | None) -> tuple[list[Entry], int | None]:
    """Entries before message `first` with the last prompts there, and the number before which there are more."""
    found: list[Entry] = []
    rules, low = rules_for(session), first
    while low > 1 and first - low < SCANNED and sum(is_prompt(one, rules) for one in found) < BEFORE:
        low, upto = max(1, low - STEP), low - 1
        found = _entries(session, low, upto, head) + found
    numbers = [one.number for one in found if is_prompt(one, rules)]
    if len(numbers) > BEFORE:
        low = numbers[-BEFORE]
        found = [one for one in found if one.number >= low]
    return found, low if low > 1 else None


def _lines(
    session: Session, finder: SecretFinder, entries: Iterable[Entry], head: str | None, forks: Sequence[tuple[int, str]]
) -> list[Prompt]:
    places, rules = dict(forks), rules_for(session)
    found: list[Prompt] = []
    for one in entries:
        if one.is_summary:
            where = url(session, head=head, start=window_start(one.number), anchor=f"seam{one.number}")
            found.append(Prompt(one.number, "Compacted here", where, [], seam=True))
        elif is_prompt(one, rules):
            words = _words(one, rules, finder) or "(no text)"
            where = url(session, head=head, start=window_start(one.number), anchor=one.anchor)
            found.append(Prompt(one.number, words, where, list(_about_prompt(one, places))))
        elif found:
            found[-1].notes.extend(note for note in _about_answer(one) if note not in found[-1].notes)
    return found


def _words(one: Entry, rules: ShowRules, finder: SecretFinder) -> str:
    return shorten(
        " ".join(block.text for block in split_prompt(one, rules).blocks if isinstance(block, Text)), finder, 90
    )


def _about_prompt(one: Entry, places: dict[int, str]) -> Iterator[tuple[str, str]]:
    files = sum(isinstance(block, Media) for block in one.message.blocks) if one.message else 0
    if files:
        yield "files", many(files, "attachment")
    if one.number - 1 in places:
        yield "parts", places[one.number - 1]


def _about_answer(one: Entry) -> Iterator[tuple[str, str]]:
    if one.message is None:
        yield "err", "damaged message"
    elif one.is_interrupted:
        yield "warn", "interrupted"
