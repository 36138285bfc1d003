"""Characters that hide or steer are shown; those that are part of writing stay."""

from __future__ import annotations

import pytest

from clew.base.visible import escape, paragraphs, plain
from clew.mcp.answers import escape_hidden

WRITING = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family
    "\U0001f469\U0001f3fd\u200d\U0001f680",  # an astronaut with a skin tone
    "\U0001f3f3\ufe0f\u200d\U0001f308",  # the rainbow flag
    "\u2764\ufe0f and \u263a\ufe0e",
    "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # Scotland
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
    "\u0915\u094d\u200d\u0937",  # Hindi
    "e\u0301 \u00e9 \u4f60\u597d \u0e44\u0e17\u0e22",
]
HIDING = {
    "zero width space": "a\u200bb",
    "zero width joiner between letters": "a\u200db",
    "zero width joiner at the end": "\U0001f468\u200d",
    "zero width non-joiner between letters": "a\u200cb",
    "word joiner": "a\u2060b",
    "byte order mark": "a\ufeffb",
    "soft hyphen": "a\u00adb",
    "filler": "a\u3164b",
    "tag": "a\U000e0041b",
    "tags after a flag": "\U0001f3f4\U000e0041\U000e007f",
    "variation selector after a letter": "a\ufe0fb",
    "second variation selector": "\u2764\ufe0f\ufe0f",
    "variation selector supplement": "\U0001f600\U000e0101",
    "right to left": "a\u202eb",
    "isolate": "a\u2066b",
    "Arabic letter mark": "a\u061cb",
    "escape": "a\x1b[2Jb",
}


@pytest.mark.parametrize("text", WRITING)
def test_writing_stays(text: str) -> None:
    """What joins emoji, and letters of scripts that need it, stays as it is: in a terminal and in an agent's answer."""
    assert plain(text) == escape_hidden(text) == paragraphs(text)[0] == text


@pytest.mark.parametrize("text", HIDING.values(), ids=HIDING)
def test_hidden_characters_are_shown(text: str) -> None:
    """What cannot be seen, or steers what shows it, is escaped: in a terminal and in an agent's answer."""
    for form in (plain(text), paragraphs(text)[0], escape_hidden(text)):
        assert "\\" in form
        assert escape(form, lambda char: "?") == form


def test_lines_and_tabs_stay() -> None:
    """Lines and tabs are writing where there is room for them."""
    assert paragraphs("a\tb\r\nc") == ["a\tb", "c"]
    assert escape_hidden("a\tb\nc") == "a\tb\nc"
    assert plain("a\tb\nc") == "a b c"
