"""Splits text into folded words and trigrams, writes them for PostgreSQL's index, and makes excerpts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice

MOST_PLACES = 16_383
"""The highest word position that PostgreSQL's tsvector can store."""
_LONGEST = 500
_ROOM = 900_000
"""About the maximum size of a tsvector in bytes."""
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
"""The same for text without other letters, and five times as fast."""
_GRAM = 3

Marks = tuple[tuple[int, int], ...]


def fold(word: str) -> str:
    """A word in lower case without accents."""
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn").lower()


def words(text: str) -> list[str]:
    """The words of a text, folded, in order."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
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
    folded = words(text)
    matched = set(_matches(folded, terms))
    first = min(matched, default=0)
    start = max(0, min(first - context // 3, len(folded) - context))
    pattern = _ASCII_WORD if text.isascii() else _WORD
    part = [found.span() for found in islice(pattern.finditer(text), start, start + context)]
    if not part:
        return "", ()
    low, high = part[0][0] if start else 0, part[-1][1] if start + context < len(folded) else len(text)
    before, after = "…" * (low > 0), "…" * (high < len(text))
    shift = len(before) - low
    marks = tuple((one + shift, end + shift) for at, (one, end) in enumerate(part, start) if at in matched)
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
        *before, last = words(text) or [""]
        for at, word in enumerate(text_words) if last else ():
            if (word.startswith(last) if prefix else word == last) and text_words[at - len(before) : at] == before:
                yield from range(at - len(before), at + 1)


def _quote(lexeme: str) -> str:
    short = lexeme.encode(errors="replace")[:_LONGEST].decode(errors="ignore")
    return "'" + short.replace("\\", "\\\\").replace("'", "''") + "'"
