"""Titles of conversations: the first prompt that says something."""

from __future__ import annotations

import pytest

import clew
from clew.engine.titles import LONGEST, prompt_title, says_something, title_line, title_of, typed_words


@pytest.mark.parametrize(
    ("prompts", "title"),
    [
        (["Fix the parser", "And the lexer"], "Fix the parser"),
        (["yes, go ahead", "Fix the parser"], "Fix the parser"),
        (["Hi!", "ok 2", "/clear", "Fix the parser"], "Fix the parser"),
        (['Traceback (most recent call last):\n  File "a.py"', "Why does it fail?"], "Why does it fail?"),
        (["TypeError: x is undefined\n    at f (a.js:1:2)", "Why does it fail?"], "Why does it fail?"),
        (["<command-name>/clear</command-name><command-args></command-args>", "Fix it in a.py"], "Fix it in a.py"),
        (["<system-reminder>\nBe brief.\n</system-reminder>\n\nFix the parser"], "Fix the parser"),
        (["<environment_context>\n<cwd>/a</cwd>", "Fix the parser"], "Fix the parser"),
        (["[Request interrupted by user]", "Fix the parser"], "Fix the parser"),
        (["<context>x</context>", "Fix the parser"], "Fix the parser"),
        (["<p>Why is this bold?</p>"], "<p>Why is this bold?</p>"),
        (["/etc/hosts is empty"], "/etc/hosts is empty"),
        (["yes", "ok"], "yes"),
        (["修复解析器"], "修复解析器"),
        (["<tick>1</tick>", "  \n "], None),
        ([], None),
    ],
)
def test_the_first_prompt_that_says_something(prompts: list[str], title: str | None) -> None:
    """Greetings, commands, pasted failures and texts of programs are passed over, if anything better follows."""
    assert prompt_title(prompts) == title


def test_a_rule_of_a_source() -> None:
    """A source may say which words of a prompt were typed."""
    assert (
        prompt_title(["INTERNAL", "Fix it in a.py"], typed=lambda text: text.removeprefix("INTERNAL"))
        == "Fix it in a.py"
    )


def test_a_title_is_one_line_of_80_characters() -> None:
    """Without control characters, and cut at its end."""
    assert title_line("a\n\tb\x1b[1mc\0") == "a b [1mc"
    assert title_line("word " * 40) == ("word " * 40)[: LONGEST - 1].rstrip() + "…"
    assert len(title_line("x" * 500) or "") == LONGEST


def test_titles_are_made_of_the_users_messages() -> None:
    """Answers are passed over, and so is a wrapper that never ends."""
    said = [clew.user("<system-reminder>Be brief."), clew.assistant("Hello, what is it?"), clew.user("Fix the parser")]
    assert title_of(said) == "Fix the parser"
    assert typed_words("<system-reminder>Be brief.") == ""


def test_a_long_prompt_is_judged_quickly() -> None:
    """Only its beginning is read."""
    assert not says_something("yes " * 1_000_000)
