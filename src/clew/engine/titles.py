"""Titles made from the first prompt that says something, and their removal when it is deleted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from clew.backends import MAX_SEQ, POS, SEQ_BITS, RefRow, Tx
from clew.base import ids
from clew.base.messages import RECORD, AnyMessage, Message
from clew.engine.deletion import BATCH, RunCut
from clew.engine.engine import Engine
from clew.engine.receipts import Failure
from clew.engine.refs import Refs
from clew.engine.session_data import AGAIN, SOURCE, SessionData, note_changes, pack, unpack
from clew.errors import Corrupted
from clew.providers.view import view

LONGEST = 80
"""Characters of a title."""
_READ = 8 * LONGEST
"""Characters of a text that a title is made from."""
_ELLIPSIS = "…"
_WRAPPER = re.compile(
    r"\s*<(system-reminder|ide_\w+|command-\w+|local-command-\w+|bash-\w+|user-memory-input|task-notification|tick"
    r"|environment_context|environment_details|user_instructions|user_info)\b[^>]*>(?:.*?</\1>|.*)\s*",
    re.DOTALL,
).match
"""A text that a program puts before a prompt, or in its place."""
_NOT_TYPED = ("Caveat: The messages below", "[Request interrupted")
"""How texts begin that programs write in the user's name."""
_FAILURE = re.compile(
    r"Traceback \(most recent|Exception in thread|panic: |thread '|([\w$]+\.)*[\w$]*(Error|Exception)(: |$)"
).match
"""How a failure begins that was pasted from a terminal."""
_UNSAID = re.compile(r"/[\w:.-]+$|<[A-Za-z]").match
"""A command without words, and text in tags, which programs put in the place of a prompt."""
_WORD = re.compile(r"[^\W_]+")
_EMPTY = re.compile(
    r"a|again|ahead|all|alright|and|carry|continue|cool|do|fine|go|good|great|hello|hey|hi|i|it|just|k|keep|lgtm|looks|me"
    r"|nah|next|nice|no|nope|now|ok|okay|on|perfect|please|proceed|resume|retry|right|sounds|sure|test|thanks?|that|the"
    r"|then|this|try|up|very|well|y|yeah|yep|yes|you|\d+"
).fullmatch
"""Words of prompts that only tell the model to continue, or greet it."""


def title_line(text: str | None) -> str | None:
    """A text as a title: the beginning of it, on one line and without control characters. None if it has no words."""
    words = "" if text is None else _line(text)
    return (words if len(words) <= LONGEST else words[: LONGEST - 1].rstrip() + _ELLIPSIS) or None


def typed_words(text: str) -> str:
    """The text of a prompt without what programs put before it; empty if nothing in it was typed."""
    if text.lstrip()[:1] == "<":
        while found := _WRAPPER(text):
            text = text[found.end() :]
    return "" if text.lstrip().startswith(_NOT_TYPED) else text


def says_something(prompt: str) -> bool:
    """False for a prompt like "yes, go ahead", for a command alone, text in tags, and a failure that was pasted."""
    prompt = prompt.strip()
    if _UNSAID(prompt) or _FAILURE(prompt):
        return False
    return not all(map(_EMPTY, _WORD.findall(prompt[:_READ].lower())))


def prompt_title(prompts: Iterable[str], *, typed: Callable[[str], str] = typed_words) -> str | None:
    """A title for a conversation without one: the first prompt that says something, else the first one.

    `typed` returns the words of a prompt that a person has typed.
    """
    first: str | None = None
    for text in prompts:
        title = title_line(typed(text))
        if title is not None and says_something(title):
            return title
        first = first or title
    return first


def title_of(said: Iterable[AnyMessage]) -> str | None:
    """A title for a conversation that begins with these messages; None if the user said nothing."""
    return prompt_title(text for one in said if (text := _prompt(one)))


def renewed(title: str | None, old: AnyMessage, new: AnyMessage) -> str | None:
    """`title`; if it was made from a message whose new version has other words there, a title made from those."""
    if not title:
        return title
    pattern, before, after = _pattern(title), _clean(_prompt(old)), _clean(_prompt(new))
    found = pattern.search(before)
    if found is None or pattern.search(after):
        return title
    start, end = found.span(1)
    if not after.startswith(before[:start]):
        return title_of([new])
    return title_line(after[start:].removesuffix("" if title.endswith(_ELLIPSIS) else before[end:]))


def repeated(engine: Engine, refs: Refs, tx: Tx, cuts: Sequence[RunCut], sessions: Iterable[RefRow]) -> set[str]:
    """The titles of these sessions that were made from a question in these cuts."""
    patterns = {title: _pattern(title) for row in sessions for title in _titles(refs, row)}
    found: set[str] = set()
    for cut in cuts if patterns else ():
        at, last = (cut.run.run << SEQ_BITS | cut.first) - 1, cut.run.run << SEQ_BITS | MAX_SEQ
        while places := [place for place in tx.maintenance.places_after(at, BATCH) if place.row[POS] <= last]:
            at = places[-1].row[POS]
            for place in places:
                node = engine.node(place)
                try:
                    text = _clean(_prompt(node.said)) if node.role == "user" else ""
                except Corrupted:  # a damaged message cannot be compared
                    continue
                found |= {title for title, pattern in patterns.items() if pattern.search(text)}
    return found


def _titles(refs: Refs, row: RefRow) -> list[str]:
    """The titles that a session's data has; none if it is damaged, which `clear` reports."""
    try:
        data = unpack(refs.data(refs.verify(row)))
    except Corrupted:
        return []
    origin = (data.extra or {}).get(SOURCE)
    told = origin.get("title") if isinstance(origin, dict) else None
    return [title for title in (data.title, told) if isinstance(title, str)]


def clear(refs: Refs, tx: Tx, row: RefRow, gone: set[str]) -> Failure | None:
    """Removes a session's title if it is one of these. A failure if a record's summary may repeat deleted words."""
    now = tx.ref_at(row.ref)
    if now is None:
        return None
    try:
        data = unpack(refs.data(refs.verify(now)))
    except Corrupted:
        return Failure(ids.text(row.key), "its title cannot be read, and may repeat what was deleted")
    title = None if data.title in gone else data.title
    cleared = msgspec.structs.replace(data, title=title, extra=_without(data.extra, gone))
    if cleared != data:
        data = note_changes(data, cleared, now.version + 1, ())
        refs.change(tx, now, pack(data), look=now.look)
    return Failure(ids.text(row.key), "its summary may repeat what was deleted") if _summarised(data) else None


def _without(extra: dict[str, Any] | None, gone: set[str]) -> dict[str, Any] | None:
    """Free data whose origin has none of these titles, and lets no import bring them back."""
    origin = (extra or {}).get(SOURCE)
    if extra is None or not isinstance(origin, dict):
        return extra
    left = {AGAIN, "title"} if origin.get("title") in gone else {AGAIN}
    return {**extra, SOURCE: {name: value for name, value in origin.items() if name not in left}}


def _pattern(title: str) -> re.Pattern[str]:
    """Finds the words of a title in a text that `_clean` returned, as group 1.

    They must be whole lines, except for text in tags or brackets around them: programs write such text around a prompt,
    by rules that only a source knows.
    """
    words = r"[ \n]+".join(map(re.escape, _clean(title.removesuffix(_ELLIPSIS)).split()))
    end = "" if title.endswith(_ELLIPSIS) else " ?(?:$|<)"
    return re.compile(rf"(?:^|[>\]]) ?({words or '(?!)'}){end}", re.MULTILINE)


def _summarised(data: SessionData) -> bool:
    kept = (data.extra or {}).get(RECORD)
    return isinstance(kept, dict) and kept.get("summary") is not None


def _prompt(said: AnyMessage) -> str:
    """The text of a message of the user; empty for other messages."""
    message = said if isinstance(said, Message) else view(said)
    return message.text if message.role == "user" else ""


def _line(text: str) -> str:
    return " ".join(_clean(text[:_READ]).split())


def _clean(text: str) -> str:
    """A text without control characters, and with single spaces; its lines stay lines."""
    return "\n".join(" ".join(_printable(line).split()) for line in text.splitlines())


def _printable(line: str) -> str:
    return line if line.isprintable() else "".join(letter if letter.isprintable() else " " for letter in line)
