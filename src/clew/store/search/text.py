"""Words as a search compares them: without capitals and accents; and how a server's index is told of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

MOST_PLACES = 16_383
"""The last place in a text that a server's index can tell."""
_LONGEST = 500
_ROOM = 900_000
"""Bytes of words that one entry of a server's index may have, about."""
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_GRAM = 3

Marks = tuple[tuple[int, int], ...]


def folded(word: str) -> str:
    """A word without capitals and accents."""
    apart = unicodedata.normalize("NFD", word)
    return "".join(char for char in apart if unicodedata.category(char) != "Mn").lower()


def words(text: str) -> list[str]:
    """The words of a text, folded, in order."""
    return [folded(found) for found in _WORD.findall(text)]


def grams(text: str) -> list[str]:
    """Every run of three characters of a text, once."""
    plain = text.lower().replace("\0", " ")
    return list(dict.fromkeys(plain[at : at + _GRAM] for at in range(len(plain) - _GRAM + 1)))


def vector(lexemes: Sequence[str], *, places: bool) -> str:
    """Lexemes as PostgreSQL writes a tsvector; what there is no room for is left out."""
    parts: list[str] = []
    room = _ROOM
    for place, lexeme in enumerate(lexemes, start=1):
        part = _quoted(lexeme) + (f":{min(place, MOST_PLACES)}" if places else "")
        room -= len(part.encode(errors="replace")) + 8
        if room < 0:
            break
        parts.append(part)
    return " ".join(parts)


def query(terms: Sequence[tuple[str, bool]]) -> str:
    """Terms as PostgreSQL writes a tsquery that wants them all: each a word, or a phrase; True if it is a beginning."""
    wanted = []
    for text, prefix in terms:
        parts = [_quoted(word) for word in words(text)]
        if prefix and parts:
            parts[-1] += ":*"
        wanted.append(" <-> ".join(parts))
    return " & ".join(f"({one})" for one in wanted if one)


def gram_query(texts: Sequence[str]) -> str:
    """A tsquery that wants every run of three characters of all these texts; empty if they have none."""
    return " & ".join(_quoted(gram) for text in texts for gram in grams(text))


def excerpt(text: str, terms: Sequence[tuple[str, bool]], context: int) -> tuple[str, Marks]:
    """About `context` words around the first that matches, and where in them the terms are."""
    found = list(_WORD.finditer(text))
    matched = set(_matches([folded(one[0]) for one in found], terms))
    first = min(matched, default=0)
    start = max(0, min(first - context // 3, len(found) - context))
    part = found[start : start + context]
    if not part:
        return "", ()
    low, high = part[0].start() if start else 0, part[-1].end() if start + context < len(found) else len(text)
    before, after = "…" * (low > 0), "…" * (high < len(text))
    shift = len(before) - low
    marks = tuple((found[at].start() + shift, found[at].end() + shift) for at in sorted(matched) if found[at] in part)
    return before + text[low:high] + after, marks


def cut(text: str, marks: Marks, most: int) -> tuple[str, Marks]:
    """At most so many characters of an excerpt, with the first mark among them, and where the marks are then."""
    low = max(0, min((marks[0][0] if marks else 0) - most // 4, len(text) - most))
    high = low + most
    before, after = "…" * (low > 0), "…" * (high < len(text))
    shift = len(before) - low
    left = tuple(
        (max(start, low) + shift, min(end, high) + shift) for start, end in marks if start < high and low < end
    )
    return before + text[low:high] + after, left


def _matches(said: Sequence[str], terms: Sequence[tuple[str, bool]]) -> Iterator[int]:
    """The places of the words that make up a match of some term."""
    for text, prefix in terms:
        wanted = words(text)
        for at in range(len(said) - len(wanted) + 1) if wanted else ():
            *same, last = said[at : at + len(wanted)]
            if same == wanted[:-1] and (last.startswith(wanted[-1]) if prefix else last == wanted[-1]):
                yield from range(at, at + len(wanted))


def _quoted(lexeme: str) -> str:
    short = lexeme.encode(errors="replace")[:_LONGEST].decode(errors="ignore")
    return "'" + short.replace("\\", "\\\\").replace("'", "''") + "'"
