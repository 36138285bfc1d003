"""Finds hidden and control characters in stored text, so that they can be displayed.

Hidden are control characters, characters that change the writing direction, lone surrogates, and characters without a
visible shape: zero-width characters, fillers, tags and variation selectors. They are allowed where writing needs them:

- U+200D between two emoji, and U+FE0E or U+FE0F after one: they join emoji, or choose their style;
- U+FE0F in a keycap, such as 1 and U+20E3;
- the tags in the flags of England, Scotland and Wales;
- U+200C and U+200D between two letters of the scripts that need them: Arabic, and those of India and its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_EMOJI = "\u00a9\u00ae\u203c\u2049\u2100-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001fbff"
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af"
_NEVER = (
    "\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff"
)
_TAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in land) for land in ("gbeng", "gbsct", "gbwls"))

HIDDEN = re.compile(
    f"(?P<stays>\U0001f3f4(?:{_TAGS})\U000e007f)"
    f"|[{_NEVER}]"
    f"|(?<![{_EMOJI}\ufe0f{_JOINING}])\u200d|\u200d(?![{_EMOJI}{_JOINING}])"
    f"|(?<![{_JOINING}])\u200c|\u200c(?![{_JOINING}])"
    f"|(?<![{_EMOJI}])\ufe0e|(?<![{_EMOJI}])(?<![0-9#*](?=\ufe0f\u20e3))\ufe0f"
)


_BREAK = re.compile("\r\n|[\n\r\t\v\f\x85\u2028\u2029]")


def escape(text: str, show: Callable[[str], str]) -> str:
    """`text` with each hidden character replaced by the result of `show`."""
    if text.isascii() and text.isprintable():
        return text
    return HIDDEN.sub(lambda found: found[0] if found["stays"] else show(found[0]), text)


def plain(text: str) -> str:
    """`text` on one line, with hidden characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    return escape(_BREAK.sub(" ", text), _code)


def paragraphs(text: str) -> list[str]:
    """The lines of `text`, with hidden characters escaped, except tabs."""
    return escape(text.replace("\r\n", "\n"), lambda char: char if char in "\t\n" else _code(char)).split("\n")


def _code(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def many(count: int, what: str) -> str:
    """A count with its noun: `1 message`, `2,000 messages`; a word in -ch takes -es."""
    return f"{count:,} {what if count == 1 else what + ('es' if what.endswith('ch') else 's')}"
