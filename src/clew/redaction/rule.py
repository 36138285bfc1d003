"""A redaction rule: a pattern and its replacement."""

from __future__ import annotations

from typing import Literal

import msgspec


class Rule(msgspec.Struct, frozen=True):
    """A pattern to find, and the replacement for it.

    `pattern` is a regular expression in RE2's syntax. If it has a group named ``value``, only that group is
    replaced, otherwise the whole match. `flags` are letters: ``i`` ignores case, ``m`` lets ^ and $ match at lines,
    ``s`` lets a dot match a newline; ``g`` and ``u`` are always on. `replacement` is literal text.
    """

    id: str
    pattern: str
    flags: str = ""
    replacement: str = "***"
    check: Literal["luhn"] | None = None
    """``luhn``: matches only numbers with a valid check digit."""
    personal: bool = False
    """Personal data, not a secret."""
    hints: tuple[str, ...] = ()
    """Every match contains one of these texts: texts without any are not searched. Lower case if the rule ignores
    case."""
