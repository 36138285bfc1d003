"""Output of a terminal as HTML: colours become classes, every other control sequence becomes visible."""

from __future__ import annotations

import re

from clew.exports.render.text import cut, inline, more

_COLOUR = re.compile(r"\x1b\[([0-9;]*)m")
_RESET, _BOLD, _PLAIN = 0, 1, 22
_ERASE = ("\x1b[K", "\x1b[0K", "\x1b[2K")


def terminal(text: str) -> str:
    """The lines of `text` with the colours of the stylesheet: a1 to a6, a8 and bold."""
    shown, rest = cut(text)
    shown = "\n".join(map(_last_written, shown.replace("\r\n", "\n").split("\n")))
    parts, at = [], 0
    colour, bold = "", False
    for found in _COLOUR.finditer(shown):
        parts.append(_span(shown[at : found.start()], colour, bold))
        colour, bold = _next(found[1], colour, bold)
        at = found.end()
    parts.append(_span(shown[at:], colour, bold))
    return "".join(parts) + more(rest)


def _last_written(line: str) -> str:
    """The text that a progress bar leaves on a line. Longer text that it did not erase stays before it."""
    kept, width = [""], 0
    for part in line.rstrip("\r").split("\r"):
        if len(part) >= width or part.startswith(_ERASE) or kept[-1].endswith(_ERASE):
            kept, width = [part], len(part)
        else:
            kept.append(part)
    return "\r".join(kept)


def _span(text: str, colour: str, bold: bool) -> str:
    names = " ".join(name for name in (colour, "ab" if bold else "") if name)
    if not text:
        return ""
    return f'<span class="{names}">{inline(text)}</span>' if names else inline(text)


def _next(codes: str, colour: str, bold: bool) -> tuple[str, bool]:
    """The colour and weight after a sequence."""
    numbers = [int(one or 0) for one in codes.split(";")][:16]
    while numbers:
        code = numbers.pop(0)
        if code == _RESET:
            colour, bold = "", False
        elif code == _BOLD:
            bold = True
        elif code == _PLAIN:
            bold = False
        elif code == 39:
            colour = ""
        elif 31 <= code <= 36 or 91 <= code <= 96:
            colour = f"a{code % 10}"
        elif code in (2, 30, 90):
            colour = "a8"
        elif code in (38, 48):  # a colour by number: the rest of the sequence is its number
            numbers.clear()
    return colour, bold
