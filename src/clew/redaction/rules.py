"""Rules, and the search for their matches, in time linear in the text for any pattern.

Patterns use RE2's syntax, without look-around and back-references, so a single search is linear. The search for *all*
matches is not, nor is a search with a large pattern fast, so there are three limits: a pattern may have
`linear.LARGEST` steps, a search sees `VIEW` bytes at a time, and a message has a `TimeBudget` of processor time. A
message that exceeds it is refused, never stored unredacted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import NamedTuple

from clew.errors import Invalid, clip
from clew.redaction.builtin_rules import Rule, builtin_rule, is_builtin
from clew.redaction.linear import Pattern, TimeBudget, TooLarge
from clew.redaction.patterns import BadPattern

LONGEST = 4000
"""Maximum characters of a pattern."""
MOST_HINTS, LONGEST_HINT = 50, 100
"""Maximum hints of a rule, and characters of each."""
VIEW = 64 * 1024
"""Bytes that a rule sees at once."""
OVERLAP = 16 * 1024
"""Bytes by which two views overlap: a match up to this long is always found; a longer one may be."""
PASSES = 64
"""Maximum passes over a text until nothing more matches; a second pass is rare."""

_COMMON = b"QZXJ@VYWUKGBHOPFLNDMRCSEITA_zqjx;9876543-210kvbywg:/pfu.mhdcl srniotae"
"""Letters, from rare to common in texts and programs; others are rarer."""
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PROBES = (b"", b"a", b"0 a\n.", b"\n")


class RuleMatch(NamedTuple):
    """A match of a rule: the bytes of a text from `start` up to `end`."""

    start: int
    end: int
    rule: Rule


class _Search:
    """A rule and its pattern. The patterns of built-in rules are compiled when a text may have a match."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        if not is_builtin(rule):
            self.pattern  # noqa: B018 - raises Invalid if the rule cannot be used

    @cached_property
    def pattern(self) -> Pattern:
        return _compile(self.rule)


class Rules:
    """A set of rules, checked when it is made: Invalid, naming the rule, if one cannot be used."""

    def __init__(self, rules: Iterable[Rule | str]) -> None:
        """Takes rules, and the ids of built-in ones."""
        if isinstance(rules, str | Rule) or not isinstance(rules, Iterable):
            raise Invalid("rules must be a list of redaction.Rule or ids of built-in rules")
        self._rules = tuple(builtin_rule(rule) if isinstance(rule, str) else rule for rule in rules)
        self._searches = [_Search(rule) for rule in self._rules]
        self._hints = _Hints(self._rules)
        self.ids = frozenset(rule.id for rule in self._rules)
        for n, rule in enumerate(self._rules):
            if any(rule.id == other.id for other in self._rules[:n]):
                raise Invalid(f"two redaction rules have the id {rule.id}", hint="Rename or remove one.")
        self._replacements = frozenset(rule.replacement.encode() for rule in self._rules)
        for rule in self._rules:
            for put in self._replacements:
                if any(find.rule is rule for find in self._finds(put, TimeBudget(0))):
                    raise Invalid(
                        f"redaction rule {rule.id} matches the replacement {clip(put.decode())}",
                        hint="Choose another replacement, one that no rule matches.",
                    )

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __repr__(self) -> str:
        return f"<Rules {', '.join(sorted(self.ids))}>"

    def finds(self, text: str, allowance: TimeBudget) -> bool:
        """True if a rule matches in a text."""
        data = text.encode(errors="surrogatepass")
        return any(True for _ in self._search(data, allowance)) or (
            (softened := _softened(data)) != data and any(True for _ in self._search(softened, allowance))
        )

    def clean(self, text: str, allowance: TimeBudget, found: Callable[[Rule, str], None]) -> str:
        """`text` with each match replaced; calls `found` for each. The same object if there are none."""
        data = text.encode(errors="surrogatepass")
        passes = 0
        while finds := self._finds(data, allowance):  # again: a replacement and its surroundings may match too
            for find in finds:
                found(find.rule, data[find.start : find.end].decode(errors="surrogatepass"))
            data = _replace(data, finds)
            passes += 1
            if passes == PASSES:
                raise Invalid(
                    f"redaction rule {finds[0].rule.id} still matches after its own replacement",
                    hint="Nothing was stored. Choose another replacement.",
                )
        return data.decode(errors="surrogatepass") if passes else text

    def spans(self, text: str, allowance: TimeBudget) -> list[tuple[int, int, str]]:
        """The matches as positions in a text, with the id of their rule; overlapping matches are merged."""
        data = text.encode(errors="surrogatepass")
        found: list[tuple[int, int, str]] = []
        done = at = 0
        for start, end, rule in self._finds(data, allowance):
            if end <= done:
                continue
            first = at + len(data[done:start].decode(errors="surrogatepass")) if start >= done else at
            at = first + len(data[max(start, done) : end].decode(errors="surrogatepass"))
            if start < done:
                found[-1] = (found[-1][0], at, found[-1][2])
            else:
                found.append((first, at, rule.id))
            done = end
        return found

    def _finds(self, data: bytes, allowance: TimeBudget) -> list[RuleMatch]:
        """The matches, in order; overlapping matches of one rule are merged."""
        finds = list(self._search(data, allowance))
        if (softened := _softened(data)) != data:
            finds = [_unescaped(data, find) for find in finds] + list(self._search(softened, allowance))
        finds.sort(key=lambda find: (find.start, -find.end, find.rule.id))
        merged: list[RuleMatch] = []
        last: dict[str, int] = {}
        for find in finds:
            at = last.get(find.rule.id)
            if at is not None and find.start < merged[at].end:
                merged[at] = merged[at]._replace(end=max(merged[at].end, find.end))
            else:
                last[find.rule.id] = len(merged)
                merged.append(find)
        return merged

    def _search(self, data: bytes, allowance: TimeBudget) -> Iterator[RuleMatch]:
        for search in self._promising(data):
            yield from self._found_by(search, data, allowance)

    def _promising(self, data: bytes) -> Iterable[_Search]:
        """The searches that may match: those with a hint in the text, and those without hints."""
        seen = self._hints.find_hints(data)
        return [search for search in self._searches if not search.rule.hints or not seen.isdisjoint(search.rule.hints)]

    def _found_by(self, search: _Search, data: bytes, allowance: TimeBudget) -> Iterator[RuleMatch]:
        rule, pattern = search.rule, search.pattern
        at, size, view = 0, len(data), VIEW
        spend = partial(allowance.spend, rule.id)
        while at < size:
            stop = min(size, at + view)
            match = pattern.search(data, at, stop, spend)
            if match is None:
                at, view = (size if stop == size else stop - OVERLAP), VIEW
            elif match.end == stop < size:  # it may continue: search again from its start
                at, view = (match.start, VIEW) if match.start > at else (at, 2 * view)
            else:
                start, end = _whole(data, *(match.value or (match.start, match.end)))
                at, view = max(end, at + 1), VIEW
                if start < end and data[start:end] not in self._replacements and _passes_check(rule, data[start:end]):
                    yield RuleMatch(start, end, rule)


class _Hints:
    """Finds which of many hints are in a text. If it lacks a letter, it has none of the hints with that letter."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._exact = _by_letter(hint for rule in rules if "i" not in rule.flags for hint in rule.hints)
        self._lower = _by_letter(hint for rule in rules if "i" in rule.flags for hint in rule.hints)

    def find_hints(self, data: bytes) -> set[str]:
        """The hints that are in `data`."""
        lower = data.decode(errors="surrogatepass").lower().encode(errors="surrogatepass")
        return {
            hint
            for text, groups in ((data, self._exact), (lower, self._lower))
            for letter, hints in groups.items()
            if letter in text
            for hint, wanted in hints
            if wanted in text
        }


def _by_letter(hints: Iterable[str]) -> dict[bytes, list[tuple[str, bytes]]]:
    """The hints with their bytes, by the letter of each that is rarest in ordinary texts."""
    groups: dict[bytes, list[tuple[str, bytes]]] = {}
    for hint in dict.fromkeys(hints):
        wanted = hint.encode()
        rarest = min(wanted, key=_COMMON.find)
        groups.setdefault(bytes([rarest]), []).append((hint, wanted))
    return groups


def _compile(rule: Rule) -> Pattern:
    """The compiled pattern. Invalid if the rule cannot be used."""
    if not isinstance(rule, Rule):
        raise Invalid(f"a rule must be a redaction.Rule or the id of a built-in rule, not {type(rule).__name__}")
    if not isinstance(rule.id, str) or not _ID.fullmatch(rule.id):
        raise Invalid(
            f"{clip(str(rule.id))} is not a valid id for a redaction rule",
            hint="Use up to 64 of a-z, 0-9, dot, dash, underscore.",
        )
    if not all(isinstance(text, str) for text in (rule.pattern, rule.flags, rule.replacement)) or not (
        isinstance(rule.hints, tuple) and all(isinstance(hint, str) and hint for hint in rule.hints)
    ):
        raise Invalid(f"redaction rule {rule.id}: pattern, flags and replacement must be str, hints a tuple of str")
    if len(rule.hints) > MOST_HINTS or any(len(hint) > LONGEST_HINT for hint in rule.hints):
        raise Invalid(
            f"redaction rule {rule.id} has more than {MOST_HINTS} hints, or one of over {LONGEST_HINT} letters"
        )
    if "i" in rule.flags and any(hint != hint.lower() for hint in rule.hints):
        raise Invalid(f"redaction rule {rule.id} ignores case, so its hints must be lower case")
    if rule.check not in (None, "luhn"):
        raise Invalid(f"redaction rule {rule.id} has the unknown check {clip(str(rule.check))}")
    unknown = set(rule.flags) - set("gimsu")
    if unknown:
        raise Invalid(f"redaction rule {rule.id} has the unknown flag {clip(min(unknown))}", hint="Flags are i, m, s.")
    flags = "".join(sorted(set(rule.flags) & set("ims")))
    if len(rule.pattern) > LONGEST:
        raise Invalid(f"the pattern of redaction rule {rule.id} has more than {LONGEST:,} characters")
    try:
        "".join((rule.pattern, rule.replacement, *rule.hints)).encode()
        pattern = Pattern(rule.pattern, flags)
    except UnicodeEncodeError:
        raise Invalid(f"redaction rule {rule.id} has a lone surrogate") from None
    except BadPattern as error:
        raise Invalid(
            f"the pattern of redaction rule {rule.id} cannot be used: {error}",
            hint="Use RE2's syntax: no look-around, no back-references, no counts over 1000.",
        ) from None
    except TooLarge:
        raise Invalid(
            f"the pattern of redaction rule {rule.id} is too large",
            hint="Use smaller counts: {20,} says as much as {20,500}.",
        ) from None
    found = (pattern.search(probe, 0, len(probe), lambda: None) for probe in _PROBES)
    if any(match is not None and match.end == match.start for match in found):
        raise Invalid(f"the pattern of redaction rule {rule.id} matches the empty string")
    return pattern


def _replace(data: bytes, finds: list[RuleMatch]) -> bytes:
    """`data` with each match replaced; overlapping ones are merged, with the replacement of the first and longest."""
    parts: list[bytes] = []
    done = 0
    for start, end, rule in finds:
        if start >= done:
            parts += (data[done:start], rule.replacement.encode())
        done = max(done, end)
    return b"".join([*parts, data[done:]])


def _softened(data: bytes) -> bytes:
    r"""`data` with spaces for escaped line breaks: in ``\nsk-…`` no word starts with ``sk``."""
    if b"\\" not in data:
        return data
    return data.replace(b"\\n", b"  ").replace(b"\\r", b"  ").replace(b"\\t", b"  ")


def _unescaped(data: bytes, find: RuleMatch) -> RuleMatch:
    """The match without the letter of an escape before it."""
    start = find.start
    escaped = start > 0 and data[start - 1] == 0x5C and data[start] in b"nrt" and find.end - start > 1
    return find._replace(start=start + 1) if escaped else find


def _whole(data: bytes, start: int, end: int) -> tuple[int, int]:
    r"""The span, widened to whole characters: the syntax has a \C that matches one byte of several."""
    while start > 0 and start < len(data) and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def _passes_check(rule: Rule, value: bytes) -> bool:
    return rule.check is None or luhn(value.decode(errors="replace"))


def luhn(number: str) -> bool:
    """True if the check digit of a number is valid; other characters are skipped."""
    digits = [int(char) for char in number if char in "0123456789"]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return bool(digits) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
