"""A title for a conversation that its program gave none: the beginning of the first prompt."""

from __future__ import annotations

import msgspec

from clew.base.messages import AnyMessage
from clew.errors import Invalid
from clew.providers.neutral import neutral

LONGEST = 80
"""Characters of a title made from a prompt."""


def from_prompt(text: str | None) -> str | None:
    """The first words of a prompt, on one line and without control characters; None if there are none."""
    if text is None:
        return None
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 8 * LONGEST]).split())
    return (words if len(words) <= LONGEST else f"{words[: LONGEST - 1].rstrip()}…") or None


def prompt_in(message: AnyMessage) -> str | None:
    """The text of a message, if it is a prompt of the user; None if it is not, or cannot be read."""
    try:
        seen = neutral(message)
    except (msgspec.MsgspecError, Invalid, RecursionError):
        return None
    return seen.text if seen.role == "user" and seen.text.strip() else None
