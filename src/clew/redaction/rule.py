"""A redaction rule: a pattern and its replacement."""

from __future__ import annotations

from typing import Literal

import msgspec


class Rule(msgspec.Struct, frozen=True):
    """A pattern to find, and the replacement for it.

    `pattern` is a regular expression in RE2's syntax. If it has a group named ``value``, that part alone is replaced,
    else all it finds. `flags` are letters: ``i`` ignores case, ``m`` lets ^ and $ match at lines, ``s`` lets a dot
    match a newline; ``g`` and ``u`` are always on. `replacement` is put in as it is.
    """

    id: str
    pattern: str
    flags: str = ""
    replacement: str = "***"
    check: Literal["luhn"] | None = None
    """``luhn``: only numbers whose check digit is right."""
    personal: bool = False
    """Personal data, not a secret."""
    hints: tuple[str, ...] = ()
    """Texts of which one is in every text where the rule finds something: others are not searched. Lower case if the
    rule ignores case."""
