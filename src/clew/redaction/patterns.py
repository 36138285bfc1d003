"""Reads regular expressions: RE2's syntax, without Unicode classes, as a tree of byte ranges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

LAST = 0x10FFFF
DEEPEST = 200
"""Groups within groups."""
MOST = 1000
"""Highest count of a repetition."""

Ranges = list[tuple[int, int]]
Assertion = Literal["begin", "end", "line", "eol", "word", "inside"]


class BadPattern(ValueError):
    """A pattern cannot be used. The message says why, and which part of it."""


class Bytes(NamedTuple):
    """One character: alternatives of sequences of byte ranges, none of which begins another."""

    sequences: tuple[tuple[tuple[int, int], ...], ...]


class Assert(NamedTuple):
    """A place in the text: begin or end of the text or of a line, at or inside a word."""

    kind: Assertion


class Cat(NamedTuple):
    """One part after the other."""

    parts: list[Any]


class Alt(NamedTuple):
    """The first part that matches."""

    parts: list[Any]


class Repeat(NamedTuple):
    """A part from `least` times up to `most`, or any number of times."""

    part: Any
    least: int
    most: int | None
    greedy: bool


class ValueGroup(NamedTuple):
    """The group named ``value``."""

    part: Any


_DIGIT: Ranges = [(48, 57)]
_SPACE: Ranges = [(9, 10), (12, 13), (32, 32)]
_WORD: Ranges = [(48, 57), (65, 90), (95, 95), (97, 122)]
_CLASSES = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_POSIX = {
    "alnum": [(48, 57), (65, 90), (97, 122)], "alpha": [(65, 90), (97, 122)], "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)], "cntrl": [(0, 31), (127, 127)], "digit": _DIGIT, "graph": [(33, 126)],
    "lower": [(97, 122)], "print": [(32, 126)], "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)], "upper": [(65, 90)], "word": _WORD, "xdigit": [(48, 57), (65, 70), (97, 102)],
}  # fmt: skip
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_HEX = frozenset("0123456789abcdefABCDEF")
_PLACES: dict[str, Assertion] = {"A": "begin", "z": "end", "b": "word", "B": "inside"}


def parse(pattern: str, flags: str = "") -> Any:
    """The tree of a pattern. Raises BadPattern."""
    reader = _Reader(pattern)
    tree = reader.alternatives(frozenset(flags), 0)
    if reader.at < len(pattern):
        raise BadPattern(f"unexpected ): {pattern}")
    return tree


class _Reader:
    """Reads a pattern from left to right; `at` is the position of the next character."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def alternatives(self, flags: frozenset[str], depth: int) -> Any:
        """Up to the end of the pattern or of the group."""
        if depth > DEEPEST:
            raise BadPattern("nests too deeply")
        parts, one = [], list[Any]()
        while (char := self._peek()) not in ("", ")"):
            if char == "|":
                self.at += 1
                parts.append(Cat(one))
                one = []
            elif self.pattern.startswith("(?", self.at):
                part, flags = self._special(flags, depth)
                one += [] if part is None else [self._repeated(part)]
            elif char == "(":
                self.at += 1
                one.append(self._repeated(self._group(flags, depth)))
            else:
                one.append(self._repeated(self._single(flags)))
        return Alt([*parts, Cat(one)]) if parts else Cat(one)

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _group(self, flags: frozenset[str], depth: int) -> Any:
        part = self.alternatives(flags, depth + 1)
        if self._peek() != ")":
            raise BadPattern(f"missing ): {self.pattern}")
        self.at += 1
        return part

    def _special(self, flags: frozenset[str], depth: int) -> tuple[Any, frozenset[str]]:
        """A group that begins with ``(?``; or None and the flags that hold from here on."""
        begun = self.at
        for opening in ("(?P<", "(?<"):
            if self.pattern.startswith(opening, begun) and self.pattern[begun + len(opening) :][:1] not in ("=", "!"):
                name, closed, _ = self.pattern[begun + len(opening) :].partition(">")
                if not (closed and name.isidentifier()):
                    raise BadPattern(f"invalid named capture group: {self.pattern[begun:][:40]}")
                self.at = begun + len(opening) + len(name) + 1
                part = self._group(flags, depth)
                return (ValueGroup(part) if name == "value" else part), flags
        self.at += 2
        added, on = flags, True
        while (char := self._peek()) not in (":", ")"):
            self.at += 1
            if char == "-" and on:
                on = False
            elif char and char in "ims":
                added = added | {char} if on else added - {char}
            else:
                raise BadPattern(f"invalid perl operator: {self.pattern[begun : self.at + (char == '<')]}")
        self.at += 1
        return (self._group(added, depth), flags) if char == ":" else (None, added)

    def _repeated(self, part: Any) -> Any:
        """The part with the operator after it, if there is one."""
        begun = self.at
        if (count := self._count()) is None:
            return part
        greedy = self._peek() != "?"
        self.at += not greedy
        if self._count() is not None:
            raise BadPattern(f"bad repetition operator: {self.pattern[begun : self.at]}")
        return Repeat(part, *count, greedy)

    def _count(self) -> tuple[int, int | None] | None:
        """The operator here, if there is one."""
        char = self._peek()
        if char and char in "*+?":
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        if char != "{" or not (found := self._braces()):
            return None
        least, most, size = found
        if max(least, most or 0) > MOST or (most is not None and most < least):
            raise BadPattern(f"invalid repetition size: {self.pattern[self.at : self.at + size]}")
        self.at += size
        return least, most

    def _braces(self) -> tuple[int, int | None, int] | None:
        """The counts in braces and the length of the text; None if the braces are ordinary characters."""
        inner, closed, _ = self.pattern[self.at + 1 :].partition("}")
        first, comma, second = inner.partition(",")
        digits = first + second
        if not (closed and first and digits.isascii() and digits.isdigit() and len(digits) < 12):
            return None
        most = int(first) if not comma else int(second) if second else None
        return int(first), most, len(inner) + 2

    def _single(self, flags: frozenset[str]) -> Any:
        """A character, a class or a place."""
        char = self.pattern[self.at]
        if char in "*+?":
            raise BadPattern(f"no argument for repetition operator: {char}")
        self.at += 1
        if char == "^":
            return Assert("line" if "m" in flags else "begin")
        if char == "$":
            return Assert("eol" if "m" in flags else "end")
        if char == ".":
            return _characters([(0, LAST)] if "s" in flags else [(0, 9), (11, LAST)])
        if char == "[":
            return self._class(flags)
        if char != "\\":
            return _characters(_folded([(ord(char), ord(char))], flags))
        named = self._peek()
        if named == "C":
            self.at += 1
            return Bytes((((0, 255),),))
        if named in _PLACES:
            self.at += 1
            return Assert(_PLACES[named])
        return _characters(_folded(self._escaped(), flags))

    def _escaped(self) -> Ranges:
        """The characters that an escape stands for."""
        char, rest = self._peek(), self.pattern[self.at + 1 :]
        if not char:
            raise BadPattern("trailing \\")
        self.at += 1
        if (found := _CLASSES.get(char.lower())) is not None:
            return found if char.islower() else _others(found)
        if char in _CONTROLS:
            return [(_CONTROLS[char],) * 2]
        if char == "x":
            braced = rest[:1] == "{"
            digits = rest[1:].partition("}")[0] if braced else rest[:2]
            size = len(digits) + 2 * braced
            is_hex = bool(digits) and (braced or len(digits) == 2) and set(digits) <= _HEX
            if is_hex and (code := int(digits, 16)) <= LAST:
                self.at += size
                return [(code, code)]
        elif not (char.isascii() and char.isalnum()):
            return [(ord(char), ord(char))]
        raise BadPattern(f"invalid escape sequence: \\{char}")

    def _class(self, flags: frozenset[str]) -> Bytes:
        """A class in brackets; the first one is read."""
        begun = self.at - 1
        negated = self._peek() == "^"
        self.at += negated
        found: Ranges = []
        first = True
        while first or self._peek() != "]":
            first = False
            low = self._member(begun)
            if len(low) == 1 and low[0][0] == low[0][1] and self._is_range():
                self.at += 1
                high = self._member(begun)
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                    raise BadPattern(f"invalid character class range: {self.pattern[begun : self.at]}")
                low = [(low[0][0], high[0][0])]
            found += low
        self.at += 1
        found = _folded(found, flags)
        return _characters(_others(found) if negated else found)

    def _is_range(self) -> bool:
        return self._peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("", "]")

    def _member(self, begun: int) -> Ranges:
        char = self._peek()
        if not char:
            raise BadPattern(f"missing ]: {self.pattern[begun:]}")
        if self.pattern.startswith("[:", self.at) and ":]" in self.pattern[self.at :]:
            name = self.pattern[self.at + 2 :].partition(":]")[0]
            if (ranges := _POSIX.get(name.removeprefix("^"))) is None:
                raise BadPattern(f"invalid character class range: [:{name}:]")
            self.at += len(name) + 4
            return _others(ranges) if name.startswith("^") else ranges
        self.at += 1
        return self._escaped() if char == "\\" else [(ord(char), ord(char))]


def _merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: Ranges = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _others(ranges: Ranges) -> Ranges:
    """All characters but these."""
    found: Ranges = []
    after = 0
    for low, high in _merge(ranges):
        if low > after:
            found.append((after, low - 1))
        after = high + 1
    return found if after > LAST else [*found, (after, LAST)]


def _folded(ranges: Ranges, flags: frozenset[str]) -> Ranges:
    """With the flag i, also the same letters in the other case."""
    if "i" not in flags:
        return ranges
    folded = [*ranges]
    for low, high in ranges:
        for first, last, to in ((65, 90, 32), (97, 122, -32)):
            if low <= last and high >= first:
                folded.append((max(low, first) + to, min(high, last) + to))
        for code in range(max(low, 128), min(high, 0x1FFFF) + 1):
            char = chr(code)
            folded += [(ord(other),) * 2 for other in (char.lower(), char.upper()) if len(other) == 1 and other != char]
    return folded


def _characters(ranges: Ranges) -> Bytes:
    """These characters as UTF-8."""
    found: list[tuple[tuple[int, int], ...]] = []
    for low, high in _merge(ranges):
        found += _utf8(low, high)
    return Bytes(tuple(found))


_SIZES = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, LAST))


_MORE = (0x80, 0xBF)
_LONGER = (((0xC2, 0xDF), _MORE), ((0xE0, 0xEF), _MORE, _MORE), ((0xF0, 0xF4), _MORE, _MORE, _MORE))
"""All characters of several bytes, and sequences that no text has: so they are few."""


def _utf8(low: int, high: int) -> Iterable[tuple[tuple[int, int], ...]]:
    if low <= 0x80 and high == LAST:
        yield from _LONGER
        high = 0x7F
    for first, last in _SIZES:
        if low <= last and high >= first:
            yield from _same_size(max(low, first), min(high, last))


def _same_size(low: int, high: int) -> Iterable[tuple[tuple[int, int], ...]]:
    """Splits a range, so that every byte of its characters is a range of its own."""
    begin, end = chr(low).encode(errors="surrogatepass"), chr(high).encode(errors="surrogatepass")
    for shift in range(6 * (len(begin) - 1), 0, -6):
        mask = (1 << shift) - 1
        if low >> shift != high >> shift:
            if low & mask:
                yield from _same_size(low, low | mask)
                yield from _same_size((low | mask) + 1, high)
                return
            if high & mask != mask:
                yield from _same_size(low, (high & ~mask) - 1)
                yield from _same_size(high & ~mask, high)
                return
    yield tuple(zip(begin, end, strict=True))
