"""Splits text into folded words and trigrams, writes them for PostgreSQL's index, and makes excerpts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

MOST_PLACES = 16_383
"""The highest word position that PostgreSQL's tsvector can store."""
_LONGEST = 500
_ROOM = 900_000
"""About the maximum size of a tsvector in bytes."""
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_GRAM = 3

Marks = tuple[tuple[int, int], ...]


def fold(word: str) -> str:
    """A word in lower case without accents."""
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn").lower()


def words(text: str) -> list[str]:
    """The words of a text, folded, in order."""
    return [fold(found) for found in _WORD.findall(text)]


def grams(text: str) -> list[str]:
    """The distinct trigrams of a text."""
    plain = text.lower().replace("\0", " ")
    return list(dict.fromkeys(plain[at : at + _GRAM] for at in range(len(plain) - _GRAM + 1)))


def vector(lexemes: Sequence[str], *, places: bool) -> str:
    """Lexemes as a PostgreSQL tsvector; omits those that exceed its maximum size."""
    parts: list[str] = []
    room = _ROOM
    for place, lexeme in enumerate(lexemes, start=1):
        part = _quote(lexeme) + (f":{min(place, MOST_PLACES)}" if places else "")
        room -= len(part.encode(errors="replace")) + 8
        if room < 0:
            break
        parts.append(part)
    return " ".join(parts)


def query(terms: Sequence[tuple[str, bool]]) -> str:
    """A PostgreSQL tsquery that requires all terms, each a word or phrase, and True if it is a prefix."""
    wanted = []
    for text, prefix in terms:
        parts = [_quote(word) for word in words(text)]
        if prefix and parts:
            parts[-1] += ":*"
        wanted.append(" <-> ".join(parts))
    return " & ".join(f"({one})" for one in wanted if one)


def gram_query(texts: Sequence[str]) -> str:
    """A tsquery that requires every trigram of all texts; empty if they have none."""
    return " & ".join(_quote(gram) for text in texts for gram in grams(text))


def excerpt(text: str, terms: Sequence[tuple[str, bool]], context: int) -> tuple[str, Marks]:
    """About `context` words around the first match, and the positions of the terms in them."""
    found = list(_WORD.finditer(text))
    matched = set(_matches([fold(one[0]) for one in found], terms))
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
    """At most `most` characters of an excerpt around its first mark, and the marks in them."""
    low = max(0, min((marks[0][0] if marks else 0) - most // 4, len(text) - most))
    high = low + most
    before, after = "…" * (low > 0), "…" * (high < len(text))
    shift = len(before) - low
    remaining = tuple(
        (max(start, low) + shift, min(end, high) + shift) for start, end in marks if start < high and low < end
    )
    return before + text[low:high] + after, remaining


def _matches(text_words: Sequence[str], terms: Sequence[tuple[str, bool]]) -> Iterator[int]:
    """The positions of all words that are part of a match."""
    for text, prefix in terms:
        wanted = words(text)
        for at in range(len(text_words) - len(wanted) + 1) if wanted else ():
            *same, last = text_words[at : at + len(wanted)]
            if same == wanted[:-1] and (last.startswith(wanted[-1]) if prefix else last == wanted[-1]):
                yield from range(at, at + len(wanted))


def _quote(lexeme: str) -> str:
    short = lexeme.encode(errors="replace")[:_LONGEST].decode(errors="ignore")
    return "'" + short.replace("\\", "\\\\").replace("'", "''") + "'"
