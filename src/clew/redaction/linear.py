"""Searches for a pattern in time linear in the text, whatever the pattern and the text are.

No step is ever taken back. A search keeps the places in the pattern that it may be at, in order of preference, and
moves all of them with each byte. Such a set of places is a state. Each state is computed once, so that most bytes cost
one look into a table. A search forward finds the end of the first match, one backward from there its start, as in RE2.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from clew.errors import Invalid
from clew.redaction.patterns import Alt, Assert, BadPattern, Bytes, Cat, Repeat, ValueGroup, parse

LARGEST = 1000
"""Steps a pattern may compile to."""
STATES = 1000
"""States that are kept in a table: about 2 MB."""
WINDOW = 256
"""Bytes that are read at a time."""
BEGINNING, FEW = 8, 12
"""A search begins where a text has bytes that a match may begin with: so many. It reads every byte of the text if more
than a few different letters may be the first, the second and the third."""
TIMES = 1000
"""Highest product of the counts of repetitions within each other."""

_END = 256
"""Stands for the byte after the last one."""
_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_NOWHERE, _NEWLINE, _LETTER, _OTHER = range(4)
"""What is before a place: nothing, a newline, a letter of a word, something else."""
_MIRRORED = {"begin": "end", "end": "begin", "line": "eol", "eol": "line", "word": "word", "inside": "inside"}

# The operations of a program.
_BYTE, _SPLIT, _PLACE, _NOTE, _FOUND = range(5)

SECONDS, SECONDS_PER_MB = 5.0, 20.0
"""Processor time for a message, and for each megabyte: twenty times what the built-in rules need."""

Spend = Callable[[], None]


class TooLarge(ValueError):
    """A pattern compiles to more than `LARGEST` steps."""


class TimeBudget:
    """The processor time that one message may take."""

    def __init__(self, size: int) -> None:
        self._until = time.thread_time() + SECONDS + SECONDS_PER_MB * size / 1e6

    def spend(self, rule: str) -> None:
        """Invalid, naming the rule with this id, if the time is used up."""
        if time.thread_time() > self._until:
            raise Invalid(
                f"redaction rule {rule} takes too long on this message",
                hint="Nothing was stored. Give the rule a simpler pattern, or leave it out.",
            )


class PatternMatch:
    """A match: the bytes from `start` up to `end`, and those of the group named ``value`` if it took part."""

    __slots__ = ("end", "start", "value")

    def __init__(self, start: int, end: int, value: tuple[int, int] | None) -> None:
        self.start = start
        self.end = end
        self.value = value


class Pattern:
    """A compiled pattern. Several threads may search with it."""

    def __init__(self, pattern: str, flags: str = "") -> None:
        """Raises BadPattern, or TooLarge."""
        tree = parse(pattern, flags)
        self._program = _Program(tree, backward=False)
        self._forward = _Table(self._program)
        self._backward = _Table(_Program(tree, backward=True))

    def search(self, data: bytes, at: int, stop: int, spend: Spend) -> PatternMatch | None:
        r"""The first match between two places; preferred alternatives come first, as in Perl.

        Bytes beyond these places count for ``^``, ``$`` and ``\b``. Calls `spend` now and then; it may raise.
        """
        end = self._forward.find_end(data, at, stop, spend)
        if end < 0:
            return None
        start = self._backward.find_start(data, at, end, spend)
        value = self._program.value(data, start, end, spend) if self._program.has_value else None
        return PatternMatch(start, end, value)


class _Program:
    """The steps of a pattern: tuples of an operation, what it needs, and the step after it."""

    def __init__(self, tree: Any, *, backward: bool) -> None:
        self.backward = backward
        self.has_value = False
        self.has_places = False
        self.steps: list[tuple[Any, ...]] = [(_FOUND,)]
        self.first = self._compile(tree, 0, 1)

    def _add(self, *step: Any) -> int:
        if len(self.steps) > LARGEST:
            raise TooLarge
        self.steps.append(step)
        return len(self.steps) - 1

    def _compile(self, tree: Any, after: int, times: int) -> int:
        """Adds the steps of a tree that ends at the step `after`. Returns its first step."""
        if isinstance(tree, Cat):
            for part in tree.parts if self.backward else reversed(tree.parts):
                after = self._compile(part, after, times)
            return after
        if isinstance(tree, Alt):
            return self._add(_SPLIT, tuple([self._compile(part, after, times) for part in tree.parts]))
        if isinstance(tree, Bytes):
            return self._character(tree, after)
        if isinstance(tree, Repeat):
            return self._repeat(tree, after, times)
        if isinstance(tree, ValueGroup):
            self.has_value = True
            if self.backward:
                return self._compile(tree.part, after, times)
            return self._add(_NOTE, 0, self._compile(tree.part, self._add(_NOTE, 1, after), times))
        assert isinstance(tree, Assert)
        self.has_places = True
        return self._add(_PLACE, _MIRRORED[tree.kind] if self.backward else tree.kind, after)

    def _character(self, tree: Bytes, after: int) -> int:
        """Characters of one byte take one step; longer ones share their ends."""
        known: dict[tuple[tuple[int, int], int], int] = {}
        short = frozenset(byte for one in tree.sequences if len(one) == 1 for byte in range(one[0][0], one[0][1] + 1))
        firsts = [self._add(_BYTE, short, after)] if short or not tree.sequences else []
        for sequence in tree.sequences:
            if len(sequence) == 1:
                continue
            step = after
            for bounds in sequence if self.backward else reversed(sequence):
                if (bounds, step) not in known:
                    known[bounds, step] = self._add(_BYTE, frozenset(range(bounds[0], bounds[1] + 1)), step)
                step = known[bounds, step]
            firsts.append(step)
        firsts = list(dict.fromkeys(firsts))
        return firsts[0] if len(firsts) == 1 else self._add(_SPLIT, tuple(firsts))

    def _repeat(self, tree: Repeat, after: int, times: int) -> int:
        times *= max(tree.least, tree.most or 0, 1)
        if times > TIMES:
            raise BadPattern("invalid repetition size: repetitions within each other")
        step = after
        least = tree.least
        if tree.most is None:
            loop = self._add(_SPLIT, ())
            body = self._compile(tree.part, loop, times)
            self.steps[loop] = (_SPLIT, (body, after) if tree.greedy else (after, body))
            step = body if least else loop
            least -= 1
        else:
            for _ in range(tree.most - least):
                body = self._compile(tree.part, step, times)
                step = self._add(_SPLIT, (body, after) if tree.greedy else (after, body))
        for _ in range(least):
            step = self._compile(tree.part, step, times)
        return step

    def value(self, data: bytes, start: int, end: int, spend: Spend) -> tuple[int, int] | None:
        """Where the group named ``value`` is in a match; None if it took no part.

        Tries the alternatives in order of preference, each step at each byte at most once.
        """
        steps, tried = self.steps, set[tuple[int, int]]()
        left: list[tuple[int, int, Any]] = [(self.first, start, (None, None))]
        while left:
            step, at, noted = left.pop()
            if (step, at) in tried:
                continue
            tried.add((step, at))
            if not len(tried) % 1024:
                spend()
            one = steps[step]
            kind = one[0]
            if kind == _BYTE:
                if at < end and data[at] in one[1]:
                    left.append((one[2], at + 1, noted))
            elif kind == _SPLIT:
                left += [(other, at, noted) for other in reversed(one[1])]
            elif kind == _PLACE:
                if _holds(one[1], _kind(data, at - 1), data[at] if at < len(data) else _END):
                    left.append((one[2], at, noted))
            elif kind == _NOTE:
                left.append((one[2], at, (noted[0], at) if one[1] else (at, noted[1])))
            elif at == end:
                return None if None in noted else noted
        return None


class _State:
    """Places that a search may be at, after what came before."""

    __slots__ = ("before", "found", "is_open", "places", "rare", "row")

    def __init__(self, places: tuple[int, ...], before: int, is_open: bool, found: bool) -> None:
        self.places = places
        self.before = before
        self.is_open = is_open
        """True if a match may begin here."""
        self.found = found
        """True if a match ended before the last byte."""
        self.row: list[Any] = [None] * 256 + [self]
        """The rows of the states after each byte; then this state. None if it is in `rare` or not computed yet."""
        self.rare: dict[int, _State] = {}
        """States in which a match has ended, or nothing has begun."""


class _Table:
    """The states of a search that were needed so far, and which one follows which.

    Forward, a match may begin anywhere, and the preferred one counts. Backward, it begins at the first byte, and the
    longest one counts.
    """

    def __init__(self, program: _Program) -> None:
        self._program = program
        self._states: dict[Any, _State] = {}
        self._beginning = None if program.backward else _beginning(program)
        """Finds what a match may begin with; None if reading every byte is faster."""

    def find_end(self, data: bytes, at: int, stop: int, spend: Spend) -> int:
        """Where the first match ends; -1 if there is none."""
        end, row = -1, None
        while at < stop:
            spend()
            if row is None:  # nothing has begun
                if self._beginning is not None:
                    candidate = self._beginning.search(data, at, stop)
                    if candidate is None:
                        at = stop
                        break
                    at = candidate.start()
                row = self._first(data, at - 1).row
            window = data[at : min(at + WINDOW, stop)]
            for here, byte in enumerate(window, at):
                after = row[byte]
                if after is None:
                    state = self._move(row[-1], byte, spend)
                    if state.found:
                        end = here
                    if not (state.places or state.is_open):
                        return end
                    if not state.places and self._beginning is not None:
                        at, row = here + 1, None
                        break
                    after = state.row
                row = after
            else:
                at += len(window)
        last = self._first(data, at - 1) if row is None else row[-1]
        return stop if self._move(last, data[stop] if stop < len(data) else _END, spend).found else end

    def find_start(self, data: bytes, at: int, end: int, spend: Spend) -> int:
        """Where the longest match that ends at `end` starts, from `at` on."""
        start, stop, row = end, end, self._first(data, end).row
        while stop > at:
            spend()
            low = max(at, stop - WINDOW)
            for back, byte in enumerate(data[low:stop][::-1], 1):
                after = row[byte]
                if after is None:
                    state = self._move(row[-1], byte, spend)
                    if state.found:
                        start = stop - back + 1
                    if not state.places:
                        return start
                    after = state.row
                row = after
            stop = low
        return at if self._move(row[-1], data[at - 1] if at else _END, spend).found else start

    def _first(self, data: bytes, beside: int) -> _State:
        """The state in which a search starts beside a byte."""
        before = _kind(data, beside) if self._program.has_places else _OTHER
        backward = self._program.backward
        return self._state((self._program.first,) if backward else (), before, not backward, False)

    def _state(self, places: tuple[int, ...], before: int, is_open: bool, found: bool) -> _State:
        key = (places, before, is_open, found)
        if (state := self._states.get(key)) is None:
            if len(self._states) >= STATES:
                self._states = {}
            state = self._states[key] = _State(places, before, is_open, found)
        return state

    def _move(self, state: _State, byte: int, spend: Spend) -> _State:
        """The state after a byte."""
        if (known := state.rare.get(byte)) is not None:
            return known
        spend()
        places: dict[int, None] = {}
        seen = set[int]()
        is_open, found = state.is_open, False
        for place in (*state.places, self._program.first) if is_open else state.places:
            if self._follow(place, state.before, byte, seen, places):
                found = True
                if not self._program.backward:  # what is less preferred than a match is dropped
                    is_open = False
                    break
        before = _kind_of(byte) if self._program.has_places else _OTHER
        after = tuple(sorted(places) if self._program.backward else places)
        moved = self._state(after, before, is_open, found)
        if found or byte == _END or not (after or (is_open and self._beginning is None)):
            state.rare[byte] = moved
        else:
            state.row[byte] = moved.row
        return moved

    def _follow(self, place: int, before: int, byte: int, seen: set[int], places: dict[int, None]) -> bool:
        """Adds the places after a byte that can be reached from a place, in order. True if a match ends before it."""
        steps, left, found = self._program.steps, [place], False
        while left:
            step = left.pop()
            if step in seen:
                continue
            seen.add(step)
            one = steps[step]
            kind = one[0]
            if kind == _BYTE:
                if byte in one[1]:
                    places[one[2]] = None
            elif kind == _SPLIT:
                left += one[1][::-1]
            elif kind == _NOTE:
                left.append(one[2])
            elif kind == _PLACE:
                if _holds(one[1], before, byte):
                    left.append(one[2])
            else:
                found = True
                if not self._program.backward:
                    break
        return found


def _beginning(program: _Program) -> re.Pattern[bytes] | None:
    """Finds what a match may begin with, at the speed of C. None if ordinary texts have much of that."""
    places, classes = [program.first], list[set[int]]()
    while len(classes) < BEGINNING:
        found, places = _bytes_at(program, places)
        if not found:
            break
        classes.append(found)
    if all(sum(byte < 128 for byte in found) > FEW for found in classes[:3]):
        return None
    return re.compile(b"".join(map(_class, classes)))


def _bytes_at(program: _Program, places: list[int]) -> tuple[set[int], list[int]]:
    """The bytes that may come at these places, and the places after them; none if a match may end there."""
    found, after = set[int](), dict[int, None]()
    seen, left = set[int](), [*places]
    while left:
        step = left.pop()
        if step in seen:
            continue
        seen.add(step)
        one = program.steps[step]
        if one[0] == _BYTE:
            found |= one[1]
            after[one[2]] = None
        elif one[0] == _FOUND:
            return set(), []
        elif one[0] == _SPLIT:
            left += one[1]
        else:
            left.append(one[2])
    return found, list(after)


def _class(found: set[int]) -> bytes:
    """A class of bytes as `re` reads it."""
    if len(found) == 256:
        return b"(?s:.)"
    if len(found) == 1:
        return re.escape(bytes(found))
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(found)) + b"]"


def _kind_of(byte: int) -> int:
    return _LETTER if byte in _WORD else _NEWLINE if byte == 10 else _OTHER


def _kind(data: bytes, at: int) -> int:
    return _kind_of(data[at]) if 0 <= at < len(data) else _NOWHERE


def _holds(place: str, before: int, byte: int) -> bool:
    """True between what is before and a byte, for one of the places of `patterns.Assert`."""
    if place == "begin":
        return before == _NOWHERE
    if place == "line":
        return before in (_NOWHERE, _NEWLINE)
    if place == "end":
        return byte == _END
    if place == "eol":
        return byte in (_END, 10)
    return ((before == _LETTER) != (byte in _WORD)) == (place == "word")
