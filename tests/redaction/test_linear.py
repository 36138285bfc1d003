"""The search in linear time finds what RE2 finds."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from clew.redaction import Rules, builtin
from clew.redaction.linear import LARGEST, SECONDS, SECONDS_PER_MB, Pattern, TimeBudget, TooLarge
from clew.redaction.patterns import BadPattern

ROOT = Path(__file__).parents[2]
RULES = builtin("email", "phone")
SOLID = ["a", "b", "ab", "[ab]", "[^a]", r"\w", r"\d", r"\s", r"\S", ".", "é", "[é-ü]", "(?:a|ab)", "(?i:A)", "(?i:É)"]
SOLID += [r"(?s:.)", r"\C", "[[:alpha:]]", r"\x61", r"\x{e9}", r"[\d-]", r"\.", r"[^\n]", "[]a]", "{", "(?P<n>b|c)"]
PLACES = [r"\b", r"\B", "^", "$", "(?m:^)", "(?m:$)", r"\A", r"\z"]
TIMES = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}", "{0,2}?"]


def search(pattern: Pattern, data: bytes, at: int = 0, stop: int | None = None) -> tuple[int, int] | None:
    found = pattern.search(data, at, len(data) if stop is None else stop, lambda: None)
    return None if found is None else (found.start, found.end)


def made(chance: random.Random, depth: int) -> str:
    """A pattern. Repetitions of what may be empty are left out: RE2 itself has two readings of them."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        if depth and chance.random() < 0.3:
            inner = "|".join(chance.choice(SOLID) + made(chance, depth - 1) for _ in range(chance.randint(1, 3)))
            parts.append(f"(?:{inner}){chance.choice(TIMES)}")
        elif chance.random() < 0.15:
            parts.append(chance.choice(PLACES))
        else:
            one = chance.choice(SOLID)
            parts.append((one if len(one) == 1 or one[0] in "[(\\" else f"(?:{one})") + chance.choice(TIMES))
    return "".join(parts)


def test_it_finds_what_re2_finds() -> None:
    """The same match for made-up patterns and texts, also between two places of a text."""
    re2 = pytest.importorskip("re2")
    chance = random.Random(7)
    compared = 0
    while compared < 4_000:
        text = made(chance, 2)
        try:
            pattern, other = Pattern(text), re2.compile(text.encode())
        except TooLarge:
            continue
        for _ in range(5):
            data = "".join(chance.choice("aaabbbcé A.1ü\n-_{É") for _ in range(chance.randint(0, 14))).encode()
            at = chance.choice([0, 0, chance.randint(0, len(data))])
            stop = chance.choice([len(data), chance.randint(at, len(data))])
            theirs = other.search(data, at, stop)
            assert search(pattern, data, at, stop) == (theirs and theirs.span()), (text, data, at, stop)
            compared += 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_rules_find_what_re2_finds(rule) -> None:
    """A built-in rule has the same matches in clew's own sources, tests and documents, and the same values."""
    re2 = pytest.importorskip("re2")
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "tests/redaction").glob("*.py"), *(ROOT / "src").rglob("*.py")]
    data = b"".join(path.read_bytes() for path in sorted(pages, key=lambda path: path.name)[:120])[:400_000]
    data += (ROOT / "tests/redaction/test_redaction.py").read_bytes()
    pattern = Pattern(rule.pattern, rule.flags)
    other = re2.compile((f"(?{rule.flags})" if rule.flags else "").encode() + rule.pattern.encode())
    at = 0
    while True:
        ours, theirs = pattern.search(data, at, len(data), lambda: None), other.search(data, at)
        assert (ours is None) == (theirs is None)
        if ours is None:
            break
        assert (ours.start, ours.end) == theirs.span()
        if "value" in rule.pattern:
            assert ours.value == theirs.span(other.groupindex[b"value"])
        at = ours.end


def test_time_is_linear() -> None:
    """Ten times the text takes about ten times as long, for patterns that stall an engine that takes steps back."""
    for text in (r"(a+)+$", r"(a|aa)+$", r"(a*)*b", r"(a+a+)+b", r"([a-z]+)*\d"):
        pattern = Pattern(text)
        spent = []
        for size in (20_000, 200_000):
            data = b"a" * size + b"!"
            begun = time.thread_time()
            assert search(pattern, data) is None
            spent.append(time.thread_time() - begun)
        assert spent[1] < 40 * spent[0] + 0.05


def test_text_made_to_be_slow_is_searched_in_time() -> None:
    """Beginnings of keys without an end, headers that go on for ever: within half of the budget of a message."""
    for rule, unit in (
        ("private-key", "-----BEGIN PRIVATE KEY-----" + "A" * 50 + "\n"),
        ("api-key-header", "authorization" + "=" * 20), ("telegram-token", ":AA" + "0" * 20), ("email", "a" * 30 + "@"),
        ("connection-string", "a://b:c"),
    ):  # fmt: skip
        rules, text = Rules([rule]), unit * (200_000 // len(unit))
        begun = time.thread_time()
        rules.finds(text, TimeBudget(len(text)))
        assert time.thread_time() - begun < (SECONDS + SECONDS_PER_MB * 0.2) / 2


def test_the_value_is_what_its_group_matched() -> None:
    """The group named ``value`` has a place of its own, None if it took no part."""
    pattern = Pattern(r"key=(?P<value>\w+)|none")
    found = pattern.search(b"a key=abc!", 0, 10, lambda: None)
    assert found is not None
    assert (found.start, found.end, found.value) == (2, 9, (6, 9))
    found = pattern.search(b"none", 0, 4, lambda: None)
    assert found is not None
    assert found.value is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing )"), ("a)", "unexpected )"), ("[a", "missing ]"), ("*a", "no argument for repetition"),
        ("a**", "bad repetition operator"), ("a{1001}", "repetition size"), ("a{3,2}", "repetition size"),
        ("(?=a)", "invalid perl operator: (?="), ("(?<=a)b", "invalid perl operator: (?<="), ("\\", "trailing"),
        (r"(a)\1", "invalid escape sequence"), (r"\pL", "invalid escape sequence"), ("[z-a]", "class range"),
        ("[[:no:]]", "class range"), ("(?P<a", "named capture"), ("(" * 300 + ")" * 300, "nests too deeply"),
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_be_read(pattern: str, why: str) -> None:
    """It is refused, with what is wrong, before any text is searched."""
    with pytest.raises(BadPattern) as error:
        Pattern(pattern)
    assert why in str(error.value)


def test_a_pattern_that_is_too_large() -> None:
    """The steps are limited, so that a search with the worst of patterns has an end."""
    with pytest.raises(TooLarge):
        Pattern("(x{900}y{900})")
    with pytest.raises(TooLarge):
        Pattern("x" * (LARGEST + 1))
    assert Pattern("x" * (LARGEST - 10)).search(b"x" * LARGEST, 0, LARGEST, lambda: None)
